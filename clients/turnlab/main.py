"""`duplex-gateway turnlab endpointing`: the endpointing table on the audio that TurnLab makes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from clients.turnlab.endpointing import POLICIES, report, row, run_policy, table
from clients.turnlab.frontier import picture
from clients.turnlab.presenting import Presented
from clients.turnlab.stimuli import Voice, stimuli_of
from clients.turnlab.target import OpenTarget
from clients.turnlab.texts import Half, all_cards, digest_of


@dataclass(frozen=True, slots=True)
class Measured:
    """The table as text, all outcomes as JSON, the frontier as SVG."""

    table: str
    report: str
    picture: str


async def endpointing(
    open_target: OpenTarget,
    voices: Sequence[Voice],
    *,
    half: Half,
    most: int | None = None,
    policies: Sequence[str] = tuple(POLICIES),
) -> Measured:
    """Measure `policies` on the texts of `half`, at most so many of them by their hashes. Progress goes to stderr."""
    cards = sorted((card for card in all_cards() if card.half == half), key=lambda card: digest_of(card.text))[:most]
    _tell(f"speaking {len(cards)} texts with {len(voices)} voices")
    stimuli = stimuli_of(cards, voices)
    presented: dict[str, list[Presented]] = {}
    for name in policies:
        presented[name] = await run_policy(name, POLICIES[name], stimuli, open_target, _tell)
    rows = [row(name, found) for name, found in presented.items()]
    title = f"synthetic speech, {half} half: {len(cards)} texts, {len(voices)} voices, {len(stimuli)} utterances"
    return Measured(f"{title}\n\n{table(rows)}", report(rows, presented), picture(rows, title))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
