"""From the conversation to what a language model is told: messages, tools and tool choice of chat completions.

Rules, each for a reason seen in the field:
- neighbours of one role become one message: a user who resumed after the commit said one thing, and many chat templates
  demand that roles alternate;
- of a reply that was cut short only the heard words are told; one of which nothing was heard is left out;
- all calls of one reply stand in one assistant message, their results follow it, whatever the order in which they came
  (RB-26); a call without a result is left out, and so is a result without its call: servers refuse either. An MCP call
  whose server has not answered, or that waits for approval, says so, lest the model make it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from protocol.items import FunctionCall, FunctionCallOutput, HeardPart, ImagePart, Item, Message, Part, TextPart
from protocol.mcp_items import McpApprovalRequest, McpApprovalResponse, McpCall, McpListTools
from protocol.mcp_servers import chat_name
from protocol.speech import SpeechPart

CUT_OFF_MARK = " —"
"""Ends a reply that the user cut short. A dash is how written dialogue shows an interruption, so that models understand
it, and no voice reads it aloud, should a small model copy it."""

IDLE_MARK = "..."
"""What the user "said" when the idle timeout fired: models read it as a silence and ask whether anyone is there, while
a conversation that ends in their own words makes many go on as if they had not stopped."""

ChatMessage = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call and its result."""

    id: str
    name: str
    arguments: str
    result: str


def chat_messages(instructions: str, items: Sequence[Item]) -> tuple[ChatMessage, ...]:
    """Return the chat completions messages for `items`, after a system message with `instructions`."""
    results = {item.call_id: item.output for item in items if isinstance(item, FunctionCallOutput)}
    messages: list[ChatMessage] = [{"role": "system", "content": instructions}] if instructions else []
    answered: list[_Call] = []
    for item in items:
        match item:
            case FunctionCall(call_id=call_id):
                if call_id in results and item.status == "completed":
                    answered.append(_Call(call_id, item.name, item.arguments, results[call_id]))
            case McpCall(result=result):
                if result is not None:
                    answered.append(_Call(item.id, chat_name(item.server_label, item.name), item.arguments, result))
            case McpListTools() | McpApprovalRequest() | McpApprovalResponse():
                pass
            case Message() | FunctionCallOutput():
                messages += _calls(messages, answered)
                answered = []
                if isinstance(item, Message):
                    _add_message(messages, item)
            case _:
                assert_never(item)
    messages += _calls(messages, answered)
    return tuple(messages)


def _calls(messages: list[ChatMessage], calls: list[_Call]) -> list[ChatMessage]:
    """Return the messages for calls that one reply made; words said just before become part of the same message."""
    if not calls:
        return []
    said = (
        messages.pop() if messages and _is_open(messages[-1], "assistant") else {"role": "assistant", "content": None}
    )
    tool_calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
        for call in calls
    ]
    tools = [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in calls]
    return [{**said, "tool_calls": tool_calls}, *tools]


def _is_open(message: ChatMessage, role: str) -> bool:
    return message["role"] == role and "tool_calls" not in message


def _add_message(messages: list[ChatMessage], item: Message) -> None:
    content = _content(item)
    if not content:
        return
    if messages and _is_open(messages[-1], item.role):
        messages[-1] = {"role": item.role, "content": _joined(messages[-1]["content"], content)}
    else:
        messages.append({"role": item.role, "content": content})


def _content(item: Message) -> str | list[dict[str, Any]]:
    """Return a message's text, or its parts if it holds an image."""
    parts = [part for part in map(_chat_part, item.parts) if part.get("text") != ""]
    if any(part["type"] == "image_url" for part in parts):
        return parts
    return "\n".join(part["text"] for part in parts)


def _chat_part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return _text_part(part.text)
        case HeardPart():
            return _text_part(part.transcript or (IDLE_MARK if part.idle else ""))
        case SpeechPart():
            heard = part.heard_text()
            return _text_part(f"{heard}{CUT_OFF_MARK}" if heard and part.cut_short else heard)
        case ImagePart():
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "image_url", "image_url": {"url": part.image_url, **detail}}
        case _:
            assert_never(part)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _joined(one: str | list[dict[str, Any]], other: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n{other}"
    return [*_as_parts(one), *_as_parts(other)]


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_text_part(content)] if isinstance(content, str) else content


# --- tools ---------------------------------------------------------------------------------------------------------


def chat_tools(tools: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the session's flat function tools in the nested shape of chat completions."""
    return tuple(
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description") or "",
                "parameters": tool.get("parameters") or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    )


def chat_tool_choice(tool_choice: str | dict[str, Any], tools: Iterable[dict[str, Any]]) -> str | dict[str, Any]:
    """Return `tool_choice` in the shape of chat completions.

    A choice of a function that is not among `tools` means "auto": clients set the two in separate updates.
    """
    if isinstance(tool_choice, str):
        return tool_choice
    name = tool_choice.get("name")
    known = any(tool["name"] == name for tool in tools)
    return {"type": "function", "function": {"name": name}} if known else "auto"
