"""Pipecat in the matrix: a bot whose turns the server finds, and one that finds them itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.client_run import run_driver
from tests.matrix.environments import Environments
from tests.matrix.matrix import GatewayUnderTest, Matrix

pytestmark = pytest.mark.compatibility


def test_a_pipecat_bot_whose_turns_the_server_finds(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(
        gateway,
        "pipecat_server_turns.py",
        "pipecat",
        golden="pipecat-server-turns",
        may_skip={"cancel"},
        hears=False,
    )


def test_a_pipecat_bot_that_finds_the_turns_itself(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "pipecat_local_turns.py", "pipecat", golden="pipecat-local-turns")


def test_pipecat_transcribes(environments: Environments, gateway: GatewayUnderTest, speech_dir: Path) -> None:
    """Its default model writes while audio arrives: what it wrote adds up to what was heard."""
    variables = {**gateway.variables, "SPEECH_DIR": str(speech_dir)}
    driver = "pipecat_transcription.py"
    told = run_driver(environments.ensure("pipecat"), driver, variables, ("transcribed",))["transcribed"]
    assert "young man" in told["heard"].lower()
    assert told["interim"] == told["heard"]
    assert told["errors"] == []
