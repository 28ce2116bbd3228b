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
from gateway.session_request import CASCADE


def _openais_names() -> tuple[str, ...]:
    members = get_args(RealtimeSessionCreateRequest.model_fields["model"].annotation)
    return tuple(name for member in members if get_origin(member) is Literal for name in get_args(member))


MODEL_NAMES = (CASCADE, *_openais_names())
"""Our own name, then OpenAI's: what clients ask for. They stand for the default backend, as any other name does."""

OWNER = "duplex-gateway"


class ModelsEndpoint:
    """Lists models. None is newer than this process, so that all were created when it started.

    `capabilities` tells what the backend that all of them stand for can do now.
    """

    def __init__(self, keys: Keys, capabilities: Callable[[], Mapping[str, Any]]) -> None:
        self._keys = keys
        self._capabilities = capabilities
        self._created_s = int(time.time())

    async def list(self, request: Request) -> JSONResponse:
        """Answer with all models."""
        refusal = self._keys.refuse_request(request)
        if refusal is not None:
            return error_response(refusal)
        return JSONResponse({"object": "list", "data": [self._model(name) for name in MODEL_NAMES]})

    async def retrieve(self, request: Request) -> JSONResponse:
        """Answer with the model of the path, or 404."""
        refusal = self._keys.refuse_request(request)
        name = request.path_params["model"]
        if refusal is None and name not in MODEL_NAMES:
            message = f"The model '{name[:80]}' does not exist or you do not have access to it."
            refusal = Refusal(404, message, code="model_not_found", param="model")
        return JSONResponse(self._model(name)) if refusal is None else error_response(refusal)

    def _model(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": self._created_s,
            "owned_by": OWNER,
            "capabilities": self._capabilities(),
        }
