"""Responses: how they come about, what they bring, and every way they end."""

from __future__ import annotations

import pytest

from gateway.turns.actions import Generate, StopGenerating, StopResponse, Synthesize
from gateway.turns.inputs import (
    FunctionCallDelta,
    GenerationEnded,
    GenerationFailed,
    HeardByClient,
    ResponseRequested,
    SynthesisEnded,
    SynthesisFailed,
    SynthesizedSpeech,
    TextDelta,
    Tick,
)
from gateway.turns.settings import LONGEST_REPLY, TurnSettings
from gateway.turns.states import Agent
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    CommandRefused,
    ContextRequested,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    TokenUsage,
)
from tests.simulation.conversation import HANG, Call, Conversation, Finish, Pause, by_hand, server_vad

FAULT = EngineFault("engine_broke", "It broke.")


def one_turn(conversation: Conversation) -> Conversation:
    conversation.silence(300)
    conversation.speak(900)
    conversation.silence(800)
    conversation.run_dry()
    return conversation


def asked(**script: object) -> Conversation:
    """A conversation in which the client has just asked for a response."""
    conversation = Conversation(by_hand(), **script)  # by name
    conversation.create()
    return conversation


# --- ordinary ways --------------------------------------------------------------------------------------------------


def test_an_ordinary_turn_runs_in_openais_order() -> None:
    conversation = one_turn(Conversation(TurnSettings(speculation=False)))
    assert conversation.names() == [
        "SpeechStarted",
        "TranscribePause",
        "PauseJudged",
        "SpeechStopped",
        "InputCommitted",
        "ResponseStarted",
        "InputTranscriptDelta",
        "InputTranscriptCompleted",
        "ContextRequested",
        "Generate",
        "OutputTextDelta",
        "Synthesize",
        "OutputAudio",
        "OutputSpoken",
        "OutputItemEnded",
        "ResponseEnded",
    ]
    assert conversation.ends() == [("resp_1", "completed", None)]
    assert conversation.agent is Agent.IDLE


def test_response_created_leaves_at_the_commit() -> None:
    conversation = one_turn(Conversation())
    started, committed = conversation.only(ResponseStarted), conversation.only(InputCommitted)
    assert conversation.at(started) == conversation.at(committed)


def test_the_context_is_asked_for_once_the_words_are_in_the_history() -> None:
    outputs = one_turn(Conversation(TurnSettings(speculation=False))).outputs
    kinds = [type(output) for output in outputs]
    assert kinds.index(InputTranscriptCompleted) < kinds.index(ContextRequested) < kinds.index(Generate)


def test_create_response_false_leaves_the_turn_unanswered() -> None:
    conversation = one_turn(Conversation(server_vad(create_response=False)))
    assert conversation.responses() == []
    conversation.create()
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_a_manual_turn_sends_commit_and_create_back_to_back_and_waits_for_the_words() -> None:
    conversation = Conversation(by_hand(), asr_ms=500)
    conversation.speak(900)
    conversation.commit()
    conversation.create()
    assert conversation.names() == ["InputCommitted", "Transcribe", "ResponseStarted"]
    conversation.wait(499)
    assert conversation.all(ContextRequested) == []
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_a_manual_turn_of_silence_is_answered_all_the_same() -> None:
    conversation = Conversation(by_hand(), asr=[])
    conversation.silence(900)
    conversation.commit()
    conversation.create()
    conversation.run_dry()
    assert conversation.text("client_resp_1") == "I hear you."


def test_a_manual_turn_whose_transcript_is_empty_is_answered_all_the_same() -> None:
    conversation = Conversation(by_hand(), asr="")
    conversation.speak(900)
    conversation.commit()
    conversation.create()
    conversation.run_dry()
    assert conversation.text("client_resp_1") == "I hear you."


