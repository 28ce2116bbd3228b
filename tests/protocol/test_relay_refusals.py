from __future__ import annotations

from typing import Any

import pytest

from protocol.ids import CountingIds
from protocol.relay.hidden_ids import HiddenIds
from protocol.relay.open_ends import Asked, OpenEnds, metadata_mark
from protocol.relay.refusals import refused_kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"param": "session.audio.output.voice"}, "session.update"),
        ({"param": "session"}, "session.update"),
        ({"param": "sessions"}, None),
        ({"param": "item.content[0].text"}, "conversation.item.create"),
        ({"param": "item_id"}, None),
        ({"param": "item_id", "code": "item_delete_invalid_item_id"}, "conversation.item.delete"),
        ({"param": None, "code": "item_truncate_invalid_item_id"}, "conversation.item.truncate"),
        ({"param": 7, "code": None}, None),
        ({"param": "session.voice", "event_id": "event_1"}, ""),
        ({"param": None, "code": "session_expired"}, ""),
        ({"param": None, "code": "conversation_already_has_active_response"}, ""),
    ],
)
def test_an_error_without_a_name_tells_by_its_code_and_param_what_it_is_about(
    error: dict[str, Any], kind: str | None
) -> None:
    assert refused_kind(error) == kind


def waiting(*commands: Asked) -> OpenEnds:
    ends = OpenEnds()
    for command in commands:
        ends.asked(command)
    return ends


def asked(kind: str, event_id: str, **others: Any) -> Asked:
    return Asked(kind, event_id, None, 0, **others)


REFUSED = {"type": "invalid_request_error", "param": None, "code": "invalid_value"}
UPDATED = {"type": "session.updated", "session": {}}
CREATED = {"type": "response.created", "response": {"id": "resp_1"}}
FAULT = ("upstream_lost", "The server behind `mac` broke off.")


def answered_at_the_end(ends: OpenEnds) -> list[Any]:
    """Return the event ids of the commands that are answered when the server is lost."""
    return [event["error"]["event_id"] for event in ends.close(FAULT, 0, CountingIds())]


def test_it_settles_the_oldest_of_its_kind() -> None:
    ends = waiting(
        asked("conversation.item.create", "e1"), asked("session.update", "e2"), asked("session.update", "e3")
    )
    assert ends.refused(REFUSED) is None
    found = ends.refused({"param": "session.tools[0]", "code": "invalid_value"})
    assert found is not None
    assert found.event_id == "e2"
    answered = ends.saw(UPDATED)
    assert answered is not None
    assert answered.event_id == "e3"


@pytest.mark.parametrize("error", [REFUSED, {"type": "server_error", "param": None, "code": "rate_limit_exceeded"}])
@pytest.mark.parametrize(("kind", "answer"), [("session.update", UPDATED), ("response.create", CREATED)])
def test_a_command_that_an_error_says_nothing_of_still_gets_its_answer_or_is_told_that_the_server_is_lost(
    error: dict[str, Any], kind: str, answer: dict[str, Any]
) -> None:
    command = Asked(kind, "e1", "mine", 0)
    ends = waiting(command)
    assert ends.refused(error) is None
    assert ends.saw(answer) == command
    lost = waiting(command)
    lost.refused(error)
    assert answered_at_the_end(lost) == ["mine"]


def test_one_that_was_refused_so_takes_no_answer_from_a_later_one_and_is_forgotten_with_it() -> None:
    ends = waiting(Asked("session.update", "e1", "one", 0))
    ends.refused(REFUSED)
    ends.asked(Asked("session.update", "e2", "two", 0))
    answered = ends.saw(UPDATED)
    assert answered is not None
    assert answered.event_id == "e2"
    assert ends.saw(UPDATED) is None
    assert answered_at_the_end(ends) == []


def test_of_what_waits_only_the_one_that_no_error_spoke_of_can_be_the_next_one_s() -> None:
    ends = waiting(Asked("session.update", "e1", "one", 0))
    ends.refused(REFUSED)
    ends.asked(Asked("response.create", "e2", "two", 0))
    ends.refused(REFUSED)
    ends.refused(REFUSED)
    assert answered_at_the_end(ends) == ["one", "two"]


def test_a_request_that_was_refused_so_takes_no_answer_that_is_due_by_itself() -> None:
    detection = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
    ends = waiting(asked("response.create", "e1"))
    ends.saw({"type": "session.created", "session": detection})
    ends.refused(REFUSED)
    ends.saw({"type": "input_audio_buffer.speech_stopped", "item_id": "u"})
    assert ends.saw({"type": "input_audio_buffer.committed", "item_id": "u"}) is None
    assert ends.saw(CREATED) is None
    assert ends.saw({"type": "response.created", "response": {"id": "resp_2"}}) is not None


def test_a_response_of_the_vad_s_is_told_from_one_that_was_asked_for_by_its_metadata() -> None:
    topic = {"topic": "now"}
    ends = waiting(asked("response.create", "e1", metadata=metadata_mark(topic)))
    assert ends.saw({"type": "response.created", "response": {"id": "r1", "metadata": topic}}) is not None
    ends.asked(asked("response.create", "e2", metadata=metadata_mark(topic)))
    assert ends.saw({"type": "response.created", "response": {"id": "vad", "metadata": None}}) is None
    assert ends.saw({"type": "response.created", "response": {"id": "r2", "metadata": topic}}) is not None


def test_a_response_of_the_conversation_s_is_none_that_was_asked_for_beside_it() -> None:
    ends = waiting(asked("response.create", "e1", beside=True))
    assert ends.saw({"type": "response.created", "response": {"id": "vad", "conversation_id": "conv_1"}}) is None
    assert ends.saw({"type": "response.created", "response": {"id": "r1", "conversation_id": None}}) is not None


def test_hidden_ids_are_known_again_and_no_others() -> None:
    ids = CountingIds()
    hidden, other = HiddenIds(ids), HiddenIds(ids)
    made = [hidden(), hidden()]
    assert len(set(made)) == 2
    assert all(hidden.made(event_id) for event_id in made)
    assert not any(hidden.made(event_id) for event_id in (other(), "event_1", None, 7))
