"""An hour of simulated conversation: turns, barge-ins, resumed turns and coughs, 20 ms appends all along."""

from __future__ import annotations

from protocol.audio_time import samples_from_s
from tests.simulation.conversation import Conversation

REPLY = (
    "I see what you mean. Let me think about that for a moment. There are three things to say. The first is this one."
)


def one_hour() -> Conversation:
    """Return the finished conversation."""
    conversation = Conversation(llm=REPLY, word_ms=250)
    turn = 0
    while conversation.now < samples_from_s(3_600):
        turn += 1
        conversation.speak(2_500)
        match turn % 4:
            case 0:  # the user hears the reply to its end
                conversation.silence(8_500)
            case 1:  # barge-in
                conversation.silence(3_000)
            case 2:  # resumes right after the commit
                conversation.silence(560)
                conversation.speak(1_000)
                conversation.silence(8_500)
            case 3:  # pauses in mid-turn, then a cough
                conversation.silence(300)
                conversation.speak(1_500)
                conversation.silence(7_500)
                conversation.asr = ""
                conversation.speak(200)
                conversation.silence(1_000)
                conversation.asr = "hello there"
    return conversation
