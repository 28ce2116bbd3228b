"""Writes `protocol/README.md`: the introduction by hand, the tables from what the probes observed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from protocol import wire_rules
from protocol.audio_time import s_from_samples, samples_from_bytes
from protocol.beta.client_rules import BETA_RULES
from protocol.client_shapes import CLIENT_RULES
from protocol.conversation import TRUNCATE_TOLERANCE_MS
from protocol.item_audio import LONGEST_PENDING_S
from protocol.kept_audio import ITEM_LIMIT_BYTES, SESSION_BUDGET_BYTES
from protocol.shapes import Rules
from tests.protocol.support.beta_probes import BETA_PROBES
from tests.protocol.support.catalogue import CLIENT_EVENTS, SERVER_EVENTS, Field, client_fields, server_fields
from tests.protocol.support.event_probes import EVENT_PROBES, ON_A_WEBSOCKET
from tests.protocol.support.our_errors import our_errors
from tests.protocol.support.probing import Probe, Verdict, answers_of, verdict
from tests.protocol.support.server_event_scenarios import NEVER, UNSENT_FIELDS, sent_events
from tests.protocol.support.session_probes import SESSION_PROBES

README = Path(__file__).parents[3] / "protocol" / "README.md"
INTRODUCTION = Path(__file__).with_name("introduction.txt")

PROBES = {
    "GA": {(probe.event, probe.path): probe for probe in (*SESSION_PROBES, *EVENT_PROBES)},
    "beta": {(probe.event, probe.path): probe for probe in BETA_PROBES},
}
_RULES = {"GA": CLIENT_RULES, "beta": BETA_RULES}

EFFECTS: tuple[tuple[str, str], ...] = (
    (r".*previous_item_id|conversation\.item\.(deleted|truncated)", "the conversation"),
    (r"Configure\.turn_detection", "turn-taking"),
    (r"Configure\.audio_output|CreateResponse\.audio", "speech or text"),
    (r"Configure\.transcript_prompt", "a recogniser on an endpoint"),
    (r"Configure\.|RecogniseItem|.*_transcription\.", "the recogniser"),
    (r"AppendAudio", "what is heard"),
    (r"ProvideContext\.context\.messages", "what the model reads"),
    (r"ProvideContext\.context\.(tools|tool_choice|parallel|server_tools)", "what the model may call"),
    (r"ProvideContext\.context\.(max|temperature)", "how the model writes"),
    (r"ProvideContext\.context\.(voice|speed)", "how it is spoken"),
    (r"response\.(output_)?audio\.delta\.delta", "the audio that is sent"),
    (r"CreateResponse", "how the response runs"),
    (r"(With|Prov)\w+Context", "what the model reads"),
    (r"ItemTruncated", "what was heard"),
    (r"CancelResponse|DiscardAudio", "the response ends"),
    (r"ToolResult", "what the model reads"),
    (r"CommitInput|ClearInput|input_audio_buffer", "the input buffer"),
    (r"ListMcpTools|mcp_list_tools", "the server's tools"),
    (r"CallMcpTool|ToolCallEnded|response\.mcp", "calls of the server's tools"),
    (r"response\.|rate_limits|error\.|conversation\.item", "the events that follow"),
)
"""What a place where an effect was observed is called in the table. The first that fits counts."""


def effect_words(place: str) -> str:
    """Return what a place is called."""
    return next(words for pattern, words in EFFECTS if re.match(pattern, place))


@cache
def observed(dialect: str, event: str, path: str) -> Verdict:
    """Return what the probe of a field observed."""
    return verdict(PROBES[dialect][event, path])


# --- tables of fields ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """One table: fields below the same place in several events stand in one row, one column an event."""

    dialect: str
    title: str
    columns: tuple[tuple[str, str, str], ...]
    belongs: Callable[[str], bool] = lambda path: True


def _is_tool(path: str) -> bool:
    return path.startswith("tool")


SECTIONS = (
    Section(
        "GA",
        "Sessions: `session.update`, fields of `session`",
        (
            ("conversation", "session.update", "session{realtime}"),
            ("transcription", "session.update", "session{transcription}"),
        ),
        lambda path: not _is_tool(path),
    ),
    Section(
        "GA",
        "Responses: `response.create`, fields of `response`",
        (("verdict", "response.create", "response"),),
        lambda path: not _is_tool(path) and not path.startswith("input[]{m") and not path.startswith("input[]{f"),
    ),
    Section(
        "GA",
        "Tools, of a session and of one response",
        (("session.update", "session.update", "session{realtime}"), ("response.create", "response.create", "response")),
        _is_tool,
    ),
    Section(
        "GA",
        "Items: `item` of `conversation.item.create`, entries of `response.input`",
        (
            ("conversation.item.create", "conversation.item.create", "item"),
            ("response.input", "response.create", "response.input[]"),
        ),
        lambda path: not path.startswith("{item_reference}"),
    ),
    Section(
        "beta",
        "Beta: fields of `session` and of `response`",
        (
            ("session.update", "session.update", "session"),
            ("transcription_session.update", "transcription_session.update", "session"),
            ("response.create", "response.create", "response"),
        ),
        lambda path: not path.startswith("input["),
    ),
    Section(
        "beta",
        "Beta: items",
        (
            ("conversation.item.create", "conversation.item.create", "item"),
            ("response.input", "response.create", "response.input[]"),
        ),
    ),
)


def _relative(path: str, prefix: str) -> str | None:
    if not path.startswith(prefix) or path == prefix:
        return None
    return path[len(prefix) :].removeprefix(".")


def _section(section: Section) -> str:
    rows: dict[str, dict[str, Field]] = {}
    for column, event, prefix in section.columns:
        for field in fields_of(section.dialect, event):
            relative = _relative(field.path, prefix)
            if relative is not None and section.belongs(relative):
                rows.setdefault(relative, {})[column] = field
    titles = [column for column, _, _ in section.columns]
    lines = [f"### {section.title}", "", _row("field", "values", *titles, "effect, or why there is none")]
    lines.append("|---" * (len(titles) + 3) + "|")
    cells: dict[str, tuple[str, ...]] = {}
    for relative, fields in rows.items():
        given = [(event, fields[column].path) for column, event, _ in section.columns if column in fields]
        verdicts = {
            field.path: observed(section.dialect, *key) for key, field in zip(given, fields.values(), strict=True)
        }
        probes = [PROBES[section.dialect][key] for key in given]
        words = [_cell(verdicts[fields[column].path]) if column in fields else "–" for column in titles]
        values = _values(next(iter(fields.values())), _RULES[section.dialect])
        cells[relative] = (values, *words, _remark(list(verdicts.values()), probes))
    return "\n".join([*lines, *(_row(names, *told) for names, told in _merged(cells))])


def _merged(cells: dict[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the rows, those of one object, or of one field in several kinds of objects, that say the same as one."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for path, told in cells.items():
        member, _, rest = path.rpartition("}")
        alike = (
            rest
            if member.count("{") == 1 and path.startswith("{") and rest in _OF_EVERY_ITEM
            else path.rpartition(".")[0]
        )
        groups.setdefault((alike, *told), []).append(path)
    return [(_names(paths), tuple(key[1:])) for key, paths in groups.items()]


_OF_EVERY_ITEM = (".id", ".object", ".status")


def _names(paths: list[str]) -> str:
    first, *others = paths
    parent = first.rpartition(".")[0]
    short = [path.removeprefix(parent) if parent and path.startswith(f"{parent}.") else path for path in others]
    return " ".join(f"`{name}`" for name in (first, *short))


def fields_of(dialect: str, event: str) -> list[Field]:
    """Return the fields of OpenAI's types, then those that are taken beyond them."""
    declared = client_fields(dialect, event)
    known = {field.path for field in declared}
    beyond = [path for of, path in PROBES[dialect] if of == event and path and path not in known]
    return [*declared, *map(Field, beyond)]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(found: Verdict, probe: Probe | None = None) -> str:
    if probe is not None and probe.why == ON_A_WEBSOCKET:
        return f"not on a WebSocket: `{found.code}` at `{found.param}`"
    if found.word == "refused":
        return f"refused: `{found.code}`" + (f" at `{_general(found.param)}`" if found.param else "")
    if found.refused:
        return f"{found.word}; refused: `{found.code}` for {', '.join(map(_shown, found.refused))}"
    return found.word