def test_two_turns_committed_by_hand_are_both_waited_for() -> None:
    conversation = Conversation(by_hand(), asr=["one", "two"])
    for _ in range(2):
        conversation.speak(500)
        conversation.commit()
    conversation.create()
    conversation.run_dry()
    kinds = [type(output) for output in conversation.outputs]
    assert kinds.count(InputTranscriptCompleted) == 2
    assert kinds.index(ContextRequested) > len(kinds) - kinds[::-1].index(InputTranscriptCompleted) - 1


def test_a_typed_turn_needs_no_audio_at_all() -> None:
    conversation = asked()
    conversation.run_dry()
    assert conversation.names() == [
        "ResponseStarted",
        "ContextRequested",
        "Generate",
        "OutputTextDelta",
        "Synthesize",
        "OutputAudio",
        "OutputSpoken",
        "OutputItemEnded",
        "ResponseEnded",
    ]


def test_a_text_response_speaks_nothing() -> None:
    conversation = Conversation(by_hand(), llm=[["Hello ", "there."]])
    conversation.create(audio=False)
    conversation.run_dry()
    assert conversation.all(Synthesize) == []
    assert conversation.all(OutputAudio) == []
    assert conversation.all(OutputSpoken) == []
    assert conversation.text("client_resp_1") == "Hello there."
    assert conversation.names()[-2:] == ["OutputItemEnded", "ResponseEnded"]
    assert conversation.agent is Agent.IDLE


def test_a_session_that_speaks_no_audio_answers_turns_in_text() -> None:
    conversation = one_turn(Conversation(TurnSettings(audio_output=False)))
    assert conversation.all(Synthesize) == []
    assert conversation.text("resp_1") == "I hear you."


def test_the_reply_is_synthesised_one_chunk_at_a_time_in_order() -> None:
    conversation = asked(llm="This is the first sentence. This is the second one. And here comes the last.")
    conversation.run_dry()
    chunks = conversation.all(Synthesize)
    assert [(chunk.chunk, chunk.first) for chunk in chunks] == [(0, True), (1, False), (2, False)]
    assert conversation.names().count("Synthesize") == 3, "each only after the audio of the one before"


def test_marks_tie_the_audio_to_the_text_chunk_by_chunk() -> None:
    text = "This is the first sentence. And this is the second one."
    conversation = asked(llm=text)
    conversation.run_dry()
    word = samples_from_ms(300)
    marks = [(mark.text_end, mark.audio_end) for mark in conversation.all(OutputSpoken)]
    assert marks == [(len("This is the first sentence. "), 5 * word), (len(text), 11 * word)]


def test_a_closing_emoji_counts_as_heard_with_the_words_before_it() -> None:
    text = "That is very nice of you. \N{SMILING FACE WITH SMILING EYES}"
    conversation = asked(llm=text)
    conversation.run_dry()
    assert len(conversation.all(Synthesize)) == 1
    assert conversation.all(OutputSpoken)[-1].text_end == len(text)
    assert conversation.all(OutputSpoken)[-1].audio_end == conversation.audio_of("client_resp_1")


def test_a_reply_that_no_voice_can_say_is_text_without_audio() -> None:
    conversation = asked(llm="\N{THUMBS UP SIGN}")
    conversation.run_dry()
    assert conversation.all(Synthesize) == []
    assert conversation.all(OutputAudio) == []
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_pieces_of_no_audio_are_not_passed_on() -> None:
    conversation = Conversation(by_hand(), engines=False)
    conversation.create()
    conversation.feed(TextDelta("client_resp_1", "Hello there."))
    conversation.feed(GenerationEnded("client_resp_1", "stop"))
    assert conversation.feed(SynthesizedSpeech("client_resp_1", 0, b"")) == []
    assert conversation.agent is Agent.THINKING


