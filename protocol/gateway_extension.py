"""`session.gateway`: the one object that is ours, in an update or as `gateway.<name>=` in the URL.

OpenAI's protocol has no place for these settings. The object is shown only to clients that sent it, so that a stock
client never meets a key that its types don't know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pydantic

from protocol import errors, shapes

KEY = "gateway"
PATH = f"session.{KEY}"
URL_PREFIX = f"{KEY}."

_UPDATES = ("session.update", "transcription_session.update")
_WORDS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}
"""Yes and no as URLs write them."""


class _Options(pydantic.BaseModel):
    """What the object may hold; every key may be left out, null is the gateway's own choice."""

    barge_in: Literal["judged", "immediate", "off"] | None = None
    speculation: bool | None = None


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """A session's settings that OpenAI's protocol doesn't know. None: the gateway's own choice.

    `barge_in`: what the user's voice over the agent's does. `speculation`: whether the language model may start before
    the user's turn is certainly over. `shown`: the client sent the object, so it is echoed.
    """

    barge_in: str | None = None
    speculation: bool | None = None
    shown: bool = False

    def merged(self, given: Mapping[str, Any] | None) -> GatewayOptions:
        """Return these options with `given`, a checked object, merged in by presence; None clears all."""
        if given is None:
            return GatewayOptions(shown=True)
        return GatewayOptions(
            barge_in=given.get("barge_in", self.barge_in),
            speculation=given.get("speculation", self.speculation),
            shown=True,
        )


def split(raw: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a client event without our object, and what it held: `{"gateway": …}`, or nothing where it stood not.

    OpenAI's types are checked on the first. Raises ProtocolError if the object is wrong.
    """
    session = raw.get("session")
    if raw.get("type") not in _UPDATES or not isinstance(session, dict) or KEY not in session:
        return raw, {}
    shapes.check(session[KEY], _Options | None, PATH)
    return {**raw, "session": {key: value for key, value in session.items() if key != KEY}}, {KEY: session[KEY]}


def from_query(query: Mapping[str, str]) -> dict[str, Any]:
    """Return what a URL's `gateway.<name>=` parameters say: `{"gateway": …}`, or nothing. Raises ProtocolError."""
    said = {key.removeprefix(URL_PREFIX): value for key, value in query.items() if key.startswith(URL_PREFIX)}
    if not said:
        return {}
    options: dict[str, Any] = {}
    for name, word in said.items():
        if name == "speculation":
            if word.lower() not in _WORDS:
                raise errors.invalid_value(f"{PATH}.{name}", word, ("true", "false"))
            options[name] = _WORDS[word.lower()]
        else:
            options[name] = word
    shapes.check(options, _Options, PATH)
    return {KEY: options}
