"""From a beta client event to the GA event that means the same.

What is wrong with it is found here, in beta's words; GA's own checks follow and find nothing new but what they share.
"""

from __future__ import annotations

from typing import Any

from protocol import errors, shapes
from protocol.beta.client_rules import BETA_RULES, SAME_AS_GA, SHAPES
from protocol.beta.fields import RESPONSE_CREATE, SESSION, TRANSCRIPTION_SESSION, nested
from protocol.beta.items import item_to_ga


def to_ga(raw: dict[str, Any]) -> dict[str, Any]:
    """Return `raw`, a beta client event, in GA's shape. Raises ProtocolError, whose `param` is a beta path."""
    kind = raw.get("type")
    if not isinstance(kind, str) or kind in SAME_AS_GA:
        return raw
    if kind not in SHAPES:
        raise errors.invalid_value("type", kind, (*SHAPES, *SAME_AS_GA))
    shapes.check(raw, SHAPES[kind], rules=BETA_RULES)
    match kind:
        case "session.update":
            return {**raw, "session": _session(raw["session"])}
        case "transcription_session.update":
            session = nested(raw["session"], TRANSCRIPTION_SESSION)
            return {**raw, "type": "session.update", "session": {"type": "transcription", **session}}
        case "conversation.item.create":
            return {**raw, "item": item_to_ga(raw["item"])}
        case _:
            response = raw.get("response")
            return raw if response is None else {**raw, "response": _response(response)}


def _session(session: dict[str, Any]) -> dict[str, Any]:
    """Return the GA session of an update. `client_secret` belongs to REST and means nothing on a socket."""
    _check_modalities(session, "session")
    _check_tool_choice(session, "session")
    return {"type": "realtime", **nested(session, SESSION)}


def _response(response: dict[str, Any]) -> dict[str, Any]:
    _check_modalities(response, "response")
    _check_tool_choice(response, "response")
    return nested(response, RESPONSE_CREATE)


def _check_modalities(settings: dict[str, Any], path: str) -> None:
    """Beta: text, or text and audio in either order; sound without its words is not offered (OpenAI's error)."""
    modalities = settings.get("modalities") or ["text"]
    if "text" not in modalities or len(set(modalities)) != len(modalities):
        raise errors.refused_value(
            f"{path}.modalities",
            f"Invalid modalities: {modalities[:3]}. Supported combinations are: ['text'] and ['audio', 'text'].",
        )


def _check_tool_choice(settings: dict[str, Any], path: str) -> None:
    choice = settings.get("tool_choice")
    if isinstance(choice, dict) and not choice.get("name") and not choice.get("function"):
        raise errors.missing_parameter(f"{path}.tool_choice.name")
