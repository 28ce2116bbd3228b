"""With an idle timeout the agent speaks up when nobody has spoken for that long behind its last words."""

from __future__ import annotations

from gateway.turns.states import Agent
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import (
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    OutputAudio,
    ResponseEnded,
    ResponseStarted,
)
from tests.simulation.conversation import HANG, Conversation, by_hand, server_vad

TIMEOUT_MS = 6_000
PATIENT = server_vad(idle_timeout=samples_from_ms(TIMEOUT_MS))


def after_a_reply(**engines: object) -> Conversation:
    """Return a conversation whose agent has just said its first words to the end."""
    conversation = Conversation(PATIENT, **engines)  # by name
    conversation.silence(200)
    conversation.speak(800)
    conversation.silence(600)
    while conversation.agent is not Agent.IDLE:
        conversation.silence(20)
    return conversation


def test_nothing_happens_before_the_agents_first_words() -> None:
    conversation = Conversation(PATIENT)
    conversation.silence(60_000)
    assert conversation.all(InputTimedOut) == []


def test_it_runs_from_the_end_of_the_playout() -> None:
    conversation = after_a_reply()
    quiet_since = conversation.now
    ended = conversation.at(conversation.only(ResponseEnded))
    assert quiet_since > ended, "the audio plays on after the response is done"
    conversation.silence(TIMEOUT_MS - 100)
    assert conversation.all(InputTimedOut) == []
    conversation.silence(200)
    fired = conversation.at(conversation.only(InputTimedOut))
    assert abs(fired - quiet_since - samples_from_ms(TIMEOUT_MS)) <= samples_from_ms(40)


def test_the_silence_is_committed_and_answered() -> None:
    conversation = after_a_reply()
    since = len(conversation.timeline)
    conversation.silence(TIMEOUT_MS + 300)
    names = conversation.names(since)
    assert names[:4] == ["InputTimedOut", "InputCommitted", "InputTranscriptCompleted", "ResponseStarted"]
    timed_out = conversation.only(InputTimedOut)
    committed = conversation.all(InputCommitted)[-1]
    assert (committed.item_id, committed.start, committed.end) == (timed_out.item_id, timed_out.start, timed_out.end)
    assert timed_out.end - timed_out.start == samples_from_ms(TIMEOUT_MS)
    assert conversation.all(InputTranscriptCompleted)[-1].transcript == ""
    conversation.silence(3_000)
    assert conversation.all(OutputAudio)[-1].response_id == conversation.responses()[-1]


def test_it_fires_again_behind_the_next_words() -> None:
    conversation = after_a_reply()
    conversation.silence(4 * TIMEOUT_MS)
    assert len(conversation.all(InputTimedOut)) >= 2
    starts = [event.start for event in conversation.all(InputTimedOut)]
    assert starts == sorted(starts)


def test_a_user_who_speaks_stops_it() -> None:
    conversation = after_a_reply(asr=["hello", HANG])
    conversation.silence(TIMEOUT_MS - 500)
    conversation.speak(3_000)
    assert conversation.all(InputTimedOut) == []
    conversation.silence(8_000)
    assert conversation.all(InputTimedOut) == [], "their words are still on their way"


def test_it_runs_without_any_input_too() -> None:
    conversation = after_a_reply()
    conversation.wait(TIMEOUT_MS + 300)
    timed_out = conversation.only(InputTimedOut)
    assert timed_out.start <= timed_out.end <= conversation.machine.received


def test_without_automatic_responses_the_silence_is_told_and_the_client_decides() -> None:
    settings = server_vad(idle_timeout=samples_from_s(6), create_response=False)
    conversation = Conversation(settings)
    conversation.create()
    conversation.silence(20_000)
    assert len(conversation.all(InputTimedOut)) == 1
    assert len(conversation.all(ResponseStarted)) == 1


def test_switching_it_off_or_ending_turns_by_hand_stops_it() -> None:
    for settings in (server_vad(), by_hand()):
        conversation = after_a_reply()
        conversation.silence(TIMEOUT_MS - 500)
        conversation.configure(settings)
        conversation.silence(20_000)
        assert conversation.all(InputTimedOut) == []
