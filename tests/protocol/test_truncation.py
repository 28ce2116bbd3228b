"""What of a long conversation the model is still told (Realtime GA: `truncation`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.backend_events import ContextRequested, EndStatus, ResponseEnded, ResponseStarted
from protocol.commands import ProvideContext, WithholdContext
from protocol.items import FunctionCall, FunctionCallOutput, HeardPart, ImagePart, Message, TextPart
from protocol.session_settings import SessionDefaults
from protocol.truncation import ContextTooLong, item_tokens, superfluous

WORDS_40_TOKENS = "word" * 36  # 36 tokens and 4 around them


def message(item_id: str, text: str = WORDS_40_TOKENS) -> Message:
    return Message(item_id, "user", [TextPart("input_text", text)])


def told(talk: Any) -> list[str]:
    """Start and end a response; return the texts that its model is told."""
    talk.backend(ContextRequested("resp_x"))
    context = talk.commands(ProvideContext)[-1].context
    return [part for entry in context.messages for part in entry["content"].split("\n")]


@pytest.fixture
def small(new_talk: Callable[..., Any]) -> Any:
    """A session whose model holds 100 tokens."""
    talk = new_talk(SessionDefaults(instructions="", context_tokens=100))
    talk.open()
    return talk


def test_the_oldest_items_leave_the_context_but_not_the_conversation(small: Any) -> None:
    for n in range(4):
        small.user_types(f"{n} {WORDS_40_TOKENS}"[:140], id=f"u{n}")
    assert [text[0] for text in told(small)] == ["2", "3"]
    assert len(small.session.conversation.items) == 4
    assert small.retrieved("u0")["content"][0]["text"].startswith("0")


def test_what_has_left_does_not_come_back(small: Any) -> None:
    for n in range(4):
        small.user_types(f"{n} {WORDS_40_TOKENS}"[:140], id=f"u{n}")
    told(small)
    small.send("conversation.item.delete", item_id="u3")
    assert [text[0] for text in told(small)] == ["2"]


def test_an_id_that_is_used_again_is_a_new_item(small: Any) -> None:
    for n in range(4):
        small.user_types(f"{n} {WORDS_40_TOKENS}"[:140], id=f"u{n}")
    told(small)
    small.send("conversation.item.delete", item_id="u0")
    small.user_types("again", id="u0")
    assert "again" in told(small)


def test_instructions_and_tools_take_room_too(small: Any) -> None:
    for n in range(2):
        small.user_types(f"{n} {WORDS_40_TOKENS}"[:140])
    assert len(told(small)) == 2
    small.update(instructions="word" * 30)
    assert [text[0] for text in told(small)][1:] == ["1"]


def test_with_truncation_disabled_the_response_fails_and_the_session_goes_on(small: Any) -> None:
    small.update(truncation="disabled")
    for _ in range(4):
        small.user_types(WORDS_40_TOKENS)
    small.backend(ResponseStarted("resp_x"), ContextRequested("resp_x"))
    (withheld,) = small.commands(WithholdContext)
    assert withheld.response_id == "resp_x"
    assert withheld.fault.code == "context_length_exceeded"
    assert "160" in withheld.fault.message
    done, _ = small.backend(ResponseEnded("resp_x", EndStatus.FAILED, fault=withheld.fault))
    assert done["response"]["status_details"]["error"]["code"] == "context_length_exceeded"
    small.update(truncation="auto")
    assert len(told(small)) == 2


def test_a_responses_own_input_is_never_cut(small: Any) -> None:
    content = [{"type": "input_text", "text": WORDS_40_TOKENS}]
    items = [{"type": "message", "role": "user", "content": content}] * 5
    small.send("response.create", response={"conversation": "none", "input": items})
    small.backend(ContextRequested("resp_1"))
    context = small.commands(ProvideContext)[-1].context
    assert context.messages[0]["content"].count(WORDS_40_TOKENS) == 5


@pytest.mark.parametrize(
    ("truncation", "leaving"),
    [
        ("auto", 1),
        ({"type": "retention_ratio", "retention_ratio": 0.5}, 4),
        ({"type": "retention_ratio", "retention_ratio": 1.0}, 1),
        ({"type": "retention_ratio", "retention_ratio": 0.8, "token_limits": {"post_instructions": 120}}, 5),
        ({"type": "retention_ratio", "retention_ratio": 0.8, "token_limits": {"post_instructions": 99_999}}, 3),
        ({"type": "retention_ratio", "retention_ratio": 0.0}, 6),
    ],
)
def test_how_much_leaves_follows_the_clients_settings(truncation: Any, leaving: int) -> None:
    items = [message(f"u{n}") for n in range(7)]
    assert superfluous(items, truncation, 240) == leaving


def test_nothing_leaves_while_all_fits() -> None:
    items = [message(f"u{n}") for n in range(6)]
    for truncation in ("auto", "disabled", {"type": "retention_ratio", "retention_ratio": 0.1}):
        assert superfluous(items, truncation, 240) == 0


@given(st.lists(st.integers(0, 400), max_size=20), st.integers(0, 2_000), st.floats(0, 1))
def test_what_stays_fits_or_is_the_newest_item_alone(lengths: list[int], room: int, ratio: float) -> None:
    items = [message(f"u{n}", "w" * length) for n, length in enumerate(lengths)]
    truncation = {"type": "retention_ratio", "retention_ratio": ratio}
    stays = items[superfluous(items, truncation, room) :]
    assert len(stays) <= 1 or sum(map(item_tokens, stays)) <= room
    if sum(map(item_tokens, items)) > room:
        with pytest.raises(ContextTooLong):
            superfluous(items, "disabled", room)


def test_every_kind_of_item_has_a_size() -> None:
    assert item_tokens(FunctionCall("f", "c", "get_time", '{"city":"Rome"}')) == 4 + 2 + 4
    assert item_tokens(FunctionCallOutput("o", "c", "noon")) == 4 + 1
    assert item_tokens(Message("u", "user", [HeardPart("what time is it")])) == 4 + 4
    assert item_tokens(Message("u", "user", [HeardPart(None)])) == 4
    low, full = ImagePart("data:", "low"), ImagePart("data:")
    assert item_tokens(Message("u", "user", [low])) < item_tokens(Message("u", "user", [full]))
    assert item_tokens(message("u", "十二個の文字を数えます")) >= 8
