"""Other settings for a replay: `--set silence_duration_ms=700`, by the names that the wire and the settings use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gateway.settings import YES_AND_NO
from gateway.turns.settings import BargeIn, Detection, Eagerness, TurnSettings
from protocol.audio_time import samples_from_ms


class WrongChange(Exception):
    """A `--set` that means nothing. The text is one sentence that says what to do."""


def _yes_or_no(word: str) -> bool:
    return YES_AND_NO[word.lower()]


def _probability(word: str) -> float:
    probability = float(word)
    if not 0 <= probability <= 1:  # nan is neither
        raise ValueError(word)
    return probability


def _ms(word: str) -> int:
    length_ms = int(word)
    if length_ms < 0:
        raise ValueError(word)
    return samples_from_ms(length_ms)


def _ms_or_none(word: str) -> int | None:
    return None if word == "none" else _ms(word)


def _eagerness(word: str) -> Eagerness | None:
    return None if word == "none" else Eagerness(word)


def _names(word: str) -> frozenset[str]:
    return frozenset(filter(None, word.split(",")))


_OF_DETECTION: Mapping[str, tuple[str, Callable[[str], Any], str]] = {
    "threshold": ("threshold", _probability, "a number from 0 to 1"),
    "prefix_padding_ms": ("prefix_padding", _ms, "milliseconds"),
    "silence_duration_ms": ("silence_duration", _ms, "milliseconds"),
    "create_response": ("create_response", _yes_or_no, "true or false"),
    "interrupt_response": ("interrupt_response", _yes_or_no, "true or false"),
    "idle_timeout_ms": ("idle_timeout", _ms_or_none, "milliseconds or none"),
    "eagerness": ("semantic", _eagerness, "low, medium, high or none (server_vad)"),
    "barge_in": ("barge_in", BargeIn, "judged, immediate or off"),
}
_OF_SESSION: Mapping[str, tuple[str, Callable[[str], Any], str]] = {
    "playout_delay_ms": ("playout_delay", _ms, "milliseconds"),
    "speculation": ("speculation", _yes_or_no, "true or false"),
    "judges": ("judges", _names, "names with commas between them"),
}
NAMES = (*_OF_DETECTION, *_OF_SESSION)
"""What can be set."""


class Changes:
    """Changes to all settings of a recording."""

    def __init__(self, words: Mapping[str, str]) -> None:
        """Read `NAME: VALUE` pairs. Raises WrongChange."""
        self._detection: dict[str, Any] = {}
        self._session: dict[str, Any] = {}
        for name, word in words.items():
            for table, changes in ((_OF_DETECTION, self._detection), (_OF_SESSION, self._session)):
                if name in table:
                    field, read, expected = table[name]
                    try:
                        changes[field] = read(word)
                    except (ValueError, KeyError):
                        raise WrongChange(f"--set {name}={word}: give {expected}.") from None
                    break
            else:
                raise WrongChange(f"--set {name}: not a setting of turn-taking; there are {', '.join(NAMES)}.")

    def __bool__(self) -> bool:
        """Say whether there are any."""
        return bool(self._detection or self._session)

    def applied(self, settings: TurnSettings) -> TurnSettings:
        """Return `settings` with the changes; where the client ended turns by hand, it still does."""
        detection = settings.detection
        if isinstance(detection, Detection):
            detection = replace(detection, **self._detection)
        return replace(settings, detection=detection, **self._session)
