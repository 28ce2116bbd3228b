"""What a server's refusal of a connection means, and what to do about it."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from clients.server_url import EXAMPLE

_TO_DO = {
    401: "Give its key with --api-key, or with --key HOST=KEY if it is another host's target.",
    404: f"Is that a Realtime server's URL? Its base URL will do, such as {EXAMPLE}.",
}


def told(url: str, status: int, body: bytes | bytearray) -> str:
    """Return what a user is told when the server at `url` has answered the upgrade with `status` and `body`."""
    code, words = _error(body)
    to_do = _TO_DO.get(status, "")
    if code == "host_not_allowed":
        to_do = f"Start that gateway with --allow-host {urlsplit(url).hostname}."
    elif status == 503 and not words:
        to_do = "It is busy or not ready: try again later."
    refused = f"{url} refused the connection: {words} (HTTP {status})" if words else f"{url} answered HTTP {status}"
    return f"{refused}. {to_do}".rstrip()


def _error(body: bytes | bytearray) -> tuple[str, str]:
    """Return code and message of an error in OpenAI's shape, "" for what it has not."""
    try:
        error = json.loads(body)["error"]
        return str(error.get("code") or ""), str(error.get("message") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", ""  # a proxy's page
