"""The start-up check that our import packages are ours.

`models`, `clients` and the like are common names: another distribution, or a folder on PYTHONPATH, may shadow one of
them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOMS = ("gateway", "models", "protocol", "clients")


class RoomsError(Exception):
    """A room was found outside our distribution. The text is one sentence for the user."""


def locate(name: str) -> Path | None:
    """Return the `__init__.py` that `import name` would run (without importing it), None if there is none."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def distribution_version() -> str:
    """Return our version; `unknown` when the code runs from a folder that was never installed."""
    try:
        return version("duplex-gateway")
    except PackageNotFoundError:
        return "unknown"


def check_rooms(find: Callable[[str], Path | None] = locate) -> None:
    """Check that all rooms lie side by side in the folder of this one. Raises RoomsError."""
    home = Path(__file__).resolve().parent.parent
    for name in ROOMS:
        found = find(name)
        if found is None:
            raise RoomsError(f"The package `{name}` of duplex-gateway is missing: install duplex-gateway again.")
        if found.resolve().parent.parent != home:
            raise RoomsError(
                f"The package `{name}` comes from another distribution, which shadows duplex-gateway's: "
                "install duplex-gateway in an environment of its own (pipx, uv tool, a container) and unset PYTHONPATH."
            )
