"""Lets clients in by the key that they offer: the configured one, or an ephemeral key made with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection

from gateway.endpoints.access import Refusal, key_refusal, offered_keys
from gateway.endpoints.ephemeral_keys import EphemeralKeys, KeyRefused, is_ephemeral


@dataclass(frozen=True, slots=True)
class Admission:
    """A client that may come in. `session`: the settings that its ephemeral key carries, None with any other key."""

    session: dict[str, Any] | None = None


class Keys:
    """The one place that reads keys. `required` "": any key or none, but a false or expired ephemeral key of ours."""

    def __init__(self, required: str, ephemeral: EphemeralKeys) -> None:
        self._required = required
        self._ephemeral = ephemeral

    def admit(self, connection: HTTPConnection) -> Admission | Refusal:
        """Decide on a socket's handshake."""
        offered = offered_keys_of(connection)
        refusal = key_refusal(self._required, offered)
        ours = [key for key in offered if is_ephemeral(key)]
        if not ours or (self._required and refusal is None):
            return refusal or Admission()
        try:
            return Admission(self._ephemeral.session_of(ours[0]))
        except KeyRefused as error:
            return Refusal(401, str(error), code="invalid_api_key")

    def refuse_request(self, connection: HTTPConnection) -> Refusal | None:
        """Return None if a plain HTTP request may be served; an ephemeral key only opens sockets.

        The 403 is a choice: that OpenAI refuses is known, its words are not.
        """
        admission = self.admit(connection)
        if isinstance(admission, Refusal):
            return admission
        if admission.session is not None:
            return Refusal(
                403,
                "You have insufficient permissions for this operation: an ephemeral key only opens Realtime sessions.",
            )
        return None


def offered_keys_of(connection: HTTPConnection) -> list[str]:
    """Return every key that a request or a handshake offers."""
    return offered_keys(
        authorization=connection.headers.get("authorization", ""),
        api_key=connection.headers.get("api-key", ""),
        subprotocols=connection.scope.get("subprotocols", ()),
    )
