"""What `duplex-gateway config` prints: every setting as it holds after all that was chosen, with its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.engine_choice import PROFILES
from gateway.masking import MASK, masked_url
from gateway.profile_choice import Decision
from gateway.remote_settings import REMOTES
from gateway.settings import Entry, Remote, shown_value, table
from gateway.settings_sources import DEFAULT
from models.engine_plan import EnginePlan

_UNSET = "–"


def config_table(decision: Decision) -> str:
    """Return one line a setting: name, value (secrets masked), source."""
    rows = [("setting", "value", "from")]
    for entry in table():
        value, source = _effective(decision, entry)
        rows.append((entry.name, _text(value), source))
    rows += [(name, _remote(remote), decision.sources[name]) for name, remote in _named(decision)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    widths[1] = min(widths[1], 60)  # a long value moves only its own source
    lines = [f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}" for name, value, source in rows]
    return "\n".join([*decision.told, "", *lines])


def config_json(decision: Decision) -> str:
    """Return the same as JSON: `told`, and `settings` by name with `value`, `source`, `env` and `flag`."""
    settings: dict[str, Any] = {}
    for entry in table():
        value, source = _effective(decision, entry)
        shown = str(value) if isinstance(value, Path) else value
        settings[entry.name] = {"value": shown, "source": source, "env": entry.env, "flag": entry.flag}
    for name, remote in _named(decision):
        settings[name] = {"value": _remote(remote), "source": decision.sources[name]}
    return json.dumps({"told": decision.told, "settings": settings}, indent=2, ensure_ascii=False)


def _named(decision: Decision) -> list[tuple[str, Remote]]:
    return [(f"{REMOTES}.{remote.name}", remote) for remote in decision.settings.remotes]


def _remote(remote: Remote) -> str:
    """Return what may be seen of a named server."""
    details = [f"model {remote.model}" if remote.model else "", remote.dialect, f"key {MASK}" if remote.api_key else ""]
    return f"{masked_url(remote.base_url)} ({', '.join(detail for detail in details if detail)})"


def _effective(decision: Decision, entry: Entry) -> tuple[object, str]:
    """Return what holds in the end: where a setting leaves an engine open, the one that the plan has."""
    settings, source = decision.settings, decision.sources[entry.name]
    engine = _engines(decision.plan).get(entry.name)
    if engine is None or getattr(settings, entry.name) == engine:
        return shown_value(settings, entry), source
    return engine, _reason_of_engine(decision, entry.name, engine)


def _engines(plan: EnginePlan) -> dict[str, str]:
    return {"vad": plan.vad, "asr": plan.asr.engine, "tts": plan.tts.engine, "foreground": plan.chat.engine}


def _reason_of_engine(decision: Decision, role: str, engine: str) -> str:
    """Return what decided about a role's engine, when its own setting didn't."""
    settings = decision.settings
    if engine != _engines(PROFILES[settings.profile])[role]:
        for name in (f"{role}_base_url", f"{role}_gguf", f"{role}_language"):
            if decision.sources.get(name, DEFAULT) != DEFAULT:
                return f"{name} ({decision.sources[name]})"
    return f"profile {settings.profile}"


def _text(value: object) -> str:
    if value is None or value in ("", ()):
        return _UNSET
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
