"""Which models a server says that it has: many serve any other name too, by a default, and measure something else."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

from clients.server_url import http_connection

ANSWER_S = 10.0
"""Longest wait for the list (chosen)."""

LONGEST_LIST_BYTES = 4_000_000
"""More than that is no list of models (chosen)."""

SHOWN = 30
"""So many names are told (chosen: a gateway's, with OpenAI's that it answers to)."""


def listed_models(url: str, api_key: str) -> list[str] | None:
    """Return the names in `GET /v1/models` beside the socket at `url`; None if no such list can be read."""
    parts = urlsplit(url)
    base, last, rest = parts.path.rstrip("/").rpartition("/realtime")
    if not last or rest:
        return None
    connection = http_connection(parts, ANSWER_S)
    try:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        connection.request("GET", f"{base}/models", headers=headers)
        answer = connection.getresponse()
        body = answer.read(LONGEST_LIST_BYTES) if answer.status == 200 else b"null"
        return [str(model["id"]) for model in json.loads(body)["data"]] or None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def shown_models(listed: list[str]) -> str:
    """Return the names for a sentence, the first ones if there are many."""
    more = len(listed) - SHOWN
    return ", ".join(listed[:SHOWN]) + (f" and {more} more" if more > 0 else "")
