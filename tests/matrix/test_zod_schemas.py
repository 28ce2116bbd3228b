"""Every server event holds before the schemas of openai-agents-js, and our own wire law is at least as strict.

The law is what all other tests hold every event against. So these three say together that no event in any test is one
that the strictest JavaScript client is blind to or dies of.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.wire_law import violations
from tests.matrix.environments import Environments
from tests.matrix.matrix import GatewayUnderTest, Matrix
from tests.matrix.zod import AgentsJsSchemas, Event, recorded_events
from tests.protocol.test_wire_law import LAWFUL

pytestmark = pytest.mark.compatibility

GOLDENS = Path(__file__).parent.parent / "protocol" / "golden"

UNKNOWN_TO_AGENTS_JS: frozenset[str] = frozenset(
    {
        "input_audio_buffer.timeout_triggered",
        "conversation.item.input_audio_transcription.segment",
        "response.mcp_call.failed",
    }
)
"""Events of the GA union that version 0.20 has no schema for. It hands them on as they are."""


@pytest.fixture(scope="module")
def agents_js(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> AgentsJsSchemas:
    return AgentsJsSchemas(environments, tmp_path_factory.mktemp("zod"))


def test_agents_js_takes_all_that_the_matrix_recorded(
    agents_js: AgentsJsSchemas, matrix: Matrix, gateway: GatewayUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not gateway.records():  # this test runs alone
        matrix.hold_dialogue(gateway, "openai_agents_js.mjs", "openai-agents-js", golden=None)
    records = sorted(tmp_path_factory.getbasetemp().glob("events*/*.jsonl"))
    verdict = agents_js.verdict(recorded_events(records))
    assert verdict.refusals == []
    assert verdict.unknown <= UNKNOWN_TO_AGENTS_JS


def test_agents_js_takes_every_golden_event(agents_js: AgentsJsSchemas) -> None:
    verdict = agents_js.verdict(golden_events())
    assert verdict.refusals == []
    assert verdict.unknown <= UNKNOWN_TO_AGENTS_JS


def test_what_agents_js_refuses_the_wire_law_forbids(agents_js: AgentsJsSchemas) -> None:
    """Each lawful event with one key set to null, or left out."""
    lawful = [*golden_events(), *LAWFUL]
    refused = [refusal.event for refusal in agents_js.verdict(lawful).refusals]
    taken = [event for event in lawful if event not in refused]
    refusals = agents_js.verdict(mutant for event in taken for mutant in mutants(event)).refusals
    assert len(refusals) > 1000
    assert [refusal for refusal in refusals if not violations(refusal.event)] == []


def golden_events() -> Iterator[Event]:
    """Yield the server events of the protocol's golden streams, each kind of them with whatever it holds."""
    for path in sorted(GOLDENS.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if "type" in event:
                yield event


def mutants(event: Event) -> Iterator[Event]:
    """Yield copies of `event`, each with one of its keys null, then without that key. The type stays."""
    for path in paths(event):
        if path == ("type",):
            continue
        for change in ("null", "left out"):
            mutant = copy.deepcopy(event)
            *way, key = path
            owner: Any = mutant
            for step in way:
                owner = owner[step]
            if change == "null":
                owner[key] = None
            else:
                del owner[key]
            yield mutant


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every key of every object inside `value`."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, element in inner:
        if isinstance(value, dict):
            yield (*path, key)
        yield from paths(element, (*path, key))
