from __future__ import annotations

import pytest

from gateway.session_ending import Ending


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (0, 1000),
        (999, 1000),
        (1000, 1000),
        (1003, 1003),
        (1004, 1000),
        (1005, 1000),
        (1006, 1000),
        (1007, 1007),
        (1014, 1014),
        (1015, 1000),
        (2999, 1000),
        (3000, 3000),
        (4999, 4999),
        (5000, 1000),
    ],
)
def test_a_close_code_that_no_socket_may_send_becomes_1000(code: int, sent: int) -> None:
    assert Ending(code).sent_code == sent
