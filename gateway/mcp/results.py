"""What an MCP server sent, in the protocol's terms: tools, and a call's result as one text."""

from __future__ import annotations

import json
from typing import assert_never

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

from protocol.mcp_items import McpFailure, McpTool

MAX_RESULT_BYTES = 32 * 2**10
"""Longest result that the model and the client get, in UTF-8 (chosen): some 8,000 tokens, more than a voice can use."""

CUT_NOTE = "\n[cut: the result is longer than the gateway passes on]"


def tool_of(tool: Tool) -> McpTool:
    """Return a tool as the protocol shows it."""
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else None
    return McpTool(tool.name, tool.description or "", tool.input_schema, annotations or None)


def outcome_of(result: CallToolResult) -> str | McpFailure:
    """Return a call's result as text, or the tool's own error."""
    text = _cut(_text(result))
    return McpFailure("tool_execution_error", text or "The tool failed.") if result.is_error else text


def _cut(text: str) -> str:
    encoded = text.encode("utf-8", "replace")  # half a surrogate pair could not be sent either
    if len(encoded) <= MAX_RESULT_BYTES:
        return encoded.decode()
    return encoded[: MAX_RESULT_BYTES - len(CUT_NOTE)].decode("utf-8", "ignore") + CUT_NOTE


def _text(result: CallToolResult) -> str:
    texts = [_block(block) for block in result.content]
    if not texts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(texts)


def _block(block: ContentBlock) -> str:
    """Return a block's text; of what a language model that reads text cannot use, what it is."""
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(mime_type=kind) | AudioContent(mime_type=kind):
            return f"[{kind}]"
        case ResourceLink(name=name, uri=uri):
            return f"[{name}: {uri}]"
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case EmbeddedResource(resource=resource):
            return f"[{resource.mime_type or 'binary data'}: {resource.uri}]"
        case _:
            assert_never(block)
