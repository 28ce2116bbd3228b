"""Tells the operator of names in `?model=` that mean nothing here, since their clients got the default model.

That is right for OpenAI's names, and is a slip of the pen where a client means another of the models that are served.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

logger = logging.getLogger(__name__)

MOST_NAMES = 32
"""How many names are told in the life of a process (chosen: more are a client that makes them up)."""

LONGEST_NAME = 64
"""Characters of a client's word that are told (chosen)."""

OPENAIS = "gpt-"
"""How the names of OpenAI's Realtime models begin (`RealtimeSessionCreateRequest.model`): clients' usual default."""


class UnknownModels:
    """The names that have been told of. One per app."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def opened(self, model: str | None, backend: str, served: Sequence[str]) -> None:
        """Log once that `model` got `backend`, unless it is a name, OpenAI's, or there is no choice among `served`."""
        if not model or len(served) == 1 or model in served or model.startswith(OPENAIS):
            return
        shown = "".join(character for character in model if character.isprintable())[:LONGEST_NAME].strip()
        if shown in self._told or len(self._told) == MOST_NAMES:
            return
        self._told.add(shown)
        names = ", ".join(f"`{name}`" for name in served)
        logger.warning("no model is named `%s`: its client got `%s`, the default; there are %s", shown, backend, names)