def _general(path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", path)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        value = value["input"][0] if "input" in value else value
        content = value.get("content")
        return _shown(content[0]["type"] if content else value.get("type"))
    return f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _remark(verdicts: list[Verdict], probes: list[Probe]) -> str:
    effects = list(dict.fromkeys(effect_words(place) for found in verdicts for place in found.effects))
    if len(effects) > 1:
        effects = [words for words in effects if words != "the events that follow"]
    if len(effects) > 3:
        effects = [*effects[:3], "…"]
    lacking = any(found.word != "full" or found.refused for found in verdicts)
    whys = list(dict.fromkeys(probe.why for probe in probes if probe.why)) if lacking else []
    if not effects and any(found.word == "full" for found in verdicts):
        effects = ["shown, and kept"]
    return "; ".join([*(effects and [", ".join(effects)]), *whys])


def _values(field: Field, rules: Rules) -> str:
    path = re.sub(r"\{[^}]*\}", "", field.path)
    words = [f"`{word}`" for word in field.words]
    low, high = rules.bounds.get(path, (None, None))
    if (low, high) != (None, None):
        words.append(f"{low}–{high}" if high is not None else f"≥ {low}")
    longest = rules.lengths.get(path)
    if path == "item.id" and "mcp_" not in field.path:
        longest = wire_rules.MAX_ITEM_ID  # checked where the item's type is known
    if longest is not None:
        words.append(f"≤ {longest:,} characters")
    return " ".join(words if len(words) < 9 else [*words[:8], "…"])


# --- events ----------------------------------------------------------------------------------------------------------


def _client_events() -> str:
    lines = ["### Client events", "", _row("event", "GA", "beta", "first answers", "remark"), "|---|---|---|---|---|"]
    for event in {**CLIENT_EVENTS["GA"], **CLIENT_EVENTS["beta"]}:
        found = {name: observed(name, event, "") if event in CLIENT_EVENTS[name] else None for name in PROBES}
        cells = ["–" if one is None else _cell(one, PROBES[name][event, ""]) for name, one in found.items()]
        dialect = next(name for name, one in found.items() if one is not None)
        probe = PROBES[dialect][event, ""]
        answers = " ".join(f"`{kind}`" for kind in answers_of(probe)[:4]) or "none"
        lines.append(_row(f"`{event}`", *cells, answers, probe.why))
    return "\n".join(lines)


def _small_fields() -> str:
    lines = [
        "### Fields of the other client events, the same in both dialects",
        "",
        _row("event", "field", "values", "GA", "beta"),
        "|---|---|---|---|---|",
    ]
    for event in CLIENT_EVENTS["GA"]:
        for field in client_fields("GA", event):
            if "." in field.path or "{" in field.path or field.path == "event_id":
                continue
            if (event, field.path) not in PROBES["beta"]:
                continue
            cells = [_cell(observed(dialect, event, field.path)) for dialect in PROBES]
            lines.append(_row(f"`{event}`", f"`{field.path}`", _values(field, CLIENT_RULES), *cells))
    lines.append(_row("all", "`event_id`", f"≤ {wire_rules.MAX_EVENT_ID} characters", "full", "full"))
    return "\n".join(lines)


def _server_events() -> str:
    sent = {dialect: _seen(dialect) for dialect in SERVER_EVENTS}
    kinds = dict.fromkeys(kind for dialect in SERVER_EVENTS for kind in (*SERVER_EVENTS[dialect], *sent[dialect]))
    lines = ["### Server events", "", _row("event", "GA", "beta", "remark"), "|---|---|---|---|"]
    for kind in kinds:
        cells = []
        for dialect in SERVER_EVENTS:
            if kind in sent[dialect]:
                cells.append("sent")
            else:
                cells.append(_never(dialect, kind) if kind in SERVER_EVENTS[dialect] else "–")
        remarks = [NEVER[dialect][kind] for dialect in SERVER_EVENTS if kind in NEVER[dialect]]
        remarks += [f"without `{field}`: {why}" for (of, field), why in UNSENT_FIELDS.items() if of == kind]
        lines.append(_row(f"`{kind}`", *cells, "; ".join(dict.fromkeys(remarks))))
    return "\n".join(lines)


def _never(dialect: str, kind: str) -> str:
    of_another_transport = re.search(r"WebRTC|SIP", NEVER[dialect].get(kind, ""))
    return "not on a WebSocket" if of_another_transport else "never"


@cache
def _seen(dialect: str) -> dict[str, frozenset[str]]:
    """Return the server events that came up, each with the fields that did."""
    seen: dict[str, set[str]] = {}
    for payload in sent_events(dialect):
        seen.setdefault(payload["type"], set()).update(payload)
    return {kind: frozenset(fields) for kind, fields in seen.items()}


def unsent(dialect: str) -> set[str]:
    """Return the server events of the types that no conversation showed."""
    return set(SERVER_EVENTS[dialect]) - set(_seen(dialect))


def unsent_fields(dialect: str) -> set[tuple[str, str]]:
    """Return the fields of server events that are sent, but never these."""
    seen = _seen(dialect)
    return {
        (kind, field)
        for kind in SERVER_EVENTS[dialect]
        if kind in seen
        for field in server_fields(dialect, kind)
        if field not in seen[kind]
    }


# --- the whole -------------------------------------------------------------------------------------------------------


_LIMITS = {
    **{name: getattr(wire_rules, name) for name in dir(wire_rules) if name.startswith("MAX_")},
    "LONGEST_PENDING_S": LONGEST_PENDING_S,
    "KEPT_ITEM_S": round(s_from_samples(samples_from_bytes(ITEM_LIMIT_BYTES))),
    "KEPT_SESSION_S": round(s_from_samples(samples_from_bytes(SESSION_BUDGET_BYTES))),
    "TRUNCATE_TOLERANCE_MS": TRUNCATE_TOLERANCE_MS,
}


def _our_errors() -> str:
    lines = ["### Codes of our own, where OpenAI's are not known", "", _row("code", "when"), "|---|---|"]
    return "\n".join([*lines, *(_row(f"`{code}`", reason) for code, reason in our_errors())])


def text() -> str:
    """Return the document."""
    introduction = INTRODUCTION.read_text(encoding="utf-8")
    filled = re.sub(r"<([A-Z_]+)>", lambda match: f"{_LIMITS[match[1]]:,}", introduction)
    parts = [_client_events(), *map(_section, SECTIONS[:4]), _small_fields(), *map(_section, SECTIONS[4:])]
    return "\n\n".join([filled.rstrip(), *parts, _server_events(), _our_errors()]) + "\n"