def test_the_usage_is_told_at_the_end() -> None:
    conversation = Conversation(by_hand(), engines=False)
    conversation.create(audio=False)
    conversation.feed(TextDelta("client_resp_1", "Hello."))
    conversation.feed(GenerationEnded("client_resp_1", "stop", TokenUsage(12, 3, 4)))
    assert conversation.only(ResponseEnded).usage == TokenUsage(12, 3, 4)


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", EndReason.MAX_OUTPUT_TOKENS), ("content_filter", EndReason.CONTENT_FILTER)]
)
def test_a_reply_that_was_cut_by_its_model_is_spoken_and_incomplete(finish: str, reason: EndReason) -> None:
    conversation = asked(llm=[["This is only the beginning", Finish(finish)]])
    conversation.run_dry()
    ended = conversation.only(ResponseEnded)
    assert (ended.status, ended.reason) == (EndStatus.INCOMPLETE, reason)
    assert conversation.audio_of("client_resp_1") > 0


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("audio", [True, False])
def test_the_message_in_which_a_model_was_cut_off_is_said_to_be_cut(finish: str, audio: bool) -> None:
    conversation = Conversation(by_hand(), llm=[["This is only the beginning", Finish(finish)]])
    conversation.create(audio=audio)
    conversation.run_dry()
    assert conversation.only(OutputItemEnded).cut


def test_of_several_calls_only_the_one_in_which_the_model_was_cut_off_is_cut() -> None:
    calls = [Call(0, "look_up", '{"city": "Oslo"}', "call_1"), Call(1, "look_up", '{"city": "Be', "call_2")]
    conversation = asked(llm=[["Let me see. ", *calls, Finish("length")]])
    conversation.run_dry()
    first, second = (event.item_id for event in conversation.all(FunctionCallStarted))
    cut = {event.item_id: event.cut for event in conversation.all(OutputItemEnded)}
    assert (cut.pop(first), cut.pop(second)) == (False, True)
    assert list(cut.values()) == [False], "the words before the calls were whole"


# --- nothing to say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [[""], [], ["  \n"], ["<think>I should be rude</think>"], ["<think>never closed"], ["<th", "ink> </think>\n "]],
)
@pytest.mark.parametrize("audio", [True, False])
def test_rb06_a_reply_without_words_completes_with_no_item(reply: list[str], audio: bool) -> None:
    conversation = Conversation(by_hand(), llm=[reply])
    conversation.create(audio=audio)
    conversation.run_dry()
    assert conversation.names() == ["ResponseStarted", "ContextRequested", "Generate", "ResponseEnded"]
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_rb06_after_a_reply_without_words_the_next_response_works() -> None:
    conversation = Conversation(by_hand(), llm=[[""], "Now I know."])
    conversation.create()
    conversation.run_dry()
    conversation.create()
    conversation.run_dry()
    assert conversation.text("client_resp_2") == "Now I know."


def test_rb36_reasoning_is_neither_written_nor_spoken() -> None:
    conversation = asked(llm=[["<th", "ink>I should be ru", "de</thi", "nk>Hello ", "there."]])
    conversation.run_dry()
    assert conversation.text("client_resp_1") == "Hello there."
    assert [chunk.text for chunk in conversation.all(Synthesize)] == ["Hello there."]


def test_text_that_looked_like_a_tag_is_written_when_the_reply_ends() -> None:
    conversation = asked(llm=[["1 <", " 2 and 1 <th"]])
    conversation.run_dry()
    assert conversation.text("client_resp_1") == "1 < 2 and 1 <th"


# --- function calls -------------------------------------------------------------------------------------------------


def test_a_function_call_alone_ends_with_its_response() -> None:
    conversation = asked(llm=[[Call(0, "look_up", '{"city":', "call_7"), Call(0, None, '"Oslo"}')]])
    conversation.run_dry()
    assert conversation.names() == [
        "ResponseStarted",
        "ContextRequested",
        "Generate",
        "FunctionCallStarted",
        "FunctionCallArgumentsDelta",
        "OutputItemEnded",
        "ResponseEnded",
    ]
    started = conversation.only(FunctionCallStarted)
    assert (started.call_id, started.name) == ("call_7", "look_up")
    assert "".join(piece.delta for piece in conversation.all(FunctionCallArgumentsDelta)) == '{"city":"Oslo"}'


