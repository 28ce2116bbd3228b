"""A full-duplex conversation as the events of the Realtime protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.turns.duplex_calls import CALL_TIMEOUT, NO_TOOL_RESULT, RESULT_GRACE
from gateway.turns.duplex_observations import VoiceDropped
from gateway.turns.duplex_turns import START_TIMEOUT
from gateway.turns.duplex_vocabulary import AnswerCall, DuplexSettings, SpeechStartedPolicy, SteerModel
from models.engines.scripted_duplex import DuplexReply
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCleared,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from tests.simulation.duplex_conversation import DuplexConversation

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all " * 3)
FINISHED = DuplexReply(STORY.text.strip() + ".")
NO_DETECTION = DuplexSettings(detection=None)


def test_a_turn_and_its_answer_are_told_in_the_order_of_the_protocol() -> None:
    talk = DuplexConversation(DuplexReply("Good morning."), heard=("hello there",), answer_after_ms=560)
    talk.user(800, speaks=True)
    talk.user(3_200, speaks=False)
    assert talk.names() == [
        "SpeechStarted", "InputTranscriptDelta", "SpeechStopped", "InputCommitted", "InputTranscriptCompleted",
        "ResponseStarted", "OutputTextDelta", "OutputSpoken", "OutputAudio", "OutputTextDelta", "OutputSpoken",
        "OutputAudio", "OutputSpoken", "OutputItemEnded", "ResponseEnded"]  # fmt: skip
    ((started, ended),) = talk.responses()
    assert (ended.status, ended.reason, ended.fault) == (EndStatus.COMPLETED, None, None)
    assert talk.text(started.response_id) == "Good morning."
    (committed,), (done,) = talk.all(InputCommitted), talk.all(InputTranscriptCompleted)
    assert (done.item_id, done.transcript.strip()) == (committed.item_id, "hello there")
    assert done.duration == committed.end - committed.start
    (spoken,) = talk.model.truth
    assert abs(talk.sent(started.response_id) - (spoken.end - spoken.start)) <= 2 * talk.frame


def test_an_agent_that_answers_before_the_silence_is_over_ends_the_users_turn() -> None:
    talk = DuplexConversation(DuplexReply("Yes."), answer_after_ms=160)
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    names = talk.names()
    assert names.index("InputCommitted") < names.index("ResponseStarted")
    assert talk.all(SpeechStopped)[0].end < talk.all(SpeechStarted)[0].start + 24 * (800 + 300 + 400)


def test_a_user_who_makes_the_agent_give_way_is_told_of_just_before_the_response_ends() -> None:
    talk = DuplexConversation(STORY, DuplexReply("Sorry."), yield_after_ms=320)
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    talk.user(1_200, speaks=True)
    talk.user(2_400, speaks=False)
    first, second = talk.responses()
    assert (first[1].status, first[1].reason) == (EndStatus.CANCELLED, EndReason.TURN_DETECTED)
    order = [output for _, output in talk.told if isinstance(output, SpeechStarted | ResponseEnded | PlayoutCut)]
    assert [type(output) for output in order] == [
        SpeechStarted, SpeechStarted, ResponseEnded, PlayoutCut, ResponseEnded]  # fmt: skip
    started, cut = order[1], order[3]
    assert started.start < 24 * (800 + 2_400) + 2 * talk.frame
    assert 0 < cut.heard == first[1].heard <= talk.sent(first[0].response_id)
    marks = [mark for mark in talk.of(first[0].response_id) if isinstance(mark, OutputSpoken)]
    heard = max((mark.text_end for mark in marks if mark.audio_end <= cut.heard), default=0)
    assert 0 < heard < len(talk.text(first[0].response_id))
    assert second[1].status is EndStatus.COMPLETED
    assert len(talk.all(InputCommitted)) == 2


def test_of_a_player_that_is_slow_the_user_has_heard_less_when_the_agent_gives_way() -> None:
    heard = []
    for delay_ms in (150, 1_000):
        talk = DuplexConversation(STORY, yield_after_ms=320, playout_delay=samples_from_ms(delay_ms))
        talk.user(800, speaks=True)
        talk.user(2_400, speaks=False)
        talk.user(1_200, speaks=True)
        (cut,) = talk.all(PlayoutCut)
        heard.append(cut.heard)
    assert heard[0] - heard[1] == samples_from_ms(850)


def being_told(heard: str, *others: DuplexReply, yield_after_ms: int = 9_000) -> DuplexConversation:
    """Return a conversation whose agent tells a story; `heard` is what the user says next."""
    talk = DuplexConversation(STORY, *others, heard=("tell me a story", heard), yield_after_ms=yield_after_ms)
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    return talk


def test_a_nod_into_the_agents_speech_is_no_turn() -> None:
    talk = DuplexConversation(STORY, heard=("tell me a story", "mhm"))
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    talk.user(160, speaks=True)
    talk.user(1_600, speaks=False)
    assert len(talk.all(SpeechStarted)) == len(talk.all(InputCommitted)) == 1
    assert len(talk.all(ResponseStarted)) == 1
    assert talk.all(ResponseEnded) == []


def test_short_words_into_the_agents_speech_that_are_no_nod_are_a_turn_once_it_has_ended() -> None:
    """The model was asked to stop and took its time, or went on: the user's word is not lost from the record."""
    talk = being_told("stop")
    talk.user(320, speaks=True)
    talk.user(1_600, speaks=False)
    assert len(talk.all(InputCommitted)) == 1  # the client is told once the agent has ended, or it would cut it
    talk.take(talk.core.cancel(None, None, talk.now))
    talk.user(800, speaks=False)
    names = talk.names()
    assert names[names.index("ResponseEnded") + 1 :][:4] == [
        "SpeechStarted", "InputTranscriptDelta", "SpeechStopped", "InputCommitted"]  # fmt: skip
    assert [done.transcript.strip() for done in talk.all(InputTranscriptCompleted)] == ["tell me a story", "stop"]


