import pytest

from models.extra_body import merged, parse_extra_body


def test_an_object_is_taken_as_it_is_and_nothing_stands_for_none() -> None:
    assert parse_extra_body('{"top_k": 20, "options": {"num_ctx": 8192}}') == {
        "top_k": 20,
        "options": {"num_ctx": 8192},
    }
    assert parse_extra_body("") == parse_extra_body(" \n") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{top_k: 20}", "not JSON at character 2"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "no JSON object"),
        ('"text"', "no JSON object"),
        ('{"stream": false}', "`stream`"),
        ('{"messages": []}', "`messages`"),
    ],
)
def test_what_is_none_is_refused_in_words_that_say_what_to_give(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_extra_body(text)


def test_objects_are_merged_in_turn_and_the_extra_wins() -> None:
    assert merged({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 3}, "e": [1]}) == {
        "a": 1,
        "b": {"c": 3, "d": 2},
        "e": [1],
    }
    assert merged({"a": {"b": 1}}, {"a": None}) == {"a": None}
