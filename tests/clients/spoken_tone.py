"""A voice for tests: each word is a tone of 300 ms, words are 40 ms apart, and commas wait 200 ms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RATE_HZ = 24_000
WORD = int(0.3 * RATE_HZ)
GAP = int(0.04 * RATE_HZ)
COMMA = int(0.2 * RATE_HZ)


class ToneWord(NamedTuple):
    text: str
    start: int
    end: int


class ToneSpeech(NamedTuple):
    pcm: bytes
    words: tuple[ToneWord, ...]


class ToneVoice:
    """Speaks at −6 dBFS peak, with a tail of silence that no word has."""

    def __init__(self, name: str = "tone") -> None:
        self.name = name

    def speak(self, text: str) -> ToneSpeech:
        words: list[ToneWord] = []
        at = 0
        for word in text.split():
            words.append(ToneWord(word, at, at + WORD))
            at += WORD + (COMMA if word.endswith(",") else GAP)
        audio = np.zeros(at + RATE_HZ)
        for word in words:
            audio[word.start : word.end] = 0.5 * np.sin(2 * np.pi * 200 / RATE_HZ * np.arange(WORD))
        return ToneSpeech((audio * 32_767).astype("<i2").tobytes(), tuple(words))