def test_a_function_call_without_an_id_gets_one() -> None:
    conversation = asked(llm=[[Call(0, "look_up", "{}")]])
    conversation.run_dry()
    assert conversation.only(FunctionCallStarted).call_id == "call_1"


def test_a_function_call_without_arguments_has_no_delta() -> None:
    conversation = asked(llm=[[Call(0, "stop_timer", "")]])
    conversation.run_dry()
    assert conversation.all(FunctionCallArgumentsDelta) == []
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_rb26_two_interleaved_calls_stay_apart() -> None:
    conversation = asked(
        llm=[
            [
                Call(0, "get_weather", '{"ci', "call_a"),
                Call(1, "get_time", '{"cit', "call_b"),
                Call(0, None, 'ty":"Oslo"}'),
                Call(1, None, 'y":"Oslo"}'),
            ]
        ]
    )
    conversation.run_dry()
    first, second = conversation.all(FunctionCallStarted)
    assert (first.call_id, second.call_id) == ("call_a", "call_b")
    for started in (first, second):
        pieces = [p.delta for p in conversation.all(FunctionCallArgumentsDelta) if p.item_id == started.item_id]
        assert "".join(pieces) == '{"city":"Oslo"}'
    assert [ended.item_id for ended in conversation.all(OutputItemEnded)] == [first.item_id, second.item_id]


def test_a_call_after_text_does_not_wait_for_the_text_to_be_played() -> None:
    conversation = asked(
        llm=[["Let me look that up for you, it takes a while.", Call(0, "look_up", "{}", "call_1")]], word_ms=2_000
    )
    conversation.run_dry()
    call = conversation.only(FunctionCallStarted)
    call_ended, message_ended = conversation.all(OutputItemEnded)
    assert call_ended.item_id == call.item_id
    assert conversation.at(call_ended) < conversation.at(message_ended)
    assert conversation.at(call_ended) < conversation.at(conversation.all(OutputAudio)[0])
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_nothing_continues_by_itself_after_a_function_call() -> None:
    conversation = asked(llm=[[Call(0, "look_up", "{}", "call_1")]])
    conversation.run_dry()
    conversation.wait(60_000)
    assert len(conversation.responses()) == 1
    assert conversation.agent is Agent.IDLE


# --- cancel ---------------------------------------------------------------------------------------------------------

REPLY = "This is the first sentence. And this is the second one."


def test_cancel_while_the_words_are_awaited() -> None:
    conversation = Conversation(by_hand())
    conversation.speak(500)
    conversation.commit()
    conversation.create()
    conversation.cancel()
    assert conversation.ends() == [("client_resp_1", "cancelled", "client_cancelled")]
    conversation.run_dry()
    assert list(conversation.transcripts().values()) == ["hello there"], "the user's words come all the same"
    assert conversation.all(ContextRequested) == []


def test_cancel_while_the_context_is_awaited() -> None:
    conversation = asked(context_ms=100)
    conversation.cancel()
    conversation.run_dry()
    assert conversation.names() == ["ResponseStarted", "ContextRequested", "ResponseEnded", "StopResponse"]


def test_rb09_cancel_before_the_first_token() -> None:
    conversation = asked()
    conversation.wait(100)
    conversation.cancel("client_resp_1")
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "cancelled", "client_cancelled")]
    assert conversation.all(OutputTextDelta) == []


def test_cancel_in_mid_chunk_marks_what_the_chunk_would_have_become() -> None:
    conversation = asked(llm=[[REPLY, HANG]])
    conversation.wait(450)
    sent = conversation.audio_of("client_resp_1")
    assert sent > 0
    assert conversation.all(OutputSpoken) == []
    conversation.cancel()
    mark = conversation.only(OutputSpoken)
    assert mark.text_end == len("This is the first sentence. ")
    assert mark.audio_end > sent, "the chunk was not spoken to its end"
    assert conversation.names()[-3:] == ["OutputSpoken", "ResponseEnded", "StopResponse"]


