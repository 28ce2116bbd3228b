"""Under which licences a plan's weights and packages stand, read from the manifest and from the packages themselves."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import dataclass

from models import weights_manifest
from models.asr_loading import asr_weights
from models.chat_loading import chat_weights
from models.engine_plan import KOKORO_ON_HUB, EnginePlan
from models.engines import moshi, voicechat
from models.engines.mlx_runtime import DEFAULT_MODELS, LICENCES
from models.engines.onnx_asr_models import DEFAULT_MODEL, licence_of
from models.judge_loading import Endpoint, chosen_judges, judge_weights
from models.tts_loading import tts_weights
from models.weights_manifest import TURN_TAKING, Weight, packaged

DISTRIBUTION = "duplex-gateway"
NOT_STATED = "not stated in its metadata"

_ONNXRUNTIME = ("onnxruntime", "onnxruntime-gpu", "soxr")
_ESPEAK = ("phonemizer", "espeakng-loader")
_ENGINE_PACKAGES = {
    "vad silero": _ONNXRUNTIME,
    "asr moonshine": _ONNXRUNTIME,
    "asr whisper": ("ctranslate2", "soxr"),
    "asr onnx": (*_ONNXRUNTIME, "onnx-asr", "huggingface-hub"),
    "asr mlx": ("mlx-audio", "mlx", "huggingface-hub"),
    "asr endpoint": ("openai", "httpx2"),
    "tts piper": (*_ONNXRUNTIME, *_ESPEAK, "onnx"),
    "tts kokoro": (*_ONNXRUNTIME, *_ESPEAK, "kokoro-onnx"),
    "tts mlx": (*_ESPEAK, "kokoro-onnx", "mlx-audio", "mlx", "huggingface-hub"),
    "tts endpoint": ("openai", "httpx2"),
    "foreground embedded": ("xllamacpp", "openai", "httpx2"),
    "foreground endpoint": ("openai", "httpx2"),
    "native voicechat": ("mlx-vlm", "mlx-audio", "mlx", "transformers", "huggingface-hub", "soxr"),
    "native moshi": ("mlx-audio", "mlx", "sentencepiece", "huggingface-hub"),
}
"""Distributions that do an engine's work, by role and engine. Those that are not installed are left out."""

_OF_ENGINES = frozenset(name for names in _ENGINE_PACKAGES.values() for name in names)

NATIVE = {"voicechat": (voicechat.MODEL, voicechat.LICENCE), "moshi": (moshi.MODEL, moshi.LICENCE)}
"""The full-duplex engines' own models, and how the names of their kind begin with which licence."""

_UNKNOWN = "as its model card says"

_ESPEAK_NG = "GPL-3.0-or-later"
"""espeak-ng's COPYING. The wheel that brings the library states the licence of its own loader at most."""


@dataclass(frozen=True, slots=True)
class Licence:
    """What stands under which licence. `kind`: weights, model, server, library, package; `source`: whence it comes."""

    kind: str
    name: str
    licence: str
    source: str


def plan_licences(plan: EnginePlan) -> list[Licence]:
    """Return what `plan` uses: weights, models of others, and the packages that its engines and the service run on."""
    rows = [_of_weight(weight) for weight in plan_weights(plan)]
    rows += _of_models(plan)
    engines = {
        f"vad {plan.vad}",
        f"asr {plan.asr.engine}",
        f"tts {plan.tts.engine}",
        f"foreground {plan.chat.engine}",
        f"native {plan.native.engine}",
    }
    used = {name for engine in engines for name in _ENGINE_PACKAGES.get(engine, ())}
    service = _requirements(DISTRIBUTION, extras=False) - _OF_ENGINES
    # The wire's types come from the OpenAI package, whatever the engines are.
    return [*rows, *_of_packages(used | service | ({"openai"} & _installed()))]


def all_licences() -> list[Licence]:
    """Return what any plan may use: all weights of the manifest, and each package that is installed with us."""
    weights = [value for value in vars(weights_manifest).values() if isinstance(value, Weight)]
    return [
        *map(_of_weight, weights),
        _of_onnx_model(DEFAULT_MODEL),
        *_of_packages(_closure({DISTRIBUTION, *_OF_ENGINES})),
    ]


def plan_weights(plan: EnginePlan) -> list[Weight]:
    """Return the weights that loading `plan` takes from packages, each once."""
    judges = chosen_judges(plan.judges, real=plan.vad != "scripted" and plan.asr.engine != "scripted")
    endpoint = Endpoint("", "", "") if plan.chat.engine == "endpoint" else None
    weights = [
        *([TURN_TAKING] if plan.vad == "silero" else ()),
        *asr_weights(plan.asr),
        *tts_weights(plan.tts),
        *chat_weights(plan.chat),
        *judge_weights(judges, endpoint),
    ]
    return list(dict.fromkeys(weights))


