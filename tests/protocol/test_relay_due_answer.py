from __future__ import annotations

from typing import Any

import pytest

from protocol.ids import CountingIds
from protocol.relay.open_ends import Asked, OpenEnds
from protocol.wire_law import SessionLaw

FAULT = ("upstream_lost", "The server behind `mac` broke off.")

Event = dict[str, Any]


def session(detection: Event | None, kind: str = "realtime") -> Event:
    return {"type": "session.created", "session": {"type": kind, "audio": {"input": {"turn_detection": detection}}}}


VAD = session({"type": "server_vad", "create_response": True})
STARTED: Event = {"type": "input_audio_buffer.speech_started", "item_id": "u"}
STOPPED: Event = {"type": "input_audio_buffer.speech_stopped", "item_id": "u"}
COMMITTED: Event = {"type": "input_audio_buffer.committed", "item_id": "u"}
TURN = (STARTED, STOPPED, COMMITTED)


def created(**response: Any) -> Event:
    return {"type": "response.created", "response": {"id": "resp_1", **response}}


DONE: Event = {"type": "response.done", "response": {"id": "resp_1", "status": "completed"}}


def lost_after(*events: Event, ends: OpenEnds | None = None) -> list[Event]:
    ends = ends or OpenEnds()
    for event in events:
        ends.saw(event)
    return ends.close(FAULT, 0, CountingIds())


def test_the_answer_that_was_due_fails_lawfully_and_once() -> None:
    ends, law = OpenEnds(), SessionLaw()
    told = lost_after(VAD, created(conversation_id="conv_7"), DONE, *TURN, ends=ends)
    assert [event["type"] for event in told] == ["response.created", "response.done"]
    assert [law.violations(event) for event in told] == [[], []]
    assert told[0]["response"]["conversation_id"] == "conv_7"
    assert told[1]["response"]["status_details"]["error"] == {
        "type": "server_error",
        "code": FAULT[0],
        "message": FAULT[1],
    }
    assert ends.close(FAULT, 0, CountingIds()) == []


@pytest.mark.parametrize(
    "events",
    [
        (VAD, STARTED, STOPPED),
        (VAD, *TURN, created(conversation_id=None)),  # one beside the conversation answers nothing of it
        (VAD, {"type": "input_audio_buffer.timeout_triggered", "item_id": "u"}, COMMITTED),
        (session({"type": "semantic_vad"}), *TURN),
    ],
)
def test_it_is_due_from_the_end_of_the_speech_on(events: tuple[Event, ...]) -> None:
    assert lost_after(*events)[-1]["response"]["status"] == "failed"


@pytest.mark.parametrize(
    "events",
    [
        (session({"type": "server_vad", "create_response": False}), *TURN),
        (session(None), *TURN),
        (session({"type": "server_vad"}, "transcription"), *TURN),
        (VAD, *TURN, created(), DONE),
        (VAD, STARTED, created(), STOPPED, COMMITTED, DONE),  # the agent answered before the turn was over
        (VAD, *TURN, {"type": "conversation.item.deleted", "item_id": "u"}),
        (VAD, STARTED, STOPPED, {"type": "input_audio_buffer.cleared"}),
    ],
)
def test_nothing_is_due_where_the_server_answers_nothing_or_has_answered(events: tuple[Event, ...]) -> None:
    assert [event["type"] for event in lost_after(*events)] == []


def test_a_running_response_that_fails_tells_of_the_turn_behind_it_too() -> None:
    told = lost_after(VAD, created(), *TURN)
    assert [event["type"] for event in told] == ["response.done"]


def test_what_is_said_beside_the_conversation_answers_nothing_of_it() -> None:
    told = lost_after(VAD, created(conversation_id=None), *TURN)
    assert [event["type"] for event in told] == ["response.done", "response.created", "response.done"]
    ends = OpenEnds()
    ends.asked(Asked("response.create", "e1", "e1", 0, beside=True))
    told = lost_after(VAD, *TURN, ends=ends)
    assert [event["type"] for event in told] == ["response.created", "response.done", "error"]


def test_an_answer_that_was_asked_for_is_told_once() -> None:
    ends = OpenEnds()
    ends.asked(Asked("response.create", "e1", "e1", 0))
    assert [event["type"] for event in lost_after(VAD, *TURN, ends=ends)] == ["error"]


def test_a_turn_that_the_client_commits_is_due_nothing_until_it_asks() -> None:
    ends = OpenEnds()
    ends.saw(VAD)
    ends.asked(Asked("input_audio_buffer.commit", "e1", None, 0))
    assert lost_after(*TURN, ends=ends) == []
    ends.asked(Asked("input_audio_buffer.commit", "e2", None, 0))
    ends.saw(COMMITTED)
    ends.asked(Asked("response.create", "e3", "e3", 0))
    (error,) = ends.close(FAULT, 0, CountingIds())
    assert error["error"]["event_id"] == "e3"


def test_an_answer_that_the_server_says_will_not_come_is_not_due() -> None:
    ends = OpenEnds()
    for event in (VAD, *TURN):
        ends.saw(event)
    ends.refused({"code": "conversation_already_has_active_response", "event_id": None})
    assert ends.close(FAULT, 0, CountingIds()) == []
