from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from protocol.audio_time import samples_from_ms
from protocol.ids import CountingIds
from protocol.relay.kept_history import KeptHistory
from protocol.relay.known_ids import KNOWN_IDS, LONGEST_ID, KnownIds
from protocol.relay.restored import Restored

Event = dict[str, Any]

ADDED, DONE = "conversation.item.added", "conversation.item.done"


def item(item_id: str, words: str, role: str = "user") -> Event:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": item_id, "role": role, "content": [{"type": kind, "text": words}]}


class Server:
    """A server's session that was told `items`, and the client's side of it. `knows`: ids from the sessions before."""

    def __init__(self, *items: Event, settings: bool = False, knows: tuple[str, ...] = ()) -> None:
        self.ids = KnownIds(fresh())
        for item_id in knows:
            self.ids.to_client({"type": ADDED, "item": {"id": item_id}})
        self.ids.restart()
        numbers = count(1)
        self.restored = Restored(self.ids, lambda: f"own_{next(numbers)}")
        if settings:
            self.restored.updates({})
        for one in items:
            self.restored.creates(one)

    def shown(self, kind: str, **fields: Any) -> Event | None:
        """Return what the client is shown of an event, None if it is told nothing."""
        event = {"type": kind, **fields}
        return None if self.restored.answers(event) is not None else self.ids.to_client(event)

    def takes(self, item_id: str) -> None:
        """Confirm an item that it was told."""
        assert self.shown(ADDED, item={"id": item_id, "type": "message"}) is None


def fresh() -> CountingIds:
    """Return ids that look like no others here."""
    ids = CountingIds()
    for _ in range(100):
        ids("item")
        ids("resp")
    return ids


def test_renamed_items_are_absorbed_once_and_known_by_both_names() -> None:
    told = Server(item("a", "A."), item("b", "B."))
    for theirs, words in (("x", "A."), ("y", "B.")):
        for kind in (ADDED, DONE):
            assert told.shown(kind, item={**item(theirs, words), "status": "completed"}) is None
    new = told.shown(ADDED, item=item("z", "A."), previous_item_id="y")
    assert new == {"type": ADDED, "item": item("z", "A."), "previous_item_id": "b"}
    reference = {"type": "item_reference", "id": "a"}
    sent = told.ids.to_server({"type": "response.create", "response": {"input": [reference, {"type": "message"}]}})
    assert sent["response"]["input"] == [{"type": "item_reference", "id": "x"}, {"type": "message"}]
    assert told.ids.to_server({"type": "conversation.item.delete", "item_id": "b"})["item_id"] == "y"


def test_where_no_name_differs_events_stay_the_very_same() -> None:
    told = Server(item("a", "A."))
    assert told.shown(ADDED, item=item("a", "A.")) is None
    event = {"type": "conversation.item.retrieved", "item": item("a", "A.")}
    assert told.ids.to_client(event) is event


