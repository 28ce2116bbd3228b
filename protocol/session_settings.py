"""The session's settings: what `session.created` shows, what `session.update` changes, what a backend is told.

An update merges by presence: an absent key keeps its value; null, "" and [] clear it (back to the default, or to
nothing where nothing is a value); nested objects merge likewise, but another `turn_detection.type` replaces the whole
(Realtime GA: session.update; RB-02). Updates come from `protocol.client_events`, which has refused what is malformed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from protocol import errors
from protocol.audio_format import AudioFormat, merged_format
from protocol.audio_time import samples_from_ms
from protocol.commands import Configure, TurnDetection
from protocol.gateway_extension import KEY as GATEWAY
from protocol.gateway_extension import GatewayOptions
from protocol.mcp_servers import shown
from protocol.truncation import USABLE_TOKENS

LIVE_TRANSCRIPTION_MODELS = frozenset({"gpt-realtime-whisper", "gpt-live-transcribe"})
"""OpenAI's models that transcribe while the user still speaks."""

SessionKind = Literal["realtime", "transcription"]
"""A conversation, or a session that only writes down what it hears. Chosen at the handshake, for good."""

LOGPROBS = "item.input_audio_transcription.logprobs"
"""The one thing that `include` can ask for."""

_DEFAULT_PREFIX_PADDING_MS = 300
_DEFAULT_SILENCE_MS = 500
_SILENCE_OF_EAGERNESS_MS = {"high": 300, "medium": 500, "auto": 500, "low": 1_000}
"""What ends a turn of `semantic_vad` where nobody judges words or voice (chosen; pauses within a turn of spontaneous
speech rarely last a second)."""


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """What a session begins with, and what cleared settings return to.

    `context_tokens`: the most that the language model is given as input, as far as the session can tell. `speculation`:
    it may start before the user's turn is certainly over.
    """

    voice: str = "marin"
    instructions: str = "You are a helpful voice assistant. Answer briefly, in the language that the user speaks."
    transcription_model: str = "gpt-4o-mini-transcribe"
    speed: float = 1.0
    threshold: float = 0.5
    prefix_padding_ms: int = _DEFAULT_PREFIX_PADDING_MS
    silence_duration_ms: int = _DEFAULT_SILENCE_MS
    context_tokens: int = USABLE_TOKENS
    speculation: bool = True


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The effective settings of one session. Immutable: an update gives a new one or an error.

    The nested values have the shape of the wire and are never changed in place.
    """

    defaults: SessionDefaults
    kind: SessionKind
    instructions: str
    output_modality: str
    input_format: AudioFormat
    output_format: AudioFormat
    turn_detection: Mapping[str, Any] | None
    transcription: Mapping[str, Any] | None
    noise_reduction: Mapping[str, Any] | None
    voice: str
    speed: float
    tools: tuple[dict[str, Any], ...]
    tool_choice: str | dict[str, Any]
    max_output_tokens: int | str
    truncation: str | dict[str, Any]
    tracing: str | dict[str, Any] | None
    prompt: dict[str, Any] | None
    include: tuple[str, ...]
    parallel_tool_calls: bool | None
    reasoning: dict[str, Any] | None
    temperature: float | None
    gateway: GatewayOptions = GatewayOptions()

    @classmethod
    def initial(cls, defaults: SessionDefaults, kind: SessionKind = "realtime") -> SessionSettings:
        """Return the settings of a session that nobody has updated yet; a transcription session transcribes at once."""
        by_hand = kind == "transcription" and defaults.transcription_model in LIVE_TRANSCRIPTION_MODELS
        return cls(
            defaults=defaults,
            kind=kind,
            instructions=defaults.instructions,
            output_modality="audio",
            input_format=AudioFormat.PCM,
            output_format=AudioFormat.PCM,
            turn_detection=None if by_hand else _fresh_turn_detection("server_vad", defaults),
            transcription={"model": defaults.transcription_model} if kind == "transcription" else None,
            noise_reduction=None,
            voice=defaults.voice,
            speed=defaults.speed,
            tools=(),
            tool_choice="auto",
            max_output_tokens="inf",
            truncation="auto",
            tracing=None,
            prompt=None,
            include=(),
            parallel_tool_calls=None,
            reasoning=None,
            temperature=None,
        )

    def merged(self, update: Mapping[str, Any], *, voice_locked: bool = False) -> SessionSettings:
        """Return these settings with `update` (the `session` of a session.update) merged in.

        `voice_locked`: the agent has spoken, so that another voice refuses the whole update with ProtocolError.
        `type` and `model` change nothing: both are the handshake's. Raises ProtocolError for another `type`.
        """
        if update.get("type", self.kind) != self.kind:
            raise errors.other_kind_of_session(update["type"], self.kind)
        changes: dict[str, Any] = {}
        for key, cleared in _PLAIN_FIELDS.items():
            if key in update:
                changes[key] = cleared if update[key] is None else update[key]
        if "tools" in update:
            changes["tools"] = tuple(update["tools"] or ())
        if "include" in update:
            changes["include"] = tuple(update["include"] or ())
        if GATEWAY in update:
            changes["gateway"] = self.gateway.merged(update[GATEWAY])
        if "output_modalities" in update:
            changes["output_modality"] = (update["output_modalities"] or ["audio"])[0]
        audio = update.get("audio") or {}
        changes |= self._input_changes(audio.get("input") or {})
        changes |= self._output_changes(audio.get("output") or {})
        if voice_locked and changes.get("voice", self.voice) != self.voice:
            raise errors.cannot_update_voice()
        return replace(self, **changes)

    def _input_changes(self, audio_input: Mapping[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if "format" in audio_input:
            changes["input_format"] = merged_format(self.input_format, audio_input["format"])
        if "turn_detection" in audio_input:
            changes["turn_detection"] = self._turn_detection(audio_input["turn_detection"])
        if "transcription" in audio_input:
            changes["transcription"] = self._transcription(audio_input["transcription"])
            if self._becomes_live(changes["transcription"]) and "turn_detection" not in changes:
                changes["turn_detection"] = None
        if "noise_reduction" in audio_input:
            given = audio_input["noise_reduction"]
            # `{}` would end a Pipecat session, so an object without keys is null.
            changes["noise_reduction"] = None if given is None else _overlaid(self.noise_reduction, given) or None
        return changes

    def _output_changes(self, audio_output: Mapping[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if "format" in audio_output:
            changes["output_format"] = merged_format(self.output_format, audio_output["format"])
        if "voice" in audio_output:
            changes["voice"] = voice_name(audio_output["voice"]) or self.defaults.voice
        if "speed" in audio_output:
            speed = audio_output["speed"]
            changes["speed"] = self.defaults.speed if speed is None else speed
        return changes

    def _turn_detection(self, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if given is None:
            return None
        fresh = _fresh_turn_detection(given["type"], self.defaults)
        current = self.turn_detection
        same_kind = current is not None and current["type"] == given["type"]
        merged = {**fresh, **(current if same_kind and current else {})}
        for key, value in given.items():
            if value is not None:
                merged[key] = value
            elif key in fresh:
                merged[key] = fresh[key]
            else:
                merged.pop(key, None)
        merged.pop("model_version", None)  # tolerated, but no key of OpenAI's types
        return merged

    def _transcription(self, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if given is None:
            return None
        merged = _overlaid(self.transcription, given)
        merged.setdefault("model", self.defaults.transcription_model)
        return merged

    def _becomes_live(self, transcription: Mapping[str, Any] | None) -> bool:
        """Whether a transcription session gets a live model: OpenAI's know no VAD, so clients leave it out and commit.

        One that is asked for is obeyed (protocol §2.12).
        """
        return self.kind == "transcription" and _is_live(transcription) and not _is_live(self.transcription)

    @property
    def wants_logprobs(self) -> bool:
        """Whether the client reads log probabilities: it asked for them and for transcripts."""
        return self.transcription is not None and LOGPROBS in self.include

    def to_wire(self, *, session_id: str, model: str, expires_at_s: int) -> dict[str, Any]:
        """Return the full `session` object of session.created and session.updated."""
        ours = {GATEWAY: self._gateway_to_wire()} if self.gateway.shown else {}
        if self.kind == "transcription":
            return self._transcription_to_wire(session_id, expires_at_s) | ours
        wire: dict[str, Any] = {
            "type": "realtime",
            "object": "realtime.session",
            "id": session_id,
            "model": model,
            "expires_at": expires_at_s,
            "output_modalities": [self.output_modality],
            "instructions": self.instructions,
            "audio": {
                "input": self._input_to_wire(),
                "output": {"format": self.output_format.to_wire(), "voice": self.voice, "speed": self.speed},
            },
            "tools": [shown(tool) for tool in self.tools],
            "tool_choice": self.tool_choice,
            "max_output_tokens": self.max_output_tokens,
            "truncation": self.truncation,
            "tracing": self.tracing,
            "prompt": self.prompt,
            "include": list(self.include) or None,
        }
        # Of these two OpenAI's default session shows nothing, and nothing is asked for.
        if self.parallel_tool_calls is not None:
            wire["parallel_tool_calls"] = self.parallel_tool_calls
        if self.reasoning is not None:
            wire["reasoning"] = self.reasoning
        if self.temperature is not None:  # only a beta client can have set it
            wire["temperature"] = self.temperature
        return wire | ours

    def _transcription_to_wire(self, session_id: str, expires_at_s: int) -> dict[str, Any]:
        return {
            "type": "transcription",
            "object": "realtime.transcription_session",
            "id": session_id,
            "expires_at": expires_at_s,
            "audio": {"input": self._input_to_wire()},
            "include": list(self.include) or None,
        }

    def _input_to_wire(self) -> dict[str, Any]:
        return {
            "format": self.input_format.to_wire(),
            "transcription": _copied(self.transcription),
            "noise_reduction": _copied(self.noise_reduction),
            "turn_detection": _copied(self.turn_detection),
        }

    def _gateway_to_wire(self) -> dict[str, Any]:
        return {"barge_in": self._barge_in(), "speculation": self._speculation()}

    def _barge_in(self) -> str:
        """Return what holds: as OpenAI at once, but judged where the turns' ends are judged too (design: barge-in)."""
        own = "judged" if (self.turn_detection or {}).get("type") == "semantic_vad" else "immediate"
        return self.gateway.barge_in or own

    def _speculation(self) -> bool:
        return self.defaults.speculation if self.gateway.speculation is None else self.gateway.speculation

    def to_configure(self) -> Configure:
        """Return what a backend needs to know.

        A semantic_vad goes out as such, with the silence that a backend without end-of-turn judges waits for.
        """
        transcription = self.transcription or {}
        detection = None if self.turn_detection is None else _for_backend(self.turn_detection, self._barge_in())
        if detection is not None and self.kind == "transcription":
            # The flags are part of the type, but there is no model that could answer or be interrupted.
            detection = replace(detection, create_response=False, interrupt_response=False, idle_timeout=None)
        return Configure(
            turn_detection=detection,
            audio_output=self.output_modality == "audio",
            live_transcript=_is_live(transcription),
            language=transcription.get("language"),
            transcript_prompt=_expected_words(transcription),
            transcript_logprobs=self.wants_logprobs,
            speculation=self._speculation(),
        )


