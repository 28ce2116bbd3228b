"""Where a Realtime server's socket is, from whatever URL a user has of it."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from urllib.parse import SplitResult, urlsplit

EXAMPLE = "http://127.0.0.1:8765/v1"

_SOCKET_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def socket_url(word: str) -> str:
    """Return the URL of the socket of a server that is given by it, or by its base URL with or without `/v1`.

    Raises ValueError, with a sentence for the user, for anything else.
    """
    try:
        parts = urlsplit(word.strip())
        known = parts.scheme in _SOCKET_SCHEMES and parts.hostname and parts.port != 0
    except ValueError:  # brackets without an address, a port beyond all ports
        known = None
    if not known:
        raise ValueError(f"{word!r} is no http(s) or ws(s) URL: give one such as {EXAMPLE}")
    path = parts.path.rstrip("/") or "/v1"
    path = f"{path}/realtime" if path.endswith("/v1") else parts.path
    return parts._replace(scheme=_SOCKET_SCHEMES[parts.scheme], path=path).geturl()


def http_connection(url: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    """Return a connection, not yet open, to what the server of the socket at `url` serves beside it."""
    host, port = url.hostname or "", url.port
    if url.scheme == "wss":
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def on_this_machine(url: str) -> bool:
    """Say whether the host of `url` is this machine by definition, whatever a name server says."""
    name = (urlsplit(url).hostname or "").lower()
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761: these never leave the machine
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
