"""The errors whose code is the gateway's own choice, read from the docstrings of `protocol.errors`."""

from __future__ import annotations

import ast
import inspect
import re

from protocol import errors

_CHOSEN = re.compile(r"\b(code|codes) (is|are) ours|\bour code\b", re.IGNORECASE)


def our_errors() -> list[tuple[str, str]]:
    """Return code and reason of each, in the order of the file."""
    found: list[tuple[str, str]] = []
    for node in ast.parse(inspect.getsource(errors)).body:
        told = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.FunctionDef) and told is not None and _CHOSEN.search(told):
            found += [(code, _reason(told)) for code in _codes(node)]
    return found


def _codes(function: ast.FunctionDef) -> list[str]:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "ProtocolError"]
    return [call.args[0].value for call in made if isinstance(call.args[0], ast.Constant)]


def _reason(told: str) -> str:
    first = " ".join(told.split("\n\n")[0].split())
    return _CHOSEN.split(first)[0].rsplit(". ", 1)[0].rstrip(" (.")
