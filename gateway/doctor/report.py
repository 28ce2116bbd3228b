"""Runs the examination and tells it, on the console as it goes or as one JSON object."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing

from gateway.doctor.examination import examine
from gateway.doctor.findings import Diagnosis, Finding, Verdict
from gateway.settings import Settings
from models.console_progress import ConsoleProgress

Say = Callable[[str], None]


def report(settings: Settings, say: Say, *, as_json: bool = False) -> bool:
    """Examine the engines of `settings` and tell `say` each finding; return whether none of them is a failure."""

    async def run() -> list[Finding]:
        findings = []
        async with aclosing(examine(settings, ConsoleProgress())) as found:
            async for finding in found:
                findings.append(finding)
                if not as_json:
                    for line in finding.lines():
                        say(line)
        return findings

    return _told(asyncio.run(run()), say, as_json=as_json)


def report_wrong_settings(sentence: str, say: Say, *, as_json: bool = False) -> bool:
    """Tell `say` that the settings are wrong, in their own words; return False."""
    finding = Diagnosis("a setting is wrong", sentence).of("settings", "valid")
    if not as_json:
        for line in finding.lines():
            say(line)
    return _told([finding], say, as_json=as_json)


def _told(findings: list[Finding], say: Say, *, as_json: bool) -> bool:
    counts = {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}
    well = not counts[Verdict.FAIL]
    if as_json:
        say(json.dumps({"ok": well, "checks": [finding.as_json() for finding in findings]}))
        return well
    say(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return well
