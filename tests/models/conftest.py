"""Speech clips, the weights store and shared engines for the tests with real models."""

import re
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from models.interfaces import SpeechPiece
from models.resampling import pcm24k_from_float
from models.weights import WeightsStore

SPEECH = Path(__file__).parent.parent / "data" / "speech"

REFERENCES = {
    "librivox_0870": "and mister john dashwood had then leisure to consider how much there might be prudently in his "
    "power to do for them",
    "librivox_0880": "he was not an ill disposed young man",
    "librivox_0890": "unless to be rather cold hearted and rather selfish is to be ill disposed",
    "librivox_0920": "had he married a more amiable woman he might have been made still more respectable than he was",
    "librivox_0930": "he might even have been made amiable himself",
    "cards_001": "ten of clubs",
    "cards_002": "four queen of clubs",
    "cards_003": "seven of clubs",
    "cards_004": "five five",
    "cards_005": "eight of spades four of clubs seven of hearts",
    "goforward": "go forward ten meters",
    "something": "go somewhere and do something",
}

_SPELLINGS = {"mr": "mister", "dr": "doctor", "favorite": "favourite", "color": "colour", "im": "i am", "okay": "ok"}
_NUMBERS = {"9": "nine", "10": "ten", "20": "twenty", "30": "thirty", "3": "three", "4": "four", "7": "seven"}


def clip(name: str) -> bytes:
    """Return a speech clip as the engines' border has it: PCM16 at 24 kHz."""
    return wav_clip(SPEECH / f"{name}.wav")


def wav_clip(path: Path) -> bytes:
    """Return a file of 16 kHz as the engines' border has it."""
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return pcm24k_from_float(samples / 32_768, 16_000)


def plain_words(text: str) -> str:
    """Return `text` as word error rates compare it: lower case, no punctuation, one spelling, numbers as words."""
    text = re.sub(r"[^a-z0-9 ]", "", text.lower().replace("-", " "))
    words = (_SPELLINGS.get(word, _NUMBERS.get(word, word)) for word in text.split())
    return " ".join(words)


@pytest.fixture(scope="session")
def store() -> WeightsStore:
    """Return the user's own store: weights are fetched at most once on a machine."""
    return WeightsStore()


async def collect(pieces: AsyncIterator[SpeechPiece]) -> bytes:
    """Return all of a synthesizer's audio."""
    return b"".join([piece.pcm async for piece in pieces])
