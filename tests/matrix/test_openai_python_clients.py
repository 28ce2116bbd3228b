"""openai-python in the matrix."""

from __future__ import annotations

import pytest

from tests.matrix.matrix import GatewayUnderTest, Matrix

pytestmark = pytest.mark.compatibility


def test_openai_python_async(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_async.py", "openai-python", golden="openai-python-async")


def test_openai_python_sync(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_sync.py", "openai-python", golden="openai-python-sync", hears=False)
