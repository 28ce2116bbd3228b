"""The clips of real people and what they say (tests/data/README.md)."""

from __future__ import annotations

from pathlib import Path

from clients.wav_audio import Clip, read_clip

FOLDER = Path(__file__).parent.parent / "data" / "speech"

REFERENCES = {
    "librivox_0870": "and mister john dashwood had then leisure to consider how much there might be prudently in his "
    "power to do for them",
    "librivox_0880": "he was not an ill disposed young man",
    "librivox_0890": "unless to be rather cold hearted and rather selfish is to be ill disposed",
    "librivox_0920": "had he married a more amiable woman he might have been made still more respectable than he was",
    "librivox_0930": "he might even have been made amiable himself",
    "cards_001": "ten of clubs",
    "cards_003": "seven of clubs",
    "cards_005": "eight of spades four of clubs seven of hearts",
    "goforward": "go forward ten meters",
    "something": "go somewhere and do something",
}
"""All clips whose words are known and that hold no false start."""


def clip(name: str) -> Clip:
    """Return a clip, trimmed to its speech."""
    return read_clip(FOLDER / f"{name}.wav").trimmed()
