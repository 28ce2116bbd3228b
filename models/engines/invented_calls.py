"""A call of an offered function, with arguments that fit its schema: what a script without a mind can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WORD = "Paris"
"""What every string is (chosen: it is a city, a name, and a search that finds something)."""

NESTING = 8
"""How deep arguments may be; a schema that refers to itself ends here (chosen)."""


def invented_call(tools: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, object]] | None:
    """Return the name of the first of `tools` (as in chat completions) and its required arguments, None without any."""
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and function.get("name"):
            parameters = function.get("parameters")
            arguments = invented_value(parameters) if isinstance(parameters, Mapping) else {}
            return str(function["name"]), arguments if isinstance(arguments, dict) else {}
    return None


def invented_value(schema: Mapping[str, Any], nesting: int = NESTING) -> object:
    """Return a value that a plain JSON schema allows; of objects the required properties, or all if none is."""
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    for given in ("enum", "examples"):
        if schema.get(given):
            return schema[given][0]
    for either in ("anyOf", "oneOf", "allOf"):
        if schema.get(either):
            return invented_value(schema[either][0], nesting)
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object" | None:
            properties = schema.get("properties") or {}
            names = schema.get("required") or properties
            wanted = [name for name in names if name in properties] if nesting else []
            return {name: invented_value(properties[name], nesting - 1) for name in wanted}
        case "array":
            items = schema.get("items")
            return [invented_value(items, nesting - 1)] if items and nesting else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return WORD
