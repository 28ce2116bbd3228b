from __future__ import annotations

from typing import Any

import pytest

from gateway.g711 import G711Codec
from protocol.backend_events import (
    EndReason,
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCommitted,
    InputTranscriptCompleted,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
)
from protocol.beta.fields import SESSION, beta_path, ga_path
from protocol.beta.server_events import to_beta
from protocol.beta.upstream import UpstreamEvents, to_server
from protocol.ids import CountingIds
from protocol.outputs import ServerEvent
from protocol.relay.dialects import Dialects
from protocol.relay.neutral_events import NeutralEvents
from protocol.relay.open_ends import Asked, OpenEnds
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults
from protocol.wire import Dialect
from protocol.wire_law import SessionLaw

FAULT = ("upstream_lost", "The server behind `mac` broke off.")


def told(*events: Any, out_of_band: bool = False) -> list[dict[str, Any]]:
    """Return what one of our own sessions, as a server, says when its backend reports `events`."""
    session = SessionProtocol(
        ids=CountingIds(), session_id="sess_1", model="m", expires_at_s=0, defaults=SessionDefaults(), g711=G711Codec()
    )
    outputs = session.open()
    for event in events:
        outputs += session.receive_backend(event)
    return [output.payload for output in outputs if isinstance(output, ServerEvent)]


PCM = bytes(9_600)
SPOKEN = (
    ResponseStarted("resp_1"),
    OutputTextDelta("resp_1", "item_1", "Hello "),
    OutputTextDelta("resp_1", "item_1", "there."),
    OutputAudio("resp_1", "item_1", PCM),
)
CALLING = (
    FunctionCallStarted("resp_1", "item_2", "call_1", "look"),
    FunctionCallArgumentsDelta("resp_1", "item_2", '{"at":'),
)


