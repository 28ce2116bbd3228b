"""A full-duplex conversation whose model fails, is begun anew, or is asked for what it has not begun."""

from __future__ import annotations

import pytest

from gateway.turns.duplex_calls import CALL_TIMEOUT
from gateway.turns.duplex_notices import DuplexNotice, NoticeKind
from gateway.turns.duplex_turns import START_TIMEOUT
from gateway.turns.duplex_vocabulary import DuplexSettings, SteerModel
from models.engines.scripted_duplex import DuplexReply
from protocol.backend_events import (
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallStarted,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    OutputAudio,
    OutputSpoken,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
)
from tests.simulation.duplex_conversation import DuplexConversation

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all " * 3)
ASKS_THE_TIME = DuplexReply("It is {result}.", call=("get_time", {}))
FAULT = EngineFault("duplex_failed", "It broke.")


def test_a_turn_that_ends_without_a_model_has_no_transcript_and_a_failed_response() -> None:
    talk = DuplexConversation()
    talk.user(400, speaks=False)
    talk.take(talk.core.failed(FAULT, talk.now))
    assert talk.core.is_down
    assert talk.responses() == []
    talk.vad(800, speaks=True)
    talk.vad(800, speaks=False)
    (committed,), (failed,) = talk.all(InputCommitted), talk.all(InputTranscriptFailed)
    assert (failed.item_id, failed.fault) == (committed.item_id, FAULT)
    ((_, ended),) = talk.responses()
    assert (ended.status, ended.fault) == (EndStatus.FAILED, FAULT)
    assert not talk.core.is_owed


def test_by_hand_such_a_turn_fails_once_its_response_is_asked_for() -> None:
    talk = DuplexConversation(settings=DuplexSettings(detection=None))
    talk.take(talk.core.failed(FAULT, talk.now))
    talk.vad(800, speaks=True)
    talk.take(talk.core.commit(None))
    assert len(talk.all(InputTranscriptFailed)) == 1
    assert talk.responses() == []
    talk.take(talk.core.request("resp_asked", "event_1"))
    ((started, ended),) = talk.responses()
    assert (started.response_id, ended.status) == ("resp_asked", EndStatus.FAILED)


def test_a_turn_that_nobody_has_answered_yet_fails_with_the_model() -> None:
    talk = DuplexConversation(answer_after_ms=2_000, heard=("hello there",))
    talk.user(800, speaks=True)
    talk.user(640, speaks=False)
    assert talk.core.is_owed
    talk.take(talk.core.failed(FAULT, talk.now))
    (done,) = talk.all(InputTranscriptCompleted)
    assert done.transcript.strip() == "hello there"
    ((_, ended),) = talk.responses()
    assert ended.fault == FAULT


def test_a_renewed_model_answers_again_and_is_heard() -> None:
    talk = DuplexConversation(DuplexReply("Here I am."))
    talk.user(4_000, speaks=False)
    talk.take(talk.core.failed(FAULT, talk.now))
    talk.core.renewed()
    assert not talk.core.is_down
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    ((started, ended),) = talk.responses()
    assert ended.status is EndStatus.COMPLETED
    (spoken,) = talk.model.truth
    assert abs(talk.sent(started.response_id) - (spoken.end - spoken.start)) <= 2 * talk.frame


def test_what_is_said_as_a_conversation_is_ended_stays_incomplete() -> None:
    talk = DuplexConversation(STORY)
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    assert talk.core.is_speaking
    talk.take(talk.core.ends(talk.now))
    assert not talk.core.is_speaking
    ((_, ended),) = talk.responses()
    assert (ended.status, ended.reason) == (EndStatus.INCOMPLETE, EndReason.MAX_OUTPUT_TOKENS)
    assert talk.core.ends(talk.now) == []


def test_rest_is_counted_from_the_last_word_and_the_last_call() -> None:
    talk = DuplexConversation(DuplexReply("Yes."))
    talk.user(800, speaks=False)
    assert talk.core.rests == talk.now
    talk.user(800, speaks=True)
    assert talk.core.rests == 0
    talk.user(800, speaks=False)
    talk.user(3_200, speaks=False)
    ended = next(at for at, output in talk.told if isinstance(output, ResponseEnded))
    assert talk.core.rests == talk.now - ended
    assert not talk.core.is_owed
    calling = DuplexConversation(ASKS_THE_TIME)
    calling.user(800, speaks=True)
    calling.user(2_400, speaks=False)
    assert calling.core.rests == 0


