from __future__ import annotations

from typing import Any

from protocol.audio_time import samples_from_ms
from protocol.relay.kept_history import KeptHistory
from protocol.relay.restored import Restored

Event = dict[str, Any]

ADDED, DONE = "conversation.item.added", "conversation.item.done"


def item(item_id: str, words: str, role: str = "user") -> Event:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": item_id, "role": role, "content": [{"type": kind, "text": words}]}


def restored(*items: Event, settings: bool = False) -> Restored:
    told = Restored()
    if settings:
        told.sends({"type": "session.update", "event_id": "own_0", "session": {}})
    for number, one in enumerate(items, 1):
        told.sends({"type": "conversation.item.create", "event_id": f"own_{number}", "item": one})
    return told


def shown(told: Restored, kind: str, **fields: Any) -> Event | None:
    """Return what the client is shown of an event, None if it is told nothing."""
    event = {"type": kind, **fields}
    return None if told.answers(event) is not None else told.to_client(event)


def test_renamed_items_are_absorbed_once_and_known_by_both_names() -> None:
    told = restored(item("a", "A."), item("b", "B."))
    for theirs, words in (("x", "A."), ("y", "B.")):
        for kind in (ADDED, DONE):
            assert shown(told, kind, item={**item(theirs, words), "status": "completed"}) is None
    new = shown(told, ADDED, item=item("z", "A."), previous_item_id="y")
    assert new == {"type": ADDED, "item": item("z", "A."), "previous_item_id": "b"}
    reference = {"type": "item_reference", "id": "a"}
    sent = told.to_server({"type": "response.create", "response": {"input": [reference, {"type": "message"}]}})
    assert sent["response"]["input"] == [{"type": "item_reference", "id": "x"}, {"type": "message"}]
    assert told.to_server({"type": "conversation.item.delete", "item_id": "b"})["item_id"] == "y"


def test_where_no_name_differs_events_stay_the_very_same() -> None:
    told = restored(item("a", "A."))
    assert shown(told, ADDED, item=item("a", "A.")) is None
    event = {"type": "conversation.item.retrieved", "item": item("a", "A.")}
    assert told.to_client(event) is event


def test_what_is_said_before_the_restore_is_through_is_nobody_s_answer() -> None:
    told = restored(item("a", "A."), item("b", "B.", "assistant"))
    assert shown(told, "input_audio_buffer.committed", item_id="spoken") is not None
    assert shown(told, ADDED, item={"id": "spoken", "type": "message", "role": "user", "content": []}) is not None
    said = {"id": "said", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    assert shown(told, ADDED, item=said) is not None
    assert shown(told, ADDED, item=item("typed", "Something else.")) is not None
    for content in (5, [7], [{"type": 3}], None):
        odd = {"id": "odd", "type": "message", "role": "system", "content": content}
        assert shown(restored(item("s", "S.", "system")), ADDED, item=odd) is None  # it shows no other words
    assert shown(told, ADDED, item=item("x", " A.\n")) is None


def test_errors_without_a_name_answer_the_oldest_command_of_ours_and_no_more_than_each() -> None:
    told = restored(item("a", "A."), settings=True)
    error = {"type": "invalid_request_error", "code": "invalid_value", "param": None}
    assert told.answers({"type": "error", "error": {**error, "code": "session_expired"}}) is None
    assert told.answers({"type": "error", "error": {**error, "event_id": "event_of_the_client"}}) is None
    kinds = [own.kind for _ in range(3) if (own := told.answers({"type": "error", "error": error})) is not None]
    assert kinds == ["session.update", "conversation.item.create"]
    assert told.answers({"type": "session.updated", "session": {}}) is None


def reply_in_history(words: str) -> KeptHistory:
    history = KeptHistory()
    history.saw({"type": ADDED, "previous_item_id": None, "item": item("u", "Well?")})
    audio = {"type": "output_audio", "transcript": words}
    said = {"id": "a", "type": "message", "role": "assistant", "status": "completed", "content": [audio]}
    history.saw({"type": ADDED, "previous_item_id": "u", "item": said})
    history.audio_sent("a", samples_from_ms(4_000))
    history.lost()
    return history


def test_what_was_truncated_since_is_told_anew_at_its_place_under_the_name_of_the_day() -> None:
    history = reply_in_history("One two three four five six seven eight.")
    told = restored(*history.items())
    assert shown(told, ADDED, item=history.items()[0]) is None
    assert shown(told, ADDED, item={**history.items()[1], "id": "x"}) is None
    assert told.to_tell_anew(history) == []
    history.truncate("a", 1_000)
    deletes, creates = told.to_tell_anew(history)
    assert told.sends({**deletes, "event_id": "own_8"})["item_id"] == "x"
    sent = told.sends({**creates, "event_id": "own_9"})
    assert (sent["item"]["id"], sent["previous_item_id"]) == ("a", "u")
    assert 0 < len(sent["item"]["content"][0]["text"]) < 20
    assert shown(told, "conversation.item.deleted", item_id="x") is None
    assert shown(told, ADDED, item={**sent["item"], "id": "y"}) is None
    assert told.to_server({"type": "conversation.item.retrieve", "item_id": "a"})["item_id"] == "y"
    assert told.to_tell_anew(history) == []
    history.truncate("a", 0)
    (deletes,) = told.to_tell_anew(history)
    assert deletes == {"type": "conversation.item.delete", "item_id": "a"}


def test_an_item_that_its_client_deletes_is_told_no_more() -> None:
    history = reply_in_history("One two three.")
    told = restored(*history.items())
    gone = shown(told, "conversation.item.deleted", item_id="a")
    assert gone is not None
    history.truncate("a", 1_000)
    assert told.to_tell_anew(history) == []
