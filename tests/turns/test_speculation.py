"""The language model begins its answer in a pause; the response adopts it, or nobody ever hears of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.turns.actions import Generate, StopGenerating, StopResponse, Synthesize
from gateway.turns.inputs import (
    ContextProvided,
    FunctionCallDelta,
    GenerationAlive,
    GenerationEnded,
    GenerationFailed,
    PartialTranscript,
    PauseTranscript,
    SynthesisEnded,
    TextDelta,
)
from gateway.turns.observations import DropReason, Speculated
from gateway.turns.response import Output
from gateway.turns.settings import LONGEST_REPLY, Deadlines, Detection, TurnSettings
from gateway.turns.speculation import Speculation
from protocol.audio_time import Samples, ms_from_samples, samples_from_ms
from protocol.backend_events import (
    ContextForeseen,
    ContextRequested,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCommitted,
    OutputAudio,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
    TokenUsage,
)
from protocol.ids import CountingIds
from tests.simulation.conversation import HANG, Call, Conversation, Finish, Pause, server_vad

FAULT = EngineFault("broken", "It broke.")
PATIENT = Detection(silence_duration=samples_from_ms(3_000))


def fates(conversation: Conversation) -> list[str]:
    """Return what became of the speculations, in order, and why."""
    return [str(seen.reason or seen.fate) for seen in conversation.all(Speculated)]


def paused(conversation: Conversation, *, speech_ms: int = 800, silence_ms: int = 400) -> Conversation:
    """The user has spoken and says nothing for `silence_ms`."""
    conversation.speak(speech_ms)
    conversation.silence(silence_ms)
    return conversation


def answered(conversation: Conversation) -> Conversation:
    """The user has spoken, the turn is over and the reply has been made."""
    paused(conversation, silence_ms=4_000)
    conversation.run_dry()
    return conversation


def patient(**arguments: object) -> Conversation:
    """Return a conversation in which 3 s of silence end a turn."""
    return Conversation(TurnSettings(PATIENT), **arguments)  # by name


# --- adoption -------------------------------------------------------------------------------------------------------


def test_the_answer_is_written_in_the_silence_and_spoken_at_the_commit() -> None:
    conversation = answered(Conversation(asr="what time is it", asr_ms=90, first_token_ms=200, llm="Noon."))
    commit = conversation.only(InputCommitted)
    generate = conversation.only(Generate)
    assert generate.response_id == conversation.only(ContextForeseen).speculation_id
    assert conversation.at(generate) < conversation.at(commit)
    assert conversation.at(conversation.only(Synthesize)) == conversation.at(commit)
    assert conversation.text("resp_1") == "Noon."
    assert conversation.ends() == [("resp_1", "completed", None)]
    assert fates(conversation) == ["started", "adopted"]


def test_before_the_commit_nothing_but_the_users_speech_is_told() -> None:
    conversation = paused(patient(llm=[["One. ", "Two. ", Finish()]]), silence_ms=2_800)
    assert conversation.names() == [
        "SpeechStarted",
        "TranscribePause",
        "Speculated",
        "ContextForeseen",
        "Generate",
    ]
    conversation.silence(400)
    told = conversation.names(conversation.outputs.index(conversation.only(SpeechStopped)))
    assert told[:3] == ["SpeechStopped", "InputCommitted", "ResponseStarted"]
    assert [delta.delta for delta in conversation.all(OutputTextDelta)] == ["One. ", "Two. "]


def test_what_comes_after_the_adoption_goes_on_where_it_stopped() -> None:
    reply = ["One. ", Pause(600), "Two. ", "Three."]
    conversation = Conversation(llm=[reply], first_token_ms=50)
    answered(conversation)
    deltas = conversation.all(OutputTextDelta)
    assert [delta.delta for delta in deltas] == ["One. ", "Two. ", "Three."]
    assert conversation.at(deltas[0]) == conversation.at(conversation.only(ResponseStarted))
    assert conversation.at(deltas[1]) > conversation.at(deltas[0])
    assert len(conversation.all(Generate)) == 1


def test_a_function_call_is_told_after_the_adoption_only() -> None:
    call = [Call(0, "look_up", '{"a":', "call_x"), Call(0, None, "1}"), Finish("tool_calls")]
    conversation = answered(Conversation(llm=[call], first_token_ms=20))
    started = conversation.only(FunctionCallStarted)
    assert conversation.at(started) == conversation.at(conversation.only(ResponseStarted))
    assert "".join(piece.delta for piece in conversation.all(FunctionCallArgumentsDelta)) == '{"a":1}'
    assert conversation.ends() == [("resp_1", "completed", None)]


def test_tools_that_the_gateway_runs_are_known_to_the_response_that_adopts() -> None:
    call = [Call(0, "mcp__look_up", "{}", "call_x"), Finish("tool_calls")]
    conversation = Conversation(llm=[call], first_token_ms=20, server_tools=["mcp__look_up"], tool_ms=300)
    answered(conversation)
    started = conversation.only(FunctionCallStarted)
    assert conversation.at(conversation.only(ResponseEnded)) == conversation.at(started) + samples_from_ms(300)


def test_the_usage_of_an_adopted_answer_is_the_responses() -> None:
    conversation = paused(patient(engines=False), silence_ms=300)
    usage = TokenUsage(70, 0, 7)
    speculate(conversation)
    for message in (TextDelta("spec_1", "Yes."), GenerationEnded("spec_1", "stop", usage)):
        conversation.tell(message)
    conversation.silence(2_900)
    conversation.tell(SynthesisEnded("resp_1", 0))
    assert conversation.only(ResponseEnded).usage == usage


def test_a_text_answer_is_adopted_whole() -> None:
    conversation = answered(Conversation(TurnSettings(audio_output=False), llm="Noon.", first_token_ms=20))
    assert conversation.text("resp_1") == "Noon."
    assert fates(conversation) == ["started", "adopted"]
    assert conversation.at(conversation.only(ResponseEnded)) == conversation.at(conversation.only(ResponseStarted))


def test_a_live_transcript_and_an_answer_before_the_commit_go_together() -> None:
    settings = TurnSettings(PATIENT, live_transcript=True)
    looks = ["what", "What time", "what time is", "what time is it", "what time is it"]
    conversation = answered(Conversation(settings, asr="What time is it?", looks=looks))
    assert conversation.only(ContextForeseen).words == conversation.transcripts()["item_1"]
    assert fates(conversation) == ["started", "adopted"]


# --- the same run, with and without -----------------------------------------------------------------------------------


def first_audio(conversation: Conversation) -> list[Samples]:
    """Return how long after each SpeechStopped's last voiced frame the first audio of its response leaves."""
    delays = []
    for response in conversation.all(ResponseStarted):
        audio = next(a for a in conversation.all(OutputAudio) if a.response_id == response.response_id)
        delays.append(conversation.at(audio))
    return delays