def test_short_words_are_a_turn_also_where_the_agent_ends_before_they_are_known() -> None:
    talk = DuplexConversation(
        DuplexReply("one two three four five"), heard=("tell me a story", "hold on"), yield_after_ms=1_000
    )
    talk.user(800, speaks=True)
    talk.user(640, speaks=False)
    while not talk.all(ResponseStarted):
        talk.user(80, speaks=False)
    talk.user(320, speaks=True)
    talk.user(600, speaks=False)
    talk.take(talk.core.cancel(None, None, talk.now))
    talk.user(1_600, speaks=False)
    assert [done.transcript.strip() for done in talk.all(InputTranscriptCompleted)] == ["tell me a story", "hold on"]


@pytest.mark.parametrize("before_end_ms", [160, 320, 480])
def test_a_nod_near_the_end_of_what_the_agent_says_does_not_cut_it(before_end_ms: int) -> None:
    talk = DuplexConversation(FINISHED, heard=("tell me a story", "mhm"), yield_after_ms=9_000)
    talk.user(800, speaks=True)
    while not talk.all(ResponseEnded):
        talk.user(80, speaks=False)
    length = talk.now // 24
    again = DuplexConversation(FINISHED, heard=("tell me a story", "mhm"), yield_after_ms=9_000)
    again.user(800, speaks=True)
    again.user(length - before_end_ms - 800, speaks=False)
    again.user(160, speaks=True)
    again.user(1_600, speaks=False)
    assert [ended.status for ended in again.all(ResponseEnded)] == [EndStatus.COMPLETED]
    assert again.all(PlayoutCut) == []
    assert len(again.all(InputCommitted)) == (2 if before_end_ms == 160 else 1)  # it began when all was said


@pytest.mark.parametrize("end", ["all", "all,", "A.D"])
def test_who_pauses_for_breath_has_cut_a_sentence_that_was_not_finished(end: str) -> None:
    """Real speech pauses after a quarter of a second, which is when a model gives way."""
    talk = DuplexConversation(DuplexReply(f"once upon a time there was a king {end}"), yield_after_ms=9_000)
    talk.user(800, speaks=True)
    while not talk.all(ResponseEnded):
        talk.user(80, speaks=False)
    length = talk.now // 24
    again = DuplexConversation(DuplexReply(f"once upon a time there was a king {end}"), yield_after_ms=9_000)
    again.user(800, speaks=True)
    again.user(length - 320 - 800, speaks=False)
    again.user(160, speaks=True)
    again.user(160, speaks=False)
    again.user(800, speaks=True)
    ended = again.all(ResponseEnded)[0]
    assert (ended.status, ended.reason) == (EndStatus.CANCELLED, EndReason.TURN_DETECTED)


