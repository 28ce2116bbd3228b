import pytest

from models.engine_plan import TtsPlan
from models.engines.kokoro_voices import LANGUAGES, language_letter, standing_voices
from models.engines.voice_map import OPENAI_FEMALE, OPENAI_MALE, VoiceMap, check_voices
from models.interfaces import EngineError
from models.weights_manifest import KOKORO_VOICE_NAMES

TEN = {"alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar"}


def test_openais_ten_names_are_ten_voices_in_american_english() -> None:
    standing = standing_voices("a", KOKORO_VOICE_NAMES)
    assert set(standing) == TEN
    assert len(set(standing.values())) == 10
    assert standing["marin"] == "af_heart"
    assert all(standing[name][1] == "f" for name in OPENAI_FEMALE)
    assert all(standing[name][1] == "m" for name in OPENAI_MALE)


@pytest.mark.parametrize("letter", sorted(set(LANGUAGES) - {"a", "d"}))
def test_in_other_languages_they_are_its_own_voices_by_sex_where_both_are_there(letter: str) -> None:
    standing = standing_voices(letter, KOKORO_VOICE_NAMES)
    own = [name for name in KOKORO_VOICE_NAMES if name[0] == letter]
    assert set(standing) == TEN
    assert set(standing.values()) <= set(own)
    assert set(standing.values()) == set(own) or len(own) > 5
    for sex, names in (("f", OPENAI_FEMALE), ("m", OPENAI_MALE)):
        if any(name[1] == sex for name in own):
            assert {standing[name][1] for name in names} == {sex}


def test_german_is_spoken_by_a_lent_voice() -> None:
    assert set(standing_voices("d", KOKORO_VOICE_NAMES).values()) == {"ff_siwis"}


def test_voices_that_are_not_there_stand_for_nobody() -> None:
    standing = standing_voices("a", ["am_echo", "af_sky", "ff_siwis"])
    assert set(standing.values()) == {"am_echo", "af_sky"}
    assert standing_voices("a", ["amy", "bob"]) == {}


@pytest.mark.parametrize(
    ("tag", "letter"),
    [
        *((tag, letter) for letter, tag in LANGUAGES.items()),
        ("en", "a"),
        ("en-AU", "b"),
        ("EN_gb", "b"),
        ("fr-CA", "f"),
        ("pt", "p"),
        ("zh-Hant-TW", "z"),
        ("cmn", "z"),
        ("pl", None),
        ("", None),
    ],
)
def test_a_languages_tag_finds_its_letter(tag: str, letter: str | None) -> None:
    assert language_letter(tag) == letter


OWN = ("af_heart", "am_michael")
STANDING = {"marin": "af_heart", "cedar": "am_michael"}


@pytest.mark.parametrize(
    ("plan", "name", "voice"),
    [
        (TtsPlan(), "cedar", "am_michael"),
        (TtsPlan(), "am_michael", "am_michael"),
        (TtsPlan(), "whoever", "af_heart"),
        (TtsPlan(), "", "af_heart"),
        (TtsPlan(voice="am_michael"), "marin", "am_michael"),
        (TtsPlan(voice="am_michael"), "af_heart", "am_michael"),
        (TtsPlan(voices=(("marin", "am_michael"),)), "marin", "am_michael"),
        (TtsPlan(voices=(("marin", "am_michael"),)), "coral", "af_heart"),
        (TtsPlan(voice="am_michael", voices=(("marin", "af_heart"),)), "marin", "af_heart"),
        (TtsPlan(voice="am_michael", voices=(("marin", "af_heart"),)), "cedar", "am_michael"),
    ],
)
def test_single_names_win_over_the_voice_for_all_and_that_over_the_engines(
    plan: TtsPlan, name: str, voice: str
) -> None:
    assert VoiceMap(plan, own=OWN, standing=STANDING, default="af_heart").voice(name) == voice


def test_an_engine_that_only_knows_itself_gets_names_as_they_are() -> None:
    assert VoiceMap(TtsPlan(), own=None, standing={}).voice("marin") == "marin"


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (TtsPlan(voice="bob"), "TTS_VOICE names the voice 'bob', which Kokoro doesn't have: give one of af_heart, am_"),
        (TtsPlan(voices=(("marin", "bob"),)), "TTS_VOICES names the voice 'bob'"),
        (TtsPlan(voices=(("marin", ""),)), "TTS_VOICES names the voice ''"),
    ],
)
def test_a_voice_that_is_not_there_is_one_sentence(plan: TtsPlan, sentence: str) -> None:
    with pytest.raises(EngineError, match=sentence):
        check_voices(plan, OWN, "Kokoro")
    check_voices(TtsPlan(voice="af_heart", voices=(("bob", "am_michael"),)), OWN, "Kokoro")