def ten_turns(*, speculation: bool) -> Conversation:
    replies = [f"Reply number {number}. It goes on for a while." for number in range(10)]
    words = [f"question number {number}" for number in range(10)]
    settings = TurnSettings(speculation=speculation)
    conversation = Conversation(settings, asr=words, llm=replies, asr_ms=90, first_token_ms=200)
    for number in range(10):
        conversation.speak(700 + 130 * number)
        conversation.silence(6_000)
    conversation.run_dry()
    return conversation


def test_the_first_audio_comes_a_hundred_milliseconds_earlier_at_least() -> None:
    eager, waiting = ten_turns(speculation=True), ten_turns(speculation=False)
    assert fates(eager) == ["started", "adopted"] * 10
    assert fates(waiting) == []
    gains = sorted(
        ms_from_samples(late - early) for late, early in zip(first_audio(waiting), first_audio(eager), strict=True)
    )
    assert gains[len(gains) // 2] >= 100
    assert [eager.text(each) for each in eager.responses()] == [waiting.text(each) for each in waiting.responses()]


# --- dropped --------------------------------------------------------------------------------------------------------


def test_a_user_who_goes_on_drops_it_at_once_and_the_language_model_is_stopped() -> None:
    conversation = paused(patient(llm=[["Stale. ", HANG]]), silence_ms=900)
    since = len(conversation.outputs)
    conversation.frames(0.9)
    assert conversation.names(since)[-2:] == ["Speculated", "StopGenerating"]
    assert conversation.all(StopGenerating)[0].response_id == "spec_1"
    assert fates(conversation) == ["started", "resumed"]


def test_nothing_that_a_dropped_answer_said_is_ever_told() -> None:
    conversation = paused(patient(asr="one two", pauses=["one", "one two"], llm="Stale. Old. Gone."), silence_ms=500)
    conversation.llm = "Fresh."
    conversation.speak(500)
    answered(conversation)
    assert [conversation.text(each) for each in conversation.responses()] == ["Fresh."]
    assert fates(conversation) == ["started", "resumed", "started", "adopted"]


def test_a_turn_has_three_starts_and_then_waits_for_its_commit() -> None:
    words = ["one", "one two", "one two three", "one two three four"]
    conversation = patient(asr=words[-1], pauses=words, llm="Well.")
    for _ in words:
        paused(conversation, silence_ms=600)
    assert fates(conversation) == ["started", "resumed"] * 3
    conversation.silence(3_000)
    conversation.run_dry()
    assert len(conversation.all(ContextForeseen)) == 3
    assert conversation.all(Generate)[-1].response_id == "resp_1"
    assert conversation.text("resp_1") == "Well."
    paused(conversation)
    assert len(conversation.all(ContextForeseen)) == 4, "the next turn has its own three"


def speculate(conversation: Conversation, words: str = "hello there") -> None:
    """The recogniser understood `words` in the pause that lasts; the session gave the context."""
    conversation.tell(PauseTranscript("item_1", 1, words))


def test_a_changed_context_drops_it_at_the_commit_and_the_response_asks_afresh() -> None:
    conversation = paused(patient(llm=[["Stale. ", HANG]]), silence_ms=1_000)
    conversation.context_changes += 1
    conversation.llm = "Fresh."
    conversation.silence(2_100)
    conversation.run_dry()
    assert fates(conversation) == ["started", "context_changed"]
    stop, generate = conversation.only(StopGenerating), conversation.all(Generate)[-1]
    assert conversation.outputs.index(stop) < conversation.outputs.index(generate), "the model's place is free first"
    assert conversation.text("resp_1") == "Fresh."


def test_other_final_words_drop_it_before_the_context_is_asked_for() -> None:
    settings = TurnSettings(PATIENT, live_transcript=True)
    conversation = paused(Conversation(settings, asr="what time is it"), silence_ms=1_000)
    for _ in range(2):
        conversation.tell(PartialTranscript("item_1", "What TIME is it"))
    conversation.silence(2_200)
    assert conversation.transcripts() == {"item_1": "What TIME is it"}
    assert fates(conversation) == ["started", "transcript_changed"]
    dropped = conversation.outputs.index(conversation.all(Speculated)[1])
    assert dropped < conversation.outputs.index(conversation.only(ContextRequested))


def test_new_settings_drop_it() -> None:
    conversation = paused(patient(), silence_ms=600)
    conversation.configure(replace(TurnSettings(PATIENT), audio_output=False))
    assert fates(conversation) == ["started", "context_changed"]
    conversation.silence(2_600)
    assert conversation.all(Generate)[-1].response_id == "resp_1"


def test_a_clear_drops_it() -> None:
    conversation = paused(patient(), silence_ms=600)
    conversation.clear()
    assert fates(conversation) == ["started", "cancelled"]
    conversation.run_dry()
    assert conversation.responses() == []


def test_a_commit_by_hand_drops_it_since_nobody_asked_for_an_answer() -> None:
    conversation = paused(patient(), silence_ms=600)
    conversation.commit()
    assert fates(conversation) == ["started", "cancelled"]
    assert conversation.responses() == []


def test_a_response_that_the_client_asks_for_drops_it() -> None:
    conversation = paused(patient(), silence_ms=600)
    conversation.create()
    assert fates(conversation) == ["started", "superseded"]


def test_audio_of_the_clients_that_is_to_be_recognised_drops_it() -> None:
    conversation = paused(patient(), silence_ms=600)
    conversation.give_audio("given_1", 24_000)
    assert fates(conversation) == ["started", "context_changed"]


def test_a_cancel_between_the_commit_and_the_context_drops_it() -> None:
    conversation = paused(patient(context_ms=400, llm=[["Stale.", HANG]]), silence_ms=3_100)
    conversation.cancel()
    assert conversation.ends() == [("resp_1", "cancelled", "client_cancelled")]
    assert fates(conversation) == ["started", "cancelled"]
    conversation.run_dry()
    assert conversation.all(OutputTextDelta) == []


def test_a_user_who_resumes_before_the_adoption_drops_it() -> None:
    conversation = paused(patient(context_ms=400, llm=[["Stale.", HANG], "Fresh."]), silence_ms=3_100)
    conversation.speak(500)
    assert conversation.ends() == [("resp_1", "cancelled", "turn_detected")]
    assert fates(conversation) == ["started", "cancelled"]
    conversation.llm = ["Fresh."]
    answered(conversation)
    assert conversation.all(OutputTextDelta)[0].delta == "Fresh."


def test_a_language_model_that_fails_ahead_of_the_turn_is_asked_again_and_no_response_fails() -> None:
    conversation = patient(llm=[[FAULT]])
    paused(conversation, silence_ms=1_000)
    assert fates(conversation) == ["started", "failed"]
    assert conversation.all(StopGenerating) == [], "it has ended"
    conversation.llm = ["Noon."]
    conversation.silence(2_100)
    conversation.run_dry()
    assert conversation.ends() == [("resp_1", "completed", None)]
    assert conversation.text("resp_1") == "Noon."


def test_a_context_that_is_withheld_ends_it_without_a_word() -> None:
    conversation = paused(patient(context_ms=5_000), silence_ms=600)
    conversation.tell(GenerationFailed("spec_1", FAULT))
    assert fates(conversation) == ["started", "failed"]
    assert conversation.all(Generate) == []


@pytest.mark.parametrize(("pieces", "patience_ms"), [([HANG], 400), (["Well", HANG], 250)])
def test_a_silent_language_model_is_given_up_ahead_of_the_turn_as_in_it(pieces: list[object], patience_ms: int) -> None:
    deadlines = Deadlines(first_token=samples_from_ms(400), next_token=samples_from_ms(250))
    conversation = Conversation(TurnSettings(PATIENT, deadlines=deadlines), llm=[pieces], first_token_ms=100)
    paused(conversation, silence_ms=2_000)
    started, dropped = conversation.all(Speculated)
    assert dropped.reason == "failed"
    begun = conversation.at(started) + (samples_from_ms(100) if len(pieces) == 2 else 0)
    assert conversation.at(dropped) - begun == samples_from_ms(patience_ms)
    assert conversation.responses() == []


def test_an_answer_longer_than_the_longest_reply_is_dropped() -> None:
    conversation = paused(patient(engines=False), silence_ms=300)
    speculate(conversation)
    conversation.tell(TextDelta("spec_1", "a" * (LONGEST_REPLY - 1)))
    assert fates(conversation) == ["started"]
    conversation.tell(TextDelta("spec_1", ""))
    assert fates(conversation) == ["started", "too_long"]
    assert conversation.only(StopGenerating).response_id == "spec_1"


def test_calls_count_towards_the_longest_reply() -> None:
    conversation = paused(patient(engines=False), silence_ms=300)
    speculate(conversation)
    conversation.tell(FunctionCallDelta("spec_1", 0, "call_x", "look_up", "a" * LONGEST_REPLY))
    assert fates(conversation) == ["started", "too_long"]


def test_thoughts_keep_an_answer_alive_are_no_part_of_it_and_count_towards_the_longest_reply() -> None:
    deadlines = Deadlines(first_token=samples_from_ms(400), next_token=samples_from_ms(400))
    conversation = paused(Conversation(TurnSettings(PATIENT, deadlines=deadlines), engines=False), silence_ms=300)
    speculate(conversation)
    for _ in range(4):
        conversation.silence(300)
        conversation.tell(GenerationAlive("spec_1", 8))
    assert fates(conversation) == ["started"]
    conversation.tell(GenerationAlive("spec_1", LONGEST_REPLY))
    assert fates(conversation) == ["started", "too_long"]
    assert conversation.only(StopGenerating).response_id == "spec_1"


# --- after the adoption ----------------------------------------------------------------------------------------------


def adopted(llm: list[object], **arguments: object) -> Conversation:
    """A response has just adopted what was written."""
    conversation = patient(llm=[llm], **arguments)
    paused(conversation, silence_ms=3_040)
    assert fates(conversation) == ["started", "adopted"]
    return conversation


def test_after_the_adoption_a_barge_in_stops_the_language_model() -> None:
    conversation = adopted(["One. ", HANG])
    conversation.frames(0.9, 0.9)
    assert conversation.ends() == [("resp_1", "cancelled", "turn_detected")]
    assert conversation.only(StopGenerating).response_id == "spec_1"
    assert conversation.only(StopResponse).response_id == "resp_1"


def test_an_adopted_answer_that_is_whole_has_nothing_to_stop() -> None:
    conversation = adopted(["One two three four five six."])
    conversation.frames(0.9, 0.9)
    assert conversation.only(StopResponse).response_id == "resp_1"
    assert conversation.all(StopGenerating) == []


def test_the_first_token_is_awaited_from_the_adoption_on() -> None:
    conversation = adopted([HANG])
    began = conversation.at(conversation.only(ResponseStarted))
    conversation.run_dry()
    end = conversation.only(ResponseEnded)
    assert end.fault is not None
    assert end.fault.code == "llm_timeout"
    assert conversation.at(end) == began + Deadlines().first_token


def test_after_the_adoption_a_failure_is_the_responses() -> None:
    conversation = adopted(["One. ", Pause(2_950), FAULT], first_token_ms=50)
    conversation.run_dry()
    assert conversation.only(ResponseEnded).fault == FAULT


def test_an_adopted_answer_without_end_is_stopped_at_the_longest_reply() -> None:
    conversation = adopted(["One. ", HANG])
    conversation.tell(TextDelta("spec_1", "a" * LONGEST_REPLY))
    assert conversation.only(StopGenerating).response_id == "spec_1"


# --- never begun ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        TurnSettings(PATIENT, speculation=False),
        TurnSettings(replace(PATIENT, create_response=False)),
    ],
)
def test_settings_in_which_no_answer_is_begun(settings: TurnSettings) -> None:
    assert fates(paused(Conversation(settings), silence_ms=2_000)) == []