def test_the_cut_chunks_length_is_estimated_by_the_pace_so_far() -> None:
    conversation = Conversation(by_hand(), engines=False)
    conversation.create()
    conversation.feed(TextDelta("client_resp_1", REPLY))
    conversation.feed(GenerationEnded("client_resp_1", "stop"))
    first = len("This is the first sentence. ")
    conversation.feed(SynthesizedSpeech("client_resp_1", 0, bytes(2 * 1_000 * first)))
    conversation.feed(SynthesisEnded("client_resp_1", 0))
    conversation.feed(SynthesizedSpeech("client_resp_1", 1, bytes(480)))
    conversation.cancel()
    assert conversation.all(OutputSpoken)[-1].audio_end == 1_000 * len(REPLY)


def test_a_cut_chunk_is_never_said_to_have_been_heard_in_full() -> None:
    conversation = Conversation(by_hand(), engines=False)
    conversation.create()
    conversation.feed(TextDelta("client_resp_1", "Hello there."))
    conversation.feed(GenerationEnded("client_resp_1", "stop"))
    conversation.feed(SynthesizedSpeech("client_resp_1", 0, bytes(2 * 500_000)))  # far slower than estimated
    conversation.cancel()
    assert conversation.only(OutputSpoken).audio_end > 500_000


def test_a_cut_before_a_chunks_first_audio_marks_nothing() -> None:
    conversation = asked()
    conversation.wait(250)
    assert conversation.all(Synthesize)
    conversation.cancel()
    assert conversation.all(OutputSpoken) == []
    assert conversation.only(ResponseEnded).heard == 0


def test_cancel_while_the_synthesiser_still_works_on_a_whole_reply() -> None:
    conversation = asked(llm=REPLY)
    conversation.wait(700)
    conversation.cancel()
    conversation.run_dry()
    ended = conversation.only(ResponseEnded)
    assert (ended.status, ended.reason) == (EndStatus.CANCELLED, EndReason.CLIENT_CANCELLED)
    assert 0 < ended.heard < conversation.audio_of("client_resp_1")
    assert conversation.all(StopResponse) == [StopResponse("client_resp_1")]


def test_cancel_in_a_function_call_leaves_the_call_incomplete() -> None:
    conversation = asked(llm=[[Call(0, "look_up", '{"ci', "call_1"), HANG]])
    conversation.wait(500)
    conversation.cancel()
    assert conversation.all(OutputItemEnded) == []


def test_rb09_cancel_with_nothing_running_is_refused() -> None:
    conversation = Conversation()
    assert conversation.cancel(client_event_id="c1") == [CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, "c1", None)]


def test_cancel_of_another_response_is_refused_and_changes_nothing() -> None:
    conversation = asked()
    refused = conversation.cancel("resp_of_yesterday", "c1")
    assert refused == [CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, "c1", "resp_of_yesterday")]
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_rb09_cancel_twice_is_refused_once() -> None:
    conversation = asked()
    conversation.cancel(client_event_id="c2")
    conversation.cancel(client_event_id="c3")
    assert [refusal.client_event_id for refusal in conversation.refusals()] == ["c3"]
    assert len(conversation.ends()) == 1


def test_rb09_after_a_cancel_the_next_create_is_accepted_at_once() -> None:
    conversation = asked(llm=REPLY)
    conversation.wait(700)
    conversation.cancel()
    conversation.create()
    assert conversation.refusals() == []
    conversation.run_dry()
    assert [status for _, status, _ in conversation.ends()] == ["cancelled", "completed"]


def test_audio_that_was_sent_before_a_cancel_plays_on_until_the_client_says_otherwise() -> None:
    conversation = asked(word_ms=1_000)
    conversation.wait(1_000)
    assert conversation.agent is Agent.SPEAKING
    item_id = conversation.all(OutputAudio)[0].item_id
    conversation.cancel()
    assert conversation.agent is Agent.SPEAKING
    conversation.truncate(item_id, samples_from_ms(500))
    assert conversation.agent is Agent.IDLE


# --- one at a time --------------------------------------------------------------------------------------------------


