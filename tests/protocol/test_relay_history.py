from __future__ import annotations

from typing import Any

import pytest

from protocol.audio_time import samples_from_ms
from protocol.conversation import TRUNCATE_TOLERANCE_MS
from protocol.errors import ProtocolError
from protocol.relay.kept_history import KEPT_BYTES, KEPT_ITEMS, KeptHistory
from protocol.relay.kept_settings import WAITING_BYTES, WAITING_UPDATES, KeptSettings, merged


def message(item_id: str, role: str = "user", *content: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"id": item_id, "type": "message", "role": role, "content": list(content), **others}


def text(words: str, kind: str = "input_text") -> dict[str, Any]:
    return {"type": kind, "text": words}


def added(item: dict[str, Any], previous: str | None = None) -> dict[str, Any]:
    return {"type": "conversation.item.added", "previous_item_id": previous, "item": item}


def history(*events: dict[str, Any]) -> KeptHistory:
    kept = KeptHistory()
    for event in events:
        kept.saw(event)
    return kept


def ids(kept: KeptHistory) -> list[str]:
    return [item["id"] for item in kept.items()]


def test_items_keep_the_order_that_the_server_gave_them() -> None:
    kept = history(
        added(message("a", "user", text("A."))),
        added(message("c", "user", text("C.")), "a"),
        added(message("b", "user", text("B.")), "a"),
    )
    kept.goes_first("z")
    kept.saw(added(message("z", "system", text("Z."))))
    assert ids(kept) == ["z", "a", "b", "c"]


def test_speech_comes_back_as_its_words_and_what_had_none_stays_away() -> None:
    kept = history(
        added(message("u", "user", {"type": "input_audio", "transcript": None})),
        added(message("mute", "user", {"type": "input_audio", "transcript": None}), "u"),
        added(message("a", "assistant", status="in_progress"), "mute"),
        {
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": "u",
            "transcript": "Hello.",
        },
        {
            "type": "response.output_item.done",
            "item": message("a", "assistant", {"type": "output_audio", "transcript": "Hi there."}),
        },
    )
    assert kept.items() == [
        message("u", "user", text("Hello.")),
        message("a", "assistant", text("Hi there.", "output_text")),
    ]


def test_of_a_truncated_reply_the_words_that_were_heard_come_back() -> None:
    said = "One two three four five six seven eight."
    kept = history(added(message("a", "assistant", status="in_progress")))
    kept.audio_sent("a", samples_from_ms(4_000))
    kept.saw({"type": "conversation.item.truncated", "item_id": "a", "content_index": 0, "audio_end_ms": 2_000})
    kept.saw(
        {
            "type": "conversation.item.done",
            "item": message("a", "assistant", {"type": "output_audio", "transcript": said}),
        }
    )
    (item,) = kept.items()
    words = item["content"][0]["text"]
    assert said.startswith(words)
    assert 2 <= len(words.split()) <= 5
    kept.saw({"type": "conversation.item.truncated", "item_id": "a", "content_index": 0, "audio_end_ms": 0})
    assert kept.items() == []


SAID = "One two three four five six seven eight."
"""2.9 s at a usual pace."""


def broke_off(sent_ms: int, status: str = "incomplete") -> KeptHistory:
    audio = {"type": "output_audio", "transcript": SAID}
    kept = history(added(message("a", "assistant", audio, status=status)))
    kept.audio_sent("a", samples_from_ms(sent_ms))
    return kept


def test_of_a_reply_that_broke_off_the_words_come_back_whose_audio_came() -> None:
    (whole,) = broke_off(4_000).items()
    assert whole["content"] == [text(SAID, "output_text")]
    (part,) = broke_off(1_000).items()
    words = part["content"][0]["text"]
    assert SAID.startswith(words)
    assert 1 <= len(words.split()) <= 4
    assert broke_off(0).items() == []
    (completed,) = broke_off(0, "completed").items()  # its audio is not ours to count
    assert completed["content"] == [text(SAID, "output_text")]


@pytest.mark.parametrize("end_ms", [1_999, 2_000, 2_000 + TRUNCATE_TOLERANCE_MS])
def test_a_truncate_is_checked_as_on_our_own_sessions(end_ms: int) -> None:
    kept = broke_off(2_000)
    kept.truncate("a", end_ms)
    with pytest.raises(ProtocolError) as refused:
        kept.truncate("a", 2_001 + TRUNCATE_TOLERANCE_MS)
    assert refused.value.param == "audio_end_ms"
    for item_id in ("u", "unknown"):
        kept.saw(added(message("u", "user", text("U."))))
        with pytest.raises(ProtocolError) as unknown:
            kept.truncate(item_id, 0)
        assert unknown.value.code == "item_truncate_invalid_item_id"


def test_what_was_said_in_a_lost_session_is_told_from_what_was_said_since() -> None:
    kept = broke_off(2_000)
    assert not kept.is_earlier("a")
    kept.lost()
    kept.saw(added(message("b", "user", text("B.")), "a"))
    assert [kept.is_earlier(item_id) for item_id in ("a", "b", "c")] == [True, False, False]