def closed_after(count: int, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first `count` of a server's events, and what ends them."""
    ends, law = OpenEnds(), SessionLaw()
    whole = events[:count]
    for event in whole:
        ends.saw(event)
    whole = whole + ends.close(FAULT, 0, CountingIds())
    for event in whole:
        assert law.violations(event) == [], event
    return whole


@pytest.mark.parametrize("count", range(2, 24))
def test_wherever_a_server_breaks_off_every_open_thing_is_ended_once(count: int) -> None:
    done = (OutputItemEnded("resp_1", "item_1"), *CALLING, OutputItemEnded("resp_1", "item_2"))
    whole = closed_after(count, told(*SPOKEN, *done, ResponseEnded("resp_1", EndStatus.COMPLETED)))
    kinds = [event["type"] for event in whole]
    for opening, end in (
        ("response.created", "response.done"),
        ("response.output_item.added", "response.output_item.done"),
        ("response.content_part.added", "response.content_part.done"),
        ("conversation.item.added", "conversation.item.done"),
    ):
        assert kinds.count(opening) == kinds.count(end)
    assert kinds.count("response.output_audio.done") == kinds.count("response.content_part.added")
    assert kinds.count("response.output_audio_transcript.done") == kinds.count("response.content_part.added")
    assert len({event["event_id"] for event in whole if not event["event_id"].startswith("event_")}) <= 1


def test_a_response_that_broke_off_shows_what_was_said_of_it() -> None:
    events = told(*SPOKEN, *CALLING)
    done = closed_after(len(events), events)[-1]["response"]
    assert (done["status"], done["status_details"]["type"]) == ("failed", "failed")
    assert done["status_details"]["error"] == {"type": "server_error", "code": FAULT[0], "message": FAULT[1]}
    spoken, call = done["output"]
    assert (spoken["status"], spoken["content"]) == (
        "incomplete",
        [{"type": "output_audio", "transcript": "Hello there."}],
    )
    assert (call["status"], call["arguments"]) == ("incomplete", '{"at":')


def asked(kind: str, event_id: str = "e", **others: Any) -> Asked:
    return Asked(kind, event_id, None, 0, **others)


def test_each_answer_takes_its_command_and_an_item_of_the_server_s_own_takes_none() -> None:
    ends = OpenEnds()
    for command in (
        asked("conversation.item.create", "e1", item_id="mine"),
        asked("conversation.item.create", "e2"),
        asked("response.cancel", "e3"),
        asked("response.create", "e4"),
    ):
        ends.asked(command)
    ends.saw({"type": "input_audio_buffer.committed", "item_id": "spoken"})
    assert ends.saw({"type": "conversation.item.added", "item": {"id": "spoken"}}) is None
    first = ends.saw({"type": "conversation.item.added", "item": {"id": "new"}})
    second = ends.saw({"type": "conversation.item.added", "item": {"id": "mine"}})
    assert first is not None
    assert second is not None
    assert (first.event_id, second.event_id) == ("e2", "e1")
    assert ends.refused({"event_id": "e3"}) is not None
    assert ends.refused({"event_id": "e3"}) is None
    (error,) = ends.close(FAULT, 0, CountingIds())
    assert (error["type"], error["error"]["event_id"]) == ("error", None)


def test_an_open_voice_stops_and_awaited_transcripts_fail() -> None:
    ends = OpenEnds()
    ends.saw({"type": "session.updated", "session": {"audio": {"input": {"transcription": {"model": "x"}}}}})
    ends.saw({"type": "input_audio_buffer.committed", "item_id": "a"})
    ends.saw({"type": "input_audio_buffer.committed", "item_id": "b"})
    ends.saw({"type": "conversation.item.input_audio_transcription.completed", "item_id": "a", "transcript": "A."})
    ends.saw({"type": "input_audio_buffer.speech_started", "item_id": "c"})
    stopped, failed = ends.close(FAULT, 24_000, CountingIds())
    assert (stopped["type"], stopped["item_id"], stopped["audio_end_ms"]) == (
        "input_audio_buffer.speech_stopped",
        "c",
        1_000,
    )
    assert (failed["item_id"], failed["error"]["code"]) == ("b", "upstream_lost")
    assert ends.close(FAULT, 0, CountingIds()) == []


# --- neutral events ------------------------------------------------------------------------------------------------


def test_what_a_session_of_ours_says_is_measured_as_what_its_backend_reported() -> None:
    ended = ResponseEnded("resp_1", EndStatus.CANCELLED, reason=EndReason.TURN_DETECTED)
    events = (SpeechStarted("item_u", 2_400), *SPOKEN, CALLING[0], ended)
    translate = NeutralEvents()
    neutral = [translate(payload, PCM) for payload in told(*events)]
    kept = [event for event in neutral if event is not None and not isinstance(event, OutputItemEnded)]
    assert [type(event) for event in kept] == [type(event) for event in events]
    assert kept[0] == events[0]
    assert kept[-1] == ended


def test_what_was_committed_is_where_the_speech_was_else_all_that_is_new() -> None:
    translate = NeutralEvents()
    kind = "input_audio_buffer"
    translate({"type": f"{kind}.speech_started", "item_id": "a", "audio_start_ms": 100})
    translate({"type": f"{kind}.speech_stopped", "item_id": "a", "audio_end_ms": 900})
    assert translate({"type": f"{kind}.committed", "item_id": "a"}, received=48_000) == InputCommitted(
        "a", 2_400, 21_600
    )
    assert translate({"type": f"{kind}.committed", "item_id": "b"}, received=48_000) == InputCommitted(
        "b", 21_600, 48_000
    )
    transcript = {"type": "conversation.item.input_audio_transcription.completed", "item_id": "b", "transcript": "B."}
    assert translate(transcript) == InputTranscriptCompleted("b", "B.", 26_400)


# --- a beta server -------------------------------------------------------------------------------------------------


def test_events_of_a_beta_server_become_ga_s_again() -> None:
    done = (OutputItemEnded("resp_1", "item_1"), *CALLING, OutputItemEnded("resp_1", "item_2"))
    ga = told(*SPOKEN, *done, ResponseEnded("resp_1", EndStatus.COMPLETED))
    upstream = UpstreamEvents()
    back = [event for payload in ga if (beta := to_beta(payload)) is not None for event in upstream.to_ga(beta)]
    assert [event["type"] for event in back] == [event["type"] for event in ga]
    for before, after in zip(ga[1:], back[1:], strict=True):
        for key in ("item", "part", "delta", "transcript", "arguments", "name", "previous_item_id"):
            assert before.get(key) == after.get(key), before["type"]


def test_client_events_for_a_beta_server_are_the_inverse_of_a_beta_client_s() -> None:
    session = {
        "type": "realtime",
        "output_modalities": ["audio"],
        "audio": {
            "input": {"format": {"type": "audio/pcmu"}, "turn_detection": None},
            "output": {"voice": "nova", "speed": 1.1},
        },
        "max_output_tokens": 7,
    }
    assert to_server({"type": "session.update", "session": session})["session"] == {
        "modalities": ["text", "audio"],
        "voice": "nova",
        "input_audio_format": "g711_ulaw",
        "turn_detection": None,
        "max_response_output_tokens": 7,
        "speed": 1.1,
    }
    told_of = to_server({"type": "session.update", "session": {"type": "transcription"}})
    assert told_of["type"] == "transcription_session.update"
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A."}]}
    assert to_server({"type": "conversation.item.create", "item": item})["item"]["content"][0]["type"] == "text"


def test_paths_of_beta_errors_become_ga_s() -> None:
    for field in SESSION:
        if not field.word:
            assert ga_path(beta_path(f"session.{field.ga}")) == f"session.{field.ga}"
    assert ga_path("session.turn_detection.threshold") == "session.audio.input.turn_detection.threshold"
    assert ga_path("item.role") == "item.role"


def test_between_two_of_one_dialect_nothing_is_changed_but_what_is_ours() -> None:
    dialects = Dialects(Dialect.BETA, Dialect.BETA)
    odd = {"type": "session.update", "session": {"voice": 7, "novelty": 1, "gateway": None}}
    passed = dialects.to_server(odd, 0)
    assert (passed.sent, passed.ga) == ({"type": "session.update", "session": {"voice": 7, "novelty": 1}}, {})
