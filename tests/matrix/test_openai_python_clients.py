"""openai-python in the matrix."""

from __future__ import annotations

import pytest

from tests.matrix.matrix import GatewayUnderTest, Matrix

pytestmark = pytest.mark.compatibility


def test_openai_python_async(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_async.py", "openai-python", golden="openai-python-async")


def test_openai_python_sync(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_sync.py", "openai-python", golden="openai-python-sync", hears=False)


def test_openai_python_beta(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_beta.py", "openai-python", golden="openai-python-beta")


def test_openai_python_with_the_language_model_in_the_gateway(
    matrix: Matrix, embedded_gateway: GatewayUnderTest
) -> None:
    dialogue = matrix.hold_dialogue(
        embedded_gateway,
        "openai_async.py",
        "openai-python",
        golden=None,  # how long its replies are, thus what comes before what, is this model's mood
        may_skip={"tool", "cancel"},
        variables={"DEMO_BRAIN": "1"},
    )
    assert dialogue["spoken_turn"]["reply"]