def test_who_pauses_as_the_agent_ends_and_goes_on_is_heard_out() -> None:
    talk = DuplexConversation(DuplexReply("one two three four."), heard=("hello", "well"), yield_after_ms=9_000)
    talk.user(800, speaks=True)
    while not talk.all(ResponseEnded):
        talk.user(80, speaks=False)
    length = talk.now // 24
    again = DuplexConversation(DuplexReply("one two three four."), heard=("hello", "well"), yield_after_ms=9_000)
    again.user(800, speaks=True)
    again.user(length - 400 - 800, speaks=False)
    again.user(240, speaks=True)
    again.user(240, speaks=False)
    assert [type(output) for output in again.all(SpeechStarted)] == [SpeechStarted]
    again.user(400, speaks=True)
    assert len(again.all(SpeechStarted)) == 2
    again.user(1_600, speaks=False)
    assert [ended.status for ended in again.all(ResponseEnded)][0] is EndStatus.COMPLETED
    assert len(again.all(InputCommitted)) == 2


def test_who_begins_as_the_agent_ends_has_cut_nothing() -> None:
    """A model without marks counts as silent only 0.8 s after its last sound: who speaks in between cuts nothing."""
    talk = DuplexConversation(DuplexReply("one two three"), marks=False, heard=("hello", "four"), yield_after_ms=9_000)
    talk.user(800, speaks=True)
    while not talk.all(OutputAudio):
        talk.user(80, speaks=False)
    while not talk.model.truth:
        talk.user(80, speaks=False)
    assert talk.all(ResponseEnded) == []
    talk.user(240, speaks=False)
    talk.user(400, speaks=True)
    talk.user(2_400, speaks=False)
    assert talk.all(ResponseEnded)[0].status is EndStatus.COMPLETED
    assert [done.transcript.strip() for done in talk.all(InputTranscriptCompleted)] == ["hello", "four"]


def test_a_user_who_goes_on_after_the_client_has_silenced_the_agent_is_told_of_at_once() -> None:
    talk = being_told("I have another question")
    talk.user(400, speaks=True)
    assert len(talk.all(SpeechStarted)) == 1
    told = talk.take(talk.core.cancel(None, None, talk.now))
    kinds = [type(output) for output in told if isinstance(output, ResponseEnded | SpeechStarted)]
    assert kinds == [ResponseEnded, SpeechStarted]


def test_words_belong_to_the_turn_that_the_model_has_heard_not_to_the_newest() -> None:
    """A recording of two turns, or turns said while a prompt is read: the model hears them after the VAD has."""
    talk = DuplexConversation(heard=("my name is Ann", "what is the time"))
    for _ in range(2):
        talk.vad(800, speaks=True)
        talk.vad(800, speaks=False)
    first, second = (committed.item_id for committed in talk.all(InputCommitted))
    talk.catch_up()
    words = {done.item_id: done.transcript.strip() for done in talk.all(InputTranscriptCompleted)}
    assert words == {first: "my name is Ann", second: "what is the time"}


def test_words_find_their_turn_where_silence_was_left_out_before_the_model() -> None:
    talk = DuplexConversation(heard=("my name is Ann", "what is the time"))
    talk.vad(800, speaks=True)
    talk.vad(4_800, speaks=False)
    talk.leave_out_silence(keep_ms=240)
    talk.catch_up()
    talk.user(1_600, speaks=False)
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    assert [done.transcript.strip() for done in talk.all(InputTranscriptCompleted)] == [
        "my name is Ann", "what is the time"]  # fmt: skip


