"""Presents a stimulus to a target and notes when it took the turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clients.turnlab.stimuli import Stimulus
from clients.turnlab.target import FEED_MS, StampedEvent, Target
from protocol.audio_time import Samples, bytes_from_samples, samples_from_ms, samples_from_s

PATIENCE: Samples = samples_from_s(10)
"""How long after the last word an answer is waited for: beyond the longest limit of `semantic_vad`, 8 s."""

FEED: Samples = samples_from_ms(FEED_MS)


@dataclass(frozen=True, slots=True)
class Presented:
    """What a target did with a stimulus. `taken_at`: when it began each response (`response.created`), in order."""

    stimulus: Stimulus
    taken_at: tuple[Samples, ...]


async def present(target: Target, stimulus: Stimulus, turn_detection: dict[str, Any]) -> Presented:
    """Let `target` hear the stimulus, and then noise until it answers or the patience is over."""
    audio_input = {"turn_detection": turn_detection}
    session = {"type": "realtime", "audio": {"input": audio_input}}
    events = list(await target.send({"type": "session.update", "session": session}))
    size = bytes_from_samples(FEED)
    longest = stimulus.speech_end + PATIENCE
    pcm = stimulus.pcm + stimulus.noise(longest + FEED - len(stimulus.pcm) // 2)
    for start in range(0, bytes_from_samples(longest), size):
        events += await target.feed(pcm[start : start + size])
        taken = _taken(events)
        if taken and taken[-1] > stimulus.speech_end:
            break
    return Presented(stimulus, tuple(_taken(events)))


def _taken(events: Sequence[StampedEvent]) -> list[Samples]:
    return [event.at for event in events if event.event["type"] == "response.created"]
