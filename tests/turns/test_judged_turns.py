"""Turns that judges have a say in: a pause to think keeps the floor, a finished sentence is answered soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gateway.turns.actions import (
    JudgeSound,
    JudgeWords,
    PrepareJudges,
    StopTranscribing,
    Transcribe,
    TranscribePause,
)
from gateway.turns.end_of_turn import (
    AGENT_WORDS,
    ASK_AFTER,
    AWAIT_JUDGES,
    COMMIT_FROM,
    LIMITS,
    SOUND_LONGEST,
    SOUND_TAIL,
    WAIT_LIMIT,
)
from gateway.turns.inputs import Judged, PauseTranscript, SettingsChanged
from gateway.turns.observations import PauseJudged, PauseVerdict
from gateway.turns.settings import LONGEST_INPUT, STALL_AFTER, VAD_FRAME, Eagerness
from gateway.turns.speakers_pauses import FALSE_END_WITHIN
from protocol.audio_time import Samples, samples_from_ms, samples_from_s
from protocol.backend_events import (
    EngineFault,
    InputCommitted,
    InputTranscriptCompleted,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from tests.simulation.conversation import (
    HANG,
    SILENCE,
    SPEECH,
    Conversation,
    Judge,
    Score,
    Wait,
    Words,
    by_hand,
    semantic,
    server_vad,
)

FAULT = EngineFault("asr_failed", "It broke.")
LEVELS = [Eagerness.LOW, Eagerness.MEDIUM, Eagerness.HIGH]


def reader(scores: Mapping[str, Score] | Score) -> Judge:
    """A judge that reads: by the words, or the same for all."""

    def judge(question: JudgeSound | JudgeWords) -> Score:
        assert isinstance(question, JudgeWords)
        return scores[question.text] if isinstance(scores, Mapping) else scores

    return judge


def listener(*scores: Score) -> Judge:
    """A judge that listens: one score for each pause, the last one for all further ones."""

    def judge(question: JudgeSound | JudgeWords) -> Score:
        assert isinstance(question, JudgeSound)
        return scores[min(question.pause, len(scores)) - 1]

    return judge


def talk(
    *pauses: Words, eagerness: Eagerness = Eagerness.MEDIUM, asr_ms: int = 80, judge_ms: int = 40, **judges: Judge
) -> Conversation:
    """A conversation in which `judges` end turns; the words up to each pause."""
    settings = semantic(*judges, eagerness=eagerness)
    return Conversation(settings, pauses=pauses, judges=judges, asr_ms=asr_ms, judge_ms=judge_ms)


def silence_of_the_end(conversation: Conversation) -> Samples:
    """How long the user was silent when the turn ended."""
    (commit,) = [seen for seen in conversation.all(PauseJudged) if seen.verdict is PauseVerdict.COMMIT]
    return commit.silence


def verdicts(conversation: Conversation) -> list[tuple[str, str]]:
    return [(seen.verdict.value, seen.by) for seen in conversation.all(PauseJudged)]


# --- ends and pauses ------------------------------------------------------------------------------------------------


def test_a_finished_sentence_is_committed_as_soon_as_its_judges_have_answered() -> None:
    conversation = talk("what time is it", probability=reader(0.97))
    conversation.speak(1_000)
    conversation.silence(1_000)
    assert COMMIT_FROM <= silence_of_the_end(conversation) <= samples_from_ms(128 + 80 + 40 + 32)
    assert verdicts(conversation) == [("commit", "probability")]
    assert list(conversation.transcripts().values()) == ["what time is it"]
    assert conversation.all(Transcribe) == []


def test_a_pause_after_whether_keeps_the_floor() -> None:
    words = ["i was wondering whether", "i was wondering whether you open on sundays"]
    conversation = talk(*words, probability=reader({words[0]: 0.02, words[1]: 0.97}))
    conversation.speak(1_200)
    conversation.silence(2_000)
    conversation.speak(1_200)
    conversation.silence(1_000)
    assert list(conversation.transcripts().values()) == [words[1]]
    assert [verdict for verdict, _ in verdicts(conversation)] == ["hold", "resumed", "commit"]


def test_an_end_that_nobody_believes_in_is_committed_near_the_limit_and_not_beyond() -> None:
    conversation = talk("i was wondering whether", probability=reader(0.0))
    conversation.speak(1_200)
    conversation.silence(5_000)
    limit = LIMITS[Eagerness.MEDIUM]
    assert limit - samples_from_ms(500) < silence_of_the_end(conversation) <= limit
    assert conversation.only(SpeechStopped).end <= conversation.only(SpeechStarted).start + samples_from_s(5.3)


def test_a_phone_number_in_groups_is_one_turn() -> None:
    groups = ["five five five", "five five five one two three", "five five five one two three four five six seven"]
    conversation = talk(*groups, lexical=reader({groups[0]: 0.05, groups[1]: 0.06, groups[2]: 0.93}))
    for pause_ms in (900, 700, 1_500):
        conversation.speak(900)
        conversation.silence(pause_ms)
    assert list(conversation.transcripts().values()) == [groups[-1]]


def test_a_one_word_answer_is_answered() -> None:
    conversation = talk("two", probability=reader(0.8), audio=listener(0.9))
    conversation.speak(300)
    conversation.silence(1_000)
    assert len(conversation.all(ResponseStarted)) == 1
    assert silence_of_the_end(conversation) < samples_from_ms(500)


@pytest.mark.parametrize("complete", [0.0, 0.1, 0.5, 0.8, 0.97])
def test_with_the_same_evidence_the_more_eager_waits_no_longer(complete: float) -> None:
    silences = []
    for eagerness in LEVELS:
        conversation = talk("well", eagerness=eagerness, audio=listener(complete))
        conversation.speak(800)
        conversation.silence(9_000)
        silences.append(silence_of_the_end(conversation))
    assert silences == sorted(silences, reverse=True)
    assert complete > 0.9 or silences[0] > silences[1] > silences[2]


def test_the_turn_ends_to_the_sample_where_the_threshold_is_reached() -> None:
    conversation = talk("well", audio=listener(0.4))
    conversation.speak(800)
    conversation.silence(4_000)
    stopped, voiced_until = conversation.only(SpeechStopped), 25 * VAD_FRAME
    seen = conversation.all(PauseJudged)[-1]
    needed = stopped.end - voiced_until
    assert needed <= seen.silence < needed + VAD_FRAME
    assert seen.complete is not None
    assert seen.threshold is not None
    assert seen.complete >= seen.threshold


# --- what is asked --------------------------------------------------------------------------------------------------


def test_listeners_hear_the_last_eight_seconds_with_hardly_any_silence_and_readers_all_the_words() -> None:
    conversation = talk("well then", audio=listener(0.97), lexical=reader(0.97))
    conversation.speak(10_000)
    conversation.silence(1_000)
    sound, words, asked = (
        conversation.only(JudgeSound),
        conversation.only(JudgeWords),
        conversation.only(TranscribePause),
    )
    voiced_until = asked.end - ASK_AFTER
    assert (sound.start, sound.end) == (sound.end - SOUND_LONGEST, voiced_until + SOUND_TAIL)
    assert samples_from_ms(100) >= SOUND_TAIL
    assert (words.text, words.pause, words.agent_text) == ("well then", 1, "")


def test_readers_are_told_what_the_agent_said_last() -> None:
    question = "Sure. " * 100 + "How many would you like?"
    conversation = talk("hello", "two", lexical=reader(0.97))
    conversation.llm = question
    conversation.audio(900, True)
    conversation.silence(900)
    conversation.wait(200_000)
    conversation.speak(400)
    conversation.silence(400)
    assert [words.agent_text for words in conversation.all(JudgeWords)] == ["", question[-AGENT_WORDS:]]


def test_readers_get_ready_for_the_agents_words_as_soon_as_the_user_speaks() -> None:
    conversation = talk("hello", "two", lexical=reader(0.97), audio=listener(0.9))
    conversation.llm = "How many?"
    conversation.speak(900)
    conversation.silence(5_000)
    conversation.speak(400)
    conversation.silence(500)
    ready, asked = conversation.all(PrepareJudges), conversation.all(JudgeWords)
    assert [prepared.agent_text for prepared in ready] == [words.agent_text for words in asked] == ["", "How many?"]
    for prepared, started in zip(ready, conversation.all(SpeechStarted), strict=True):
        assert prepared.item_id == started.item_id
        assert conversation.at(prepared) == conversation.at(started)


def test_nobody_gets_ready_where_no_reader_judges() -> None:
    for conversation in (talk("hello", audio=listener(0.9)), Conversation(server_vad())):
        conversation.speak(900)
        conversation.silence(1_000)
        assert conversation.all(PrepareJudges) == []


def test_an_agent_that_has_not_spoken_again_is_still_the_one_that_asked() -> None:
    conversation = talk("hello", "two", "two please", lexical=reader(0.97))
    conversation.llm = ["How many?", [HANG], "Two, then."]
    conversation.speak(900)
    conversation.silence(5_000)
    for _ in range(2):
        conversation.speak(400)
        conversation.silence(500)
    assert [words.agent_text for words in conversation.all(JudgeWords)] == ["", "How many?", "How many?"]


def test_words_that_did_not_change_are_judged_once_and_the_judgement_holds() -> None:
    said = "i would like"
    conversation = talk(said, "I would like.", said, lexical=reader({said: 0.1}))
    for _ in range(2):
        conversation.speak(600)
        conversation.silence(700)
    assert len(conversation.all(JudgeWords)) == 1
    assert [verdict for verdict, _ in verdicts(conversation)] == ["hold", "resumed", "hold"]


def test_a_judgement_that_comes_in_the_next_pause_counts_if_the_words_are_the_same() -> None:
    said = "what time is it"
    conversation = talk(said, said, lexical=reader(0.97), judge_ms=600)
    conversation.speak(600)
    conversation.silence(300)
    conversation.speak(64)
    conversation.silence(2_000)
    assert len(conversation.all(JudgeWords)) == 1
    assert verdicts(conversation) == [("resumed", "voice"), ("commit", "lexical")]


def test_a_judgement_of_words_that_were_not_the_last_is_late() -> None:
    conversation = talk(
        "i would like", "i would like two", lexical=reader({"i would like": 0.97, "i would like two": HANG})
    )
    conversation.judge_ms = 600
    conversation.speak(600)
    conversation.silence(300)
    conversation.speak(600)
    conversation.silence(2_000)
    assert verdicts(conversation)[-1] == ("commit", "silence")


# --- who answers when -----------------------------------------------------------------------------------------------


def test_the_first_judge_does_not_decide_before_the_others_have_had_their_time() -> None:
    conversation = talk("i was wondering whether", audio=listener(0.9), probability=reader(0.01), asr_ms=200)
    conversation.speak(1_000)
    conversation.silence(800)
    assert conversation.all(SpeechStopped) == []
    assert verdicts(conversation) == [("hold", "audio"), ("hold", "fusion")]


def test_a_judge_that_does_not_answer_is_not_waited_for_longer_than_500_ms() -> None:
    conversation = talk("what time is it", audio=listener(0.98), probability=reader(HANG))
    conversation.speak(1_000)
    conversation.silence(2_000)
    asked = conversation.only(JudgeSound)
    assert conversation.at(conversation.only(SpeechStopped)) == conversation.at(asked) + AWAIT_JUDGES
    assert verdicts(conversation) == [("hold", "audio"), ("commit", "audio")]


def test_if_no_judge_answers_in_time_silence_alone_decides() -> None:
    conversation = talk("what time is it", audio=listener(HANG), probability=reader(HANG))
    conversation.speak(1_000)
    conversation.silence(2_000)
    assert (
        conversation.at(conversation.only(SpeechStopped))
        == conversation.at(conversation.only(JudgeSound)) + AWAIT_JUDGES
    )
    assert verdicts(conversation) == [("commit", "silence")]


@pytest.mark.parametrize("silence_ms", [300, 500, 1_000])
def test_judges_that_all_have_failed_are_not_waited_for(silence_ms: int) -> None:
    settings = semantic("audio", "lexical", silence_ms=silence_ms)
    judges = {"audio": listener(None), "lexical": reader(None)}
    conversation = Conversation(settings, judges=judges, judge_ms=20, asr_ms=20)
    plain = Conversation(server_vad(silence_duration=samples_from_ms(silence_ms)), asr_ms=20)
    for one in (conversation, plain):
        one.speak(1_000)
        one.silence(2_000)
    assert conversation.speech_times() == plain.speech_times()
    assert conversation.at(conversation.only(SpeechStopped)) == plain.at(plain.only(SpeechStopped))


def test_without_judges_at_hand_silence_alone_decides() -> None:
    conversation, plain = Conversation(semantic()), Conversation()
    for one in (conversation, plain):
        one.speak(1_000)
        one.silence(2_000)
    assert conversation.speech_times() == plain.speech_times()


def test_a_judge_that_answers_late_still_ends_the_turn() -> None:
    conversation = talk("what time is it", audio=listener(0.3), lexical=reader(HANG))
    conversation.speak(1_000)
    conversation.silence(1_000)
    assert verdicts(conversation) == [("hold", "audio")]
    answered_at = conversation.now
    conversation.feed(Judged("item_1", 1, "lexical", 1.0))
    conversation.silence(1_000)
    assert conversation.at(conversation.only(SpeechStopped)) == answered_at
    assert verdicts(conversation)[-1] == ("commit", "fusion")


def test_readers_are_not_waited_for_if_the_recogniser_failed() -> None:
    conversation = talk(FAULT, audio=listener(0.98), lexical=reader(0.98))
    conversation.speak(1_000)
    conversation.silence(1_000)
    assert conversation.all(JudgeWords) == []
    assert silence_of_the_end(conversation) < samples_from_ms(350)
    assert len(conversation.all(Transcribe)) == 1


def test_a_sound_without_words_ends_by_silence_as_ever() -> None:
    conversation = talk(".", audio=listener(0.01), lexical=reader(0.01))
    conversation.speak(300)
    conversation.silence(2_000)
    assert conversation.all(JudgeWords) == []
    assert silence_of_the_end(conversation) == 16 * VAD_FRAME, "the frame that completes 500 ms"
    assert verdicts(conversation)[-1] == ("commit", "silence")


def test_what_nobody_asked_for_and_answers_of_strangers_change_nothing() -> None:
    conversation = talk("well", lexical=reader(HANG))
    conversation.feed(Judged("item_1", 1, "lexical", 0.99))
    conversation.speak(1_000)
    conversation.silence(250)
    for answer in (
        Judged("item_2", 1, "lexical", 0.99),
        Judged("item_1", 1, "audio", 0.99),
        Judged("item_1", 2, "lexical", 0.99),
        PauseTranscript("item_1", 2, "well"),
        PauseTranscript("item_2", 1, "well"),
    ):
        conversation.feed(answer)
    assert conversation.all(PauseJudged) == []
    conversation.feed(PauseTranscript("item_1", 1, "well"))
    conversation.silence(100)
    assert len(conversation.all(JudgeWords)) == 1


# --- waiting --------------------------------------------------------------------------------------------------------


def test_hold_on_a_second_and_six_seconds_and_a_request_are_one_turn() -> None:
    words = ["hold on a second", "hold on a second my number is five"]
    conversation = talk(*words, verdict=reader({words[0]: Wait(), words[1]: 0.97}), audio=listener(0.97))
    conversation.speak(900)
    conversation.silence(6_000)
    conversation.speak(1_500)
    conversation.silence(1_000)
    assert list(conversation.transcripts().values()) == [words[1]]
    assert [verdict for verdict, _ in verdicts(conversation)] == ["hold", "wait", "resumed", "hold", "commit"]
    assert len(conversation.all(ResponseStarted)) == 1


def test_who_asked_for_time_and_never_goes_on_is_answered_after_fifteen_seconds() -> None:
    conversation = talk("hold on a second", verdict=reader(Wait()), eagerness=Eagerness.HIGH)
    conversation.speak(900)
    conversation.silence(20_000)
    assert WAIT_LIMIT <= silence_of_the_end(conversation) < WAIT_LIMIT + VAD_FRAME
    assert verdicts(conversation) == [("wait", "verdict"), ("commit", "limit")]
    assert list(conversation.transcripts().values()) == ["hold on a second"]


# --- input that stops, and input that comes in large pieces or at once ----------------------------------------------


def test_a_push_to_talk_clients_end_is_judged_when_its_input_stops() -> None:
    conversation = talk("what time is it", probability=reader(0.97), audio=listener(0.97))
    conversation.speak(1_000)
    stopped_at = conversation.now
    conversation.wait(5_000)
    ended_at = conversation.at(conversation.only(SpeechStopped))
    assert ended_at == stopped_at + STALL_AFTER + samples_from_ms(80 + 40)
    assert (
        conversation.only(SpeechStopped).end == conversation.only(InputCommitted).end == conversation.machine.received
    )
    assert list(conversation.transcripts().values()) == ["what time is it"]


def test_a_muted_microphone_in_a_pause_to_think_ends_the_turn_by_the_timer() -> None:
    conversation = talk("i was wondering whether", probability=reader(0.2))
    conversation.speak(1_000)
    conversation.silence(300)
    muted_at, voiced_until = conversation.now, samples_from_ms(992)
    conversation.wait(9_000)
    stopped = conversation.only(SpeechStopped)
    assert conversation.at(stopped) > muted_at
    seen = conversation.all(PauseJudged)[-1]
    assert seen.silence == conversation.machine.received - voiced_until + conversation.at(stopped) - muted_at
    assert seen.verdict is PauseVerdict.COMMIT
    assert stopped.end == conversation.machine.received


def test_who_is_heard_again_after_the_input_stopped_has_resumed() -> None:
    words = ["i was wondering whether", "i was wondering whether you are open"]
    conversation = talk(*words, probability=reader({words[0]: 0.02, words[1]: 0.97}))
    conversation.speak(1_000)
    conversation.wait(1_500)
    conversation.speak(1_000)
    conversation.silence(1_000)
    assert list(conversation.transcripts().values()) == [words[1]]
    assert [verdict for verdict, _ in verdicts(conversation)] == ["hold", "resumed", "commit"]
    assert conversation.machine._pauses.speaker.pace == 1, "how long a microphone was mute says nothing of its speaker"


@pytest.mark.parametrize("append_ms", [200, 500, 1_000])
def test_a_live_client_of_large_appends_gets_judged_ends(append_ms: int) -> None:
    words = ["i was wondering whether", "i was wondering whether you open on sundays"]
    conversation = talk(*words, probability=reader({words[0]: 0.02, words[1]: 0.97}))
    for ms, speech in ((2_000, True), (2_000, False), (2_000, True), (2_000, False)):
        for _ in range(ms // append_ms):
            conversation.wait(append_ms)
            conversation.capture(samples_from_ms(append_ms), speech)
            conversation.append()
    assert list(conversation.transcripts().values()) == [words[1]]
    assert verdicts(conversation)[-1] == ("commit", "probability")


def test_within_a_burst_silence_alone_decides_and_at_its_end_the_judges() -> None:
    settings, judges = semantic("probability"), {"probability": reader({"three": 0.97})}
    conversation = Conversation(settings, asr=["one", "two", "three"], llm=["1.", "2.", "3."], judges=judges)
    paced = Conversation(server_vad(create_response=False))
    turn = [(400, False), (800, True), (1_400, False)]
    conversation.burst(*turn * 2, (400, False), (800, True), (300, False))
    for ms, speech in turn * 2:
        paced.audio(ms, speech)
    conversation.run_dry()
    assert [judged.text for judged in conversation.all(JudgeWords)] == ["three"]
    assert conversation.speech_times()[:2] == paced.speech_times()
    assert list(conversation.transcripts().values()) == ["one", "two", "three"]
    assert verdicts(conversation) == [("commit", "silence"), ("commit", "silence"), ("commit", "probability")]


# --- the speaker's own pauses ---------------------------------------------------------------------------------------


def halting(conversation: Conversation, pauses: int, pause_ms: int) -> None:
    for _ in range(pauses):
        conversation.speak(600)
        conversation.silence(pause_ms)


def test_a_speaker_of_long_pauses_is_given_more_time_at_a_doubtful_end() -> None:
    ends = []
    for pause_ms in (300, 1_500):
        conversation = talk(*["well"] * 12, audio=listener(*[0.02] * 12, 0.5))
        halting(conversation, 12, pause_ms)
        conversation.speak(600)
        conversation.silence(5_000)
        ends.append(silence_of_the_end(conversation))
    assert ends[1] > 1.4 * ends[0]


def test_a_sure_end_is_not_slowed_by_the_speakers_pauses() -> None:
    ends = []
    for pause_ms in (300, 1_500):
        conversation = talk(*["well"] * 12, audio=listener(*[0.02] * 12, 0.99))
        halting(conversation, 12, pause_ms)
        conversation.speak(600)
        conversation.silence(5_000)
        ends.append(silence_of_the_end(conversation))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(("gap_ms", "false_end"), [(1_500, True), (2_500, False)])
def test_a_user_who_speaks_again_before_any_answer_had_not_finished(gap_ms: int, false_end: bool) -> None:
    conversation = talk("well", "well then", audio=listener(0.99))
    conversation.first_token_ms = 60_000
    conversation.speak(600)
    conversation.silence(gap_ms)
    conversation.speak(600)
    assert (conversation.machine._pauses.speaker.pace > 1) is false_end
    assert samples_from_s(2) == FALSE_END_WITHIN


def test_a_user_who_has_heard_the_answer_does_not_go_on() -> None:
    conversation = talk("well", "well then", audio=listener(0.99))
    conversation.speak(600)
    conversation.silence(1_500)
    conversation.speak(600)
    assert conversation.machine._pauses.speaker.pace == 1


def test_pauses_over_the_agents_voice_teach_nothing() -> None:
    conversation = talk(*["well"] * 20, audio=listener(0.99, 0.02))
    conversation.configure(semantic("audio", interrupt_response=False))
    conversation.llm = ["word " * 200]
    conversation.speak(600)
    conversation.silence(1_500)
    halting(conversation, 5, 1_500)
    assert conversation.machine._pauses.speaker.pace == 1


# --- the end by other hands -----------------------------------------------------------------------------------------


def test_the_longest_turn_ends_whatever_the_judges_say() -> None:
    conversation = talk(*["on and on"] * 500, audio=listener(0.0))
    while conversation.machine.received < LONGEST_INPUT + samples_from_s(2) and not conversation.all(SpeechStopped):
        conversation.audio(30_000, True, append_ms=500)
        conversation.silence(600)
    commits = [seen for seen in conversation.all(PauseJudged) if seen.verdict is PauseVerdict.COMMIT]
    assert [seen.by for seen in commits] == ["length"]


def test_settings_that_change_in_a_pause_hold_from_there_on() -> None:
    conversation = talk("i was wondering whether", probability=reader(0.02))
    conversation.speak(1_000)
    conversation.silence(1_000)
    conversation.configure(server_vad())
    conversation.silence(100)
    assert verdicts(conversation)[-1] == ("commit", "silence")
    conversation = talk("i was wondering whether", probability=reader(0.02))
    conversation.speak(1_000)
    conversation.silence(1_000)
    conversation.configure(by_hand())
    conversation.silence(5_000)
    assert conversation.all(SpeechStopped) == []
    assert conversation.all(StopTranscribing) == []
    conversation.commit()
    conversation.wait(1_000)
    assert len(conversation.all(InputTranscriptCompleted)) == 1


def test_frames_without_voice_before_a_turn_are_no_pause() -> None:
    conversation = talk(audio=listener(0.9))
    conversation.frames(*[SILENCE] * 30, SPEECH, *[SILENCE] * 30)
    assert conversation.all(JudgeSound) == []


# --- settings that change in the pause -----------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "then"), [(Eagerness.LOW, Eagerness.HIGH), (Eagerness.HIGH, Eagerness.LOW)])
def test_another_eagerness_holds_for_the_pause_that_lasts(first: Eagerness, then: Eagerness) -> None:
    changed, settled = (
        talk("I was wondering whether", eagerness=level, lexical=reader(0.3)) for level in (first, then)
    )
    for conversation in (changed, settled):
        conversation.speak(1500)
        conversation.silence(600)
    detection = changed.machine.settings.detection
    assert detection is not None
    changed.feed(SettingsChanged(replace(changed.machine.settings, detection=replace(detection, semantic=then))))
    for conversation in (changed, settled):
        conversation.silence(8000)
    assert silence_of_the_end(changed) == silence_of_the_end(settled)