def test_a_turn_that_the_model_has_not_heard_is_not_ended_by_its_answer_to_an_earlier_one() -> None:
    talk = DuplexConversation(answer_after_ms=400, heard=("my name is Ann", "what is the time"))
    talk.vad(800, speaks=True)
    talk.vad(1_200, speaks=False)
    talk.vad(800, speaks=True)
    talk.vad(160, speaks=False)
    talk.catch_up(until_ms=1_600)
    assert len(talk.all(ResponseStarted)) == 1
    assert len(talk.all(InputCommitted)) == 1


def test_a_word_that_comes_as_the_agent_begins_is_the_last_of_its_turn() -> None:
    talk = DuplexConversation(answer_after_ms=240, heard=("what is the",))
    talk.user(800, speaks=True)
    while not talk.all(ResponseStarted):
        talk.user(80, speaks=False)
    told: list = []
    talk.core._user.wrote("time", told)
    assert [type(output) for output in told] == [InputTranscriptDelta]
    talk.user(1_600, speaks=False)
    assert talk.all(InputTranscriptCompleted)[0].transcript.strip() == "what is the time"


def test_the_agents_own_voice_in_the_microphone_is_no_turn() -> None:
    talk = being_told("once upon a time there was a king")
    talk.user(1_600, speaks=True, echo=0.7)
    talk.user(800, speaks=False)
    talk.take(talk.core.cancel(None, None, talk.now))
    talk.user(800, speaks=False)
    assert len(talk.all(SpeechStarted)) == len(talk.all(InputCommitted)) == 1


def test_what_the_model_writes_of_its_own_echo_is_in_no_item() -> None:
    talk = DuplexConversation(STORY, DuplexReply("Yes."), heard=("tell me a story", "once upon a time", "and then"))
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    talk.user(1_600, speaks=True, echo=0.7)
    talk.take(talk.core.cancel(None, None, talk.now))
    talk.user(2_400, speaks=False)
    talk.user(960, speaks=True)
    talk.user(1_600, speaks=False)
    assert [done.transcript.strip() for done in talk.all(InputTranscriptCompleted)] == ["tell me a story", "and then"]


def test_an_echo_that_is_known_too_late_is_dropped_however_long_it_lasts() -> None:
    talk = being_told("once upon a time")
    talk.user(240, speaks=True)
    talk.user(1_600, speaks=True, echo=0.7)
    talk.user(800, speaks=False)
    talk.take(talk.core.cancel(None, None, talk.now))
    talk.user(800, speaks=False)
    assert len(talk.all(InputCommitted)) == 1
    (dropped,) = talk.all(VoiceDropped)
    assert dropped.echo


def test_an_agent_that_ends_amid_its_echo_has_not_given_way_to_it() -> None:
    talk = DuplexConversation(DuplexReply("one two three four five six"), heard=("hello",), yield_after_ms=9_000)
    talk.user(800, speaks=True)
    while not talk.all(ResponseStarted):
        talk.user(80, speaks=False)
    talk.user(240, speaks=True)
    while not talk.all(ResponseEnded):
        talk.user(80, speaks=True, echo=0.7)
    talk.user(240, speaks=True, echo=0.7)
    talk.user(1_600, speaks=False)
    assert [ended.status for ended in talk.all(ResponseEnded)] == [EndStatus.COMPLETED]
    assert len(talk.all(SpeechStarted)) == len(talk.all(InputCommitted)) == 1


def test_who_speaks_louder_than_the_echo_keeps_the_floor() -> None:
    talk = being_told("no", DuplexReply("Sorry."), yield_after_ms=640)
    talk.user(400, speaks=True)
    talk.user(800, speaks=True, echo=0.7)
    assert [ended.status for ended in talk.all(ResponseEnded)] == [EndStatus.CANCELLED]
    assert len(talk.all(SpeechStarted)) == 2


@pytest.mark.parametrize("policy", list(SpeechStartedPolicy))
def test_the_policy_says_when_a_voice_over_the_agents_is_told(policy: SpeechStartedPolicy) -> None:
    talk = DuplexConversation(STORY, settings=DuplexSettings(speech_started=policy), yield_after_ms=320)
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    talk.user(1_200, speaks=True)
    order = [(at, type(output)) for at, output in talk.told if isinstance(output, SpeechStarted | ResponseEnded)][1:]
    kinds = [kind for _, kind in order]
    assert kinds == (
        [ResponseEnded, SpeechStarted] if policy is SpeechStartedPolicy.IDLE_ONLY else [SpeechStarted, ResponseEnded]
    )
    assert (order[0][0] < order[1][0]) is (policy is SpeechStartedPolicy.ALWAYS)


