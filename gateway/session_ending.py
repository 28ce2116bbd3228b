"""How a session's socket is closed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ending:
    """How the socket is closed. `code` None: the client is gone, there is nothing to close."""

    code: int | None
    reason: str = ""
