"""What a user hears of a session's responses, and when: one player at 1× without delay, one gate of audibility. Pure.

The definitions are those of the gateway's meter, from which clients, who speak only the wire, import nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from clients.realtime_connection import StampedEvent
from clients.timeline import AUDIO, DONE, REPLY, REPLY_DELTA, SPEECH_STARTED, audio_bytes
from clients.wav_audio import RATE_HZ

AUDIBLE_DBFS = -45.0
"""From this level on audio is heard: as the gateway's meter has it."""

WINDOW = RATE_HZ // 100
"""Of the level: 10 ms."""

WORD_GAP_S = 0.5
"""Quiet inside of speech: pauses between words are shorter (the meter's)."""

LONGEST_BACKCHANNEL_S = 1.0
"""A sound without words that is shorter than this takes no turn (the meter's)."""

_AUDIBLE_RMS = 32_768.0 * 10 ** (AUDIBLE_DBFS / 20)
_WORDS = (REPLY_DELTA, REPLY, "response.output_text.delta", "response.function_call_arguments.delta")
_OF_REPLIES = (AUDIO, DONE, *_WORDS)


@dataclass(slots=True)
class Sound:
    """An audible stretch of one delta, in the user's ear from `begins_s` to `ends_s`; it arrived at `came_s`."""

    begins_s: float
    ends_s: float
    came_s: float


@dataclass(slots=True)
class Reply:
    """A response: what is heard of it, and when the server said that it was over; None: never.

    `cuts_s`: when the player was emptied while it had yet to play some of its sound.
    """

    sounds: list[Sound] = field(default_factory=list)
    cuts_s: list[float] = field(default_factory=list)
    has_words: bool = False
    over_s: float | None = None
    status: str = ""
    length_s: float = 0.0
    audible_from_s: float | None = None
    audible_until_s: float = 0.0

    @property
    def begins_s(self) -> float:
        """Return when the first of it is heard; infinity if nothing is."""
        return self.sounds[0].begins_s if self.sounds else float("inf")

    @property
    def ends_s(self) -> float:
        """Return when the last of it is heard; 0 if nothing is."""
        return self.sounds[-1].ends_s if self.sounds else 0.0

    @property
    def may_be_backchannel(self) -> bool:
        """Return whether it is a nod if the server writes its words: short, and without any."""
        audible_s = self.audible_until_s - (self.audible_from_s or 0.0)
        return not self.has_words and self.status == "completed" and audible_s < LONGEST_BACKCHANNEL_S

    def speaks_at(self, when_s: float, known_s: float) -> bool:
        """Return whether it is heard at `when_s`, pauses between words included, by what had come until `known_s`."""
        begins_s = ends_s = -WORD_GAP_S
        for sound in self.sounds:
            if sound.came_s > known_s:
                break
            if sound.begins_s - ends_s >= WORD_GAP_S:
                begins_s = sound.begins_s
            ends_s = sound.ends_s
            if begins_s <= when_s < ends_s:
                return True
        return False


@dataclass(slots=True)
class Heard:
    """A session as it was heard, nods apart, which answer nothing and have no floor to yield.

    `emptied_s`: when `speech_started` took something from the player.
    """

    replies: list[Reply]
    emptied_s: list[float]


def heard_of(events: Iterable[StampedEvent]) -> Heard:
    """Return the audible replies in the order in which they are first heard, played as they came.

    `speech_started` empties the player, as clients do. Of a server that writes no words nothing is known to be a nod.
    """
    replies: dict[str, Reply] = {}
    emptied_s: list[float] = []
    player_end_s = 0.0
    for event in events:
        if event.type == SPEECH_STARTED and player_end_s > event.at_s:
            emptied_s.append(event.at_s)
            player_end_s = event.at_s
            for reply in replies.values():
                _cut(reply, event.at_s)
        if event.type not in _OF_REPLIES:
            continue
        response_id = event.details("response_id") or event.details("response", "id")
        reply = replies.setdefault(str(response_id), Reply())
        if event.type == AUDIO:
            start_s = max(event.at_s, player_end_s)
            player_end_s = start_s + _play(reply, audio_bytes(event), start_s, event.at_s)
        elif event.type == DONE:
            reply.over_s, reply.status = event.at_s, str(event.details("response", "status"))
        else:
            reply.has_words = reply.has_words or bool(event.details("delta") or event.details("transcript"))
    writes = any(reply.has_words for reply in replies.values())
    heard = [reply for reply in replies.values() if reply.sounds and not (writes and reply.may_be_backchannel)]
    return Heard(sorted(heard, key=lambda reply: reply.begins_s), emptied_s)


def _play(reply: Reply, pcm: bytes, start_s: float, came_s: float) -> float:
    """Play audio of a response from `start_s` on; return its length in seconds."""
    for first_s, last_s in _audible_spans(pcm):
        reply.sounds.append(Sound(start_s + first_s, start_s + last_s, came_s))
        if reply.audible_from_s is None:
            reply.audible_from_s = reply.length_s + first_s
        reply.audible_until_s = reply.length_s + last_s
    length_s = len(pcm) / 2 / RATE_HZ
    reply.length_s += length_s
    return length_s


def _cut(reply: Reply, when_s: float) -> None:
    if reply.ends_s <= when_s:
        return
    reply.cuts_s.append(when_s)
    reply.sounds = [sound for sound in reply.sounds if sound.begins_s < when_s]
    if reply.sounds:
        reply.sounds[-1].ends_s = min(reply.sounds[-1].ends_s, when_s)


def audible_after_s(event: StampedEvent) -> float | None:
    """Return where an audio delta becomes audible, in seconds from its beginning; None if it does not."""
    spans = _audible_spans(audio_bytes(event)) if event.type == AUDIO else []
    return spans[0][0] if spans else None


def _audible_spans(pcm: bytes) -> list[tuple[float, float]]:
    """Return where audio is audible, in seconds from its beginning, in whole windows, each stretch once."""
    whole = len(pcm) // 2 // WINDOW
    if not whole:
        return []
    windows = np.frombuffer(pcm[: 2 * whole * WINDOW], "<i2").astype(np.float64).reshape(whole, WINDOW)
    loud = np.sqrt((windows**2).mean(axis=1)) >= _AUDIBLE_RMS
    edges = np.flatnonzero(np.diff(np.concatenate(([False], loud, [False])).astype(np.int8)))
    return [(float(first) * WINDOW / RATE_HZ, float(last) * WINDOW / RATE_HZ) for first, last in edges.reshape(-1, 2)]
