"""openai-node and openai-agents-js in the matrix."""

from __future__ import annotations

import pytest

from tests.matrix.matrix import GatewayUnderTest, Matrix

pytestmark = pytest.mark.compatibility


def test_openai_node_on_a_plain_connection(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_node_ws.mjs", "openai-node", golden="openai-node")


def test_openai_node_behind_tls(matrix: Matrix, tls_gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(tls_gateway, "openai_node_ws.mjs", "openai-node", golden="openai-node")


def test_openai_node_over_the_websocket_of_the_platform(matrix: Matrix, tls_gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(tls_gateway, "openai_node_native.mjs", "openai-node", golden="openai-node")


def test_openai_node_beta(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_node_beta_ws.mjs", "openai-node", golden="openai-node-beta")


def test_openai_node_beta_over_the_websocket_of_the_platform(matrix: Matrix, tls_gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(tls_gateway, "openai_node_beta_native.mjs", "openai-node", golden="openai-node-beta")


def test_openai_agents_js(matrix: Matrix, gateway: GatewayUnderTest) -> None:
    matrix.hold_dialogue(gateway, "openai_agents_js.mjs", "openai-agents-js", golden="openai-agents-js")
