"""From another server's events (GA) to the neutral events that a session's border is measured by."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

from protocol.audio_time import Samples, samples_from_ms
from protocol.backend_events import (
    BackendEvent,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)

Payload = dict[str, Any]

AUDIO_DELTA = "response.output_audio.delta"

KEPT_STRETCHES = 64
"""User items whose place in the input is remembered until their transcript (chosen); the oldest leave first."""

_TRANSCRIPTION = "conversation.item.input_audio_transcription"
_ARGUMENTS = "response.function_call_arguments.delta"
_STATUSES = {status.value: status for status in EndStatus}
_REASONS = {reason.value: reason for reason in EndReason}
_TEXT = frozenset({"response.output_text.delta", "response.output_audio_transcript.delta"})


class NeutralEvents:
    """Translates one session's events, in order."""

    def __init__(self) -> None:
        self._stretches: OrderedDict[str, tuple[Samples, Samples]] = OrderedDict()
        self._committed: Samples = 0

    def __call__(self, event: Payload, pcm: bytes = b"", received: Samples = 0) -> BackendEvent | None:
        """Return what `event` says, None where it is nothing that is measured or not shaped as it should be.

        `pcm`: the audio of a delta, in the session's samples. `received`: the input so far (input clock).
        """
        match event:
            case {"type": str(kind), "item_id": str(item_id)} if kind.startswith(("input_audio", _TRANSCRIPTION)):
                return self._of_input(kind, item_id, event, received)
            case {"type": "input_audio_buffer.cleared"}:
                return InputCleared()
            case _:
                return _of_output(event, pcm)

    def _of_input(self, kind: str, item_id: str, event: Payload, received: Samples) -> BackendEvent | None:
        start, end = (_samples(event.get(key)) for key in ("audio_start_ms", "audio_end_ms"))
        match kind:
            case "input_audio_buffer.speech_started":
                self._keep(item_id, start, start)
                return SpeechStarted(item_id, start)
            case "input_audio_buffer.speech_stopped":
                self._keep(item_id, self._stretches.get(item_id, (end, end))[0], end)
                return SpeechStopped(item_id, end)
            case "input_audio_buffer.timeout_triggered":
                self._keep(item_id, start, end)
                return InputTimedOut(item_id, start, end)
            case "input_audio_buffer.committed":
                # The wire doesn't say which stretch it is: that of the speech, else all that no other item took.
                start, end = self._stretches.get(item_id, (self._committed, received))
                self._keep(item_id, start, end)
                self._committed = end
                return InputCommitted(item_id, start, end)
        start, end = self._stretches.get(item_id, (0, 0))
        match event:
            case {"type": "conversation.item.input_audio_transcription.delta", "delta": str(delta)}:
                return InputTranscriptDelta(item_id, delta)
            case {"type": "conversation.item.input_audio_transcription.completed", "transcript": str(words)}:
                return InputTranscriptCompleted(item_id, words, end - start)
            case {"type": "conversation.item.input_audio_transcription.failed"}:
                return InputTranscriptFailed(item_id, _fault(event.get("error")))
            case _:
                return None

    def _keep(self, item_id: str, start: Samples, end: Samples) -> None:
        self._stretches[item_id] = (start, max(start, end))
        if len(self._stretches) > KEPT_STRETCHES:
            self._stretches.popitem(last=False)


def _of_output(event: Payload, pcm: bytes) -> BackendEvent | None:
    match event:
        case {"type": "response.output_audio.delta", "response_id": str(response_id), "item_id": str(item_id)}:
            return OutputAudio(response_id, item_id, pcm)
        case {"type": str(kind), "response_id": str(response_id), "item_id": str(item_id), "delta": str(delta)}:
            if kind in _TEXT:
                return OutputTextDelta(response_id, item_id, delta)
            return FunctionCallArgumentsDelta(response_id, item_id, delta) if kind == _ARGUMENTS else None
        case {"type": "response.created", "response": {"id": str(response_id)} as response}:
            # Absent with servers that know no responses beside the conversation; null where OpenAI means one.
            return ResponseStarted(response_id, out_of_band=response.get("conversation_id", "") is None)
        case {
            "type": "response.output_item.added",
            "response_id": str(response_id),
            "item": {"type": "function_call", "id": str(item_id)} as item,
        }:
            return FunctionCallStarted(response_id, item_id, str(item.get("call_id", "")), str(item.get("name", "")))
        case {"type": "response.output_item.done", "response_id": str(response_id), "item": {"id": str(item_id)}}:
            return OutputItemEnded(response_id, item_id)
        case {"type": "response.done", "response": {"id": str(response_id)} as response}:
            return _ended(response_id, response)
        case _:
            return None


def _ended(response_id: str, response: Payload) -> ResponseEnded:
    status = _STATUSES.get(str(response.get("status")), EndStatus.COMPLETED)
    details = response.get("status_details")
    details = details if isinstance(details, dict) else {}
    fault = _fault(details.get("error")) if status is EndStatus.FAILED else None
    return ResponseEnded(response_id, status, reason=_REASONS.get(str(details.get("reason"))), fault=fault)


def _fault(error: object) -> EngineFault:
    told = error if isinstance(error, dict) else {}
    return EngineFault(str(told.get("code")), str(told.get("message")))


def _samples(position_ms: object) -> Samples:
    usable = isinstance(position_ms, int | float) and math.isfinite(position_ms)
    return samples_from_ms(int(position_ms)) if usable and isinstance(position_ms, int | float) else 0