def test_the_agents_own_nod_is_audible_and_has_no_text() -> None:
    talk = DuplexConversation(DuplexReply("I see."))
    talk.user(4_000, speaks=True)
    talk.user(2_400, speaks=False)
    nod, answer = talk.responses()
    assert talk.text(nod[0].response_id) == ""
    assert talk.sent(nod[0].response_id) >= 24 * 320
    assert nod[1].status is EndStatus.COMPLETED
    assert talk.text(answer[0].response_id) == "I see."
    assert len(talk.all(SpeechStarted)) == 1


def test_text_output_sends_no_audio() -> None:
    talk = DuplexConversation(DuplexReply("Good morning."), settings=DuplexSettings(audio_output=False))
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    assert talk.all(OutputAudio) == talk.all(OutputSpoken) == []
    ((started, _),) = talk.responses()
    assert talk.text(started.response_id) == "Good morning."


# --- tools ----------------------------------------------------------------------------------------------------------

ASKS_THE_TIME = DuplexReply("It is {result}.", call=("get_time", {"zone": "UTC"}))


@pytest.mark.parametrize("asks", [True, False], ids=["response.create follows", "nothing follows"])
def test_a_call_is_a_response_and_its_result_is_spoken_in_the_next(*, asks: bool) -> None:
    talk = DuplexConversation(ASKS_THE_TIME)
    talk.user(800, speaks=True)
    talk.user(1_200, speaks=False)
    (call,), (arguments,) = talk.all(FunctionCallStarted), talk.all(FunctionCallArgumentsDelta)
    assert (call.name, arguments.delta) == ("get_time", '{"zone": "UTC"}')
    assert talk.of(call.response_id)[-1].status is EndStatus.COMPLETED
    assert talk.take(talk.core.answered(call.call_id, "noon")) == []
    if asks:
        assert talk.take(talk.core.request("resp_asked", "event_1")) == [AnswerCall("noon")]
    talk.user(2_400, speaks=False)
    started, ended = talk.responses()[-1]
    assert (started.response_id == "resp_asked") is asks
    assert talk.text(started.response_id) == "It is noon."
    assert ended.status is EndStatus.COMPLETED
    assert talk.core.answered(call.call_id, "again") is None


def test_a_result_waits_for_the_request_that_follows_it_and_not_for_ever() -> None:
    talk = DuplexConversation(ASKS_THE_TIME)
    talk.user(800, speaks=True)
    talk.user(1_200, speaks=False)
    began = talk.now
    talk.core.answered(talk.all(FunctionCallStarted)[0].call_id, "noon")
    talk.user(960, speaks=False)
    assert talk.all(AnswerCall) == []
    talk.user(80, speaks=False)
    (answered,) = [at for at, output in talk.told if isinstance(output, AnswerCall)]
    assert RESULT_GRACE <= answered - began < RESULT_GRACE + talk.frame


def test_a_request_before_the_result_is_there_gets_the_response_to_it() -> None:
    talk = DuplexConversation(ASKS_THE_TIME)
    talk.user(800, speaks=True)
    talk.user(1_200, speaks=False)
    talk.take(talk.core.request("resp_asked", None))
    assert talk.take(talk.core.answered(talk.all(FunctionCallStarted)[0].call_id, "noon")) == [AnswerCall("noon")]
    talk.user(2_400, speaks=False)
    assert talk.text("resp_asked") == "It is noon."


def test_a_request_while_the_agent_asks_for_patience_gets_what_follows() -> None:
    talk = DuplexConversation(ASKS_THE_TIME, settings=DuplexSettings(on_hold="One moment please, I look at my watch."))
    talk.user(800, speaks=True)
    talk.user(1_200, speaks=False)
    talk.take(talk.core.answered(talk.all(FunctionCallStarted)[0].call_id, "noon"))
    talk.take(talk.core.request("resp_asked", None))
    talk.user(4_800, speaks=False)
    _, on_hold, answer = talk.responses()
    assert talk.text(on_hold[0].response_id).startswith("One moment")
    assert answer[0].response_id == "resp_asked"
    assert talk.text("resp_asked") == "It is noon."


