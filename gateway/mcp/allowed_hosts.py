"""Which MCP servers the gateway may reach for its clients: a client names the URL, the operator the hosts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from gateway.loopback import is_loopback

ALL_HOSTS = "*"


class AllowedHosts:
    """The operator's list. Without one only servers on this machine may be reached, and only by users of it."""

    def __init__(self, names: Iterable[str] = (), *, bound: Iterable[str] = ("127.0.0.1",)) -> None:
        """`names`: hosts, with or without a port, or `*`. `bound`: what the gateway listens on."""
        self._names = {name.lower() for name in names}
        self._loopback = all(is_loopback(host) for host in bound)

    def allow(self, url: str) -> bool:
        """Return whether the server at `url` may be reached."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if not host:
            return False
        if ALL_HOSTS in self._names or (self._loopback and is_loopback(host)):
            return True
        shown = f"[{host}]" if ":" in host else host
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        return bool({host, shown, f"{shown}:{port}"} & self._names)
