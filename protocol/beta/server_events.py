"""From a GA server event to what a beta client sees of it: one event, none, or a name of its own.

Events that are not named here are the same in both dialects, or nothing to a beta client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol.beta.fields import (
    DEFAULT_TEMPERATURE,
    RESPONSE,
    SESSION,
    SPOKEN,
    TRANSCRIPTION_SESSION,
    beta_path,
    flattened,
)
from protocol.beta.items import BETA_ITEMS, item_to_beta

Payload = dict[str, Any]

NAMES = {
    "conversation.item.added": "conversation.item.created",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
}
"""The beta name of each event that both dialects have under different names."""

_ONLY_GA = (
    "conversation.item.done",
    "conversation.item.input_audio_transcription.segment",
    "input_audio_buffer.timeout_triggered",
    "input_audio_buffer.dtmf_event_received",
    "mcp_list_tools.",
    "response.mcp_call",
)
"""Beginnings of the types that beta doesn't know. `conversation.item.done` repeats what beta says once."""

_ONLY_GA_FIELDS = {
    "response.function_call_arguments.done": "name",
    "conversation.item.input_audio_transcription.completed": "languages",
}


def to_beta(ga: Payload) -> Payload | None:
    """Return what a beta client sees of `ga`, or None where that is nothing. `ga` is not changed."""
    kind = ga["type"]
    if kind.startswith(_ONLY_GA):
        return None
    beta = {**ga, "type": NAMES.get(kind, kind)}
    beta.pop(_ONLY_GA_FIELDS.get(kind, ""), None)
    if "session" in ga:
        beta["session"] = session_to_beta(ga["session"])
        if ga["session"]["type"] == "transcription":
            beta["type"] = f"transcription_{kind}"
    elif "item" in ga:
        if ga["item"]["type"] not in BETA_ITEMS:
            return None
        beta["item"] = item_to_beta(ga["item"])
    elif "response" in ga:
        beta["response"] = _response_to_beta(ga["response"])
    elif kind == "error":
        beta["error"] = _error_to_beta(ga["error"])
    return beta


def session_to_beta(session: Mapping[str, Any]) -> Payload:
    """Return the beta session object for a GA one, of either kind."""
    head = {key: session[key] for key in ("id", "object", "expires_at") if key in session}
    # Beta shows the key of a session that REST made; null where there is none.
    if session["type"] == "transcription":
        return {**head, "modalities": list(SPOKEN), **flattened(session, TRANSCRIPTION_SESSION), "client_secret": None}
    return {**head, "temperature": DEFAULT_TEMPERATURE, **flattened(session, SESSION), "client_secret": None}


def _response_to_beta(response: Mapping[str, Any]) -> Payload:
    beta = {"temperature": DEFAULT_TEMPERATURE, **flattened(response, RESPONSE)}
    if beta.get("usage") is not None:
        beta["usage"] = _without_images(beta["usage"])
    return beta


def _without_images(usage: Mapping[str, Any]) -> Payload:
    """Return `usage` without counts of image tokens, which beta doesn't know, at whatever depth."""
    return {
        key: _without_images(value) if isinstance(value, Mapping) else value
        for key, value in usage.items()
        if key != "image_tokens"
    }


def _error_to_beta(error: Mapping[str, Any]) -> Payload:
    """Return the error with its path, and its message where that names it, in beta's words.

    An unknown parameter is the client's own word for something: it has been named in its dialect already.
    """
    param = error["param"]
    if param is None or error["code"] == "unknown_parameter":
        return dict(error)
    path = beta_path(param)
    return {**error, "param": path, "message": error["message"].replace(f"'{param}", f"'{path}")}
