"""How replies are cut for the voice, and what becomes of their abbreviations, in the languages that have rules."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.turns.language_breaks import breaks_of
from gateway.turns.speakable_chunks import Chunk, SpeakableChunks
from gateway.turns.spoken_text import spoken_text

LANGUAGES = ["en", "fr", "es", "it", "pt", "de", "ja", "zh", "da", "sw"]


def split(pieces: Iterable[str], language: str) -> list[Chunk]:
    splitter = SpeakableChunks(language)
    return [chunk for piece in pieces for chunk in splitter.feed(piece)] + splitter.finish()


def raw(text: str, language: str) -> list[str]:
    ends = [chunk.text_end for chunk in split(text, language)]
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


PIECES = [
    ("de", ["Wir treffen uns am 3. Mai, ", "am 4. und am 5. Mai. ", "Dann gehen wir z. B. ins Kino."]),
    ("de", ["Äpfel, Birnen usw. ", "Dann noch Nr. 5 und S. 7 von Prof. Dr. Lee. ", "Das war es auch schon."]),
    ("de", ["Das kostet 3,5 Cent oder 1.000,50 Euro. ", "Im Jahr 2024. ", "Ende gut, alles gut."]),
    ("da", ["Den 3. maj kommer vi hjem igen. ", "Så går vi en lang tur."]),
    ("fr", ["Bonjour tout le monde ! ", "Comment allez-vous ? ", "Très bien : voilà. ", "Merci à vous."]),
    ("fr", ["Il a dit « oui, ", "bien sûr ! » ", "Puis il est parti. ", "Il revient avec M. Dupont, p. ex. demain."]),
    ("fr", ["C'est une remise de 12 % pour vous, ", "n° 5, p. 7, etc. ", "Voilà le reste de l'histoire."]),
    ("fr", ["Oui bien sûr\u00a0! ", "Il y a 1\u202f000 personnes\u202f; ", "non\u202f?"]),
    ("es", ["¡Hola, buenos días! ", "¿Cómo está Ud. hoy? ", "El Sr. López vive en EE. UU. ", "Tiene 3,5 años."]),
    ("es", ["Mire el n.º 5 y la pág. 7, ", "p. ej. ésta. ", "¿Le parece bien?"]),
    ("it", ["Il Sig. Rossi parte alle 10. ", "Compra pane, latte, ecc. ", "Poi va a casa, p. es. in auto."]),
    ("pt", ["O Sr. Silva e a Dra. Lima, ", "p. ex. na pág. 5, pagam R$ 5,50. ", "Está bem assim?"]),
    ("zh", ["你好，我叫小明。", "价格是3.5元，", "可以吗？", "「好的。」", "那就这样。"]),
    ("ja", ["こんにちは、", "お元気ですか？", "「はい、", "元気です。」", "よかったです。"]),
]


@pytest.mark.parametrize(("language", "pieces"), PIECES)
def test_sentences_end_where_they_do_in_their_language(language: str, pieces: list[str]) -> None:
    cut, at = [], 0
    for piece in raw("".join(pieces), language):
        at += len(piece)
        cut.append(at)
    ends = [sum(map(len, pieces[: index + 1])) for index in range(len(pieces))]
    assert set(cut) <= set(ends)  # no cut elsewhere; short pieces may stay together
    assert cut[-1] == ends[-1]
    assert len(cut) > 1


def test_a_word_before_a_spaced_sign_is_no_place_to_cut_however_the_text_comes() -> None:
    text = "Un deux trois quatre cinq six sept huit ! Neuf dix onze ? Douze treize quatorze."
    for length in (1, 2, 3, 50):
        pieces = [text[at : at + length] for at in range(0, len(text), length)]
        said = [chunk.spoken for chunk in split(pieces, "fr")]
        assert said[0] == "Un deux trois quatre cinq six sept huit!"


def test_a_line_that_ends_behind_a_blank_ends_the_piece() -> None:
    assert raw("Voici la première ligne \net la seconde qui la suit", "fr") == [
        "Voici la première ligne \n",
        "et la seconde qui la suit",
    ]


def test_the_voice_is_not_cut_after_words_that_lean_on_the_next() -> None:
    for language, text in [
        ("fr", "un deux six dix un deux six la maison est"),
        ("de", "eins zwei drei vier fünf sechs acht der Hund bellt"),
        ("es", "uno dos tres seis uno dos tres la casa es"),
        ("it", "uno due tre sei uno due tre la casa è"),
        ("pt", "um dois três seis um dois três a casa é"),
    ]:
        assert len(raw(text, language)[0].split()) == 9, language


SAID = [
    ("de", "z. B. und z.B. am 3. Mai", "zum Beispiel und zum Beispiel am dritten Mai"),
    ("de", "Der 2. Weltkrieg, der 21. März, vom 7. Juni, 30. April", "Der zweite Weltkrieg, der einundzwanzigste März, "
     "vom siebten Juni, dreißigster April"),
    ("de", "am 12. Januar um 14.30 Uhr, 10:00 Uhr", "am zwölften Januar um 14 Uhr 30, 10 Uhr"),
    ("de", "€5 oder $7,50, 3-5 Tage, 5 km", "5 Euro oder 7,50 Dollar, 3 bis 5 Tage, 5 Kilometer"),
    ("de", "Punkt 3. Dann 5. Ende", "Punkt 3. Dann 5. Ende"),
    ("de", "Äpfel usw. Dann Birnen usw. und so", "Äpfel und so weiter. Dann Birnen und so weiter und so"),
    ("fr", "M. Dupont & Mme Lee, n° 5, etc.", "Monsieur Dupont et Mme Lee, numéro 5, et cetera."),
    ("es", "La Sra. López y/o Ud. en EE. UU.", "La señora López y o usted en Estados Unidos."),
    ("es", "1.º de mayo, n.º 5, 3 km", "primero de mayo, número 5, 3 kilómetros"),
    ("it", "il Sig. Rossi, l'1° maggio, ecc.", "il signor Rossi, l'primo maggio, eccetera."),
    ("pt", "o Sr. Silva paga R$ 5,50 e/ou US$ 3", "o senhor Silva paga 5,50 reais e ou 3 dólares"),
    ("ja", "価格は1,000円です。Dr. Lee", "価格は1,000円です。Dr. Lee"),
    ("zh", "价格是$5。", "价格是$5。"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "text", "said"), SAID)
def test_what_voices_read_wrong_is_put_into_words_of_its_language(language: str, text: str, said: str) -> None:
    assert spoken_text(text, language) == said


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_english_wording_touches_no_other_language(language: str) -> None:
    assert spoken_text("2 + 2 = 4, vs. 1/2, 10:45", language) == "2 + 2 = 4, vs. 1/2, 10:45"


def test_a_language_that_nobody_listed_has_titles_only() -> None:
    assert breaks_of("sw").is_abbreviation("Dr.")
    assert not breaks_of("sw").is_abbreviation("3.")
    assert breaks_of("hu").is_abbreviation("3.")


FRAGMENTS = st.sampled_from(
    "Bonjour « » ! ? : ; ¿Cómo ¡hola! z. B. usw. 3. Mai 12. am n° 5 p. ex. M. Sr. EE. UU. ecc. d. h. 3,5 % R$ 5 "
    "14.30 Uhr 你好 。 ， 「です」 ー etc. und de la Dr. ** ` [x](y) # > - \n 🎉 Straße … km/h y/o".split(" ")
)
TEXTS = st.lists(st.tuples(FRAGMENTS, st.sampled_from(["", " ", " ", "\u00a0", "\n"])), max_size=50).map(
    lambda parts: "".join(fragment + space for fragment, space in parts)
)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.sampled_from(LANGUAGES), st.data())
def test_pieces_partition_the_text_however_it_comes_in_any_language(
    text: str, language: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=30)))
    chunks = split([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)], language)
    assert chunks == split([text], language)
    ends = [chunk.text_end for chunk in chunks]
    assert ends == sorted(set(ends))
    assert (ends[-1] if ends else 0) == len(text)


WORDS = st.lists(st.from_regex(r"[b-z]{3,10}", fullmatch=True), min_size=1, max_size=80)
JOINTS = st.sampled_from(
    [" ", " ", ", ", ". ", " ! ", "\u00a0? ", " « ", " » ", "。", "、", " – ", "\n", "\n- ", " ; "]
)


@settings(max_examples=200, deadline=None)
@given(WORDS, st.sampled_from(LANGUAGES), st.data())
def test_no_word_is_lost_or_said_twice_in_any_language(words: list[str], language: str, data: st.DataObject) -> None:
    joints = data.draw(st.lists(JOINTS, min_size=len(words), max_size=len(words)))
    text = "".join(word + joint for word, joint in zip(words, joints, strict=True))
    if language != "en":  # whose "vs" and units are put into words; test_speakable_chunks has English
        assert re.findall(r"[a-z]+", " ".join(chunk.spoken for chunk in split(text, language))) == words