_PLAIN_FIELDS: dict[str, Any] = {
    "instructions": "",
    "tool_choice": "auto",
    "max_output_tokens": "inf",
    "truncation": "auto",
    "tracing": None,
    "prompt": None,
    "parallel_tool_calls": None,
    "reasoning": None,
    "temperature": None,
}
"""Settings that are replaced whole, and what null makes of them."""


def voice_name(voice: str | Mapping[str, Any] | None) -> str:
    """Return a voice's name; a voice object's id, since strict clients break on the object in a server event."""
    return (voice["id"] if isinstance(voice, Mapping) else voice) or ""


def _expected_words(transcription: Mapping[str, Any]) -> str:
    """Return the client's `prompt` and `keywords` as the one text that recognisers take."""
    given = (transcription.get("prompt"), ", ".join(transcription.get("keywords") or ()))
    return " ".join(text for text in given if text)


def _is_live(transcription: Mapping[str, Any] | None) -> bool:
    return transcription is not None and transcription.get("model") in LIVE_TRANSCRIPTION_MODELS


def _fresh_turn_detection(kind: str, defaults: SessionDefaults) -> dict[str, Any]:
    flags = {"create_response": True, "interrupt_response": True}
    if kind == "semantic_vad":
        return {"type": kind, "eagerness": "auto", **flags}
    return {
        "type": kind,
        "threshold": defaults.threshold,
        "prefix_padding_ms": defaults.prefix_padding_ms,
        "silence_duration_ms": defaults.silence_duration_ms,
        **flags,
    }


