"""The other side of the beta dialect: a server that speaks it, for the relay, whose inside is GA.

`to_server` is the inverse of `client_events.to_ga`, `UpstreamEvents` that of `server_events.to_beta`; both read the
same tables.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from protocol.beta.fields import (
    RESPONSE,
    RESPONSE_CREATE,
    SESSION,
    TRANSCRIPTION_SESSION,
    flattened,
    ga_path,
    nested,
)
from protocol.beta.items import item_to_beta, item_to_ga
from protocol.beta.server_events import NAMES

Payload = dict[str, Any]

KEPT_CALLS = 64
"""Function calls whose name is remembered until their arguments are whole (chosen); the oldest leave first."""

GA_NAMES = {beta: ga for ga, beta in NAMES.items()}
"""The GA name of each event that beta calls otherwise."""

_HEAD = ("id", "object", "expires_at")


def to_server(ga: Payload) -> Payload:
    """Return a GA client event, which GA's checks have passed, as a beta server takes it: without what only GA says."""
    match ga:
        case {"type": "session.update", "session": {"type": "transcription"} as session}:
            return {**ga, "type": "transcription_session.update", "session": flattened(session, TRANSCRIPTION_SESSION)}
        case {"type": "session.update", "session": dict(session)}:
            return {**ga, "session": flattened(session, SESSION)}
        case {"type": "conversation.item.create", "item": dict(item)}:
            return {**ga, "item": item_to_beta(item)}
        case {"type": "response.create", "response": dict(response)}:
            return {**ga, "response": flattened(response, RESPONSE_CREATE)}
        case _:
            return ga


class UpstreamEvents:
    """Turns one beta server's events into GA's, in order."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, str] = OrderedDict()  # names by item, which GA repeats and beta doesn't
        self._previous: dict[str, Any] = {}  # of items that aren't done yet

    def to_ga(self, beta: Payload) -> list[Payload]:
        """Return the GA events that `beta` stands for. An event that is not shaped as beta's are stays as it is."""
        try:
            return self._translated(beta)
        except (KeyError, TypeError, AttributeError, ValueError):
            return [beta]

    def _translated(self, beta: Payload) -> list[Payload]:
        kind = beta["type"]
        if kind.startswith("transcription_session."):
            session = {"type": "transcription", **_head(beta), **nested(beta["session"], TRANSCRIPTION_SESSION)}
            return [{**beta, "type": kind.removeprefix("transcription_"), "session": session}]
        ga = {**beta, "type": GA_NAMES.get(kind, kind)}
        if kind in ("session.created", "session.updated"):
            ga["session"] = {"type": "realtime", **_head(beta), **nested(beta["session"], SESSION)}
        elif kind == "error":
            ga["error"] = _error_to_ga(beta["error"])
        elif "item" in beta:
            ga["item"] = item_to_ga(beta["item"])
        elif "response" in beta:
            ga["response"] = nested(beta["response"], RESPONSE)
        return self._with_what_beta_leaves_out(ga)

    def _with_what_beta_leaves_out(self, ga: Payload) -> list[Payload]:
        match ga:
            case {"type": "conversation.item.added", "item": {"id": str(item_id)} as item}:
                if item.get("status") != "in_progress":
                    return [ga, {**ga, "type": "conversation.item.done", "event_id": f"{ga.get('event_id')}_done"}]
                self._previous[item_id] = ga.get("previous_item_id")
            case {"type": "response.output_item.added", "item": {"type": "function_call", "id": str(item_id)} as item}:
                self._calls[item_id] = item.get("name", "")
                if len(self._calls) > KEPT_CALLS:
                    self._calls.popitem(last=False)
            case {"type": "response.function_call_arguments.done", "item_id": str(item_id)}:
                return [{"name": self._calls.pop(item_id, ""), **ga}]
            case {"type": "response.output_item.done", "item": {"id": str(item_id)} as item} if (
                item_id in self._previous
            ):
                done = {
                    "type": "conversation.item.done",
                    "event_id": f"{ga.get('event_id')}_done",
                    "previous_item_id": self._previous.pop(item_id),
                    "item": item,
                }
                return [done, ga]
            case {"type": "response.done"}:
                self._previous.clear()
            case _:
                pass
        return [ga]


def _head(beta: Payload) -> Payload:
    return {key: beta["session"][key] for key in _HEAD if key in beta["session"]}


def _error_to_ga(error: Payload) -> Payload:
    param = error.get("param")
    if not isinstance(param, str) or error.get("code") == "unknown_parameter":
        return error
    path = ga_path(param)
    return {**error, "param": path, "message": str(error.get("message", "")).replace(f"'{param}", f"'{path}")}