@pytest.mark.parametrize("heard", ["", ".", " ... "])
def test_a_cough_is_not_answered_ahead(heard: str) -> None:
    assert fates(paused(patient(asr=heard), silence_ms=2_000)) == []


def test_no_answer_is_begun_while_a_response_runs_or_plays() -> None:
    conversation = Conversation(server_vad(interrupt_response=False), llm="word " * 40)
    paused(conversation, silence_ms=1_500)
    before = fates(conversation)
    conversation.speak(500)
    conversation.silence(1_000)
    assert fates(conversation) == before


def test_no_answer_is_begun_while_earlier_words_are_not_known() -> None:
    conversation = patient()
    conversation.give_audio("given_1", 24_000)
    conversation.asr_ms = 100
    conversation.engines = False
    conversation.give_audio("given_2", 24_000)
    conversation.engines = True
    paused(conversation, silence_ms=2_000)
    assert fates(conversation) == []


def test_words_of_a_pause_that_is_over_begin_nothing() -> None:
    conversation = paused(patient(engines=False), silence_ms=300)
    conversation.speak(300)
    conversation.tell(PauseTranscript("item_1", 1, "late"))
    assert fates(conversation) == []


# --- late and impossible --------------------------------------------------------------------------------------------


def test_what_comes_double_or_before_its_time_changes_nothing() -> None:
    conversation = paused(patient(engines=False, context_ms=200), silence_ms=300)
    speculate(conversation)
    for early in (TextDelta("spec_1", "Early. "), GenerationEnded("spec_1", "stop"), SynthesisEnded("spec_1", 0)):
        conversation.tell(early)
    conversation.silence(300)
    conversation.tell(ContextProvided("spec_1"))
    assert len(conversation.all(Generate)) == 1
    conversation.tell(TextDelta("spec_1", "Right. "))
    conversation.tell(SynthesisEnded("spec_1", 0))
    for message in (GenerationEnded("spec_1", "stop"), TextDelta("spec_1", "After.")):
        conversation.tell(message)
    conversation.silence(2_900)
    conversation.wait(300)
    assert conversation.text("resp_1") == "Right. "


