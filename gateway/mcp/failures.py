"""What went wrong with an MCP server, as the protocol tells it: its own words, or what HTTP or the network said."""

from __future__ import annotations

from http import HTTPStatus

import httpx2
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from protocol.mcp_items import McpFailure

INTERNAL_ERROR = -32603
"""JSON-RPC 2.0: the peer failed in a way that has no code of its own."""

BAD_GATEWAY, GATEWAY_TIMEOUT = 502, 504
"""HTTP's codes for a server that cannot be reached and one that does not answer: `http_error` needs a number."""

_LONGEST_MESSAGE = 1000
"""Most characters of a server's own words in an error (chosen)."""

_WORDS_FOR_A_STATUS = frozenset({"Server returned an error response", "Not Found", "Session terminated"})
"""What the MCP library says instead of an HTTP status, when the server's answer held no words of MCP."""


def failure_of(error: BaseException, http_status: int | None) -> McpFailure:
    """Return the failure that `error` stands for; `http_status` is that of the last refused request, or None."""
    error = first_leaf(error)
    match error:
        case MCPError(message=words) if http_status is not None and words in _WORDS_FOR_A_STATUS:
            return _refused(http_status)
        case MCPError():
            return McpFailure("protocol_error", error.message[:_LONGEST_MESSAGE], error.code)
        case httpx2.HTTPStatusError():
            return _refused(error.response.status_code)
        case TimeoutError() | httpx2.TimeoutException():
            return McpFailure("http_error", "The MCP server did not answer in time.", GATEWAY_TIMEOUT)
        case httpx2.HTTPError() | OSError():
            return McpFailure("http_error", "The MCP server can't be reached.", BAD_GATEWAY)
        case ValidationError():
            return McpFailure("protocol_error", "The MCP server's answer is not what MCP prescribes.", INTERNAL_ERROR)
        case _:  # the library raises RuntimeError for results that do not fit their schema
            return McpFailure("protocol_error", "The MCP server's answer could not be used.", INTERNAL_ERROR)


def _refused(status: int) -> McpFailure:
    try:
        phrase = f" ({HTTPStatus(status).phrase})"
    except ValueError:
        phrase = ""
    return McpFailure("http_error", f"Http status code: {status}{phrase}", status)


def first_leaf(error: BaseException) -> BaseException:
    """Return the first real error of a group: the library's tasks fail in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