def _of_weight(weight: Weight) -> Licence:
    told = packaged("weights", weight.name, weight)
    return Licence(told.role, told.name, told.licence, told.source)


def _of_onnx_model(model: str) -> Licence:
    name = model.rstrip("/").rpartition("/")[2]
    return Licence("model", name, licence_of(name) or _UNKNOWN, "model hub or folder")


def _of_models(plan: EnginePlan) -> list[Licence]:
    """Return the models that come from elsewhere than packages: the hub, a file, a server."""
    rows = []
    if plan.asr.engine == "onnx":
        rows.append(_of_onnx_model(plan.asr.model or DEFAULT_MODEL))
    if plan.tts.engine == "kokoro" and plan.tts.model:
        licence = "Apache-2.0" if plan.tts.model == KOKORO_ON_HUB else _UNKNOWN
        rows.append(Licence("model", plan.tts.model, licence, "model hub or folder"))
    for role, voice in (("asr", plan.asr), ("tts", plan.tts)):
        if voice.engine == "mlx":
            name = voice.model or DEFAULT_MODELS[role]
            rows.append(Licence("model", name, LICENCES.get(name, _UNKNOWN), "model hub or folder"))
    if plan.native.engine in NATIVE and not plan.native.tiny:
        default, (start, licence) = NATIVE[plan.native.engine]
        name = plan.native.model or default
        rows.append(Licence("model", name, licence if name.startswith(start) else _UNKNOWN, "model hub or folder"))
    if plan.chat.engine == "embedded" and plan.chat.gguf is not None:
        rows.append(Licence("model", plan.chat.gguf.name, _UNKNOWN, "a file of yours"))
    for role, on in (("asr", plan.asr), ("tts", plan.tts), ("foreground", plan.chat)):
        if on.engine == "endpoint":
            rows.append(Licence("server", on.model or role, "as its operator says", f"{role} endpoint"))
    return rows


def _of_packages(names: Iterable[str]) -> list[Licence]:
    """Return the licences of those packages that are installed, by name; espeak-ng's own beside the wheel with it."""
    rows = []
    for name in sorted(set(names) & _installed()):
        version = importlib.metadata.version(name)
        rows.append(Licence("package", name, package_licence(name), f"{name}=={version}"))
        if name == "espeakng-loader":
            rows.append(Licence("library", "espeak-ng", _ESPEAK_NG, f"inside {name}=={version}"))
    return rows


def package_licence(name: str) -> str:
    """Return the licence that the installed distribution `name` states, in its own words, or NOT_STATED."""
    found = importlib.metadata.distribution(name)

    def stated(field: str) -> list[str]:
        return found.metadata.get_all(field) or []

    if expressions := stated("License-Expression"):
        return expressions[0]
    approved = [line for line in stated("Classifier") if line.startswith("License :: OSI Approved ::")]
    if approved:
        return ", ".join(line.rpartition("::")[2].strip() for line in approved)
    words = _first_line("".join(stated("License")))
    if words and words.upper() != "UNKNOWN":
        return words
    texts = (found.read_text(f"licenses/{file}") or found.read_text(file) for file in stated("License-File"))
    return next((line for text in texts if (line := _first_line(text or ""))), NOT_STATED)


def _first_line(text: str) -> str:
    return next((line.strip()[:60] for line in text.splitlines() if line.strip()), "")


def _installed() -> set[str]:
    return {_normal(found.metadata["Name"]) for found in importlib.metadata.distributions() if found.metadata["Name"]}


def _closure(names: set[str]) -> set[str]:
    """Return `names` and all installed distributions that they require by way of others, our extras included."""
    installed, found, waiting = _installed(), set(names), list(names)
    while waiting:
        current = waiting.pop()
        for required in _requirements(current, extras=current == DISTRIBUTION) & installed - found:
            found.add(required)
            waiting.append(required)
    return found


def _requirements(name: str, *, extras: bool) -> set[str]:
    """Return what `name` requires, nothing if it isn't installed; of all markers only `extra` is looked at."""
    try:
        lines = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return set()
    wanted = [line for line in lines if extras or not re.search(r"\bextra\s*==", line)]
    return {_normal(match[0]) for line in wanted if (match := re.match(r"[\w.-]+", line))}


def _normal(name: str) -> str:
    """Return a distribution's name as PEP 503 normalises it."""
    return re.sub(r"[-_.]+", "-", name).lower()
