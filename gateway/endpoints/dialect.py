"""Which dialect of the protocol a client speaks, as its handshake tells it (protocol §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers

from protocol.wire import Dialect

_HEADER_VALUE = "realtime=v1"
_SUBPROTOCOL = "openai-beta.realtime-v1"
_AZURE_PREVIEW = "-preview"
"""How the API versions of Azure's preview end, which speaks beta; it names its model `deployment`."""


def dialect_of(headers: Headers, subprotocols: Iterable[str], query: Mapping[str, str]) -> Dialect:
    """Return the dialect that a handshake asks for: beta by header, by subprotocol or by Azure's preview; else GA."""
    told = (
        any(_HEADER_VALUE in value for value in headers.getlist("openai-beta")),
        _SUBPROTOCOL in subprotocols,
        query.get("api-version", "").endswith(_AZURE_PREVIEW) or "deployment" in query,
    )
    return Dialect.BETA if any(told) else Dialect.GA
