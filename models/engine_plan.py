"""Which engine does which role, and what it is told: all that loading needs to know. Profiles are plans with a name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

AUTO = "auto"
"""Among judges: what suits the other engines."""

AsrEngine = Literal["scripted", "moonshine", "onnx", "whisper", "mlx", "endpoint"]
"""`onnx`: any model of onnx-asr. `whisper`: Whisper base from packages, many languages."""

TtsEngine = Literal["scripted", "piper", "kokoro", "mlx", "endpoint"]
ChatEngine = Literal["scripted", "embedded", "endpoint"]
NativeEngine = Literal["none", "scripted", "voicechat", "moshi"]
"""Full-duplex models, which hear and speak at once."""

Device = Literal["auto", "cpu", "cuda", "coreml"]
Thinking = Literal["unchanged", "off", "chat_template_kwargs", "reasoning_effort"]
"""Which field tells a server's model not to think before it speaks; `off`: whichever it understands."""


@dataclass(frozen=True, slots=True)
class AsrPlan:
    """Speech to text. `model`: a hub name, a folder or a server's name for it; "": the engine's own.

    `language`: a BCP 47 tag that holds where the client names none; "": detected, if the engine can. `quantization`:
    which of a model's files, such as int8; "": the engine's own choice.
    """

    engine: AsrEngine = "scripted"
    model: str = ""
    language: str = ""
    device: Device = "auto"
    quantization: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TtsPlan:
    """Text to speech. `model`: a hub name, a folder or a server's name for it; "": the engine's own.

    `voices` (client's name, engine's voice) win over `voice`, which stands for all other names; "": the engine maps
    them. `language`: a BCP 47 tag of what is spoken, by voices of that language if none is named; "": the voice's own.
    """

    engine: TtsEngine = "scripted"
    model: str = ""
    voice: str = ""
    voices: tuple[tuple[str, str], ...] = ()
    language: str = ""
    device: Device = "auto"
    base_url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """The foreground language model. `gguf`: a file for the embedded server, None: the packaged demo brain.

    `model`: a server's name for it; "": the first that it lists. `temperature` (0…2) None: the model's own. `thinking`:
    how a model, but for the demo brain, is told not to think. `extra_body`: JSON object merged into each request to it.
    `scripted_reply`: what the scripted one always says; "": what it heard.
    """

    engine: ChatEngine = "scripted"
    model: str = ""
    gguf: Path | None = None
    temperature: float | None = None
    thinking: Thinking = "unchanged"
    extra_body: str = ""
    scripted_reply: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class NativePlan:
    """The full-duplex model. `model`: a hub name or a folder; "": the engine's own. `tiny`: random weights, no speech.

    `alone`: nothing else is served, and the cascade's engines are not loaded.
    """

    engine: NativeEngine = "none"
    model: str = ""
    tiny: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """One gateway's engines. `judges`: names of end-of-turn judges, or AUTO; () for none."""

    vad: Literal["scripted", "silero"] = "scripted"
    asr: AsrPlan = AsrPlan()
    chat: ChatPlan = ChatPlan()
    tts: TtsPlan = TtsPlan()
    judges: tuple[str, ...] = (AUTO,)
    native: NativePlan = NativePlan()


EMBEDDED = EnginePlan("silero", AsrPlan("moonshine"), ChatPlan("embedded"), TtsPlan("piper"))
"""All in this process, weights from packages."""

KOKORO_ON_HUB = "onnx-community/Kokoro-82M-v1.0-ONNX"
"""The export that kokoro-js 1.2.1 loads: fp32 and quantised files, one file a voice. Apache-2.0."""

QUALITY = EnginePlan("silero", AsrPlan("onnx"), ChatPlan("embedded"), TtsPlan("kokoro", KOKORO_ON_HUB))
"""Speech in this process by larger models from the hub: Parakeet, Kokoro. A language model's server is better."""

MLX = EnginePlan("silero", AsrPlan("mlx"), ChatPlan("embedded"), TtsPlan("mlx"))
"""Speech in this process on Apple Silicon."""

ENDPOINTS = EnginePlan("silero", AsrPlan("endpoint"), ChatPlan("embedded"), TtsPlan("endpoint"))
"""Speech on servers, and the language model, too, once it has one."""

SCRIPTED = EnginePlan(native=NativePlan("scripted"))
"""Fixed lines, nothing to fetch."""
