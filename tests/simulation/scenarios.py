"""Conversations worth keeping: each is told once and recorded as a golden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.turns.settings import BargeIn
from protocol.audio_time import samples_from_ms
from protocol.backend_events import EngineFault, PlayoutCut
from tests.simulation.conversation import HANG, Call, Conversation, by_hand, server_vad

STORY = "This is a long story about tea. It begins in the mountains. It ends in a cup."


def ordinary_turn() -> Conversation:
    conversation = Conversation(asr="What is the capital of France?", llm=[["Par", "is. ", "It lies on the Seine."]])
    conversation.silence(500)
    conversation.speak(700)
    conversation.silence(200)
    conversation.speak(600)
    conversation.silence(1_200)
    conversation.run_dry()
    return conversation


def barge_in() -> Conversation:
    conversation = Conversation(asr=["Tell me a story.", "Stop."], llm=[[STORY, HANG], "All right."], piece_every_ms=80)
    conversation.speak(800)
    conversation.silence(2_000)
    conversation.speak(500)
    conversation.silence(700)
    cut = conversation.only(PlayoutCut)
    conversation.truncate(cut.item_id, cut.heard - samples_from_ms(40))
    conversation.run_dry()
    return conversation


def barge_in_after_the_response_ended() -> Conversation:
    conversation = Conversation(asr=["Tell me a story.", "Stop."], llm=[STORY, "All right."])
    conversation.speak(800)
    conversation.silence(3_000)
    conversation.speak(500)
    conversation.silence(900)
    conversation.run_dry()
    return conversation


def resume_after_commit() -> Conversation:
    conversation = Conversation(asr=["I would like", "a cup of tea."], llm=["With milk?"], asr_ms=900)
    conversation.speak(700)
    conversation.silence(560)
    conversation.speak(700)
    conversation.silence(900)
    conversation.run_dry()
    return conversation


def manual_turn() -> Conversation:
    conversation = Conversation(by_hand(), asr=["Good morning."], llm=["Good morning to you."])
    conversation.speak(900)
    conversation.commit("evt_commit")
    conversation.create(client_event_id="evt_create")
    conversation.run_dry()
    conversation.commit("evt_too_soon")
    conversation.silence(300)
    conversation.commit("evt_silence")
    return conversation


def tool_call() -> Conversation:
    call = [Call(0, "get_weather", '{"city":', "call_w"), Call(1, "get_time", "{}", "call_t"), Call(0, None, '"Oslo"}')]
    conversation = Conversation(llm=[["One moment, I look. ", *call], "It is sunny."])
    conversation.speak(900)
    conversation.silence(900)
    conversation.run_dry()
    conversation.create()
    conversation.run_dry()
    return conversation


def burst() -> Conversation:
    conversation = Conversation(asr=["One?", "Two?", "Three?"], llm=["First.", "Second.", "Third."])
    conversation.burst(*[(300, False), (900, True), (800, False)] * 3)
    conversation.run_dry()
    return conversation


def stall() -> Conversation:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.wait(3_000)
    conversation.run_dry()
    return conversation


def failures() -> Conversation:
    asr_fault = EngineFault("asr_failed", "The recogniser broke.")
    conversation = Conversation(asr=[asr_fault, "Hello?", "Hello??", "Hello???"])
    conversation.llm = [["Well, ", EngineFault("llm_failed", "The model broke.")], [HANG], STORY]
    for _ in range(3):
        conversation.speak(600)
        conversation.silence(900)
        conversation.run_dry()
    conversation.tts = EngineFault("tts_failed", "The voice broke.")
    conversation.tts_fails_at_chunk = 1
    conversation.speak(600)
    conversation.silence(900)
    conversation.run_dry()
    return conversation


def cough() -> Conversation:
    conversation = Conversation(asr=[""], llm=[])
    conversation.speak(200)
    conversation.silence(900)
    conversation.run_dry()
    return conversation


def live_transcript() -> Conversation:
    looks = ["I would", "I would like", "I would like a table", "I would like a table for", "I would like a table for"]
    settings = replace(server_vad(create_response=False), live_transcript=True)
    conversation = Conversation(settings, asr="I would like a table for four.", looks=looks)
    conversation.speak(1_600)
    conversation.silence(900)
    conversation.run_dry()
    return conversation


def no_interruptions() -> Conversation:
    conversation = Conversation(server_vad(interrupt_response=False), llm=[[STORY, HANG]])
    conversation.speak(600)
    conversation.silence(1_500)
    conversation.speak(600)
    conversation.silence(900)
    conversation.cancel(client_event_id="evt_cancel")
    conversation.cancel(client_event_id="evt_cancel_again")
    conversation.run_dry()
    return conversation


def judged_barge_in() -> Conversation:
    looks = ["You know?", "", "Mm-hm.", "Mm-hm.", "Stop."]
    settings = server_vad(barge_in=BargeIn.JUDGED)
    conversation = Conversation(settings, asr=["Tell me a story.", "Stop."], llm=[STORY, "All right."], look_ms=60)
    conversation.speak(800)
    conversation.silence(2_500)
    conversation.looks.extend(looks)
    conversation.speak(160)
    conversation.silence(500)
    conversation.speak(350)
    conversation.silence(600)
    conversation.speak(350)
    conversation.silence(900)
    conversation.run_dry()
    return conversation


def settings_in_mid_speech() -> Conversation:
    conversation = Conversation()
    conversation.speak(600)
    conversation.clear()
    conversation.speak(600)
    conversation.silence(100)
    conversation.clear()
    conversation.speak(600)
    conversation.commit()
    conversation.speak(600)
    conversation.configure(by_hand())
    conversation.speak(600)
    conversation.commit()
    conversation.run_dry()
    return conversation


def slow_voice() -> Conversation:
    conversation = Conversation(llm=[STORY, "And that was it.", "In writing, too."], piece_every_ms=300, word_ms=200)
    conversation.create()
    conversation.run_dry()
    conversation.word_ms, conversation.piece_every_ms = 1_000, 10
    conversation.create()
    conversation.wait(700)
    conversation.create(audio=False)
    conversation.run_dry()
    return conversation


SCENARIOS: dict[str, Callable[[], Conversation]] = {
    scenario.__name__: scenario
    for scenario in (
        ordinary_turn,
        barge_in,
        barge_in_after_the_response_ended,
        resume_after_commit,
        manual_turn,
        tool_call,
        burst,
        stall,
        failures,
        cough,
        live_transcript,
        no_interruptions,
        judged_barge_in,
        settings_in_mid_speech,
        slow_voice,
    )
}
