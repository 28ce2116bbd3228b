"""What mlx-audio's recognisers call the languages: each has its own way to say which it knows."""

from __future__ import annotations

from typing import Any

_PARAKEET_V3 = "bg cs da de el en es et fi fr hr hu it lt lv mt nl pl pt ro ru sk sl sv uk"
"""Languages of Parakeet TDT 0.6B v3, by its model card."""


def language_names(model: Any, name: str) -> dict[str, str] | None:
    """Return the languages that a model knows, by ISO 639 code, and what it wants to be told; None if it doesn't say.

    Call it in the thread of MLX, once the model is loaded.
    """
    if "parakeet" in name and "-v3" in name:
        return {code: code for code in _PARAKEET_V3.split()}
    codes = getattr(model, "all_language_codes", None) or ()
    if not codes and hasattr(model, "num_languages"):  # Whisper
        codes = list(_whisper_languages())[: model.num_languages] if model.is_multilingual else ["en"]
    codes = codes or getattr(model, "lid_dict", None) or ()  # SenseVoice
    config = getattr(model, "config", None)
    for attribute in ("support_languages", "supported_languages"):  # Qwen3-ASR and its kin; Canary, Cohere
        codes = codes or getattr(config, attribute, None) or ()
    return {code: known for known in codes if (code := _code(known))} or None


def told_language(detected: object) -> str:
    """Return the ISO 639 code of what a model says that it heard (a code, a name, or one of those for each piece)."""
    if isinstance(detected, (list, tuple)):
        detected = detected[0] if detected else ""
    return _code(detected) if isinstance(detected, str) else ""


def _code(name: str) -> str:
    """Return the code of a language that is named by a code or in English: `French` is `fr`. "" for what is none."""
    lower = name.strip().lower()
    return next((code for code, english in _whisper_languages().items() if lower in (code, english)), "")


def _whisper_languages() -> dict[str, str]:
    from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES

    names: dict[str, str] = LANGUAGES
    return names
