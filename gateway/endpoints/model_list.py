"""`GET /v1/models`: what `?model=` can name, in OpenAI's shape, with what stands behind each name in `capabilities`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest
from starlette.requests import Request
from starlette.responses import JSONResponse

from gateway.endpoints.access import Refusal
from gateway.endpoints.errors import error_response
from gateway.endpoints.keys import Keys


def _openais_names() -> tuple[str, ...]:
    members = get_args(RealtimeSessionCreateRequest.model_fields["model"].annotation)
    return tuple(name for member in members if get_origin(member) is Literal for name in get_args(member))


OPENAI_NAMES = _openais_names()
"""What clients ask for besides our own names. They stand for the default backend, as any other name does."""

OWNER = "duplex-gateway"


class ModelsEndpoint:
    """Lists models. None is newer than this process, so that all were created when it started.

    `served` tells our own names with what stands behind each and can be done now, the default backend first. None:
    another server's, which has not told.
    """

    def __init__(self, keys: Keys, served: Callable[[], Mapping[str, Mapping[str, Any] | None]]) -> None:
        self._keys = keys
        self._served = served
        self._created_s = int(time.time())

    async def list(self, request: Request) -> JSONResponse:
        """Answer with all models."""
        refusal = self._keys.refuse_request(request)
        if refusal is not None:
            return error_response(refusal)
        return JSONResponse({"object": "list", "data": [self._model(*entry) for entry in self._table().items()]})

    async def retrieve(self, request: Request) -> JSONResponse:
        """Answer with the model of the path, or 404."""
        refusal = self._keys.refuse_request(request)
        name = request.path_params["model"]
        table = self._table()
        if refusal is None and name not in table:
            message = f"The model '{name[:80]}' does not exist or you do not have access to it."
            refusal = Refusal(404, message, code="model_not_found", param="model")
        return JSONResponse(self._model(name, table[name])) if refusal is None else error_response(refusal)

    def _table(self) -> dict[str, Mapping[str, Any] | None]:
        served = self._served()
        default = next(iter(served.values()))
        return {**served, **{name: default for name in OPENAI_NAMES if name not in served}}

    def _model(self, name: str, capabilities: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": self._created_s,
            "owned_by": OWNER,
            "capabilities": capabilities,
        }
