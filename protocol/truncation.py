"""What of a long conversation the language model is still told (Realtime GA: `truncation`).

Old items leave the context for good, never the conversation, so that the prompt's start, which prompt caches need,
moves seldom: with `retention_ratio` several leave at once. Tokens are estimated; every model counts its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.items import FunctionCall, FunctionCallOutput, HeardPart, ImagePart, Item, TextPart
from protocol.mcp_items import McpApprovalRequest, McpApprovalResponse, McpCall, McpListTools
from protocol.speech import SpeechPart

USABLE_TOKENS = 28_224
"""Input that a model of 32k context can use beside 4,096 tokens of output, as at OpenAI."""

_BYTES_PER_TOKEN = 4
"""English in common tokenizers; in UTF-8 other scripts come out near their real cost as well."""

_TOKENS_PER_ITEM = 4
"""Roles and separators around each message (chat templates)."""

_IMAGE_TOKENS = {"low": 85}
_FULL_IMAGE_TOKENS = 765
"""A 1024 × 1024 image at OpenAI's published rates."""


class ContextTooLong(Exception):
    """With truncation disabled the conversation is longer than the model's context."""

    def __init__(self, tokens: int, limit_tokens: int) -> None:
        super().__init__(f"about {tokens} tokens of {limit_tokens}")
        self.tokens = tokens
        self.limit_tokens = limit_tokens


def text_tokens(text: str) -> int:
    """Return about how many tokens `text` takes."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


def item_tokens(item: Item) -> int:
    """Return about how many tokens an item takes in the model's context."""
    match item:
        case FunctionCall(name=name, arguments=arguments):
            return _TOKENS_PER_ITEM + text_tokens(name) + text_tokens(arguments)
        case FunctionCallOutput(output=output):
            return _TOKENS_PER_ITEM + text_tokens(output)
        case McpCall(name=name, arguments=arguments):
            return 2 * _TOKENS_PER_ITEM + text_tokens(name) + text_tokens(arguments) + text_tokens(item.result or "")
        case McpListTools() | McpApprovalRequest() | McpApprovalResponse():
            return 0  # the model is not told of them
        case _:
            return _TOKENS_PER_ITEM + sum(map(_part_tokens, item.parts))


def _part_tokens(part: TextPart | ImagePart | HeardPart | SpeechPart) -> int:
    match part:
        case TextPart(text=text) | SpeechPart(text=text):
            return text_tokens(text)
        case HeardPart(transcript=transcript):
            return text_tokens(transcript or "")
        case ImagePart(detail=detail):
            return _IMAGE_TOKENS.get(detail or "", _FULL_IMAGE_TOKENS)


def superfluous(items: Sequence[Item], truncation: str | Mapping[str, Any], room_tokens: int) -> int:
    """Return how many of the oldest `items` leave the context.

    `room_tokens`: what the model's context holds beside instructions and tools; a client's own
    `token_limits.post_instructions` lowers it. The newest item always stays. Raises ContextTooLong where the client
    forbids truncation.
    """
    settings = truncation if isinstance(truncation, Mapping) else {}
    own_limit: int | None = (settings.get("token_limits") or {}).get("post_instructions")
    limit = room_tokens if own_limit is None else min(own_limit, room_tokens)
    sizes = [item_tokens(item) for item in items]
    total = sum(sizes)
    if total <= limit:
        return 0
    if truncation == "disabled":
        raise ContextTooLong(total, limit)
    keep = limit * settings.get("retention_ratio", 1.0)
    leaving = 0
    while total > keep and leaving < len(sizes) - 1:
        total -= sizes[leaving]
        leaving += 1
    return leaving
