"""LiveKit's OpenAI plugin in the matrix: its session by itself, its chat context, and the framework around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.client_run import run_driver
from tests.matrix.environments import Environments
from tests.matrix.matrix import GatewayUnderTest, Matrix

pytestmark = pytest.mark.compatibility


def test_a_livekit_realtime_session(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    dialogue = matrix.hold_dialogue(gateway, "livekit_realtime.py", "livekit", golden="livekit-realtime")
    assert dialogue["connected"]["turn_detection"] == "semantic_vad"


def test_a_livekit_agent_session(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(
        gateway, "livekit_agent_session.py", "livekit", golden="livekit-agent-session", may_skip={"truncate"}
    )


def test_a_livekit_chat_context_and_the_conversation_stay_equal(
    environments: Environments, gateway: GatewayUnderTest, speech_dir: Path
) -> None:
    """Ids, order and texts that LiveKit learns from the gateway's events, while it edits and after it reconnects."""
    variables = {**gateway.variables, "SPEECH_DIR": str(speech_dir)}
    steps = ("edited", "emptied", "instructed", "carried_over")
    told = run_driver(environments.ensure("livekit"), "livekit_history.py", variables, steps)
    assert told["edited"] == {
        "begun": ["user: One.", "assistant: Two.", "user: Three."],
        "ended": [
            "system: Zero.",
            "user: One.",
            "user: One and a half.",
            "assistant: Two, corrected.",
            "assistant: Four.",
        ],
        "same_ids": True,
        "gone": True,
    }
    assert told["emptied"] == {"left": []}
    assert told["instructed"] == {"instructions": "You are Kelly."}
    carried = told["carried_over"]
    kinds = ["assistant", "user", "assistant", "user", "call", "result", "assistant"]
    assert [line.partition(":")[0] for line in carried["before"]] == kinds
    assert carried["after"] == carried["before"]
    assert carried["same_ids"] is True
    assert carried["reply"] == "You said: And now?"
    assert carried["errors"] == []


def test_livekit_transcribes(environments: Environments, gateway: GatewayUnderTest, speech_dir: Path) -> None:
    variables = {**gateway.variables, "SPEECH_DIR": str(speech_dir)}
    driver = "livekit_transcription.py"
    told = run_driver(environments.ensure("livekit"), driver, variables, ("transcribed",))["transcribed"]
    assert "young man" in told["heard"].lower()
    order = ["start_of_speech", "end_of_speech", "interim_transcript", "final_transcript"]
    assert sorted(set(told["events"]), key=told["events"].index) == order