def test_rb05_a_second_create_is_refused_and_the_first_goes_on_undisturbed() -> None:
    conversation = asked()
    conversation.wait(100)
    conversation.create(client_event_id="evt_dup")
    (refusal,) = conversation.refusals()
    assert (refusal.kind, refusal.client_event_id) == (RefusalKind.RESPONSE_ACTIVE, "evt_dup")
    assert refusal.response_id == "client_resp_2"
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "completed", None)]
    assert len(conversation.all(Generate)) == 1


def test_rb05_the_next_create_is_accepted_as_soon_as_the_first_is_done() -> None:
    conversation = asked()
    while not conversation.ends():
        conversation.wait(1)
    conversation.create()
    assert conversation.refusals() == []


def test_an_automatic_response_that_meets_a_clients_own_is_refused_without_blame() -> None:
    conversation = Conversation(llm=[[HANG]])
    conversation.speak(900)
    conversation.create()
    conversation.silence(800)
    (refusal,) = conversation.refusals()
    assert (refusal.kind, refusal.client_event_id) == (RefusalKind.RESPONSE_ACTIVE, None)


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_failed_recogniser_fails_the_response_not_the_session() -> None:
    conversation = one_turn(Conversation(asr=[FAULT, "hello"]))
    assert conversation.only(InputTranscriptFailed).fault is FAULT
    assert conversation.only(ResponseEnded).fault is FAULT
    one_turn(conversation)
    assert [status for _, status, _ in conversation.ends()] == ["failed", "completed"]


def test_a_failed_recogniser_without_a_response_fails_the_transcript_only() -> None:
    conversation = one_turn(Conversation(server_vad(create_response=False), asr=FAULT))
    assert conversation.only(InputTranscriptFailed)
    assert conversation.ends() == []


@pytest.mark.parametrize("written", [[], ["Well, "], ["<think>hm"], [Call(0, "look", '{"a', "call_1")]])
def test_rb41_a_failed_language_model_fails_the_response_at_any_point(written: list[str]) -> None:
    conversation = asked(llm=[[*written, FAULT]])
    conversation.run_dry()
    ended = conversation.only(ResponseEnded)
    assert (ended.status, ended.fault) == (EndStatus.FAILED, FAULT)
    assert conversation.all(StopResponse) == [StopResponse("client_resp_1")]
    assert conversation.all(OutputItemEnded) == [], "the item is incomplete"


@pytest.mark.parametrize("at_chunk", [0, 1])
def test_a_failed_synthesiser_fails_the_response_at_any_chunk(at_chunk: int) -> None:
    conversation = asked(llm=REPLY, tts=FAULT, tts_fails_at_chunk=at_chunk)
    conversation.run_dry()
    ended = conversation.only(ResponseEnded)
    assert (ended.status, ended.fault) == (EndStatus.FAILED, FAULT)
    assert (conversation.audio_of("client_resp_1") > 0) is (at_chunk > 0)


def test_audio_before_a_failure_plays_to_its_end() -> None:
    conversation = asked(llm=REPLY, tts=FAULT, tts_fails_at_chunk=1)
    conversation.wait(700)
    assert conversation.ends() == [("client_resp_1", "failed", None)]
    assert conversation.agent is Agent.SPEAKING
    conversation.run_dry()
    assert conversation.agent is Agent.IDLE


# --- late, double and impossible results ----------------------------------------------------------------------------


def results(response_id: str) -> list[object]:
    return [
        TextDelta(response_id, "late"),
        FunctionCallDelta(response_id, 0, "call_1", "look", "{}"),
        GenerationEnded(response_id, "stop"),
        GenerationFailed(response_id, FAULT),
        SynthesizedSpeech(response_id, 0, bytes(480)),
        SynthesisEnded(response_id, 0),
        SynthesisFailed(response_id, FAULT),
    ]


@pytest.mark.parametrize("result", results("client_resp_1"), ids=lambda result: type(result).__name__)
def test_late_results_after_the_end_of_a_response_are_dropped(result: TextDelta) -> None:
    conversation = asked()
    conversation.wait(700)
    conversation.cancel()
    assert conversation.feed(result) == []
    conversation.create()
    assert conversation.feed(result) == [], "the next response is not theirs"


