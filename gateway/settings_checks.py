"""Refuses settings that are wrong together, or that name what isn't there. Each refusal is one sentence."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from gateway.engine_choice import engine_plan
from gateway.loopback import is_loopback
from gateway.own_address import is_own_address
from gateway.remote_settings import all_remotes, check_remotes
from gateway.settings import END_OF_TURN_JUDGES, Settings, SettingsError, table
from models.extra_body import parse_extra_body

EXTRA_BODY_BYTES = 16_384
"""Longest extra body: it goes into each request (chosen)."""

_ENDPOINTS = {
    "asr_base_url": ("ASR_BASE_URL", "http://127.0.0.1:8000/v1", "a transcription server"),
    "tts_base_url": ("TTS_BASE_URL", "http://127.0.0.1:8880/v1", "a speech server"),
    "foreground_base_url": ("FOREGROUND_BASE_URL", "http://127.0.0.1:8080/v1", "a language model's server"),
}
"""By setting: its name in the environment, an example, and what serves there."""

_PATHS_OF_REQUESTS = ("/chat/completions", "/completions", "/audio/transcriptions", "/audio/speech", "/models")
"""What is often copied along with a base URL."""


def check_settings(settings: Settings) -> None:
    """Raise SettingsError for what a single value doesn't show to be wrong."""
    _check_reach(settings)
    _check_judges(settings.end_of_turn)
    for name, (variable, example, server) in _ENDPOINTS.items():
        if url := getattr(settings, name):
            _check_endpoint(settings, variable, url, example, server)
    check_remotes(settings)
    _check_something_is_served(settings)
    _check_engines_agree(settings)
    _check_voices(settings.tts_voices)
    _check_extra_body(settings.foreground_extra_body)
    _check_files(settings)


def _check_reach(settings: Settings) -> None:
    if not settings.host:
        raise SettingsError("The setting `host` is empty: give at least one address, such as 127.0.0.1.")
    public = [host for host in settings.host if not is_loopback(host)]
    if public and not settings.api_key:
        raise SettingsError(
            f"The setting `host` ({public[0]}) opens the gateway to the network without a key: "
            "set DUPLEX_GATEWAY_API_KEY or listen on 127.0.0.1."
        )
    if (settings.ssl_certfile is None) != (settings.ssl_keyfile is None):
        raise SettingsError("`ssl_certfile` and `ssl_keyfile` belong together: give both or neither.")
    for entry in table():
        if entry.name.startswith("ssl_") and (path := getattr(settings, entry.name)) and not path.is_file():
            raise SettingsError(f"The setting `{entry.name}` names no file ({path}): give the path of a PEM file.")
    if settings.tls and settings.ssl_certfile:
        raise SettingsError("`tls` makes a certificate of its own and `ssl_certfile` names one: give one of the two.")
    if settings.tls and settings.tls_port == settings.port != 0:
        raise SettingsError(f"`port` and `tls_port` are both {settings.port}: choose another --tls-port.")


def _check_judges(names: tuple[str, ...]) -> None:
    if names in (("auto",), ("off",)):
        return
    wrong = [name for name in names if name not in END_OF_TURN_JUDGES]
    if wrong or not names:
        shown = f"names {wrong[0]!r}" if wrong else "is empty"
        raise SettingsError(
            f"The setting `end_of_turn` {shown}: give auto, off, or some of {', '.join(END_OF_TURN_JUDGES)}."
        )


def _check_endpoint(settings: Settings, variable: str, url: str, example: str, server: str) -> None:
    try:
        ours = is_own_address(url, settings)
    except ValueError as error:
        raise SettingsError(f"{variable} is not an http(s) URL: give one such as {example}.") from error
    path = urlsplit(url).path.rstrip("/")
    if path.endswith(_PATHS_OF_REQUESTS):
        raise SettingsError(
            f"{variable} ends in the path of a request ({path}): give what stands before it, up to /v1."
        )
    if ours:
        raise SettingsError(f"{variable} points at the gateway's own address: give the address of {server}.")


def _check_something_is_served(settings: Settings) -> None:
    if settings.cascade or all_remotes(settings) or engine_plan(settings).native.engine != "none":
        return
    raise SettingsError(
        "The setting `cascade` is off, and nothing else is there to serve: choose a full-duplex model with --duplex, "
        "name another Realtime server (DUPLEX_BASE_URL or [remotes.NAME]), or leave the cascade on."
    )


def _check_engines_agree(settings: Settings) -> None:
    """Refuse an engine that is named beside what speaks for another one."""
    for role, variable in (("asr", "ASR"), ("tts", "TTS"), ("foreground", "FOREGROUND")):
        engine, url = getattr(settings, role), getattr(settings, f"{role}_base_url")
        if engine == "endpoint" and not url:
            example = _ENDPOINTS[f"{role}_base_url"][1]
            raise SettingsError(
                f"The setting `{role}` is endpoint: give its address, such as {variable}_BASE_URL={example}."
            )
        if url and engine not in ("profile", "endpoint"):
            raise SettingsError(
                f"The setting `{role}` is {engine} and {variable}_BASE_URL names a server: give one of the two "
                f"(an empty --{role}-base-url takes the server back)."
            )
    if settings.foreground_gguf is not None:
        if settings.foreground_base_url:
            raise SettingsError(
                "FOREGROUND_GGUF is a file for the embedded language model and FOREGROUND_BASE_URL names a server: "
                "give one of the two."
            )
        if settings.foreground == "scripted":
            raise SettingsError(
                "FOREGROUND_GGUF is a file and the setting `foreground` is scripted: give one of the two."
            )


def _check_voices(pairs: tuple[str, ...]) -> None:
    for pair in pairs:
        name, _, voice = pair.partition("=")
        if not (name.strip() and voice.strip()):
            raise SettingsError(f"TTS_VOICES holds {pair!r}: give pairs NAME=VOICE, such as marin=af_heart.")


def _check_extra_body(text: str) -> None:
    if len(text.encode()) > EXTRA_BODY_BYTES:
        raise SettingsError(f"FOREGROUND_EXTRA_BODY is longer than {EXTRA_BODY_BYTES} bytes: shorten it.")
    try:
        parse_extra_body(text)
    except ValueError as error:
        raise SettingsError(f"FOREGROUND_EXTRA_BODY {error}.") from error


def _check_files(settings: Settings) -> None:
    gguf = settings.foreground_gguf
    if gguf is not None and not gguf.is_file():
        raise SettingsError(f"FOREGROUND_GGUF names no file ({gguf}): give the path of a GGUF file.")
    if gguf is not None and not _is_gguf(gguf):
        raise SettingsError(f"FOREGROUND_GGUF is no GGUF file ({gguf}): give one that llama.cpp can load.")
    for variable, model in (("ASR_MODEL", settings.asr_model), ("TTS_MODEL", settings.tts_model)):
        if _is_path(model) and not Path(model).expanduser().exists():
            raise SettingsError(f"{variable} names no folder ({model}): give the path of a model, or a model's name.")


def _is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"  # ggml's docs/gguf.md
    except OSError:
        return False


def _is_path(model: str) -> bool:
    """Say whether a model is named by its place: hub names have one slash, inside."""
    return model.startswith(("/", "./", "../", "~")) or "\\" in model
