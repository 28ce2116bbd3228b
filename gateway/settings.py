"""The settings: one table of fields.

Each field of `Settings` declares its type, default, help and environment name once; the flags, the file keys,
`.env.example` and the table in `gateway/README.md` all come from it. `settings_sources.py` reads them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gateway.masking import MASK, masked_json, masked_url

_ENV_PREFIX = "DUPLEX_GATEWAY_"
TOML_NAME = "duplex-gateway.toml"
DOTENV_NAME = ".env"
YES_AND_NO = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""Yes and no as the environment writes them."""

Profile = Literal["auto", "embedded", "quality", "mlx", "endpoints", "scripted"]
VadChoice = Literal["profile", "silero", "scripted"]
AsrChoice = Literal["profile", "moonshine", "onnx", "whisper", "mlx", "endpoint", "scripted"]
TtsChoice = Literal["profile", "piper", "kokoro", "mlx", "endpoint", "scripted"]
DuplexChoice = Literal["profile", "none", "scripted", "voicechat", "moshi"]
SpeechStarted = Literal["yield", "always", "idle_only"]
ForegroundChoice = Literal["profile", "embedded", "endpoint", "scripted"]
DeviceChoice = Literal["auto", "cpu", "cuda", "coreml"]
ThinkingChoice = Literal["unchanged", "off", "chat_template_kwargs", "reasoning_effort"]
END_OF_TURN_JUDGES = ("audio", "probability", "verdict", "lexical")
"""What `end_of_turn` may name, besides `auto` and `off`."""

LogLevel = Literal["debug", "info", "warning", "error"]


RemoteDialect = Literal["ga", "beta"]


class SettingsError(Exception):
    """A setting is wrong. The text is one sentence: which setting, where it came from, what to do."""


