"""Who may connect: host, origin and key. Pure functions on what the client sent; no key leaves this file.

Host and Origin protect a server on loopback from web pages: a page's script can reach 127.0.0.1, directly (its Origin
is then foreign) or through a name of its own that resolves there (DNS rebinding: its Host is then foreign).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from gateway.loopback import is_loopback

KEY_SUBPROTOCOL = "openai-insecure-api-key."
"""Prefix of the subprotocol entry in which browsers send their key (openai-node, openai-agents-js)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is answered with `status` instead of being served, as OpenAI words it."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None

    def body(self) -> dict[str, Any]:
        """Return OpenAI's JSON error body."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def offered_keys(*, authorization: str, api_key: str, subprotocols: Iterable[str]) -> list[str]:
    """Return every key that a client sent: as subprotocol, in `Authorization: Bearer` or `api-key` ("" if not sent)."""
    keys = [entry.removeprefix(KEY_SUBPROTOCOL) for entry in subprotocols if entry.startswith(KEY_SUBPROTOCOL)]
    scheme, _, credentials = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        keys.append(credentials.strip())
    keys.append(api_key.strip())
    return [key for key in keys if key]


def key_refusal(required: str, offered: Sequence[str]) -> Refusal | None:
    """Return None if the client may come in, or a 401.

    `required` "": any key or none. Every key that was sent is compared whole and in constant time.
    """
    if not required:
        return None
    if not offered:
        return Refusal(
            401, "You didn't provide an API key. Send it as `Authorization: Bearer YOUR_KEY`.", code="invalid_api_key"
        )
    if any(_same_secret(key, required) for key in offered):
        return None
    return Refusal(401, "Incorrect API key provided.", code="invalid_api_key")


def _same_secret(offered: str, required: str) -> bool:
    # Headers arrive as latin-1 text; digests make the lengths equal, which compare_digest would otherwise reveal.
    offered_digest = hashlib.sha256(offered.encode("latin-1", "replace")).digest()
    return hmac.compare_digest(offered_digest, hashlib.sha256(required.encode()).digest())


def host_refusal(host: str, *, bound: Iterable[str], allowed: Iterable[str], local_address: str = "") -> Refusal | None:
    """Return None if the Host header names this server, or a 403.

    `bound` and `local_address` are what the server listens on and where this connection arrived; `allowed` the names
    given with --allow-host, with or without a port.
    """
    name = _host_name(host)
    known = {entry.lower() for entry in (*bound, local_address) if entry}
    wanted = {entry.lower() for entry in allowed}
    if name and (is_loopback(name) or name in known or name in wanted or host.lower() in wanted):
        return None
    return Refusal(403, "This Host is not served here: add it with --allow-host.", code="host_not_allowed")


def origin_refusal(origin: str | None, *, host: str, allowed: Iterable[str]) -> Refusal | None:
    """Return None if a page of `origin` may connect, or a 403.

    No Origin: not a browser. Loopback pages on any port and pages of this server itself (`host` has been checked) may;
    others must be in `allowed` (`*` allows all).
    """
    if origin is None:
        return None
    parts = _split(origin)
    if parts.hostname and (is_loopback(parts.hostname) or parts.netloc.lower() == host.lower()):
        return None
    wanted = {entry.lower().rstrip("/") for entry in allowed}
    if "*" in wanted or origin.lower() in wanted:
        return None
    return Refusal(403, "Pages of this origin may not connect: add it with --allow-origin.", code="origin_not_allowed")


def subprotocol_choice(offered: Iterable[str]) -> str | None:
    """Return `realtime` if any subprotocol was offered (clients abort without one), never the key's entry."""
    return "realtime" if any(offered) else None


def _host_name(host: str) -> str:
    return (_split(f"//{host}").hostname or "").lower()


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # an unclosed "[": no host then, which is refused
        return urlsplit("")