def test_calls_come_back_with_their_results_and_neither_alone_as_a_result() -> None:
    call = {
        "id": "c",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "f",
        "arguments": "{}",
    }
    result = {"id": "r", "type": "function_call_output", "call_id": "call_1", "output": "7"}
    assert ids(history(added(call), added(result, "c"))) == ["c", "r"]
    assert ids(history(added({**call, "status": "in_progress"}), added(result, "c"))) == []
    assert ids(history(added(call))) == ["c"]


def test_deleted_items_and_kinds_that_only_servers_make_stay_away() -> None:
    kept = history(
        added(message("a", "user", text("A."))),
        added({"id": "l", "type": "mcp_list_tools", "server_label": "x", "tools": []}, "a"),
        {"type": "conversation.item.deleted", "item_id": "a"},
    )
    assert kept.items() == []


@pytest.mark.parametrize(("count", "kept"), [(KEPT_ITEMS, KEPT_ITEMS), (KEPT_ITEMS + 1, KEPT_ITEMS)])
def test_of_too_many_items_the_oldest_leave(count: int, kept: int) -> None:
    found = ids(history(*(added(message(f"i{n}", "user", text("x"))) for n in range(count))))
    assert found == [f"i{n}" for n in range(count - kept, count)]


def test_of_too_much_text_the_oldest_leaves_and_what_is_too_large_alone_never_stays() -> None:
    half = "x" * (KEPT_BYTES // 2)
    assert ids(history(*(added(message(name, "user", text(half))) for name in "abc"))) == ["c"]
    assert ids(history(added(message("a", "user", text("A."))), added(message("b", "user", text(half * 2))))) == ["a"]


# --- settings ------------------------------------------------------------------------------------------------------


def test_only_updates_that_were_accepted_are_kept() -> None:
    kept = KeptSettings({"voice": "marin"})
    kept.asked("e1", {"instructions": "A.", "gateway": {"barge_in": "off"}, "model": "mac"})
    kept.asked("e2", {"instructions": "B."})
    kept.answered("e2", accepted=False)
    kept.answered("e1", accepted=True)
    kept.answered("e9", accepted=True)
    assert kept.accepted == {"voice": "marin", "instructions": "A."}
    kept.asked("e3", {"instructions": "C."})
    kept.lost()
    kept.answered("e3", accepted=True)
    assert kept.accepted["instructions"] == "A."


def test_updates_merge_by_presence_and_another_turn_detection_replaces_the_whole() -> None:
    server = {"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 0.4}, "format": {"type": "a"}}}}
    more = merged(server, {"audio": {"input": {"turn_detection": {"silence_duration_ms": 300}}}})
    assert more["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.4,
        "silence_duration_ms": 300,
    }
    other = merged(more, {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}, "tools": []})
    assert other["audio"]["input"] == {"turn_detection": {"type": "semantic_vad"}, "format": {"type": "a"}}
    assert merged(other, {"audio": {"input": {"turn_detection": None}}})["audio"]["input"]["turn_detection"] is None


def test_settings_that_no_event_could_show_are_refused_before_they_are_sent_on() -> None:
    kept = KeptSettings()
    for number in range(3):
        kept.asked(f"e{number}", {f"tools_{number}": "x" * 2**18})
    with pytest.raises(ProtocolError) as refused:
        kept.asked("e4", {"instructions": "x" * 2**18})
    assert (refused.value.code, refused.value.param) == ("event_too_large", "session")


@pytest.mark.parametrize("more", [0, 1])
def test_of_more_updates_than_may_wait_the_oldest_count_as_accepted(more: int) -> None:
    kept = KeptSettings()
    for number in range(WAITING_UPDATES + more):
        kept.asked(f"e{number}", {"instructions": str(number), f"tool_{number}": number})
    kept.lost()
    assert kept.accepted == ({"instructions": "0", "tool_0": 0} if more else {})


@pytest.mark.parametrize(("count", "accepted"), [(4, False), (5, True)])
def test_so_do_the_oldest_of_more_bytes(count: int, accepted: bool) -> None:
    kept = KeptSettings()
    for number in range(count):
        kept.asked(f"e{number}", {"instructions": "x" * (WAITING_BYTES // 4 - 100)})
    kept.lost()
    assert bool(kept.accepted) == accepted


def test_an_update_before_one_that_was_accepted_was_not() -> None:
    kept = KeptSettings()
    for event_id in ("e1", "e2", "e3"):
        kept.asked(event_id, {"instructions": event_id, event_id: 1})
    kept.answered("e2", accepted=True)
    kept.answered("e1", accepted=True)
    assert kept.accepted == {"instructions": "e2", "e2": 1}
    kept.answered("e3", accepted=True)
    assert kept.accepted == {"instructions": "e3", "e2": 1, "e3": 1}
