"""How well a judge tells finished utterances from unfinished ones: balanced accuracy, AUC, recall of WAIT."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models.interfaces import Judgement
from tests.models.eot_texts import PREFIXES, Text

Z_95 = 1.96


@dataclass(frozen=True)
class Figures:
    """Counts and rates of one judge on one group. No opinion counts as "goes on": the floor stays with the user.

    A text of label `wait` asked for time: whoever says it is over is wrong, but only `waits` counts that.
    """

    complete: int
    complete_right: int
    incomplete: int
    incomplete_right: int
    wait: int
    wait_right: int
    auc: float

    @property
    def balanced(self) -> float:
        """Mean of the rates right among complete and incomplete texts."""
        return (self.complete_right / self.complete + self.incomplete_right / self.incomplete) / 2

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of `balanced`: the two rates' Wilson intervals, their half-widths added in quadrature."""
        sides = [wilson(self.complete_right, self.complete), wilson(self.incomplete_right, self.incomplete)]
        centre = sum(low + high for low, high in sides) / 4
        half_width = math.hypot(*((high - low) / 2 for low, high in sides)) / 2
        return centre - half_width, centre + half_width


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a rate."""
    if count == 0:
        return 0.0, 1.0
    rate, spread = right / count, Z_95**2 / count
    centre = (rate + spread / 2) / (1 + spread)
    half_width = Z_95 * math.sqrt(rate * (1 - rate) / count + spread / count / 4) / (1 + spread)
    return centre - half_width, centre + half_width


def figures(texts: Sequence[Text], judgements: Sequence[Judgement], threshold: float = 0.5) -> Figures:
    """Return the figures of `judgements`, one for each of `texts`; complete is `threshold` or more."""
    scores: dict[str, list[float]] = {"complete": [], "incomplete": [], "wait": []}
    waits = 0
    for text, judgement in zip(texts, judgements, strict=True):
        scores[text.label].append(0.0 if judgement.complete is None else judgement.complete)
        waits += text.label == "wait" and judgement.wait
    return Figures(
        complete=len(scores["complete"]),
        complete_right=sum(score >= threshold for score in scores["complete"]),
        incomplete=len(scores["incomplete"]),
        incomplete_right=sum(score < threshold for score in scores["incomplete"]),
        wait=len(scores["wait"]),
        wait_right=waits,
        auc=auc(scores["complete"], scores["incomplete"]),
    )


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return how often one of `higher` exceeds one of `lower`; ties count half."""
    won = sum((one > other) + (one == other) / 2 for one in higher for other in lower)
    return won / (len(higher) * len(lower))


def rows_of(texts: Sequence[Text], group: str) -> list[int]:
    """Return the places of a group's texts. Beginnings stand beside all complete English texts that were cut."""
    if group != PREFIXES:
        return [place for place, text in enumerate(texts) if text.group == group]
    return [
        place
        for place, text in enumerate(texts)
        if text.group == PREFIXES
        or (text.label == "complete" and text.language == "en" and len(text.text.split()) >= 5)
    ]
