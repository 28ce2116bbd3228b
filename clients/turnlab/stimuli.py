"""Utterances as a microphone hears them, with the truth known to the sample: where speech ends, and where it pauses.

A pause is cut into the audio of the whole utterance, at the end of a word that the voice itself reports; what follows
the pause is that audio's own continuation. So the speech before it has no final fall that a fragment spoken by itself
would have. In half of the paused utterances the last word before each pause is 1.2 to 1.5 times as long, as people
lengthen it; in the other half the cut is all there is.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from clients.turnlab.texts import Card, digest_of, is_function_word
from clients.turnlab.time_stretch import stretched
from protocol.audio_time import Samples, samples_from_ms

PAUSE_STRATA_MS = ((200, 300), (300, 600), (600, 1000), (1000, 1600), (1600, 3000))
"""Bounds of the pauses put into sentences: the same number from each, evenly spread inside."""

PAUSE_WEIGHTS = (0.444, 0.339, 0.117, 0.050, 0.050)
"""How frequent such pauses are among those of at least 200 ms in real calls to agents: from the silence-only row of
eot-bench's English table (longer than 300 ms: 55.6 %, 600: 21.7 %, 1000: 10 %, 1600: 5 %)."""

GROUP_GAP_MS = (250, 900)
"""Gaps between groups of digits and of letters (turn-taking.md §5.2)."""

LENGTHENING = (1.2, 1.5)
LEVELS_DBFS = (-20.0, -32.0)
"""RMS of the speech: near a microphone, and away from it."""

NOISE_DBFS = -62.0
"""RMS of the white noise under everything: a quiet room (chosen)."""

AUDIBLE_DB = -35.0
"""What is this far below the loudest 10 ms of the utterance is no speech any more: the voices' durations include the
silence that they fade into. (−35 dB under a peak of about −12 dBFS is where the noise of a room begins.)"""

LEAD: Samples = samples_from_ms(400)
_FADE = samples_from_ms(8)
_STEP = samples_from_ms(10)
_FULL_SCALE = 32_768.0
_GROUPED = ("number", "spelling")


class WordTime(Protocol):
    """One word, or a few that the voice runs together: samples [start, end) at 24 kHz."""

    @property
    def text(self) -> str:
        """Return the word as written."""
        ...

    @property
    def start(self) -> int:
        """Return its first sample."""
        ...

    @property
    def end(self) -> int:
        """Return the sample after its last."""
        ...


class Speech(Protocol):
    """Speech and its words."""

    @property
    def pcm(self) -> bytes:
        """Return the audio, PCM16 at 24 kHz."""
        ...

    @property
    def words(self) -> Sequence[WordTime]:
        """Return the words in order."""
        ...


class Voice(Protocol):
    """A voice that tells when it says its words."""

    @property
    def name(self) -> str:
        """Return a short name for tables."""
        ...

    def speak(self, text: str) -> Speech:
        """Return `text` spoken, the same every time."""
        ...


class Pause(NamedTuple):
    """Silence inside an utterance: from the last sample of speech before it to the first after it.

    `kind`: what it follows: `function` or `content` word, or the kind of the card where that says where people pause.
    `stratum`: the index of its length in PAUSE_STRATA_MS, or None where its length was chosen otherwise.
    """

    start: Samples
    end: Samples
    kind: str
    stratum: int | None


@dataclass(frozen=True, slots=True)
class Stimulus:
    """What one session hears. After `pcm` comes nothing but more noise (`noise`)."""

    key: str
    card: Card
    voice: str
    level_dbfs: float
    lengthened: bool
    pcm: bytes
    speech_end: Samples
    pauses: tuple[Pause, ...]

    def noise(self, samples: Samples) -> bytes:
        """Return more of the noise that lies under the utterance."""
        return _pcm(_noise(samples, self.key + " tail"))