def test_what_is_said_before_the_restore_is_through_is_nobody_s_answer() -> None:
    told = Server(item("a", "A."), item("b", "B.", "assistant"))
    assert told.shown("input_audio_buffer.committed", item_id="spoken") is not None
    assert told.shown(ADDED, item={"id": "spoken", "type": "message", "role": "user", "content": []}) is not None
    said = {"id": "said", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    assert told.shown(ADDED, item=said) is not None
    assert told.shown(ADDED, item=item("typed", "Something else.")) is not None
    for content in (5, [7], [{"type": 3}], None):
        odd = {"id": "odd", "type": "message", "role": "system", "content": content}
        assert Server(item("s", "S.", "system")).shown(ADDED, item=odd) is None  # it shows no other words
    assert told.shown(ADDED, item=item("x", " A.\n")) is None


def test_errors_without_a_name_answer_the_oldest_command_of_ours_and_no_more_than_each() -> None:
    told = Server(item("a", "A."), settings=True)
    error = {"type": "invalid_request_error", "code": "invalid_value", "param": None}
    assert told.restored.answers({"type": "error", "error": {**error, "code": "session_expired"}}) is None
    assert told.restored.answers({"type": "error", "error": {**error, "event_id": "event_of_the_client"}}) is None
    kinds = [
        own.kind for _ in range(3) if (own := told.restored.answers({"type": "error", "error": error})) is not None
    ]
    assert kinds == ["session.update", "conversation.item.create"]
    assert told.restored.answers({"type": "session.updated", "session": {}}) is None


def test_an_error_of_the_server_s_own_is_the_client_s_to_see() -> None:
    told = Server(item("a", "A."))
    error = {"type": "server_error", "code": "rate_limit_exceeded", "param": None, "event_id": None}
    assert told.shown("error", error=error) == {"type": "error", "error": error}
    told.takes("a")


def reply_in_history(words: str) -> KeptHistory:
    history = KeptHistory()
    history.saw({"type": ADDED, "previous_item_id": None, "item": item("u", "Well?")})
    audio = {"type": "output_audio", "transcript": words}
    said = {"id": "a", "type": "message", "role": "assistant", "status": "completed", "content": [audio]}
    history.saw({"type": ADDED, "previous_item_id": "u", "item": said})
    history.audio_sent("a", samples_from_ms(4_000))
    history.lost()
    return history


def test_what_was_truncated_since_is_replaced_where_it_is_under_an_id_that_was_never_there() -> None:
    history = reply_in_history("One two three four five six seven eight.")
    told = Server(*history.items())
    told.takes("u")
    assert told.shown(ADDED, item={**history.items()[1], "id": "x"}) is None
    assert told.restored.tells_anew(history) == []
    history.truncate("a", 1_000)
    creates, deletes = told.restored.tells_anew(history)
    new_id = creates["item"]["id"]
    assert creates["previous_item_id"] == deletes["item_id"] == "x"
    assert new_id not in ("a", "u", "x")
    assert 0 < len(creates["item"]["content"][0]["text"]) < 20
    assert told.ids.to_server({"type": "conversation.item.retrieve", "item_id": "a"})["item_id"] == new_id
    told.takes(new_id)
    assert told.shown("conversation.item.deleted", item_id="x") is None
    for before in (new_id, "x"):  # OpenAI names deleted items, too
        following = told.shown(ADDED, item=item(f"behind {before}", "And then?"), previous_item_id=before)
        assert following is not None
        assert following["previous_item_id"] == "a"
    assert told.restored.tells_anew(history) == []
    history.truncate("a", 0)
    (deletes,) = told.restored.tells_anew(history)
    assert (deletes["type"], deletes["item_id"]) == ("conversation.item.delete", new_id)


def test_its_place_is_known_to_the_server_whatever_it_was_not_told_or_did_not_take() -> None:
    history = KeptHistory()
    call = {"id": "c", "type": "function_call", "status": "incomplete", "call_id": "call_1", "name": "f"}
    result = {"id": "r", "type": "function_call_output", "call_id": "call_1", "output": "sunny"}
    audio = {"type": "output_audio", "transcript": "It is sunny today and warm tomorrow."}
    said = {"id": "a", "type": "message", "role": "assistant", "status": "completed", "content": [audio]}
    for one in (item("u", "Well?"), {**call, "arguments": ""}, result, said):
        history.saw({"type": ADDED, "item": one})
    history.audio_sent("a", samples_from_ms(3_000))
    history.lost()
    told = Server(*history.items())
    assert told.shown("error", error={"type": "invalid_request_error", "param": "item"}) is None  # of "u"
    told.takes("a")
    history.truncate("a", 1_000)
    creates, deletes = told.restored.tells_anew(history)
    assert creates["previous_item_id"] == deletes["item_id"] == "a"


def test_of_an_item_that_the_server_did_not_take_it_is_told_nothing_more() -> None:
    history = reply_in_history("One two three.")
    told = Server(*history.items())
    told.takes("u")
    assert told.shown("error", error={"type": "invalid_request_error", "event_id": "own_2"}) is None
    history.truncate("a", 1_000)
    assert told.restored.tells_anew(history) == []


def test_an_item_that_its_client_deletes_is_told_no_more() -> None:
    history = reply_in_history("One two three.")
    told = Server(*history.items())
    gone = told.shown("conversation.item.deleted", item_id="a")
    assert gone is not None
    history.truncate("a", 1_000)
    assert told.restored.tells_anew(history) == []


# --- servers that count anew ---------------------------------------------------------------------------------------


def test_a_new_item_under_an_id_that_the_client_knows_gets_another_on_the_clients_side() -> None:
    """Items 1 and 3 were restored, and the server has counted them 1 and 2."""
    told = Server(item("item_1", "A."), item("item_3", "C."), knows=("item_1", "item_2", "item_3", "resp_1"))
    told.takes("item_1")
    assert told.shown(ADDED, item=item("item_2", "C.")) is None
    new = {"id": "item_3", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    begun = told.shown("response.output_item.added", response_id="resp_1", item=new)
    assert begun is not None
    ours, response_id = begun["item"]["id"], begun["response_id"]
    assert ours not in ("item_1", "item_2", "item_3")
    assert response_id != "resp_1"
    added = told.shown(ADDED, item=new, previous_item_id="item_2")
    assert added == {"type": ADDED, "item": {**new, "id": ours}, "previous_item_id": "item_3"}
    done = told.shown("response.done", response={"id": "resp_1", "output": [new]})
    assert done == {"type": "response.done", "response": {"id": response_id, "output": [{**new, "id": ours}]}}
    for client, server in ((ours, "item_3"), ("item_3", "item_2"), ("item_1", "item_1")):
        assert told.ids.to_server({"type": "conversation.item.delete", "item_id": client})["item_id"] == server
    assert told.ids.to_server({"type": "response.cancel", "response_id": response_id})["response_id"] == "resp_1"


@pytest.mark.parametrize("theirs", ["item_2", "item_9"])
def test_what_the_server_does_not_have_is_never_taken_for_what_it_calls_so(theirs: str) -> None:
    told = Server(item("item_1", "A."), knows=("item_1", "item_2"))
    told.takes("item_1")
    shown = told.shown("input_audio_buffer.speech_started", item_id=theirs)
    assert shown is not None
    assert (shown["item_id"] == theirs) == (theirs == "item_9")
    asked = told.ids.to_server({"type": "conversation.item.delete", "item_id": "item_2"})["item_id"]
    assert asked not in ("item_1", "item_9", *([theirs] if theirs == "item_2" else []))
    gone = told.shown("conversation.item.deleted", item_id=asked)  # some say so of what they never had
    assert gone == {"type": "conversation.item.deleted", "item_id": asked}


def test_an_item_that_the_client_names_itself_keeps_its_name() -> None:
    told = Server(knows=("mine", "item_1"))
    event = {"type": "conversation.item.create", "item": item("mine", "A.")}
    assert told.ids.to_server(event) is event
    added = {"type": ADDED, "item": item("mine", "A.")}
    assert told.ids.to_client(added) is added
    assert told.shown("input_audio_buffer.speech_started", item_id="item_1") is not None
    sent = told.ids.to_server({"type": "conversation.item.create", "item": item("item_1", "B.")})["item"]["id"]
    assert sent != "item_1"
    assert told.ids.to_client({"type": ADDED, "item": item(sent, "B.")})["item"]["id"] == "item_1"


@pytest.mark.parametrize("more", [0, 1])
def test_of_more_ids_than_are_remembered_the_oldest_is_forgotten(more: int) -> None:
    told = Server(knows=tuple(f"item_{number}" for number in range(1_000, 1_000 + KNOWN_IDS + more)))
    shown = told.shown("input_audio_buffer.speech_started", item_id="item_1000")
    assert shown is not None
    assert (shown["item_id"] == "item_1000") == bool(more)


@pytest.mark.parametrize("length", [LONGEST_ID, LONGEST_ID + 1])
def test_ids_that_are_too_long_are_not_remembered(length: int) -> None:
    told = Server(knows=("i" * length,))
    shown = told.shown("input_audio_buffer.speech_started", item_id="i" * length)
    assert shown is not None
    assert (len(shown["item_id"]) == length) == (length > LONGEST_ID)