def test_a_result_that_does_not_come_is_told_to_the_model_as_an_error() -> None:
    talk = DuplexConversation(ASKS_THE_TIME)
    talk.user(800, speaks=True)
    talk.user(12_000, speaks=False)
    (answer,) = talk.all(AnswerCall)
    assert answer.output == NO_TOOL_RESULT
    called = next(at for at, output in talk.told if isinstance(output, FunctionCallStarted))
    assert next(at for at, output in talk.told if isinstance(output, AnswerCall)) == called + CALL_TIMEOUT


def test_a_call_within_a_response_is_an_item_of_it_and_the_agent_may_ask_for_patience() -> None:
    talk = DuplexConversation(DuplexReply("Let me see."), settings=DuplexSettings(on_hold="One moment."))
    talk.user(800, speaks=True)
    talk.user(640, speaks=False)
    outputs: list = []
    talk.core._call("get_time", "{}", talk.now, outputs)
    talk.take(outputs)
    (call,) = talk.all(FunctionCallStarted)
    assert call.response_id == talk.all(ResponseStarted)[0].response_id
    assert talk.all(SteerModel) == [SteerModel("say", "One moment.")]
    talk.user(4_000, speaks=False)
    assert "One moment." in "".join(talk.text(started.response_id) for started, _ in talk.responses())


# --- what the client wants ------------------------------------------------------------------------------------------


def test_a_response_that_the_client_asks_for_is_begun_by_steering() -> None:
    talk = DuplexConversation(DuplexReply("Welcome!"))
    talk.user(800, speaks=False)
    talk.take(talk.core.request("resp_asked", "event_1"))
    assert talk.take(talk.core.request("resp_more", "event_2")) == [
        CommandRefused(RefusalKind.RESPONSE_ACTIVE, "event_2", "resp_more")
    ]
    talk.user(1_600, speaks=False)
    assert talk.text("resp_asked") == "Welcome!"
    assert talk.all(SteerModel) == [SteerModel("start")]


def test_a_request_during_the_agents_nod_is_the_response_after_it() -> None:
    talk = DuplexConversation(DuplexReply("I see."), settings=NO_DETECTION)
    talk.user(2_560, speaks=True)
    (nod,) = talk.all(ResponseStarted)
    assert talk.take(talk.core.request("resp_asked", None)) == [SteerModel("start")]
    talk.user(2_400, speaks=False)
    assert [started.response_id for started, _ in talk.responses()] == [nod.response_id, "resp_asked"]
    assert (talk.text(nod.response_id), talk.text("resp_asked")) == ("", "I see.")


def test_what_such_a_model_cannot_do_is_refused_with_a_reason() -> None:
    steered, free = DuplexConversation(), DuplexConversation(steered=False)
    for refused in (
        free.core.request("resp_1", "event_1"),
        steered.core.request("resp_1", "event_1", out_of_band=True),
    ):
        (answer,) = refused
        assert (answer.kind, answer.client_event_id) == (RefusalKind.UNSUPPORTED, "event_1")
        assert answer.detail.endswith(".")
    assert steered.core.cancel(None, "event_2", 0) == [CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, "event_2", None)]


def test_a_model_that_does_not_begin_fails_the_response_that_was_asked_for() -> None:
    talk = DuplexConversation()
    talk.core.request("resp_asked", None)
    talk.user(6_000, speaks=False)
    ((started, ended),) = talk.responses()
    assert (started.response_id, ended.status) == ("resp_asked", EndStatus.FAILED)
    assert ended.fault.code == "response_not_started"
    assert START_TIMEOUT <= talk.told[0][0] < START_TIMEOUT + talk.frame


