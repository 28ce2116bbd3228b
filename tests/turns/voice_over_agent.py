"""A conversation in which the agent talks, for tests of voices over it."""

from __future__ import annotations

from typing import Any

from gateway.turns.observations import OverlapJudged, OverlapVerdict
from gateway.turns.settings import VAD_FRAME, BargeIn, TurnSettings
from gateway.turns.states import Agent, User
from protocol.audio_time import Samples, samples_from_ms
from protocol.backend_events import (
    InputCommitted,
    PlayoutCut,
    ResponseEnded,
    SpeechStarted,
)
from tests.simulation.conversation import Conversation, server_vad

STORY = "This is a long story about tea. It begins in the mountains. It ends in a cup. Nobody knows why it does so."
INTERRUPTION, BACKCHANNEL, NOISE = OverlapVerdict.INTERRUPTION, OverlapVerdict.BACKCHANNEL, OverlapVerdict.NOISE
ECHO, TOO_EARLY, ANSWER = OverlapVerdict.ECHO, OverlapVerdict.TOO_EARLY, OverlapVerdict.ANSWER
PLAYOUT_DELAY = samples_from_ms(150)


def judged(**changes: object) -> TurnSettings:
    return server_vad(barge_in=BargeIn.JUDGED, **changes)


def talking(
    settings: TurnSettings | None = None, *, for_ms: int = 2_000, level_dbfs: float = -100.0, **engines: Any
) -> Conversation:
    """The user has asked something, and the user has heard the agent's reply for `for_ms`."""
    engines = {"llm": [STORY, "All right."], "look_ms": 60, "asr": ["Tell me a story.", "Stop."], **engines}
    looks = engines.pop("looks", ())
    conversation = Conversation(settings or judged(), **engines)
    conversation.level_dbfs = level_dbfs
    conversation.speak(800)
    conversation.silence(500)
    while conversation.agent is not Agent.SPEAKING:
        conversation.silence(20)
    conversation.silence(150 + for_ms)
    conversation.looks.extend(looks)
    return conversation


def aligned(conversation: Conversation) -> Samples:
    """Let what comes now begin with a VAD frame; return its input position."""
    left = -conversation.machine.received % VAD_FRAME
    conversation.capture(left, speech=False)
    conversation.run_until(conversation.now + left)
    conversation.append()
    return conversation.machine.received


def verdicts(conversation: Conversation) -> list[OverlapVerdict]:
    return [judgement.verdict for judgement in conversation.all(OverlapJudged)]


def reasons(conversation: Conversation) -> list[str]:
    return [judgement.reason for judgement in conversation.all(OverlapJudged)]


def turns(conversation: Conversation) -> int:
    return len(conversation.all(SpeechStarted))


def untouched(conversation: Conversation) -> bool:
    """Whether the reply is heard to its end and there is no item and no event of a second turn."""
    conversation.silence(1_500)
    conversation.run_dry()
    ended = [end.status.value for end in conversation.all(ResponseEnded)]
    return (
        turns(conversation) == len(conversation.all(InputCommitted)) == 1
        and not conversation.all(PlayoutCut)
        and ended == ["completed"]
        and conversation.user is User.SILENT
    )


def near_the_end(conversation: Conversation, left_ms: int) -> Samples:
    """Let the reply play until `left_ms` are left; return when it will be over."""
    ends_at = conversation.machine._player.ends_at
    assert ends_at is not None
    conversation.silence((ends_at - conversation.now) // 24 - left_ms)
    return ends_at
