"""MCP servers as a client defines them in `tools`, and which of their tools may be used (Realtime GA: `type: mcp`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from protocol import errors
from protocol.mcp_items import McpTool

SECRETS = ("authorization", "headers")
"""Keys of a definition that go to the server and nowhere else: never into an event, an error or a log."""

MAX_SERVERS = 32
"""Most MCP servers in one `tools` array (chosen)."""

_LONGEST_CHAT_NAME = 64
"""Longest function name that chat completions take (OpenAI)."""

_NOT_IN_CHAT_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class McpServer:
    """Where a server is and what it is sent. Two equal ones have the same tools."""

    label: str
    url: str
    authorization: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def http_headers(self) -> dict[str, str]:
        """Return the headers of each request: the client's own and its OAuth token."""
        if self.authorization is None:
            return dict(self.headers)
        token = self.authorization.strip()
        bearer = token if token.lower().startswith("bearer ") else f"Bearer {token}"
        return {**dict(self.headers), "Authorization": bearer}


def server_of(definition: Mapping[str, Any]) -> McpServer:
    """Return the server of a complete definition."""
    headers = tuple(sorted((definition.get("headers") or {}).items()))
    return McpServer(definition["server_label"], definition["server_url"], definition.get("authorization"), headers)


def shown(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of `tools` as server events show it: without keys, and without null, which agents-js refuses."""
    if tool["type"] != "mcp":
        return dict(tool)
    return {key: value for key, value in tool.items() if key not in SECRETS and value is not None}


def holds_secrets(tools: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a definition among `tools` has keys, which nobody but the gateway and the server may see."""
    return any(tool.get(secret) for tool in tools if tool["type"] == "mcp" for secret in SECRETS)


def is_allowed(definition: Mapping[str, Any], tool: McpTool) -> bool:
    """Return whether a definition's `allowed_tools` lets the model use `tool`."""
    allowed = definition.get("allowed_tools")
    if allowed is None:
        return True
    return tool.name in allowed if isinstance(allowed, list) else _matches(allowed, tool)


def needs_approval(definition: Mapping[str, Any], tool: McpTool) -> bool:
    """Return whether the client must approve each call of `tool`; it must unless the definition says otherwise.

    With filters: what `always` matches needs it, what `never` matches does not. Of the rest everything needs it, unless
    `always` is the only filter: then it names all that do.
    """
    rule = definition.get("require_approval") or "always"
    if isinstance(rule, str):
        return rule == "always"
    always, never = rule.get("always"), rule.get("never")
    if always is not None and _matches(always, tool):
        return True
    if never is not None:
        return not _matches(never, tool)
    return always is None


def _matches(tool_filter: Mapping[str, Any], tool: McpTool) -> bool:
    """Return whether a filter object names the tool; each key that it has must fit."""
    names, read_only = tool_filter.get("tool_names"), tool_filter.get("read_only")
    if names is None and read_only is None:
        return False
    return (names is None or tool.name in names) and (read_only is None or tool.read_only == read_only)


def chat_name(server_label: str, tool_name: str) -> str:
    """Return the name under which a language model knows a server's tool: the same for the same tool, always.

    What chat completions do not allow in a name is replaced, and a digest then keeps different tools apart.
    """
    plain = f"{server_label}__{tool_name}"
    name = _NOT_IN_CHAT_NAMES.sub("_", plain)
    if name == plain and len(name) <= _LONGEST_CHAT_NAME:
        return name
    return marked_name(name, plain)


def marked_name(name: str, unique: str) -> str:
    """Return `name` with a digest of `unique` at its end."""
    digest = hashlib.sha256(unique.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[: _LONGEST_CHAT_NAME - len(digest) - 1]}_{digest}"


# --- definitions that clients send ---------------------------------------------------------------------------------


class ServerDefinitions:
    """The definitions of one session by label: a later entry of that label alone means the earlier one again."""

    def __init__(self) -> None:
        self._by_label: dict[str, dict[str, Any]] = {}

    def completed(self, tools: Iterable[dict[str, Any]], path: str) -> list[dict[str, Any]]:
        """Return `tools` with every MCP entry complete. Raises ProtocolError for one that cannot be used.

        `path` is where the array stands in the client's event. Call `remember` once the event is accepted.
        """
        complete: list[dict[str, Any]] = []
        labels: set[str] = set()
        for index, tool in enumerate(tools):
            complete.append(tool)
            if tool["type"] != "mcp":
                continue
            entry = f"{path}[{index}]"
            label = tool["server_label"]
            if label in labels:
                raise errors.duplicate_server_label(label, f"{entry}.server_label")
            labels.add(label)
            if len(labels) > MAX_SERVERS:
                raise errors.too_many_servers(MAX_SERVERS, path)
            complete[-1] = self._completed(tool, entry)
        return complete

    def _completed(self, tool: dict[str, Any], path: str) -> dict[str, Any]:
        for hosted in ("connector_id", "tunnel_id"):
            if tool.get(hosted) is not None:
                raise errors.hosted_connector(f"{path}.{hosted}")
        if tool.get("server_url") is None:
            earlier = self._by_label.get(tool["server_label"])
            if earlier is None:
                raise errors.missing_parameter(f"{path}.server_url")
            tool = {**earlier, **tool, "server_url": earlier["server_url"]}
        _check_url(tool["server_url"], f"{path}.server_url")
        headers = tool.get("headers") or {}
        if tool.get("authorization") is not None and any(name.lower() == "authorization" for name in headers):
            raise errors.two_authorizations(f"{path}.headers")
        if not all(_is_header(name, value) for name, value in headers.items()):
            raise errors.unusable_headers(f"{path}.headers")
        if not _is_header("Authorization", tool.get("authorization") or ""):
            raise errors.unusable_headers(f"{path}.authorization")
        return tool

    def remember(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Keep complete definitions for later entries of their labels. The oldest leave beyond twice the most."""
        for tool in tools:
            if tool["type"] == "mcp":
                self._by_label.pop(tool["server_label"], None)
                self._by_label[tool["server_label"]] = dict(tool)
        while len(self._by_label) > 2 * MAX_SERVERS:
            del self._by_label[next(iter(self._by_label))]


def _check_url(url: str, path: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or any(character.isspace() or not character.isprintable() for character in url):
        raise errors.unusable_server_url(path)


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110: a token."""


def _is_header(name: str, value: str) -> bool:
    return bool(_HEADER_NAME.fullmatch(name)) and value.isascii() and (value.isprintable() or not value)