@pytest.mark.parametrize(
    "result",
    [result for result in results("client_resp_1") if not isinstance(result, GenerationFailed)],
    ids=lambda result: type(result).__name__,
)
def test_results_that_nobody_asked_for_yet_are_dropped(result: TextDelta) -> None:
    conversation = asked(context_ms=1_000)
    assert conversation.feed(result) == []
    conversation.run_dry()
    assert conversation.text("client_resp_1") == "I hear you."
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_a_response_whose_context_is_withheld_fails_at_once() -> None:
    conversation = asked(context_ms=1_000)
    conversation.feed(GenerationFailed("client_resp_1", FAULT))
    assert conversation.ends() == [("client_resp_1", "failed", None)]
    before = len(conversation.timeline)
    conversation.run_dry()
    assert len(conversation.timeline) == before, "the context that comes after all starts nothing"


@pytest.mark.parametrize(
    "result",
    [result for result in results("client_resp_1") if not type(result).__name__.startswith("Synthesi")],
    ids=lambda result: type(result).__name__,
)
def test_a_language_model_that_goes_on_after_its_end_is_not_listened_to(result: TextDelta) -> None:
    conversation = asked(engines=False)
    conversation.feed(TextDelta("client_resp_1", "Hello there."))
    conversation.feed(GenerationEnded("client_resp_1", "stop"))
    assert conversation.feed(result) == []


@pytest.mark.parametrize("chunk", [-1, 1, 7])
def test_audio_of_another_chunk_than_the_one_asked_for_is_dropped(chunk: int) -> None:
    conversation = asked(engines=False)
    conversation.feed(TextDelta("client_resp_1", "Hello there."))
    conversation.feed(GenerationEnded("client_resp_1", "stop"))
    assert conversation.feed(SynthesizedSpeech("client_resp_1", chunk, bytes(480))) == []
    assert conversation.feed(SynthesisEnded("client_resp_1", chunk)) == []


def test_a_tick_means_nothing_but_time() -> None:
    assert Conversation().feed(Tick()) == []


def test_the_clients_word_on_an_item_of_the_user_is_ignored() -> None:
    conversation = one_turn(Conversation())
    assert conversation.feed(HeardByClient("item_1", 5)) == []


def test_a_pause_within_the_patience_of_the_language_model_is_only_a_pause() -> None:
    conversation = asked(llm=[["One moment, ", Pause(9_000), "here it is."]])
    conversation.run_dry()
    assert conversation.text("client_resp_1") == "One moment, here it is."
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_the_response_id_is_the_clients_commands() -> None:
    conversation = Conversation()
    conversation.tell(ResponseRequested("resp_of_mine", audio=False))
    assert conversation.responses() == ["resp_of_mine"]
    assert conversation.machine.active_response == "resp_of_mine"


# --- a model that goes round in circles -----------------------------------------------------------------------------


def test_a_reply_that_never_ends_is_stopped_and_incomplete() -> None:
    page = "round and round it goes " * 200
    conversation = Conversation(by_hand(), llm=[[*[page] * 100]])
    conversation.create(audio=False)
    conversation.run_dry()
    (end,) = conversation.all(ResponseEnded)
    assert (end.status, end.reason) == (EndStatus.INCOMPLETE, EndReason.MAX_OUTPUT_TOKENS)
    assert LONGEST_REPLY < len(conversation.text(end.response_id)) <= LONGEST_REPLY + len(page)
    assert len(conversation.all(StopGenerating)) == 1


def test_arguments_that_never_end_are_stopped_too() -> None:
    conversation = Conversation(by_hand(), llm=[[Call(name="f", arguments="x" * 1_000)] * 100])
    conversation.create()
    conversation.run_dry()
    (end,) = conversation.all(ResponseEnded)
    assert end.reason is EndReason.MAX_OUTPUT_TOKENS
