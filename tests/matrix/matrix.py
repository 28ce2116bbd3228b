"""One client of the matrix: its driver runs, its facts are asserted, the record of the gateway meets its golden."""

from __future__ import annotations

import difflib
import json
import os
import time
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients.bench.gateway_process import GatewayProcess
from tests.matrix.client_run import Dialogue, run_driver
from tests.matrix.environments import Environments
from tests.matrix.recording import dialogue_lines

GOLDEN = Path(__file__).parent / "golden"

LEAVING_DEADLINE_S = 10.0
"""How long a session may outlive its vanished client: a connection that is reset is noticed at once."""


@dataclass(frozen=True)
class GatewayUnderTest:
    """A served gateway, its record of events, and what a client needs to reach it.

    `base_url`: what an SDK takes. `authority`: the file that it must trust, None for a plain connection.
    """

    process: GatewayProcess
    events: Path
    key: str
    base_url: str
    authority: Path | None = None
    repeats: bool = True
    """Its language model repeats the words that it is told, so that a reply shows what was heard."""

    @property
    def variables(self) -> dict[str, str]:
        """Return what a driver finds in its environment."""
        variables = {"GATEWAY_URL": self.base_url, "GATEWAY_KEY": self.key}
        if self.authority is not None:
            variables |= {"SSL_CERT_FILE": str(self.authority), "NODE_EXTRA_CA_CERTS": str(self.authority)}
        return variables

    def sessions_active(self) -> int:
        """Return how many sessions the gateway says it has."""
        with urllib.request.urlopen(f"{self.process.http_url}/health", timeout=10) as answer:
            return int(json.load(answer)["sessions"]["active"])

    def records(self) -> set[Path]:
        """Return the files of events, one a session."""
        return set(self.events.glob("*.jsonl"))


class Matrix:
    """Holds the dialogue with one client after the other."""

    def __init__(self, environments: Environments, speech_dir: Path) -> None:
        self._environments = environments
        self._speech_dir = speech_dir

    def hold_dialogue(
        self,
        gateway: GatewayUnderTest,
        driver: str,
        environment: str,
        *,
        golden: str | None,
        may_skip: Collection[str] = (),
        hears: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> Dialogue:
        """Run a driver, assert what every dialogue must show, compare the record with `golden/<golden>.txt`, if any.

        `may_skip`: the steps that the library has no API for. `hears`: transcription is on in its configuration.
        `variables`: what the driver finds in its environment besides.
        """
        before = gateway.records()
        given = {**gateway.variables, "SPEECH_DIR": str(self._speech_dir), **(variables or {})}
        dialogue = run_driver(self._environments.ensure(environment), driver, given)
        assert set(dialogue.skipped) <= set(may_skip), dialogue.skipped
        left_cleanly(gateway)
        _check_facts(dialogue, hears=hears, repeats=gateway.repeats)
        if golden is not None:
            compare(golden, sorted(gateway.records() - before, key=lambda path: path.stat().st_ctime_ns))
        return dialogue


def _check_facts(dialogue: Dialogue, *, hears: bool, repeats: bool) -> None:
    facts = {step: dialogue[step] for step in dialogue.facts if step not in dialogue.skipped}
    turn = facts["spoken_turn"]
    assert not repeats or "young man" in turn["reply"].lower()
    assert turn["audio_ms"] > 1000
    if hears:
        assert "young man" in turn["heard"].lower()
    else:
        assert turn["heard"] is None
    if "tool" in facts:
        assert facts["tool"]["name"] == "get_weather"
        assert facts["tool"]["arguments"] == {"city": "Paris"}
        assert "sunny in Paris" in facts["tool"]["reply"]
    if "barge_in" in facts:
        assert facts["barge_in"]["reply"]
        if repeats:
            assert facts["barge_in"]["cancelled"] is True
            assert "clubs" in facts["barge_in"]["reply"].lower()
    if "cancel" in facts:
        assert facts["cancel"]["status"] == "cancelled"
    if "truncate" in facts:
        assert facts["truncate"]["ok"] is True


def left_cleanly(gateway: GatewayUnderTest) -> None:
    """The client is gone in the middle of a reply: its session must be, too, and the gateway must be well."""
    deadline_s = time.monotonic() + LEAVING_DEADLINE_S
    while gateway.sessions_active():
        assert time.monotonic() < deadline_s, "the session outlives its client"
        time.sleep(0.05)
    bugs = [line for line in gateway.process.output if "ended by a bug" in line or "Traceback" in line]
    assert bugs == []


def compare(golden: str, records: list[Path]) -> None:
    """Compare a record with `golden/<golden>.txt`, which UPDATE_GOLDENS=1 writes."""
    path = GOLDEN / f"{golden}.txt"
    lines = dialogue_lines(records)
    if os.environ.get("UPDATE_GOLDENS") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    known = path.read_text(encoding="utf-8").splitlines()
    difference = "\n".join(difflib.unified_diff(known, lines, f"golden/{path.name}", "this run", lineterm=""))
    if difference:
        pytest.fail(f"the dialogue is not the golden one:\n{difference}", pytrace=False)
