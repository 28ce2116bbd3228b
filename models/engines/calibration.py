"""Turns a judge's raw score into a probability (Platt's scaling): σ(slope · logit(score) + offset).

The probabilities assume that complete and incomplete utterances are equally frequent; what a deployment's users do
belongs to the policy that weighs the judges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_LEAST = 1e-6
"""Scores are kept this far from 0 and 1: beyond it a score says no more than that the model is sure."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Platt's two numbers."""

    slope: float
    offset: float

    def probability(self, score: float) -> float:
        """Return the probability for a raw `score` (0…1; values outside, and NaN, are refused with ValueError)."""
        if not 0.0 <= score <= 1.0:
            raise ValueError("a score must lie within 0 and 1")
        return sigmoid(self.slope * logit(score) + self.offset)


def logit(probability: float) -> float:
    """Return the log odds of `probability`, which is kept off 0 and 1."""
    kept = min(1.0 - _LEAST, max(_LEAST, probability))
    return math.log(kept / (1.0 - kept))


def sigmoid(log_odds: float) -> float:
    """Return the probability of `log_odds`."""
    if log_odds >= 0.0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    growth = math.exp(log_odds)
    return growth / (1.0 + growth)
