"""What happened in a session, in audio time: rows to read and latencies to compare. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clients.microphone import Utterance
from clients.realtime_connection import StampedEvent
from clients.wav_audio import BYTES_PER_MS, RATE_HZ

SPEECH_STARTED = "input_audio_buffer.speech_started"
SPEECH_STOPPED = "input_audio_buffer.speech_stopped"
TRANSCRIPT_DELTA = "conversation.item.input_audio_transcription.delta"
TRANSCRIPT = "conversation.item.input_audio_transcription.completed"
CREATED = "response.created"
DONE = "response.done"
AUDIO = "response.output_audio.delta"
REPLY_DELTA = "response.output_audio_transcript.delta"
REPLY = "response.output_audio_transcript.done"

_DETAIL_CHARS = 72
_QUIET_DELTAS = {AUDIO, REPLY_DELTA, TRANSCRIPT_DELTA, "response.output_text.delta"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the timeline; `audio_ms` counts from the microphone's first sample."""

    audio_ms: float
    event: str
    detail: str


@dataclass(frozen=True, slots=True)
class Latencies:
    """One turn's delays in ms; None where the event never came.

    The first two count from the first speech sample, the others from the last one, so an endpointing silence is inside.
    """

    speech_started: float | None
    first_partial: float | None
    speech_stopped: float | None
    transcript: float | None
    response_created: float | None
    first_reply_text: float | None
    first_audio: float | None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one utterance led to."""

    latencies: Latencies
    user_text: str
    reply_text: str
    response_id: str | None
    status: str | None


def audio_bytes(event: StampedEvent) -> bytes:
    """Return the sound of an audio delta."""
    return base64.b64decode(event.details("delta") or "")


def turns(events: Sequence[StampedEvent], utterances: Sequence[Utterance], started_at_s: float) -> list[Turn]:
    """Return one turn per utterance. An event belongs to the utterance during or after whose speech it came."""
    found = []
    for index, utterance in enumerate(utterances):
        begin_s = started_at_s + utterance.onset / RATE_HZ
        last = index + 1 == len(utterances)
        end_s = float("inf") if last else started_at_s + utterances[index + 1].onset / RATE_HZ
        # A response's late events count even if the next utterance has begun, so only its start must lie in the window.
        found.append(_turn(events, begin_s, started_at_s + utterance.end / RATE_HZ, end_s))
    return found


def _turn(events: Sequence[StampedEvent], onset_s: float, speech_end_s: float, window_end_s: float) -> Turn:
    window = [event for event in events if onset_s <= event.at_s < window_end_s]
    items = {event.details("item_id") for event in window if event.type == SPEECH_STARTED}
    stopped = _last(event for event in window if event.type == SPEECH_STOPPED)
    item = stopped.details("item_id") if stopped else None
    transcript = _first(event for event in events if event.type == TRANSCRIPT and event.details("item_id") == item)
    partial = _first(event for event in window if event.type == TRANSCRIPT_DELTA and event.details("item_id") in items)
    after_s = stopped.at_s if stopped else speech_end_s
    created = _first(event for event in window if event.type == CREATED and event.at_s >= after_s)
    response_id = created.details("response", "id") if created else None
    reply = [event for event in events if response_id and event.details("response_id") == response_id]
    done = _first(event for event in events if event.type == DONE and event.details("response", "id") == response_id)
    texts = [
        event.details("transcript") or ""
        for event in events
        if event.type == TRANSCRIPT and event.details("item_id") in items
    ]
    return Turn(
        Latencies(
            speech_started=_delay(_first(event for event in window if event.type == SPEECH_STARTED), onset_s),
            first_partial=_delay(partial, onset_s),
            speech_stopped=_delay(stopped, speech_end_s),
            transcript=_delay(transcript, speech_end_s),
            response_created=_delay(created, speech_end_s),
            first_reply_text=_delay(_first(event for event in reply if event.type == REPLY_DELTA), speech_end_s),
            first_audio=_delay(_first(event for event in reply if event.type == AUDIO), speech_end_s),
        ),
        user_text=" ".join(texts),
        reply_text=" ".join(event.details("transcript") or "" for event in reply if event.type == REPLY),
        response_id=response_id,
        status=done.details("response", "status") if done else None,
    )


def rows(events: Sequence[StampedEvent], utterances: Sequence[Utterance], started_at_s: float) -> list[Row]:
    """Return the session's events in order, deltas of an item as one row, and the speech sent as `(…)` rows."""
    found = [Row(utterance.onset_ms, "(speech begins)", utterance.clip.name) for utterance in utterances]
    found += [Row(utterance.end_ms, "(speech ends)", utterance.clip.name) for utterance in utterances]
    open_runs: dict[tuple[str, Any], list[StampedEvent]] = {}
    runs: list[list[StampedEvent]] = []
    for event in events:
        key = (event.type, event.details("item_id"))
        if event.type in _QUIET_DELTAS and key in open_runs:
            open_runs[key].append(event)
            continue
        runs.append([event])
        if event.type in _QUIET_DELTAS:
            open_runs[key] = runs[-1]
    found += [Row((run[0].at_s - started_at_s) * 1000, run[0].type, _detail(run)) for run in runs]
    return sorted(found, key=lambda row: row.audio_ms)


def _detail(run: Sequence[StampedEvent]) -> str:
    event = run[0]
    match event.type:
        case "response.output_audio.delta":
            length_ms = sum(len(audio_bytes(delta)) for delta in run) / BYTES_PER_MS
            detail = f"{len(run)} deltas, {length_ms / 1000:.2f} s"
        case _ if event.type in _QUIET_DELTAS:
            detail = _quoted("".join(delta.details("delta") or "" for delta in run))
        case "input_audio_buffer.speech_started":
            detail = f"audio_start_ms {event.details('audio_start_ms')}"
        case "input_audio_buffer.speech_stopped":
            detail = f"audio_end_ms {event.details('audio_end_ms')}"
        case "response.done":
            reason = event.details("response", "status_details", "reason")
            detail = str(event.details("response", "status")) + (f", {reason}" if reason else "")
        case "error":
            detail = f"{event.details('error', 'code')}: {event.details('error', 'message')}"
        case "conversation.item.truncated":
            detail = f"audio_end_ms {event.details('audio_end_ms')}"
        case _:
            text = event.details("transcript") or event.details("text")
            role = event.details("item", "role") or event.details("item", "type")
            detail = _quoted(text) if text else str(role or "")
    return detail if len(detail) <= _DETAIL_CHARS else detail[: _DETAIL_CHARS - 1] + "…"


def _quoted(text: str) -> str:
    return f"“{text}”"


def _first(events: Iterable[StampedEvent]) -> StampedEvent | None:
    return next(iter(events), None)


def _last(events: Iterable[StampedEvent]) -> StampedEvent | None:
    found = None
    for found in events:  # noqa: B007 - the last one is the result
        pass
    return found


def _delay(event: StampedEvent | None, since_s: float) -> float | None:
    return None if event is None else (event.at_s - since_s) * 1000