def _setting(
    default: Any,
    help_text: str,
    *,
    env: str | None = None,
    secret: bool = False,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Return a dataclass field that carries its own documentation (`Any`: its type is the annotation's)."""
    metadata = {"help": help_text, "env": env, "secret": secret, "at_least": at_least, "at_most": at_most}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Remote:
    """Another Realtime server behind the model `name`: its base URL, its key, the model to ask it for ("": none)."""

    name: str
    base_url: str
    api_key: str = dataclasses.field(default="", repr=False)
    model: str = ""
    dialect: RemoteDialect = "ga"


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """What the gateway was told to do."""

    host: tuple[str, ...] = _setting(("127.0.0.1", "::1"), "addresses to listen on")
    port: int = _setting(8765, "port to listen on; 0: any free one", at_least=0, at_most=65_535)
    api_key: str = _setting("", "key that clients must send; empty: any key or none is accepted", secret=True)
    signing_secret: str = _setting(
        "",
        "secret that signs ephemeral keys, the same on all replicas; empty: derived from api_key, without that random",
        secret=True,
    )
    allow_origin: tuple[str, ...] = _setting((), "browser origins that may connect, besides loopback; * allows all")
    allow_host: tuple[str, ...] = _setting((), "names in the Host header, besides loopback and bound addresses")
    tls: bool = _setting(False, "serve wss and https, too, on tls_port, with a self-made certificate for localhost")
    tls_port: int = _setting(8766, "port of --tls, beside the plain one; 0: any free one", at_least=0, at_most=65_535)
    ssl_certfile: Path | None = _setting(
        None, "certificate chain (PEM); with it the gateway serves wss and https instead of ws and http"
    )
    ssl_keyfile: Path | None = _setting(None, "private key of the certificate (PEM)")
    mcp_allow_host: tuple[str, ...] = _setting(
        (), "hosts of MCP servers that clients may name, besides loopback while only loopback is served; * allows all"
    )
    mcp_timeout_s: float = _setting(
        60.0, "longest time for one call of an MCP server's tool", at_least=0.1, at_most=600
    )
    max_sessions: int = _setting(64, "sessions at a time; further clients get HTTP 503", at_least=1, at_most=10_000)
    session_limit_s: float = _setting(
        3600.0, "longest session in seconds (OpenAI: 60 minutes)", at_least=1, at_most=86_400
    )
    log_level: LogLevel = _setting("info", "how much of the gateway's own doings is logged")
    event_log: Path | None = _setting(None, "folder for one JSONL file of events a session, without texts; unset: off")
    record: Path | None = _setting(
        None,
        "folder for recordings of sessions, with all words and voices (stereo WAV, and JSONL for `replay`); unset: off",
    )

    profile: Profile = _setting(
        "auto",
        "engines: embedded (all here, weights from packages), quality (Parakeet and Kokoro, from the model hub), mlx "
        "(Apple Silicon), endpoints (each role a server), scripted (fixed lines); auto: what suits this machine",
    )
    home: Path | None = _setting(
        None, "folder for fetched weights, and for what auto chose; unset: the user's data folder"
    )
    instructions: str = _setting("", "instructions for sessions whose client sends none; empty: to answer briefly")
    voice: str = _setting("marin", "voice that a session begins with")
    playout_delay_ms: int = _setting(
        150, "delay assumed between sending audio and the user hearing it", at_least=0, at_most=2_000
    )

    speculation: bool = _setting(
        True, "let the language model begin its answer at a silence that may end the turn; off: less work in vain"
    )

    device: DeviceChoice = _setting("auto", "where onnxruntime computes; auto: the best that it offers")

    asr: AsrChoice = _setting(
        "profile",
        "speech to text: the profile's own, moonshine (English), whisper (base, many languages), onnx (any model of "
        "onnx-asr), mlx (Apple Silicon), endpoint",
    )
    asr_base_url: str = _setting(
        "", "transcription endpoint, such as http://127.0.0.1:8000/v1; empty: in process", env="ASR_BASE_URL"
    )
    asr_api_key: str = _setting("", "key for that endpoint", env="ASR_API_KEY", secret=True)
    asr_model: str = _setting("", "model of the recogniser: a name or a folder; empty: its own", env="ASR_MODEL")
    asr_language: str = _setting(
        "", "language that is spoken where the client names none, such as fr; empty: detected", env="ASR_LANGUAGE"
    )
    asr_quantization: str = _setting("", "which of a model's files, such as int8; empty: the engine's choice")

    tts: TtsChoice = _setting(
        "profile",
        "text to speech: the profile's own, piper (English), kokoro (eight languages), mlx (Apple Silicon), endpoint",
    )
    tts_base_url: str = _setting(
        "", "speech endpoint, such as http://127.0.0.1:8880/v1; empty: in process", env="TTS_BASE_URL"
    )
    tts_api_key: str = _setting("", "key for that endpoint", env="TTS_API_KEY", secret=True)
    tts_model: str = _setting("", "model of the voice: a name or a folder; empty: the engine's own", env="TTS_MODEL")
    tts_voice: str = _setting("", "voice that stands for any name; empty: one for each of OpenAI's", env="TTS_VOICE")
    tts_voices: tuple[str, ...] = _setting(
        (), "voices for names that clients give, as NAME=VOICE, such as marin=af_heart", env="TTS_VOICES"
    )
    tts_language: str = _setting("", "language of the voice, such as fr; empty: the voice's own", env="TTS_LANGUAGE")

    duplex: DuplexChoice = _setting(
        "profile", "native full-duplex model, as ?model=duplex: none, voicechat (Apple Silicon), moshi, scripted"
    )
    cascade: bool = _setting(True, "serve the cascade; off: the full-duplex model alone, as `duplex-server` does")
    duplex_model: str = _setting(
        "",
        "its weights: a name on the model hub or a folder; with DUPLEX_BASE_URL its name there, duplex if empty",
        env="DUPLEX_MODEL",
    )
    duplex_base_url: str = _setting(
        "",
        "Realtime server behind ?model=duplex, such as a `duplex-server`'s http://192.0.2.7:8765/v1; empty: in process",
        env="DUPLEX_BASE_URL",
    )
    duplex_api_key: str = _setting("", "key for that server", env="DUPLEX_API_KEY", secret=True)
    duplex_dialect: RemoteDialect = _setting("ga", "which Realtime dialect that server speaks", env="DUPLEX_DIALECT")
    duplex_tiny: bool = _setting(False, "the full-duplex engine with tiny random weights: it runs anywhere, says noise")
    duplex_sessions: int = _setting(
        0,
        "sessions at a time with a full-duplex model in this process; further clients get an error; 0: one where it "
        "has real weights, else any number",
        at_least=0,
        at_most=10_000,
    )
    duplex_speech_started: SpeechStarted = _setting(
        "yield",
        "when a client hears that the user speaks over a full-duplex agent: as it gives way, always, after it",
    )
    duplex_restart_on_update: bool = _setting(
        False,
        "instructions, tools or text that come in mid-conversation begin the model's conversation anew, with what was "
        "said so far; off: they are refused with an error",
    )
    duplex_on_hold: str = _setting("", "what a full-duplex agent says while a tool runs; empty: nothing")

    foreground: ForegroundChoice = _setting(
        "profile", "language model: the profile's own, embedded (in process), endpoint"
    )
    foreground_gguf: Path | None = _setting(
        None, "GGUF file for the embedded language model; unset: the packaged demo brain", env="FOREGROUND_GGUF"
    )
    foreground_thinking: ThinkingChoice = _setting(
        "unchanged",
        "field that tells an endpoint's model not to think before it speaks; off: whichever it understands",
        env="FOREGROUND_THINKING",
    )
    foreground_extra_body: str = _setting(
        "", "JSON object merged into each request to that endpoint", env="FOREGROUND_EXTRA_BODY"
    )
    foreground_base_url: str = _setting(
        "", "chat completions endpoint, such as http://127.0.0.1:8080/v1; empty: in process", env="FOREGROUND_BASE_URL"
    )
    foreground_api_key: str = _setting("", "key for that endpoint", env="FOREGROUND_API_KEY", secret=True)
    foreground_model: str = _setting("", "model to ask that endpoint for", env="FOREGROUND_MODEL")
    foreground_temperature: float | None = _setting(
        None,
        "how freely the language model words its replies, 0: always the same; unset: its own",
        env="FOREGROUND_TEMPERATURE",
        at_least=0,
        at_most=2,
    )
    foreground_context_tokens: int = _setting(
        28_224,
        "tokens of instructions and conversation that the language model is given at most; older items leave first",
        env="FOREGROUND_CONTEXT_TOKENS",
        at_least=256,
        at_most=2_000_000,
    )
    llm_first_token_timeout_s: float = _setting(
        20.0, "longest wait for a reply's first token", at_least=0.1, at_most=600
    )
    llm_next_token_timeout_s: float = _setting(10.0, "longest wait between two tokens", at_least=0.1, at_most=600)
    asr_timeout_s: float = _setting(15.0, "longest time to transcribe one utterance", at_least=0.1, at_most=600)
    tts_timeout_s: float = _setting(15.0, "longest wait for the next piece of speech", at_least=0.1, at_most=600)

    vad: VadChoice = _setting("profile", "voice activity detector: the profile's own, silero or scripted")
    end_of_turn: tuple[str, ...] = _setting(
        ("auto",),
        "judges of semantic_vad: audio, probability, verdict (a request to the endpoint at each pause), lexical; auto: "
        "those that the engines offer; off",
    )
    scripted_reply: str = _setting("", "profile scripted: what the language model always says; empty: what it heard")

    remotes: tuple[Remote, ...] = ()
    """Named Realtime servers, which have no flag: `[remotes.NAME]` in the file, REMOTE_<NAME>_… in the environment."""

    def __repr__(self) -> str:
        """Return all settings, secrets masked."""
        shown = ", ".join(f"{entry.name}={shown_value(self, entry)!r}" for entry in table())
        return f"Settings({shown}, remotes={[remote.name for remote in self.remotes]!r})"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table."""

    name: str
    type: Any
    default: object
    help: str
    env: str
    secret: bool
    at_least: float | None
    at_most: float | None

    @property
    def flag(self) -> str:
        """Return the command line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def repeatable(self) -> bool:
        """Say whether the setting is a list (flags repeat, the environment separates by commas)."""
        return get_origin(self.type) is tuple

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the allowed words, () if any will do."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()


def _without_none(annotation: Any) -> Any:
    """Return the type of a setting that may be unset."""
    if isinstance(annotation, UnionType):
        (annotation,) = (member for member in get_args(annotation) if member is not NoneType)
    return annotation


def table() -> tuple[Entry, ...]:
    """Return all settings in order of declaration."""
    types = get_type_hints(Settings)
    return tuple(
        Entry(
            name=field.name,
            type=_without_none(types[field.name]),
            default=field.default,
            help=field.metadata["help"],
            env=field.metadata["env"] or _ENV_PREFIX + field.name.upper(),
            secret=field.metadata["secret"],
            at_least=field.metadata["at_least"],
            at_most=field.metadata["at_most"],
        )
        for field in dataclasses.fields(Settings)
        if field.metadata
    )


def shown_value(settings: Settings, entry: Entry) -> object:
    """Return a setting's value as anybody may see it: without keys, and URLs without passwords."""
    value = getattr(settings, entry.name)
    if entry.secret and value:
        return MASK
    if isinstance(value, str) and entry.name.endswith("_base_url"):
        return masked_url(value)
    return masked_json(value) if entry.name.endswith("_extra_body") and value else value
