"""How a session's socket is closed."""

from __future__ import annotations

from dataclasses import dataclass

NORMAL = 1000

_SENDABLE = frozenset({NORMAL, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)})
"""Close codes that an endpoint may send (RFC 6455 §7.4): 1005, 1006 and 1015 only tell of what came."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the socket is closed. `code` None: the client is gone, there is nothing to close."""

    code: int | None
    reason: str = ""

    @property
    def sent_code(self) -> int:
        """The close code that is sent: `code`, or 1000 where that is one that no socket may send."""
        return NORMAL if self.code is None or self.code not in _SENDABLE else self.code
