"""Of which command an `error` speaks that names none: by what it says is wrong, as far as that tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_NO_COMMAND = frozenset({"session_expired", "conversation_already_has_active_response"})
"""Codes of errors that may come by themselves: at a session's end, and when the VAD's turn finds a response running."""

_BY_CODE = (
    ("item_create_", "conversation.item.create"),
    ("item_truncate_", "conversation.item.truncate"),
    ("item_delete_", "conversation.item.delete"),
    ("item_retrieve_", "conversation.item.retrieve"),
    ("input_audio_buffer_commit_", "input_audio_buffer.commit"),
    ("response_cancel_", "response.cancel"),
)
_BY_PARAM = {
    "session": "session.update",
    "item": "conversation.item.create",
    "previous_item_id": "conversation.item.create",
    "response": "response.create",
    "audio_end_ms": "conversation.item.truncate",
    "content_index": "conversation.item.truncate",
    "audio": "input_audio_buffer.append",
}
"""By the first word of `param`, which is a path into the client event."""


def may_refuse(error: Mapping[str, Any]) -> bool:
    """Say whether an `error` object that says of no command that it is about it may be the refusal of one.

    Others tell what went wrong at the server itself, with its recogniser or its quota.
    """
    return error.get("type") == "invalid_request_error"


def refused_kind(error: Mapping[str, Any]) -> str | None:
    """Return the type of client event that an `error` object is about; "" for none at all, None where it doesn't say.

    It is about none if it names a command, or if it is of the kind that comes by itself.
    """
    code, param = error.get("code"), error.get("param")
    if isinstance(error.get("event_id"), str):
        return ""
    if isinstance(code, str):
        if code in _OF_NO_COMMAND:
            return ""
        for prefix, kind in _BY_CODE:
            if code.startswith(prefix):
                return kind
    return _BY_PARAM.get(param.partition(".")[0].partition("[")[0]) if isinstance(param, str) else None
