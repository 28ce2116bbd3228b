"""Kokoro's voices: their languages, which of them stands for OpenAI's, and their style vectors."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engines.voice_map import openai_voices

GERMAN = "d"
"""Kokoro has no German voice and no letter for it; this one is ours. A French voice reads espeak-ng's German phonemes:
it sounds foreign, but Whisper base understands it (character error rate 6 and 8 % on two and three sentences; an
American voice had 22 %; 2026-11-30)."""

LANGUAGES = {
    "a": "en-US",
    "b": "en-GB",
    GERMAN: "de",
    "e": "es",
    "f": "fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-BR",
    "z": "zh",
}
"""First letter of a voice's name → BCP 47 tag. The second letter is f or m, for female and male. But for German."""

_BRITISH_REGIONS = frozenset({"GB", "UK", "IE", "AU", "NZ", "ZA", "IN"})
"""English that is nearer to the British voices' than to the American ones' (chosen)."""

_RANKED = {
    "a": ("af_heart af_bella af_kore af_sarah af_aoede", "am_michael am_fenrir am_puck bm_fable bm_george"),
    "b": ("bf_emma bf_isabella bf_lily bf_alice", "bm_fable bm_george bm_lewis bm_daniel"),
    GERMAN: ("ff_siwis", ""),
    "e": ("ef_dora", "em_alex em_santa"),
    "f": ("ff_siwis", ""),
    "h": ("hf_alpha hf_beta", "hm_omega hm_psi"),
    "i": ("if_sara", "im_nicola"),
    "j": ("jf_alpha jf_gongitsune jf_tebukuro jf_nezumi", "jm_kumo"),
    "p": ("pf_dora", "pm_alex pm_santa"),
    "z": ("zf_xiaobei zf_xiaoni zf_xiaoxiao zf_xiaoyi", "zm_yunjian zm_yunxi zm_yunxia zm_yunyang"),
}
"""Female and male voices of each language, the best first by the grades that Kokoro's authors give (kokoro-js 1.2.1
lists the English ones: heart A, bella A−, emma B−; kore, sarah, aoede, michael, fenrir, puck C+; fable, george C).
American has three good male voices, so two British ones complete five. Ungraded ones stand as their authors list them.
"""

STYLE_SIZE = 256
"""Numbers in a style vector; a voice has one for each number of phonemes."""


def language_letter(tag: str) -> str | None:
    """Return the letter of a BCP 47 tag's language, None if Kokoro doesn't speak it."""
    primary, *rest = tag.replace("_", "-").split("-")
    if primary.lower() == "en":
        return "b" if any(part.upper() in _BRITISH_REGIONS for part in rest) else "a"
    primary = {"cmn": "zh"}.get(primary.lower(), primary.lower())
    return next((letter for letter, tag in LANGUAGES.items() if tag.split("-")[0] == primary), None)


def standing_voices(letter: str, present: Collection[str]) -> dict[str, str]:
    """Return which of the `present` voices stands for each of OpenAI's in a language; {} if it has none."""
    female, male = ([name for name in names.split() if name in present] for names in _RANKED[letter])
    if not (female or male):
        female, male = (sorted(name for name in present if name.startswith(f"{letter}{sex}_")) for sex in "fm")
    return openai_voices(female, male)


def reading_letter(voice: str, language: str) -> str:
    """Return the letter of the language that `voice` reads a text of `language` as: its own, or German, if it lends."""
    lends = voice in _RANKED[GERMAN][0].split() and language_letter(language) == GERMAN
    return GERMAN if lends else voice[:1]


class KokoroVoices:
    """Style vectors of all voices; raw files are read when they are used."""

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        """Open a file of `names`' float32 vectors one after the other, an .npz (any ending), or a folder of .bin files.

        Raises ValueError if it is none, OSError.
        """
        self._arrays: Any
        if path.is_dir():
            self._arrays = {file.stem: np.memmap(file, "<f4", "r") for file in sorted(path.glob("*.bin"))}
        elif names:
            self._arrays = dict(zip(names, np.memmap(path, "<f4", "r").reshape(len(names), -1), strict=True))
        elif zipfile.is_zipfile(path):
            with np.load(path) as voices:  # all at once, 28 MB: an open archive is not for several threads
                self._arrays = dict(voices)
        else:
            raise ValueError("this is no file of Kokoro's voices")
        if not self._arrays:
            raise ValueError("this folder has no voice in it")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the voices' names."""
        return tuple(self._arrays)

    def style(self, name: str, phonemes: int) -> NDArray[np.float32]:
        """Return the style vector (float32 [1, 256]) of a voice for a text of so many phonemes, at least one."""
        rows: NDArray[np.float32] = np.asarray(self._arrays[name], np.float32).reshape(-1, STYLE_SIZE)
        style: NDArray[np.float32] = rows[min(phonemes, len(rows)) - 1][None]
        return style
