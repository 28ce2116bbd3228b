"""Raw websockets in the matrix."""

from __future__ import annotations

import pytest

from tests.matrix.matrix import GatewayUnderTest, Matrix

pytestmark = pytest.mark.compatibility


def test_raw_websockets(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "raw_websockets.py", "websockets", golden="raw-websockets")
