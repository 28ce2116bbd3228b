"""What openai-agents-js would refuse of what a server sends: its own schemas, run in its own environment."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.matrix.environments import Environments

Event = dict[str, Any]

CHECK = Path(__file__).parent / "zod_check.mjs"
DEADLINE_S = 120.0


@dataclass(frozen=True)
class Refusal:
    """One refused event. `stage` `event`: the client is blind to it; `item`: an exception that nobody catches."""

    event: Event
    stage: str
    problem: str


@dataclass(frozen=True)
class Verdict:
    """What a run of the schemas said: which events were refused, and which types they don't know."""

    refusals: list[Refusal]
    unknown: frozenset[str]


class AgentsJsSchemas:
    """The schemas of the installed @openai/agents-realtime."""

    def __init__(self, environments: Environments, folder: Path) -> None:
        self._node = environments.ensure("openai-agents-js")
        self._file = folder / "events.jsonl"

    def verdict(self, events: Iterable[Event]) -> Verdict:
        """Return what the schemas say of `events`."""
        asked = list(events)
        self._file.write_text("".join(json.dumps(event) + "\n" for event in asked), encoding="utf-8")
        package = self._node.folder / "node_modules" / "@openai" / "agents-realtime"
        done = subprocess.run(
            [*self._node.command, str(CHECK), str(package), str(self._file)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        *refused, summary = map(json.loads, done.stdout.splitlines())
        assert summary["events"] == len(asked)
        refusals = [Refusal(asked[line["line"] - 1], line["stage"], line["problem"]) for line in refused]
        return Verdict(refusals, frozenset(summary["unknown"]))


def recorded_events(records: Iterable[Path]) -> Iterator[Event]:
    """Yield the server events of GA sessions from event logs, with stand-ins for the texts and audio that no log keeps.

    Beta sessions are left out: agents-js never spoke that dialect.
    """
    for path in records:
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        events = [_refilled(line["event"]) for line in lines if line["direction"] == "server"]
        if events and "type" in events[0]["session"]:
            yield from events


def _refilled(value: Any, key: str = "") -> Any:
    match value:
        case {"chars": int(count)}:
            return "{}" if key == "arguments" and count else "x" * count
        case {"samples": int()} | {"bytes": int()}:
            return base64.b64encode(bytes(2)).decode()
        case {"entries": int()}:
            return {}
        case Mapping():
            return {name: _refilled(inner, name) for name, inner in value.items()}
        case list():
            return [_refilled(inner, key) for inner in value]
        case _:
            return value
