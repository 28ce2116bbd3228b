"""What those who watch a full-duplex conversation are told besides its events, and voices over the agent's."""

from __future__ import annotations

import pytest

from gateway.turns.duplex_observations import FloorTaken, FloorYielded, VoiceDropped, VoiceHeld
from gateway.turns.duplex_segments import ClosedBy, OpenedBy
from gateway.turns.duplex_user import KEPT_VOICES
from gateway.turns.duplex_vocabulary import DuplexSettings, SpeechStartedPolicy
from models.engines.scripted_duplex import DuplexReply
from protocol.backend_events import (
    EndReason,
    EndStatus,
    EngineFault,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from tests.simulation.duplex_conversation import DuplexConversation

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all " * 3)


def test_who_takes_and_yields_the_floor_is_told_with_the_sign_that_told_it() -> None:
    talk = DuplexConversation(DuplexReply("Good morning."), nod_after_ms=800)
    talk.user(1_600, speaks=True)
    talk.user(3_200, speaks=False)
    taken, yielded = talk.all(FloorTaken), talk.all(FloorYielded)
    assert [(floor.by, floor.response_id) for floor in taken] == [
        (OpenedBy.SOUND, talk.all(ResponseStarted)[0].response_id),
        (OpenedBy.FLOOR, talk.all(ResponseStarted)[1].response_id),
    ]
    assert [(floor.by, floor.spoken) for floor in yielded] == [(ClosedBy.BACKCHANNEL, False), (ClosedBy.FLOOR, True)]
    nod, turn = talk.model.truth
    for floor, truth in zip(yielded, (nod, turn), strict=True):
        assert abs(floor.voiced_until - truth.end) <= talk.frame
        assert floor.end >= floor.voiced_until


def test_a_response_that_the_client_ends_is_told_as_cut() -> None:
    talk = DuplexConversation(STORY)
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    talk.take(talk.core.cancel(None, None, talk.now))
    (floor,) = talk.all(FloorYielded)
    assert floor.by is ClosedBy.CUT


def test_a_voice_over_the_agents_is_told_as_held_and_as_dropped_if_the_agent_goes_on() -> None:
    talk = DuplexConversation(STORY, yield_after_ms=800, heard=("tell me", "mm-hm"))
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    began = talk.now
    talk.user(320, speaks=True)
    talk.user(1_200, speaks=False)
    (held,), (dropped,) = talk.all(VoiceHeld), talk.all(VoiceDropped)
    assert (dropped.item_id, dropped.start, dropped.words) == (held.item_id, held.start, "mm-hm")
    assert held.start <= began < dropped.end
    assert len(talk.all(SpeechStarted)) == len(talk.all(InputCommitted)) == 1


@pytest.mark.parametrize("policy", SpeechStartedPolicy)
def test_a_response_that_ends_under_the_users_voice_has_given_way_whenever_clients_are_told(
    policy: SpeechStartedPolicy,
) -> None:
    heard = ("tell me", "wait a moment")
    talk = DuplexConversation(STORY, settings=DuplexSettings(speech_started=policy), heard=heard)
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    talk.user(1_200, speaks=True)
    talk.user(800, speaks=False)
    first = talk.all(ResponseEnded)[0]
    assert (first.status, first.reason) == (EndStatus.CANCELLED, EndReason.TURN_DETECTED)
    assert len(talk.all(SpeechStarted)) == len(talk.all(InputCommitted)) == 2
    item_id = talk.all(SpeechStarted)[1].item_id
    words = [event.delta for event in talk.all(InputTranscriptDelta) if event.item_id == item_id]
    assert "".join(words).strip() == "wait a moment"
    assert len(talk.all(VoiceHeld)) == (0 if policy is SpeechStartedPolicy.ALWAYS else 1)


def test_a_voice_that_begins_over_a_backchannel_becomes_an_item_once_that_is_over() -> None:
    talk = DuplexConversation(DuplexReply("I see."), nod_after_ms=800, answer_after_ms=2_000)
    talk.user(800, speaks=True)
    talk.user(640, speaks=False)  # the nod; the user's first turn is over
    assert talk.all(ResponseStarted)
    assert not talk.all(ResponseEnded)
    talk.user(1_600, speaks=True)
    talk.user(1_600, speaks=False)
    assert talk.all(ResponseEnded)[0].status is EndStatus.COMPLETED
    (held,) = talk.all(VoiceHeld)
    assert [event.item_id for event in talk.all(SpeechStarted)][-1] == held.item_id
    assert talk.all(InputCommitted)[-1].item_id == held.item_id
    assert talk.all(VoiceDropped) == []


def talked_over(seconds: float, heard: str, story: DuplexReply = STORY) -> DuplexConversation:
    """An agent that gives way to nobody tells its story, and the user speaks over it."""
    talk = DuplexConversation(story, yield_after_ms=60_000, heard=("tell me", heard))
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    talk.user(round(seconds * 1_000), speaks=True)
    talk.user(1_200, speaks=False)
    assert not talk.all(ResponseEnded)
    return talk


def test_a_turn_that_the_agent_talks_through_becomes_an_item_with_its_words_once_the_agent_has_ended() -> None:
    talk = talked_over(2.0, "no I meant the other one")
    assert len(talk.all(SpeechStarted)) == len(talk.all(InputCommitted)) == 1
    talk.user(40_000, speaks=False)
    (held,) = talk.all(VoiceHeld)
    told = [output for _, output in talk.told if getattr(output, "item_id", None) == held.item_id]
    kinds = [type(event) for event in told if not isinstance(event, InputTranscriptDelta)]
    assert kinds == [VoiceHeld, SpeechStarted, SpeechStopped, InputCommitted, InputTranscriptCompleted]
    committed = talk.all(InputCommitted)[1]
    assert committed.start == held.start
    assert 2.0 * 24_000 <= committed.end - committed.start <= 3.0 * 24_000
    assert talk.all(InputTranscriptCompleted)[1].transcript.strip() == "no I meant the other one"
    ended = talk.all(ResponseEnded)[0]
    assert ended.status is EndStatus.COMPLETED
    order = [output for _, output in talk.told]
    assert order.index(ended) < order.index(committed)


def test_turns_over_an_endless_agent_are_kept_up_to_a_bound_and_the_oldest_is_told_as_dropped() -> None:
    talk = talked_over(1.2, "", DuplexReply(STORY.text * 10))
    for _ in range(KEPT_VOICES):
        talk.user(1_200, speaks=True)
        talk.user(800, speaks=False)
    held, (dropped,) = talk.all(VoiceHeld), talk.all(VoiceDropped)
    assert dropped.item_id == held[0].item_id


def test_a_commit_by_hand_tells_of_the_turns_before_it_and_a_clear_forgets_them() -> None:
    talk = talked_over(1.2, "")
    talk.user(400, speaks=True)
    talk.take(talk.core.commit("event_1"))
    assert [event.item_id for event in talk.all(InputCommitted)][1:] == [held.item_id for held in talk.all(VoiceHeld)]
    talk = talked_over(1.2, "")
    talk.take(talk.core.clear())
    talk.user(40_000, speaks=False)
    assert len(talk.all(InputCommitted)) == 1


def test_a_model_that_fails_leaves_no_turn_over_it_without_a_transcript() -> None:
    talk = talked_over(2.0, "no I meant the other one")
    talk.take(talk.core.failed(EngineFault("duplex_failed", "It broke."), talk.now))
    committed = [event.item_id for event in talk.all(InputCommitted)]
    assert len(committed) == 2
    assert [event.item_id for event in talk.all(InputTranscriptCompleted)] == committed


def test_a_voice_over_an_agent_that_the_client_silences_is_a_turn() -> None:
    talk = DuplexConversation(STORY, yield_after_ms=60_000, heard=("tell me", "enough"))
    talk.user(800, speaks=True)
    talk.user(1_600, speaks=False)
    talk.user(640, speaks=True)
    talk.take(talk.core.cancel(None, None, talk.now))
    talk.user(1_200, speaks=False)
    (held,) = talk.all(VoiceHeld)
    assert talk.all(SpeechStarted)[-1].item_id == talk.all(InputCommitted)[-1].item_id == held.item_id
    assert talk.all(VoiceDropped) == []