def stimuli_of(cards: Sequence[Card], voices: Sequence[Voice], *, only_whole: bool = False) -> list[Stimulus]:
    """Return each card whole and paused in each voice, where a pause is possible. Same arguments, same samples.

    Levels, lengthening and lengths of pauses are dealt out in turn to the cards in the order of their hashes.
    """
    found = []
    places: dict[str, int] = {}
    for rank, card in enumerate(sorted(cards, key=lambda card: digest_of(card.text))):
        for number, voice in enumerate(voices):
            speech = voice.speak(card.text)
            level = LEVELS_DBFS[(rank + number) % 2]
            lengthened = (rank // 2 + number) % 2 == 0
            key = f"{digest_of(card.text).hex()[:8]} {voice.name}"
            found.append(_whole(card, voice.name, speech, level, key))
            if only_whole or card.kind == "answer":
                continue
            chance = random.Random(key)
            cuts = _cuts(card, speech, chance, want_function=(rank + number) % 4 < 2)
            if cuts:
                dealt = places.get(voice.name, 0)
                places[voice.name] = dealt + 1
                lengths = _dealt_lengths(card, len(cuts), dealt + 2 * number, chance)
                found.append(_paused(card, voice.name, speech, level, key, cuts, lengthened, chance, lengths))
    return found


def paused_at_marks(card: Card, voice: Voice, pauses_ms: Sequence[int], level_dbfs: float = LEVELS_DBFS[0]) -> Stimulus:
    """Return the card with pauses of these lengths at its marks, its words as they are spoken in one go.

    Raises ValueError where the voice runs the words around a mark together, or for another number of pauses.
    """
    speech = voice.speak(card.text)
    cuts = _cuts(card, speech, random.Random(0), want_function=True)
    if not len(cuts) == len(card.pauses) == len(pauses_ms):
        raise ValueError(f"{len(pauses_ms)} pauses don't fit the marks of {card.text!r}")
    lengths = [_Length(samples_from_ms(pause_ms), None) for pause_ms in pauses_ms]
    return _paused(card, voice.name, speech, level_dbfs, card.text, cuts, False, random.Random(0), lengths)


class _Length(NamedTuple):
    samples: Samples
    stratum: int | None


def _dealt_lengths(card: Card, count: int, dealt: int, chance: random.Random) -> list[_Length]:
    """Return the lengths of a card's pauses: gaps between groups, else from one stratum after the other."""
    strata = [None if card.kind in _GROUPED else (dealt + number) % len(PAUSE_STRATA_MS) for number in range(count)]
    bounds = [GROUP_GAP_MS if stratum is None else PAUSE_STRATA_MS[stratum] for stratum in strata]
    return [
        _Length(samples_from_ms(round(chance.uniform(*bound))), stratum)
        for bound, stratum in zip(bounds, strata, strict=True)
    ]


class _Cut(NamedTuple):
    word: WordTime
    next_word: WordTime
    kind: str


def _cuts(card: Card, speech: Speech, chance: random.Random, *, want_function: bool) -> list[_Cut]:
    """Return where the card's speaker pauses: at its marks, else in mid-sentence after a word of the wanted class."""
    ends: dict[int, int] = {}
    said = 0
    for index, word in enumerate(speech.words[:-1]):
        said += len(word.text.split())
        ends[said] = index
    if card.pauses:
        return [_cut(speech, ends[count], card.kind) for count in card.pauses if count in ends]
    total = len(card.text.split())
    inside = [
        index
        for count, index in ends.items()
        if 2 <= count <= total - 2 and not speech.words[index].text.rstrip('"').endswith((".", "?", "!", ","))
    ]
    if not inside:
        return []
    wanted = [index for index in inside if is_function_word(speech.words[index].text) == want_function] or inside
    index = chance.choice(wanted)
    return [_cut(speech, index, "function" if is_function_word(speech.words[index].text) else "content")]


def _cut(speech: Speech, index: int, kind: str) -> _Cut:
    return _Cut(speech.words[index], speech.words[index + 1], kind)


def _whole(card: Card, voice: str, speech: Speech, level_dbfs: float, key: str) -> Stimulus:
    audio = _levelled(speech, level_dbfs)
    end = _audible_end(audio, len(audio), audio)
    return _mixed(key + " whole", card, voice, level_dbfs, False, audio[:end], end, ())


def _paused(
    card: Card,
    voice: str,
    speech: Speech,
    level_dbfs: float,
    key: str,
    cuts: list[_Cut],
    lengthened: bool,
    chance: random.Random,
    lengths: list[_Length],
) -> Stimulus:
    audio = _levelled(speech, level_dbfs)
    parts: list[NDArray[np.float64]] = []
    pauses: list[Pause] = []
    length = from_sample = 0
    for cut, (silence, stratum) in zip(cuts, lengths, strict=True):
        at, word_start = cut.word.end, max(cut.word.start, from_sample)
        word = audio[word_start:at]
        head = audio[from_sample:word_start]
        if lengthened:
            word = stretched(word, chance.uniform(*LENGTHENING))
        part = _faded(np.concatenate((head, word)))
        start = length + _audible_end(part, part.size, audio)
        # What the voice leaves between the words is part of the pause.
        from_sample = min(_audible_start(audio, at), cut.next_word.end)
        parts += [part[: start - length], np.zeros(silence)]
        length = start + silence
        pauses.append(Pause(LEAD + start, LEAD + length, cut.kind, stratum))
    rest = audio[from_sample:]
    end = _audible_end(rest, rest.size, audio)
    speech_end = length + end
    whole = np.concatenate((*parts, _risen(rest[:end])))
    return _mixed(key + " paused", card, voice, level_dbfs, lengthened, whole, speech_end, tuple(pauses))


def _mixed(
    key: str,
    card: Card,
    voice: str,
    level_dbfs: float,
    lengthened: bool,
    audio: NDArray[np.float64],
    speech_end: Samples,
    pauses: tuple[Pause, ...],
) -> Stimulus:
    mixed = np.concatenate((np.zeros(LEAD), audio))
    mixed += _noise(mixed.size, key)
    return Stimulus(key, card, voice, level_dbfs, lengthened, _pcm(mixed), LEAD + speech_end, pauses)


def _levelled(speech: Speech, level_dbfs: float) -> NDArray[np.float64]:
    """Return the speech from its first word on, at the RMS level that is wanted while words are said."""
    audio = np.frombuffer(speech.pcm, "<i2") / _FULL_SCALE
    spoken = np.concatenate([audio[word.start : word.end] for word in speech.words])
    rms = float(np.sqrt(np.mean(spoken**2)))
    scaled: NDArray[np.float64] = audio * (10 ** (level_dbfs / 20) / rms)
    return scaled


def _levels(audio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the RMS of each whole 10 ms."""
    whole = audio[: audio.size // _STEP * _STEP].reshape(-1, _STEP)
    levels: NDArray[np.float64] = np.sqrt(np.mean(whole**2, axis=1))
    return levels


def _audible_end(part: NDArray[np.float64], until: int, whole: NDArray[np.float64]) -> int:
    """Return the end of the last 10 ms of `part` before `until` that is audible beside the loudest of `whole`."""
    loud = np.flatnonzero(_levels(part[:until]) > _levels(whole).max() * 10 ** (AUDIBLE_DB / 20))
    return int(loud[-1] + 1) * _STEP if loud.size else until


def _audible_start(audio: NDArray[np.float64], at: int) -> int:
    """Return the start of the first audible 10 ms from `at` on."""
    loud = np.flatnonzero(_levels(audio[at:]) > _levels(audio).max() * 10 ** (AUDIBLE_DB / 20))
    return at + int(loud[0]) * _STEP if loud.size else at


def _faded(audio: NDArray[np.float64]) -> NDArray[np.float64]:
    faded = audio.copy()
    faded[-_FADE:] *= np.linspace(1.0, 0.0, min(_FADE, faded.size))
    return faded


def _risen(audio: NDArray[np.float64]) -> NDArray[np.float64]:
    return _faded(audio[::-1])[::-1]


def _noise(samples: int, seed: str) -> NDArray[np.float64]:
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")
    noise: NDArray[np.float64] = np.random.default_rng(number).standard_normal(samples) * 10 ** (NOISE_DBFS / 20)
    return noise


def _pcm(audio: NDArray[np.float64]) -> bytes:
    return (np.clip(audio, -1.0, 1.0 - 1 / _FULL_SCALE) * _FULL_SCALE).round().astype("<i2").tobytes()
