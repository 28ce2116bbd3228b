"""`GET /metrics`: what Prometheus reads. With a key set it is asked for, as everywhere but at `/health`."""

from __future__ import annotations

import asyncio

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from gateway.endpoints.errors import error_response
from gateway.endpoints.keys import Keys
from gateway.metrics import Metrics


class MetricsEndpoint:
    """The metrics of one app."""

    def __init__(self, metrics: Metrics, keys: Keys) -> None:
        self._metrics = metrics
        self._keys = keys

    async def read(self, request: Request) -> Response:
        """Answer with all metrics in Prometheus' text format."""
        refusal = self._keys.refuse_request(request)
        if refusal is not None:
            return error_response(refusal)
        self._metrics.look()
        text = await asyncio.to_thread(self._metrics.text)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})
