"""openai-agents-python in the matrix."""

from __future__ import annotations

import pytest

from tests.matrix.matrix import GatewayUnderTest, Matrix

pytestmark = pytest.mark.compatibility


def test_openai_agents_python(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_agents.py", "openai-agents-python", golden="openai-agents-python")
