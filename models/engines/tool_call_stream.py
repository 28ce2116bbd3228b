"""Tool-call deltas as servers really send them, put in the order that the contract promises."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from models.interfaces import ChatToolCall


@dataclass(slots=True)
class _Call:
    number: int
    server_index: int | None
    server_id: str | None
    name: str = ""
    arguments: str = ""
    announced: bool = False


class ToolCallStream:
    """Follows the tool calls of one reply.

    Interleaved indices are kept apart. Servers that leave out the index, the id, or both, that repeat id and name on
    each delta, or that give every call index 0 are understood; a missing id is made up.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def __bool__(self) -> bool:
        """Whether any call was begun."""
        return bool(self._calls)

    @property
    def all_named(self) -> bool:
        """Whether each call got its name, without which it can't be made."""
        return all(call.announced for call in self._calls)

    def feed(self, delta: dict[str, Any]) -> ChatToolCall | None:
        """Return what an element of `delta.tool_calls` adds, or None while its call has no name yet."""
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name") or ""
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        call = self._find(delta.get("index"), delta.get("id") or None, name)
        call.name = call.name or name
        call.arguments += arguments
        if call.announced:
            return ChatToolCall(call.number, arguments=arguments)
        if not call.name:
            return None
        call.announced = True
        call_id = call.server_id or f"call_{uuid.uuid4().hex[:24]}"
        return ChatToolCall(call.number, call_id=call_id, name=call.name, arguments=call.arguments)

    def _find(self, index: int | None, call_id: str | None, name: str) -> _Call:
        for call in reversed(self._calls):  # of several calls under one index, the newest goes on
            if index is not None and call.server_index == index:
                # A new id without a name is the same call from a server that makes up an id for each delta.
                if name and call_id is not None and call.server_id not in (None, call_id):
                    break
                call.server_id = call.server_id or call_id
                return call
            if index is None and call_id is not None and call.server_id == call_id:
                return call
        if index is None and call_id is None and self._calls:
            last = self._calls[-1]
            if not (name and _is_whole(last.arguments)):
                return last
        call = _Call(len(self._calls), index, call_id)
        self._calls.append(call)
        return call


def _is_whole(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True
