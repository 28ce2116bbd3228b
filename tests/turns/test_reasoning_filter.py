from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.turns.reasoning_filter import ReasoningFilter


def shown(*pieces: str) -> str:
    reasoning = ReasoningFilter()
    return "".join([reasoning.feed(piece) for piece in pieces] + [reasoning.finish()])


def test_rb36_tags_split_over_chunks_are_dropped_with_what_they_hold() -> None:
    assert shown("<th", "ink>I should be ru", "de</thi", "nk>Hello ", "there.") == "Hello there."


def test_rb36_an_unclosed_block_hides_everything_to_the_end() -> None:
    assert shown("<think>", "I wonder", " what </thin") == ""


@pytest.mark.parametrize("name", ["think", "thinking", "reasoning", "thought", "seed:think", "THINK", "Reasoning"])
def test_every_tag_name_hides_its_block_in_any_case(name: str) -> None:
    assert shown(*f"<{name}>no</{name}>yes") == "yes"


def test_text_before_and_after_a_block_is_preserved() -> None:
    assert shown("One <think>x</think> two\n\nthree ") == "One  two\n\nthree "


def test_white_space_around_a_block_at_the_start_is_dropped() -> None:
    assert shown("\n", "<think>\n\n</think>", "\n", "\n Hello") == "Hello"


def test_leading_white_space_without_a_block_is_kept() -> None:
    assert shown(" ", "\n Hello") == " \n Hello"
    assert shown(" ", "\n") == " \n"


def test_visible_text_is_returned_at_once_and_only_a_possible_tag_waits() -> None:
    reasoning = ReasoningFilter()
    assert reasoning.feed("Is 2 < 3? <") == "Is 2 < 3? "
    assert reasoning.feed("thin") == ""
    assert reasoning.feed("g>") == "<thing>"


def test_hiding_tells_whether_a_block_is_open() -> None:
    reasoning = ReasoningFilter()
    reasoning.feed("<think>hm")
    assert reasoning.hiding
    reasoning.feed("</think>")
    assert not reasoning.hiding


def test_what_looks_like_a_tag_at_the_end_is_text() -> None:
    assert shown("see <think") == "see <think"
    assert shown("<", "b>bold<", "/b> <thinker>") == "<b>bold</b> <thinker>"


def test_a_mentioned_opening_tag_inside_a_block_does_not_hide_the_answer() -> None:
    assert shown("<think>They ask about <think> tags.</think>Sure.") == "Sure."


def test_a_block_ends_only_at_its_own_name() -> None:
    assert shown("<reasoning>a <think>b</think> c</reasoning>Yes.") == "Yes."


def test_a_stray_closing_tag_is_dropped() -> None:
    assert shown("</think>\nHello </think>there") == "Hello there"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[THINK]no[/THINK]yes", "yes"),
        ("[think] is no tag, nor is [THIN]k", "[think] is no tag, nor is [THIN]k"),
        ("◁think▷no◁/think▷yes", "yes"),
        ("<|START_THINKING|>no<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", "yes"),
        ("<|channel|>analysis<|message|>no<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>", "yes"),
        ("<|channel|>analysis<|message|>no<|start|>assistant<|channel|>final<|message|>yes", "yes"),
        (
            "<|channel|>analysis<|message|>no<|channel|>commentary to=f <|constrain|>json<|message|>{}<|call|>",
            "",
        ),
        ("<|start|>assistant<|message|>yes<|end|>", "yes"),
        ("<|channel|>final<|message|>a <|b|> c", "a <|b|> c"),
        ("yes<|im_end|>", "yes"),
        ("yes<|eot_id|><|endoftext|>", "yes"),
        ("<|start|>assistant" + "x" * 90 + " analysis<|message|>yes", "yes"),
    ],
)
def test_other_marks_of_reasoning_and_special_tokens_are_dropped(text: str, said: str) -> None:
    assert shown(*text) == shown(text) == said


def test_a_letter_that_only_folds_to_a_tag_letter_is_text() -> None:
    assert shown(*"<thin\u212a>x") == "<thin\u212a>x"


FRAGMENTS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<thinking>",
        "</thinking>",
        "<reasoning>",
        "</reasoning>",
        "[THINK]",
        "[/THINK]",
        "<|channel|>",
        "<|start|>",
        "analysis",
        "<|message|>",
        "<|end|>",
        "<|im_end|>",
        "<",
        "think",
        ">",
        " ",
        "\n",
        "a",
    ]
)


@given(st.lists(FRAGMENTS, max_size=14), st.data())
def test_the_joined_output_does_not_depend_on_the_chunking(fragments: list[str], data: st.DataObject) -> None:
    text = "".join(fragments)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert shown(*pieces) == shown(text) == shown(*text)