@pytest.mark.parametrize("steered", [True, False])
def test_a_response_that_has_not_begun_can_be_cancelled(*, steered: bool) -> None:
    talk = DuplexConversation(ASKS_THE_TIME, steered=steered)
    talk.user(800, speaks=True)
    talk.user(1_200, speaks=False)
    (call,) = talk.all(FunctionCallStarted)
    talk.core.answered(call.call_id, "noon")
    talk.core.request("resp_asked", None)
    assert talk.core.is_awaited
    assert talk.core.cancel("resp_other", None, talk.now)[0].kind is RefusalKind.NO_ACTIVE_RESPONSE
    told = talk.take(talk.core.cancel("resp_asked", "event_1", talk.now))
    assert [type(output) for output in told] == [ResponseStarted, ResponseEnded, *[SteerModel] * steered]
    assert told[1].reason is EndReason.CLIENT_CANCELLED
    assert not talk.core.is_awaited


def test_a_request_for_patience_is_not_the_response_that_was_asked_for() -> None:
    settings = DuplexSettings(on_hold="One moment please, I am looking.")
    talk = DuplexConversation(ASKS_THE_TIME, settings=settings)
    talk.user(800, speaks=True)
    talk.user(1_200, speaks=False)
    (call,) = talk.all(FunctionCallStarted)
    assert talk.core.is_speaking
    assert talk.core.request("resp_early", None)[0].kind is RefusalKind.RESPONSE_ACTIVE
    talk.take(talk.core.answered(call.call_id, "noon") or [])
    talk.take(talk.core.request("resp_asked", None))
    talk.user(4_800, speaks=False)
    assert [talk.text(started.response_id) for started, _ in talk.responses()] == [
        "", "One moment please, I am looking.", "It is noon."]  # fmt: skip
    assert talk.responses()[-1][0].response_id == "resp_asked"


def test_a_result_that_comes_after_its_time_is_given_to_the_model_once() -> None:
    talk = DuplexConversation(ASKS_THE_TIME)
    talk.user(800, speaks=True)
    talk.user(12_000, speaks=False)
    (call,) = talk.all(FunctionCallStarted)
    called = next(at for at, output in talk.told if isinstance(output, FunctionCallStarted))
    assert talk.now > called + CALL_TIMEOUT
    talk.take(talk.core.answered(call.call_id, "noon") or [])
    talk.user(1_600, speaks=False)
    assert talk.model.results[-1] == "noon"
    assert not talk.core.answered(call.call_id, "noon")


def test_a_response_of_text_alone_says_nothing_and_the_next_one_speaks() -> None:
    talk = DuplexConversation(DuplexReply("In writing."), DuplexReply("Aloud."))
    talk.take(talk.core.request("resp_text", None, audio=False))
    talk.user(1_600, speaks=False)
    assert talk.text("resp_text") == "In writing."
    assert talk.all(OutputAudio) == []
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    assert talk.all(OutputAudio) != []


def test_a_response_that_waits_behind_another_has_its_time_after_it() -> None:
    talk = DuplexConversation(STORY)
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    out: list = []
    talk.core._call("get_time", "{}", talk.now, out)
    talk.take(out)
    talk.take(talk.core.answered(talk.all(FunctionCallStarted)[0].call_id, "noon") or [])
    talk.take(talk.core.request("resp_asked", None))
    talk.user(17_600, speaks=False)
    ends = [at for at, output in talk.told if isinstance(output, ResponseEnded)]
    assert talk.responses()[-1][0].response_id == "resp_asked"
    assert START_TIMEOUT <= ends[-1] - ends[-2] < START_TIMEOUT + talk.frame


def test_words_that_are_written_faster_than_anybody_speaks_are_not_taken_for_heard() -> None:
    talk = DuplexConversation(STORY)
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    (started,) = talk.all(ResponseStarted)
    marks = [output for output in talk.of(started.response_id) if isinstance(output, OutputSpoken)]
    sent = talk.sent(started.response_id)
    heard = max(mark.text_end for mark in marks if mark.audio_end <= sent)
    assert len(talk.text(started.response_id)) > 15 * sent / 24_000 >= heard > 0
    assert [mark.audio_end for mark in marks] == sorted({mark.audio_end for mark in marks})


def test_a_notice_is_a_kind_and_its_fields() -> None:
    assert DuplexNotice(NoticeKind.MODEL_FAILED).fields == {}
    assert len({kind.value for kind in NoticeKind}) == len(NoticeKind)