def test_a_context_that_comes_for_a_dropped_speculation_begins_nothing() -> None:
    conversation = paused(patient(context_ms=500), silence_ms=450)
    conversation.speak(1_000)
    assert fates(conversation) == ["started", "resumed"]
    assert conversation.all(Generate) == []


def test_a_second_context_after_the_adoption_changes_nothing() -> None:
    conversation = adopted(["One. ", HANG])
    since = len(conversation.outputs)
    conversation.tell(ContextProvided("resp_1", foreseen="spec_1"))
    assert conversation.outputs[since:] == []


def test_the_shell_may_ask_which_one_runs() -> None:
    conversation = paused(patient(llm=[[HANG]]), silence_ms=600)
    assert conversation.machine.speculation == "spec_1"
    assert conversation.machine.runs("spec_1")
    conversation.speak(100)
    assert conversation.machine.speculation is None
    assert not conversation.machine.runs("spec_1")


def test_the_context_is_asked_for_once_by_the_response_itself() -> None:
    conversation = answered(Conversation())
    assert [asked.response_id for asked in conversation.all(ContextRequested)] == ["resp_1"]
    assert conversation.all(SpeechStarted)[0].item_id == conversation.all(Speculated)[0].item_id


# --- by itself ------------------------------------------------------------------------------------------------------


