"""What the user heard of the agent: cuts, truncates and the words that remain (RB-23)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.backend_events import (
    EndReason,
    EndStatus,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
)
from protocol.commands import ItemTruncated
from protocol.history import CUT_OFF_MARK, chat_messages
from protocol.outputs import DiscardItemAudio
from protocol.speech import SpeechPart

FIRST, SECOND = "One two three four.", " Five six seven eight."


def spoken(*chunks: tuple[str, int], whole: bool = True) -> SpeechPart:
    speech = SpeechPart(whole=whole)
    for text, samples in chunks:
        speech.text += text
        speech.audio_sent += samples
        speech.mark(len(speech.text), speech.audio_sent)
    return speech


def heard(speech: SpeechPart, cut: int) -> str:
    speech.gateway_cut = cut
    return speech.heard_text()


def test_speech_that_nobody_cut_is_heard_whole() -> None:
    speech = spoken((FIRST, 100), (SECOND, 100))
    assert speech.heard_text() == FIRST + SECOND
    assert not speech.cut_short


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (0, ""),
        (21, ""),  # of the 19 letters' time that the chunk takes, "One" takes 4
        (22, "One"),
        (42, "One"),
        (43, "One two"),
        (73, "One two"),
        (74, "One two three"),
        (99, "One two three"),
        (100, FIRST),
        (123, FIRST),
        (124, FIRST + " Five"),
        (199, FIRST + " Five six seven"),
        (200, FIRST + SECOND),
        (5000, FIRST + SECOND),
    ],
)
def test_a_chunk_heard_in_part_gives_the_words_whose_end_was_heard(cut: int, words: str) -> None:
    assert heard(spoken((FIRST, 100), (SECOND, 100)), cut) == words


def test_a_mark_beyond_the_audio_sent_is_an_estimate_of_the_rest() -> None:
    speech = spoken((FIRST, 100), whole=False)
    speech.text += SECOND
    speech.audio_sent += 50
    speech.mark(len(speech.text), 200)
    assert speech.heard_text() == FIRST + " Five six"
    assert speech.cut_short


def test_text_that_no_mark_places_is_not_claimed_until_its_item_is_whole() -> None:
    speech = SpeechPart(text=FIRST, audio_sent=100)
    assert speech.heard_text() == ""
    speech.whole = True
    assert speech.heard_text() == FIRST
    assert heard(speech, 50) == "One two"


def test_the_rest_of_the_audio_says_the_rest_of_the_text() -> None:
    speech = spoken((FIRST, 100))
    speech.text += SECOND
    speech.audio_sent += 100
    assert heard(speech, 150) == FIRST + " Five six"


def test_a_japanese_character_counts_as_a_word() -> None:
    assert heard(spoken(("ありがとうございます", 100)), 55) == "ありがとう"


def test_a_chunk_without_audio_is_heard_with_what_comes_before_it() -> None:
    assert heard(spoken((FIRST, 100), (" 🙂", 0), (SECOND, 100)), 100) == FIRST + " 🙂"


chunks = st.lists(st.tuples(st.text("ab .", min_size=1, max_size=12), st.integers(0, 50)), min_size=1, max_size=4)


@given(chunks, st.integers(0, 250), st.integers(0, 250), st.booleans())
def test_hearing_more_never_claims_fewer_words_and_never_words_that_were_not_said(
    said: list[tuple[str, int]], one: int, other: int, whole: bool
) -> None:
    speech = spoken(*said, whole=whole)
    less, more = heard(speech, min(one, other)), heard(speech, max(one, other))
    assert more.startswith(less)
    assert speech.text.startswith(more)
    whole_chunks = ""
    at = 0
    for text, samples in said:
        at += samples
        if at > max(one, other):
            break
        whole_chunks += text
    assert more.startswith(whole_chunks.rstrip())


# --- words whose ends are known ------------------------------------------------------------------------------------


TIMES = [(3, 30), (7, 70), (13, 80), (19, 99), (19, 100)]
"""Where the words of `FIRST` end, as no count of letters would place them; the last mark ends the chunk."""


def timed(*, whole: bool) -> SpeechPart:
    speech = SpeechPart(text=FIRST + SECOND, audio_sent=150, whole=whole)
    for text_end, audio_end in TIMES:
        speech.mark(text_end, audio_end)
    return speech


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (29, ""),
        (30, "One"),
        (69, "One"),
        (70, "One two"),
        (79, "One two"),
        (80, "One two three"),
        (98, "One two three"),
        (99, FIRST),
        (150, FIRST),
    ],
)
def test_a_word_counts_from_the_sample_on_at_which_it_ends(cut: int, words: str) -> None:
    assert heard(timed(whole=False), cut) == words


@pytest.mark.parametrize(("client", "words"), [(75, "One two"), (50, "One"), (0, ""), (99, FIRST), (5_000, FIRST)])
def test_the_clients_word_moves_a_cut_between_words_either_way(client: int, words: str) -> None:
    speech = timed(whole=False)
    speech.gateway_cut = 72
    speech.client_cut = client
    assert speech.heard_text() == words
    assert speech.cut_short


def test_dropped_audio_takes_its_words_along() -> None:
    speech = timed(whole=False)
    speech.unsend(71)
    assert speech.heard_text() == "One two"
    speech.client_cut = 150
    assert speech.heard_text() == "One two"


# --- on the wire ---------------------------------------------------------------------------------------------------


def transcript(talk: Any, item_id: str = "a") -> str:
    words: str = talk.retrieved(item_id)["content"][0]["transcript"]
    return words


def truncate(talk: Any, audio_end_ms: int, **fields: Any) -> Any:
    fields = {"item_id": "a", "content_index": 0, **fields}
    return talk.send("conversation.item.truncate", audio_end_ms=audio_end_ms, **fields)


@pytest.fixture
def counted(talk: Any) -> Any:
    """A session in which the agent has counted to eight in 1000 ms."""
    talk.user_types("count", id="it_u")
    talk.agent_says("r", "a", (FIRST, 12_000), (SECOND, 12_000))
    return talk


def test_a_truncate_leaves_the_words_that_were_heard(counted: Any) -> None:
    (event,) = truncate(counted, 500)
    assert event["type"] == "conversation.item.truncated"
    assert (event["item_id"], event["content_index"], event["audio_end_ms"]) == ("a", 0, 500)
    assert transcript(counted) == FIRST
    assert counted.commands(ItemTruncated) == [ItemTruncated("a", 12_000)]


@pytest.mark.parametrize(("asked_ms", "accepted"), [(1000, True), (1032, True), (1033, False), (6000, False)])
def test_a_truncate_may_round_beyond_the_end_by_one_frame(counted: Any, asked_ms: int, accepted: bool) -> None:
    (event,) = truncate(counted, asked_ms)
    assert event["type"] == ("conversation.item.truncated" if accepted else "error")
    assert transcript(counted) == FIRST + SECOND
    assert counted.commands(ItemTruncated) == ([ItemTruncated("a", 24_000)] if accepted else [])


def test_a_truncate_of_the_wrong_target_leaves_everything_alone(counted: Any) -> None:
    def refused(**fields: Any) -> Any:
        fields = {"item_id": "a", "content_index": 0, "audio_end_ms": 100, **fields}
        return counted.refused("conversation.item.truncate", **fields)

    error = refused(audio_end_ms=6000)
    assert error["message"] == "Audio content of 1000ms is already shorter than 6000ms"
    assert error["param"] == "audio_end_ms"
    assert refused(item_id="it_missing")["code"] == "item_truncate_invalid_item_id"
    assert refused(item_id="it_u")["code"] == "item_truncate_invalid_item_id"
    assert refused(content_index=7)["param"] == "content_index"
    assert refused(content_index=-1)["code"] == "integer_below_min_value"
    assert refused(audio_end_ms=10**30)["param"] == "audio_end_ms"
    assert transcript(counted) == FIRST + SECOND
    assert counted.commands(ItemTruncated) == []


def test_a_function_call_or_a_text_reply_cannot_be_truncated(counted: Any) -> None:
    call = {"id": "f", "type": "function_call", "name": "f", "arguments": "{}"}
    counted.send("conversation.item.create", item=call)
    text = {"id": "t", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    counted.send("conversation.item.create", item=text)
    for item_id in ("f", "t"):
        error = counted.refused("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=0)
        assert error["code"] == "item_truncate_invalid_item_id"


def test_the_gateways_cut_is_silent_and_changes_only_what_is_remembered(counted: Any) -> None:
    assert counted.backend(PlayoutCut("a", 12_000)) == []
    speech = counted.session.conversation.get("a").speech
    assert speech.heard_text() == FIRST
    assert transcript(counted) == FIRST + SECOND
    assert counted.backend(PlayoutCut("it_u", 0), PlayoutCut("nobody", 0)) == []


@pytest.mark.parametrize(("asked_ms", "words"), [(250, "One two"), (750, FIRST + " Five six")])
def test_a_clients_truncate_moves_the_gateways_cut_either_way(counted: Any, asked_ms: int, words: str) -> None:
    counted.backend(PlayoutCut("a", 12_000))
    truncate(counted, asked_ms)
    counted.backend(PlayoutCut("a", 12_000))
    assert transcript(counted) == words
    assert counted.session.conversation.get("a").speech.heard_text() == words
    truncate(counted, 1000)
    assert transcript(counted) == FIRST + SECOND


def test_a_reply_may_be_truncated_while_it_is_spoken(talk: Any) -> None:
    talk.backend(
        ResponseStarted("r"),
        OutputTextDelta("r", "a", FIRST),
        OutputAudio("r", "a", bytes(24_000)),
        OutputSpoken("r", "a", len(FIRST), 12_000),
    )
    truncate(talk, 250)
    events = talk.backend(
        OutputTextDelta("r", "a", SECOND), OutputItemEnded("r", "a"), ResponseEnded("r", EndStatus.COMPLETED)
    )
    assert next(e for e in events if e["type"].endswith("transcript.done"))["transcript"] == FIRST + SECOND
    assert events[-2]["response"]["output"][0]["content"][0]["transcript"] == "One two"


@pytest.mark.parametrize(
    ("asked_ms", "words"), [(None, "One two"), (700, "One two"), (690, "One"), (790, "One two"), (800, "One two three")]
)
def test_the_model_is_told_the_words_heard_and_that_they_were_cut_off(
    talk: Any, asked_ms: int | None, words: str
) -> None:
    talk.user_types("count", id="it_u")
    talk.backend(
        ResponseStarted("r"),
        OutputTextDelta("r", "a", FIRST + SECOND),
        OutputAudio("r", "a", bytes(48_000)),
        *(OutputSpoken("r", "a", text_end, audio_end * 240) for text_end, audio_end in TIMES),
        ResponseEnded("r", EndStatus.CANCELLED, 17_280, EndReason.TURN_DETECTED),
        PlayoutCut("a", 17_280),
    )
    if asked_ms is not None:
        truncate(talk, asked_ms)
    messages = chat_messages("", talk.session.conversation.items)
    assert messages[-1] == {"role": "assistant", "content": words + CUT_OFF_MARK}


def test_a_cancelled_reply_remembers_only_what_was_sent(talk: Any) -> None:
    talk.backend(
        ResponseStarted("r"),
        OutputTextDelta("r", "a", FIRST + SECOND),
        OutputAudio("r", "a", bytes(24_000)),
        OutputSpoken("r", "a", len(FIRST), 12_000),
        ResponseEnded("r", EndStatus.CANCELLED, 12_000, EndReason.CLIENT_CANCELLED),
    )
    assert talk.session.conversation.get("a").speech.heard_text() == FIRST


# --- audio that was dropped before it was sent ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unsent", "words"),
    [
        (0, FIRST + SECOND),
        (1, FIRST + " Five six seven"),
        (28, FIRST + " Five six seven"),
        (29, FIRST + " Five six"),
        (100, FIRST),
        (101, "One two three"),
        (200, ""),
        (201, ""),
    ],
)
def test_nobody_heard_what_was_dropped_before_it_was_sent(unsent: int, words: str) -> None:
    for whole in (True, False):
        speech = spoken((FIRST, 100), (SECOND, 100), whole=whole)
        speech.unsend(unsent)
        assert speech.audio_sent == max(0, 200 - unsent)
        assert speech.heard_text() == words


def test_a_whole_reply_without_marks_says_a_share_of_its_words_by_what_was_sent() -> None:
    speech = SpeechPart(text=FIRST, audio_sent=100, whole=True)
    speech.unsend(50)
    assert speech.heard_text() == "One two"


def test_a_cut_beyond_what_was_sent_counts_no_further_than_that() -> None:
    speech = spoken((FIRST, 100), (SECOND, 100))
    speech.unsend(100)
    assert heard(speech, 150) == FIRST
    assert heard(speech, 50) == "One two"


def test_dropped_audio_is_neither_truncatable_nor_retrieved(talk: Any) -> None:
    talk.agent_says("r", "a", (FIRST, 24_000), (SECOND, 24_000))
    talk.session.audio_unsent("a", 24_000)
    (item,) = (item for item in talk.session.conversation.items if item.id == "a")
    assert item.speech.audio_sent == 24_000
    assert len(talk.retrieved("a")["content"][0]["audio"]) == 4 * 48_000 // 3
    talk.refused("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=1_033)
    talk.send("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=1_000)
    assert talk.commands(ItemTruncated)[-1] == ItemTruncated("a", 24_000)
    assert talk.retrieved("a")["content"][0]["transcript"] == FIRST


def test_a_voice_of_which_nothing_was_sent_may_still_be_changed(talk: Any) -> None:
    talk.agent_says("r", "a", (FIRST, 24_000))
    talk.session.audio_unsent("a", 24_000)
    (updated,) = talk.update(audio={"output": {"voice": "ash"}})
    assert updated["type"] == "session.updated"


def test_dropped_audio_of_an_item_that_is_gone_or_not_speech_changes_nothing(talk: Any) -> None:
    talk.user_types("Hi.", id="u")
    talk.session.audio_unsent("u", 10)
    talk.session.audio_unsent("nobody", 10)
    assert talk.retrieved("u")["content"] == [{"type": "input_text", "text": "Hi."}]


def test_a_cut_drops_the_items_waiting_audio_even_when_its_response_is_over(talk: Any) -> None:
    talk.agent_says("r", "a", (FIRST, 100))
    before = len(talk.outputs)
    assert talk.backend(PlayoutCut("a", 50)) == []
    assert talk.outputs[before:] == [DiscardItemAudio("a")]


def test_estimates_that_lie_beyond_the_audio_of_a_whole_item_were_too_slow_throughout() -> None:
    speech = SpeechPart(text=FIRST + SECOND, audio_sent=200)
    speech.mark(len(FIRST), 200)
    speech.mark(len(FIRST + SECOND), 400)
    assert heard(speech, 100) == "One two"
    speech.whole = True
    assert heard(speech, 100) == FIRST
    assert heard(speech, 200) == FIRST + SECOND
