"""The user's side on the wire: speech, committed audio and its transcript (Realtime GA: input_audio_buffer.*,
conversation.item.input_audio_transcription.*).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol.audio_time import ms_from_samples
from protocol.backend_events import (
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    SpeechStarted,
    SpeechStopped,
    TokenLogprob,
)
from protocol.conversation import Conversation
from protocol.items import HeardPart, Message
from protocol.kept_audio import RecentInput
from protocol.outputs import Output
from protocol.server_events import ServerEvents
from protocol.session_settings import SessionSettings
from protocol.usage import transcription_usage

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the client reads of one item's transcript."""

    model: str
    logprobs: bool


class InputEvents:
    """Tells the client what the backend heard, and the conversation what the user said."""

    def __init__(self, events: ServerEvents, conversation: Conversation, recent: RecentInput) -> None:
        self._events = events
        self._conversation = conversation
        self._recent = recent
        self._wanted: dict[str, _Wanted | None] = {}
        self._owed: set[str] = set()
        self._timed_out: str | None = None

    def speech_started(self, event: SpeechStarted) -> list[Output]:
        """Return speech_started; its time includes the prefix padding."""
        self._forget_others(event.item_id)
        self._conversation.announce(event.item_id)
        kind, start_ms = "input_audio_buffer.speech_started", ms_from_samples(event.start)
        return [self._events(kind, audio_start_ms=start_ms, item_id=event.item_id)]

    def speech_stopped(self, event: SpeechStopped) -> list[Output]:
        """Return speech_stopped; its time includes the silence that decided it."""
        kind, end_ms = "input_audio_buffer.speech_stopped", ms_from_samples(event.end)
        return [self._events(kind, audio_end_ms=end_ms, item_id=event.item_id)]

    def timed_out(self, event: InputTimedOut) -> list[Output]:
        """Return timeout_triggered; the silence is committed next, under the same id."""
        self._timed_out = event.item_id
        return [
            self._events(
                "input_audio_buffer.timeout_triggered",
                audio_start_ms=ms_from_samples(event.start),
                audio_end_ms=ms_from_samples(event.end),
                item_id=event.item_id,
            )
        ]

    def cleared(self) -> list[Output]:
        """Return input_audio_buffer.cleared; words told of what is dropped get no end."""
        self._forget_others("")
        return [self._events("input_audio_buffer.cleared")]

    def expect(self, item_id: str) -> None:
        """Note that an item's transcript will come."""
        self._owed.add(item_id)

    def committed(self, event: InputCommitted) -> list[Output]:
        """Add the user's item and return committed, item.added, item.done, all with the id of speech_started."""
        heard = HeardPart(duration=event.end - event.start, idle=event.item_id == self._timed_out)
        item = Message(event.item_id, "user", [heard])
        audio = self._recent.cut(event.start, event.end)
        if audio is not None:
            self._conversation.audio.append(item.id, audio)
        self.expect(item.id)
        previous = self._conversation.add_announced(item)
        return [
            self._events("input_audio_buffer.committed", previous_item_id=previous, item_id=item.id),
            self._events("conversation.item.added", previous_item_id=previous, item=item.to_wire()),
            self._events("conversation.item.done", previous_item_id=previous, item=item.to_wire()),
        ]

    def transcript_delta(self, event: InputTranscriptDelta, settings: SessionSettings) -> list[Output]:
        """Return more of a transcript, if the client asked for transcripts.

        It may be that of an utterance still going on: where the client ends turns by hand, nothing announced it.
        """
        if event.item_id not in self._owed:
            self._forget_others(event.item_id)
            self._conversation.announce(event.item_id)
        wanted = self._wanted_of(event.item_id, settings)
        if wanted is None or not event.delta:
            return []
        logprobs = _logprobs(event.logprobs, wanted)
        kind = f"{_TRANSCRIPTION}.delta"
        return [self._events(kind, item_id=event.item_id, content_index=0, delta=event.delta, **logprobs)]

    def transcript_completed(self, event: InputTranscriptCompleted, settings: SessionSettings) -> list[Output]:
        """Put the words into the conversation; tell them if the client asked for transcripts."""
        self._conversation.set_transcript(event.item_id, event.transcript)
        wanted = self._last_wanted_of(event.item_id, settings)
        if wanted is None:
            return []
        return [
            self._events(
                f"{_TRANSCRIPTION}.completed",
                item_id=event.item_id,
                content_index=0,
                transcript=event.transcript,
                usage=transcription_usage(wanted.model, event.transcript, event.duration),
                **_logprobs(event.logprobs, wanted),
            )
        ]

    def transcript_failed(self, event: InputTranscriptFailed, settings: SessionSettings) -> list[Output]:
        """Return the failure, if the client asked for transcripts. Absent keys stay absent: agents-js refuses null."""
        wanted = self._last_wanted_of(event.item_id, settings)
        if wanted is None:
            return []
        error = {"type": "server_error", "code": event.fault.code, "message": event.fault.message}
        return [self._events(f"{_TRANSCRIPTION}.failed", item_id=event.item_id, content_index=0, error=error)]

    def _last_wanted_of(self, item_id: str, settings: SessionSettings) -> _Wanted | None:
        wanted = self._wanted_of(item_id, settings)
        del self._wanted[item_id]
        self._owed.discard(item_id)
        return wanted

    def _forget_others(self, item_id: str) -> None:
        """Forget the utterances that will never be committed: only the last one, `item_id`, can still be."""
        self._wanted = {key: wanted for key, wanted in self._wanted.items() if key == item_id or key in self._owed}

    def _wanted_of(self, item_id: str, settings: SessionSettings) -> _Wanted | None:
        """Return what the client reads of an item's transcript, or None if transcripts are off.

        Decided once per item, so that its deltas add up to its transcript whatever is updated meanwhile (RB-30).
        """
        if item_id not in self._wanted:
            transcription = settings.transcription
            wanted = None if transcription is None else _Wanted(transcription["model"], settings.wants_logprobs)
            self._wanted[item_id] = wanted
        return self._wanted[item_id]


def _logprobs(tokens: tuple[TokenLogprob, ...] | None, wanted: _Wanted) -> dict[str, Any]:
    """Return the key `logprobs` if it was asked for and is known (Realtime GA: session.include)."""
    if tokens is None or not wanted.logprobs:
        return {}
    return {"logprobs": [{"token": t.token, "logprob": t.logprob, "bytes": list(t.utf8)} for t in tokens]}