def begun(*utterances: tuple[str, str]) -> tuple[Speculation, list[str]]:
    """Begin answers to utterances of (item, words) one after the other; return what became of them."""
    speculation, out = Speculation(CountingIds()), list[Output]()
    for item_id, words in utterances:
        speculation.begin(item_id, 24_000, words, 0, Deadlines(), out)
    return speculation, [str(seen.reason or seen.fate) for seen in out if isinstance(seen, Speculated)]


def test_the_same_words_again_let_it_go_on() -> None:
    speculation, seen = begun(("item_1", "one"), ("item_1", "one"))
    assert seen == ["started"]
    assert speculation.speculation_id == "spec_1"


def test_other_words_begin_another_answer_and_end_the_first() -> None:
    assert begun(("item_1", "one"), ("item_1", "one two"))[1] == ["started", "transcript_changed", "started"]


def test_another_utterance_begins_another_answer_and_ends_the_first() -> None:
    assert begun(("item_1", "one"), ("item_2", "one"))[1] == ["started", "superseded", "started"]


def test_a_fourth_start_ends_the_third_and_begins_nothing() -> None:
    speculation, seen = begun(*[("item_1", words) for words in "abcd"])
    assert seen.count("started") == 3
    assert speculation.speculation_id is None


def test_where_nothing_runs_there_is_nothing_to_ask_or_drop() -> None:
    speculation, out = Speculation(CountingIds()), list[Output]()
    speculation.committed("item_1", "resp_1")
    speculation.heard("item_1", "one", out)
    speculation.settle(10**9, out)
    speculation.drop(DropReason.CANCELLED, out)
    assert (speculation.item_id, speculation.answering, speculation.deadline) == (None, "", None)
    assert speculation.voiced_until == 0
    assert out == []


def test_the_commit_of_another_turn_is_not_its_own() -> None:
    speculation, _ = begun(("item_1", "one"))
    speculation.committed("item_2", "resp_2")
    assert speculation.answering == ""
