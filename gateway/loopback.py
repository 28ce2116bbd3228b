"""Which hosts are this machine itself."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Say whether `host` (a name or an address, no port) is this machine by definition, whatever a name server says."""
    name = host.lower().strip("[]")
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761: these never leave the machine
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
