"""What a client measures by itself, of servers that have no meter of ours: by arrival, with the network in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clients.microphone import Utterance
from clients.observed_figures import Figures
from clients.realtime_connection import StampedEvent
from clients.timeline import AUDIO, DONE, SPEECH_STARTED, audio_bytes
from clients.wav_audio import RATE_HZ

AUDIBLE_DBFS = -45.0
"""From this level on audio is heard: as the gateway's meter has it."""

WINDOW = RATE_HZ // 100
"""Of the level: 10 ms."""

_AUDIBLE_RMS = 32_768.0 * 10 ** (AUDIBLE_DBFS / 20)


def own_figures(
    events: Sequence[StampedEvent], turns: Sequence[Utterance], cut_ins: Sequence[Utterance], started_at_s: float
) -> Figures:
    """Return the figures of a conversation whose microphone was opened at `started_at_s`.

    Answers count from the last speech sample by level to the arrival of the first audible sample, 0 if it came before:
    breath and noise hold a level up when the last word is over. An answer begins after the utterance does and outlasts
    it; a nod doesn't. Cut-ins count from their first speech sample: to the end of the response (yield), and to
    `speech_started`, on which clients empty their player, or to the last audible sample, whichever comes first (stop).
    """
    figures = Figures("client")
    replies = _replies(events)
    for utterance in (*turns, *cut_ins):
        onset_s, end_s = (started_at_s + position / RATE_HZ for position in (utterance.onset, utterance.end))
        answer = next((reply for reply in replies if reply.begins_s >= onset_s and reply.ends_s > end_s), None)
        if answer is None:
            figures.unanswered += 1
        else:
            figures.answer_ms.append(round(max(0.0, answer.begins_s - end_s) * 1000, 1))
    for utterance in cut_ins:
        onset_s = started_at_s + utterance.onset / RATE_HZ
        ended = next((event for event in events if event.at_s > onset_s and event.type == DONE), None)
        if ended is None or ended.details("response", "status") != "cancelled":
            figures.ended += 1
            continue
        told = next((e.at_s for e in events if e.type == SPEECH_STARTED and onset_s < e.at_s), ended.at_s)
        figures.yield_ms.append(round((ended.at_s - onset_s) * 1000, 1))
        figures.stop_ms.append(round((min(told, ended.at_s) - onset_s) * 1000, 1))
    return figures


@dataclass(slots=True)
class _Reply:
    """When a response that was not cut is first heard, and when a player at 1× has played the last of it."""

    begins_s: float
    ends_s: float


def _replies(events: Sequence[StampedEvent]) -> list[_Reply]:
    """Return the audible responses in the order in which they are first heard."""
    replies: dict[Any, _Reply] = {}
    for event in events:
        if event.type != AUDIO:
            continue
        response_id, audible_s = event.details("response_id"), audible_after_s(event)
        if response_id not in replies and audible_s is not None and not _cut(event, events):
            replies[response_id] = _Reply(event.at_s + audible_s, event.at_s)
        if (reply := replies.get(response_id)) is not None:
            reply.ends_s = max(reply.ends_s, event.at_s) + len(audio_bytes(event)) / 2 / RATE_HZ
    return sorted(replies.values(), key=lambda reply: reply.begins_s)


def audible_after_s(event: StampedEvent) -> float | None:
    """Return where an audio delta becomes audible, in seconds from its beginning; None if it does not."""
    if event.type != AUDIO:
        return None
    samples = np.frombuffer(audio_bytes(event), "<i2").astype(np.float64)
    whole = len(samples) // WINDOW
    levels = np.sqrt((samples[: whole * WINDOW].reshape(whole, WINDOW) ** 2).mean(axis=1)) if whole else np.zeros(0)
    loud = np.flatnonzero(levels >= _AUDIBLE_RMS)
    return float(loud[0]) * WINDOW / RATE_HZ if len(loud) else None


def _cut(audio: StampedEvent, events: Sequence[StampedEvent]) -> bool:
    """Return whether the response of an audio delta was cut: then it is none of the answer."""
    response_id = audio.details("response_id")
    done = (event for event in events if event.type == DONE and event.details("response", "id") == response_id)
    return next((event.details("response", "status") == "cancelled" for event in done), False)
