"""Stock clients in their default configuration hold a conversation with a full-duplex model, a tool call included."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from tests.matrix.native_dialogue import NATIVE_CLIENTS, NativeDialogue, check_native_dialogue

pytestmark = pytest.mark.compatibility


@pytest.mark.parametrize("client", NATIVE_CLIENTS)
def test_a_stock_client_and_a_full_duplex_model(
    client: str, native_dialogues: Mapping[str, Future[NativeDialogue]]
) -> None:
    check_native_dialogue(client, NATIVE_CLIENTS[client], native_dialogues[client].result())
