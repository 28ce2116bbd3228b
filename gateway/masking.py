"""Hides what is secret in settings before they are shown: keys, passwords in URLs, keys in query strings and JSON."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

MASK = "***"

_SECRET_NAME = re.compile(
    r"(key|token|secret|passwor[dt]|passwd|passphrase|pwd|credentials?|signature|sig|auth|authorization)$",
    re.IGNORECASE,
)
"""How the name of a secret ends, in a query or an object (`api-key`, `access_token`, but not `max_tokens`)."""


def masked_url(url: str) -> str:
    """Return `url` without user and password, and without the values in its query that are named like secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL: nobody knows what is in it
        return MASK if "@" in url else url
    place = f"{MASK}@{parts.netloc.rpartition('@')[2]}" if "@" in parts.netloc else parts.netloc
    query = parse_qsl(parts.query, keep_blank_values=True)
    if any(_SECRET_NAME.search(name) for name, _ in query):
        shown = urlencode([(name, MASK if _SECRET_NAME.search(name) else value) for name, value in query], safe="*")
    else:
        shown = parts.query
    return urlunsplit((parts.scheme, place, parts.path, shown, parts.fragment))


def masked_json(text: str) -> str:
    """Return the JSON `text` with all values masked that are named like secrets; `***` where it is no JSON."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return MASK
    return json.dumps(_masked(content), ensure_ascii=False)


def _masked(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: MASK if _SECRET_NAME.search(name) else _masked(value) for name, value in content.items()}
    return [_masked(value) for value in content] if isinstance(content, list) else content
