"""Tells whether a URL leads back to this gateway: a role that stood there would wait for itself."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from gateway.loopback import is_loopback
from gateway.settings import Settings

_WILDCARDS = frozenset({"0.0.0.0", "::"})
_PORTS = {"http": 80, "https": 443}


def is_own_address(url: str, settings: Settings) -> bool:
    """Say whether `url` is an address that the gateway of `settings` listens on. Raises ValueError for no http(s) URL.

    Names are compared, never looked up: a check at start must not wait for a name server.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("no http(s) URL")
    port = parts.port or _PORTS[parts.scheme]
    return port in own_ports(settings) and _is_listened_on(parts.hostname, settings.host)


def own_ports(settings: Settings) -> frozenset[int]:
    """Return the ports that the gateway of `settings` listens on, but for one that the system chooses (0)."""
    ports = {settings.port, settings.tls_port} if settings.tls else {settings.port}
    return frozenset(ports - {0})


def _is_listened_on(host: str, bound: tuple[str, ...]) -> bool:
    if is_loopback(host) or host in _WILDCARDS or host in {name.lower().strip("[]") for name in bound}:
        return True
    return not _WILDCARDS.isdisjoint(bound) and _is_this_machine(host)


def _is_this_machine(host: str) -> bool:
    if host == socket.gethostname().lower():
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:  # sends nothing: only own addresses can be bound
            probe.bind((host, 0))
    except OSError:
        return False
    return True