def test_a_cancelled_response_is_over_at_once_and_nothing_of_it_follows() -> None:
    talk = DuplexConversation(STORY, DuplexReply("As you like."))
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    (started,) = talk.all(ResponseStarted)
    assert talk.core.cancel("resp_other", None, talk.now)[0].kind is RefusalKind.NO_ACTIVE_RESPONSE
    told = talk.take(talk.core.cancel(started.response_id, "event_1", talk.now))
    assert [type(output).__name__ for output in told] == ["FloorYielded", "ResponseEnded", "SteerModel"]
    assert (told[1].status, told[1].reason) == (EndStatus.CANCELLED, EndReason.CLIENT_CANCELLED)
    sent = talk.sent(started.response_id)
    talk.user(1_600, speaks=False)
    assert talk.sent(started.response_id) == sent
    assert len(talk.all(ResponseStarted)) == 1
    talk.core.heard_by_client(talk.all(OutputAudio)[0].item_id, 24_000, talk.now)
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    assert talk.text(talk.all(ResponseStarted)[-1].response_id) == "As you like."


def test_a_model_that_takes_the_floor_and_says_nothing_has_failed() -> None:
    talk = DuplexConversation(DuplexReply(stalls=True), steered=False)
    talk.user(800, speaks=True)
    talk.user(5_600, speaks=False)
    ((_, ended),) = talk.responses()
    assert (ended.status, ended.fault.code) == (EndStatus.FAILED, "model_stalled")
    assert talk.all(OutputItemEnded) == []


def test_a_model_that_fails_ends_all_that_is_waited_for() -> None:
    fault = EngineFault("duplex_failed", "It broke.")
    talk = DuplexConversation(STORY, answer_after_ms=160)
    talk.user(800, speaks=True)
    talk.user(800, speaks=False)
    talk.take(talk.core.failed(fault, talk.now))
    ((_, ended),) = talk.responses()
    assert (ended.status, ended.fault) == (EndStatus.FAILED, fault)
    idle = DuplexConversation()
    idle.core.request("resp_asked", None)
    idle.take(idle.core.failed(fault, 0))
    assert idle.responses()[0][1].fault == fault


def test_turns_ended_by_hand_are_committed_and_answered_by_the_model_alone() -> None:
    talk = DuplexConversation(DuplexReply("Noted."), settings=NO_DETECTION, heard=("buy some milk",))
    assert talk.core.commit("event_1")[0].kind is RefusalKind.INPUT_TOO_SHORT
    talk.user(800, speaks=True)
    talk.take(talk.core.commit("event_2"))
    talk.user(2_400, speaks=False)
    (committed,), (done,) = talk.all(InputCommitted), talk.all(InputTranscriptCompleted)
    assert (committed.start, done.transcript.strip()) == (0, "buy some milk")
    assert talk.all(SpeechStarted) == []
    assert len(talk.responses()) == 1


def test_a_commit_in_mid_speech_ends_the_item_that_is_going_on() -> None:
    talk = DuplexConversation(heard=("one two three",))
    talk.user(800, speaks=True)
    talk.take(talk.core.commit(None))
    assert talk.names()[-2:] == ["SpeechStopped", "InputCommitted"]
    assert talk.all(InputCommitted)[0].item_id == talk.all(SpeechStarted)[0].item_id


def test_a_cleared_turn_is_no_item_but_was_heard() -> None:
    talk = DuplexConversation(DuplexReply("Yes?"), heard=("never mind",))
    talk.user(800, speaks=True)
    talk.take(talk.core.clear())
    talk.user(2_400, speaks=False)
    assert len(talk.all(InputCleared)) == 1
    assert talk.all(InputCommitted) == []
    assert len(talk.responses()) == 1


def test_words_that_the_vad_heard_nobody_say_go_to_the_next_item() -> None:
    talk = DuplexConversation(settings=NO_DETECTION, heard=("from far away",))
    talk.user(800, speaks=True)
    talk.core.settings = DuplexSettings()
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    assert talk.all(InputTranscriptCompleted)[0].transcript.strip() == "from far away"


def test_words_that_come_before_the_vad_is_sure_come_first() -> None:
    talk = DuplexConversation(heard=("two three",))
    talk.core._user.wrote("one ", [])
    talk.user(800, speaks=True)
    talk.user(2_400, speaks=False)
    assert talk.all(InputTranscriptCompleted)[0].transcript.strip() == "one two three"