def _for_backend(turn_detection: Mapping[str, Any], barge_in: str) -> TurnDetection:
    idle_timeout_ms: int | None = turn_detection.get("idle_timeout_ms")
    eagerness = turn_detection.get("eagerness")
    silence_ms = _SILENCE_OF_EAGERNESS_MS.get(turn_detection.get("eagerness", ""), _DEFAULT_SILENCE_MS)
    return TurnDetection(
        kind=turn_detection["type"],
        threshold=float(turn_detection.get("threshold", 0.5)),
        prefix_padding=samples_from_ms(turn_detection.get("prefix_padding_ms", _DEFAULT_PREFIX_PADDING_MS)),
        silence_duration=samples_from_ms(turn_detection.get("silence_duration_ms", silence_ms)),
        create_response=turn_detection["create_response"],
        interrupt_response=turn_detection["interrupt_response"],
        idle_timeout=None if idle_timeout_ms is None else samples_from_ms(idle_timeout_ms),
        eagerness="medium" if eagerness == "auto" else eagerness,
        barge_in=barge_in,
    )


def _overlaid(current: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `current` with `given` over it; keys whose new value is null, "" or [] leave."""
    merged = {**(current or {}), **given}
    return {key: value for key, value in merged.items() if value not in (None, "", [])}


def _copied(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else dict(value)
