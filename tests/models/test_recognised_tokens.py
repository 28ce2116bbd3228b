import logging

import pytest

from models.engines.recognised_tokens import fitted, joined
from models.engines.spoken_languages import SpokenLanguages, primary_language
from models.interfaces import TokenLogprob


def token(text: str, logprob: float = -0.5) -> TokenLogprob:
    return TokenLogprob(text, logprob, text.encode())


def test_blanks_that_the_text_lacks_leave_its_tokens() -> None:
    tokens = fitted([" Hi", " ,", " you", " "], [-0.1, -0.2, -0.3, -0.4], "Hi, you")
    assert tokens == (token("Hi", -0.1), token(",", -0.2), token(" you", -0.3))


@pytest.mark.parametrize("text", ["Ho", "Hi, you two", "Hi"])
def test_tokens_of_another_text_are_none(text: str) -> None:
    assert fitted([" Hi", " you"], [-0.1, -0.2], text) is None


def test_pieces_are_joined_by_a_space_that_belongs_to_the_next_token() -> None:
    pieces = [(token("one"),), (), (token("two"), token(" three"))]
    assert [part.token for part in joined(pieces, " ")] == ["one", " two", " three"]
    assert [part.token for part in joined(pieces, "")] == ["one", "two", " three"]
    assert joined([(), (token("one"),)], " ") == (token("one"),)


@pytest.mark.parametrize(
    ("tag", "code"), [("pt-BR", "pt"), ("EN_us", "en"), (" zh-Hans-CN ", "zh"), ("", ""), (None, "")]
)
def test_the_language_of_a_tag_is_its_first_part(tag: str | None, code: str) -> None:
    assert primary_language(tag) == code


def test_a_language_has_the_engines_own_code_or_the_one_that_was_set() -> None:
    languages = SpokenLanguages("x", ("zh", "no", "en", "he"), own="nb-NO")
    assert [languages.chosen(tag) for tag in ("cmn", "iw", "EN-gb", "", None, "tlh")] == [
        "zh",
        "he",
        "en",
        "no",
        "no",
        "no",
    ]
    assert SpokenLanguages("x", None, own="tlh").chosen(None) == "tlh"  # nobody knows: the server will tell


def test_languages_asked_for_in_vain_are_told_of_once_and_not_without_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        languages = SpokenLanguages("Moonshine tiny-en", ("en",), own="fr")
        for number in range(100):
            languages.chosen(f"x{number}")
            languages.chosen("fr")
    assert len(caplog.records) == 32
    assert all(len(record.getMessage()) < 200 for record in caplog.records)