def test_a_late_word_still_belongs_to_the_last_item() -> None:
    talk = DuplexConversation(answer_after_ms=9_000)
    talk.user(800, speaks=True)
    talk.user(560, speaks=False)
    (committed,) = talk.all(InputCommitted)
    told: list = []
    talk.core._user.wrote("indeed", told)
    assert told == [InputTranscriptDelta(committed.item_id, "indeed")]
    talk.user(800, speaks=False)
    assert talk.all(InputTranscriptCompleted)[0].transcript.endswith("indeed")


# --- what holds for any conversation --------------------------------------------------------------------------------

steps = st.one_of(
    st.tuples(st.just("user"), st.integers(1, 30), st.booleans()),
    st.tuples(st.just("echo"), st.integers(1, 30)),
    st.tuples(st.just("deaf"), st.integers(1, 12), st.booleans()),
    st.sampled_from(
        [
            ("commit",),
            ("clear",),
            ("cancel",),
            ("request",),
            ("answer",),
            ("fail",),
            ("manual",),
            ("vad",),
            ("renew",),
        ]
    ),
)
replies = st.lists(st.sampled_from([DuplexReply("Yes."), STORY, ASKS_THE_TIME, DuplexReply(stalls=True)]), max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    replies,
    st.lists(steps, max_size=25),
    st.sampled_from(SpeechStartedPolicy),
    st.booleans(),
    st.sampled_from([20, 80]),
)
def test_no_conversation_breaks_a_promise_of_backends(
    said: list[DuplexReply], plan: list[tuple], policy: SpeechStartedPolicy, steered: bool, frame_ms: int
) -> None:
    talk = DuplexConversation(
        *said, settings=DuplexSettings(speech_started=policy, on_hold="Wait."), steered=steered, frame_ms=frame_ms,
        heard=("one two", "three"),
    )  # fmt: skip
    for number, (what, *details) in enumerate(plan):
        match what:
            case "user":
                talk.user(80 * details[0], speaks=details[1])
            case "echo":
                talk.user(80 * details[0], speaks=True, echo=0.7)
            case "commit":
                talk.take(talk.core.commit(None))
            case "clear":
                talk.take(talk.core.clear())
            case "cancel":
                talk.take(talk.core.cancel(None, None, talk.now))
            case "request":
                talk.take(talk.core.request(f"resp_asked_{number}", None))
            case "answer":
                for call in talk.all(FunctionCallStarted):
                    talk.take(talk.core.answered(call.call_id, "x") or [])
            case "fail":
                talk.take(talk.core.failed(EngineFault("duplex_failed", "It broke."), talk.now))
            case "deaf":
                talk.vad(80 * details[0], speaks=details[1])
            case "renew":
                talk.take(talk.core.ends(talk.now))
                talk.core.renewed()
            case "manual":
                talk.core.settings = replace(talk.core.settings, detection=None)
            case "vad":
                talk.core.settings = replace(talk.core.settings, detection=DuplexSettings().detection)
    talk.user(7_200, speaks=False)
    talk.take(talk.core.failed(EngineFault("duplex_failed", "The end."), talk.now))
    open_response, ended = None, set()
    committed, transcribed, told = set(), set(), set()
    for _, output in talk.told:
        response_id = getattr(output, "response_id", None)
        match output:
            case ResponseStarted():
                assert open_response is None
                assert response_id not in ended
                open_response = response_id
            case ResponseEnded():
                assert open_response == response_id
                open_response = None
                ended.add(response_id)
            case SpeechStarted(item_id=item_id):
                told.add(item_id)
            case SpeechStopped(item_id=item_id):
                assert item_id in told
            case InputCommitted(item_id=item_id, start=start, end=end):
                assert start < end
                committed.add(item_id)
            case InputTranscriptDelta(item_id=item_id):
                assert item_id not in transcribed
            case InputTranscriptCompleted(item_id=item_id) | InputTranscriptFailed(item_id=item_id):
                assert item_id in committed - transcribed
                transcribed.add(item_id)
            case OutputAudio(pcm=pcm):
                assert open_response == response_id
                assert pcm
            case CommandRefused() | PlayoutCut():
                pass
            case _ if response_id is not None:
                assert open_response == response_id
    assert open_response is None
    assert committed == transcribed
