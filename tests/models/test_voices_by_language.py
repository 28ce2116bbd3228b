"""Which voice speaks in which language where the client names none of the engine's own."""

from __future__ import annotations

import pytest

from models.engine_plan import TtsPlan
from models.engines import kokoro_phonemes
from models.engines.kokoro_voices import reading_letter
from models.engines.voice_map import VoiceMap
from models.tts_loading import kokoro_languages, kokoro_voice_map, server_voice_map
from models.weights_manifest import KOKORO_VOICE_NAMES


@pytest.fixture(autouse=True)
def all_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if what reads Japanese and Chinese were installed."""
    monkeypatch.setattr(kokoro_phonemes, "missing_extra", lambda _letter: "")


def kokoro(**plan: str) -> VoiceMap:
    return kokoro_voice_map(TtsPlan("kokoro", **plan), KOKORO_VOICE_NAMES)[1]


@pytest.mark.parametrize(
    ("language", "marin", "cedar"),
    [
        ("en", "af_heart", "am_michael"),
        ("fr", "ff_siwis", "ff_siwis"),
        ("es", "ef_dora", "em_alex"),
        ("it", "if_sara", "im_nicola"),
        ("pt", "pf_dora", "pm_alex"),
        ("de", "ff_siwis", "ff_siwis"),
        ("ja", "jf_alpha", "jm_kumo"),
        ("zh", "zf_xiaobei", "zm_yunjian"),
        ("sw", "af_heart", "am_michael"),
        ("", "af_heart", "am_michael"),
    ],
)
def test_openais_names_have_a_voice_in_each_language(language: str, marin: str, cedar: str) -> None:
    voices = kokoro()
    assert (voices.voice("marin", language), voices.voice("cedar", language)) == (marin, cedar)
    assert voices.voice("nobody", language) == marin


def test_a_voice_of_the_engines_own_is_kept_whatever_the_language() -> None:
    assert kokoro().voice("bm_george", "fr") == "bm_george"
    assert kokoro(voice="if_sara").voice("marin", "fr") == "if_sara"
    assert kokoro(language="es").voice("marin", "fr") == "ef_dora"


@pytest.mark.parametrize(
    ("voice", "language", "letter"),
    [("af_heart", "de", "a"), ("ff_siwis", "de", "d"), ("ff_siwis", "fr", "f"), ("ff_siwis", "", "f")],
)
def test_german_is_read_by_a_lent_voice(voice: str, language: str, letter: str) -> None:
    assert reading_letter(voice, language) == letter


def test_kokoro_tells_which_languages_it_reads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kokoro_languages(TtsPlan("kokoro"), None) == {"en", "de", "es", "fr", "hi", "it", "ja", "pt", "zh"}
    assert kokoro_languages(TtsPlan("kokoro", voice="if_sara"), None) == {"it"}
    assert kokoro_languages(TtsPlan("kokoro", language="fr"), "f") == {"fr"}
    monkeypatch.setattr(kokoro_phonemes, "missing_extra", lambda letter: "japanese" if letter == "j" else "")
    assert "ja" not in kokoro_languages(TtsPlan("kokoro"), None)
    assert kokoro().voice("marin", "ja") == "af_heart"


def test_a_server_that_lists_kokoros_voices_speaks_with_them() -> None:
    listed = tuple(KOKORO_VOICE_NAMES)
    voices = server_voice_map(TtsPlan("endpoint"), listed, "the server")
    assert voices.voice("marin", "ja") == "jf_alpha"
    assert voices.voice("marin", "de") == "af_heart"  # it would read German as French
    fixed = server_voice_map(TtsPlan("endpoint", language="fr"), listed, "the server")
    assert fixed.voice("marin", "ja") == "ff_siwis"
    others = server_voice_map(TtsPlan("endpoint"), ("anna", "bert"), "the server")
    assert others.voice("marin", "ja") == others.voice("marin")
