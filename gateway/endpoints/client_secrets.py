"""`POST /v1/realtime/client_secrets`: a server asks for an ephemeral key that its pages may open sessions with."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

from gateway.endpoints.access import Refusal
from gateway.endpoints.ephemeral_keys import EphemeralKeys
from gateway.endpoints.errors import error_response
from gateway.endpoints.json_body import BodyRefused, json_body
from gateway.endpoints.keys import Keys
from gateway.endpoints.realtime import DEFAULT_MODEL, ModelNotFound, choose_backend
from protocol.client_secrets import client_secret_request, configured_session
from protocol.errors import ProtocolError
from protocol.ids import random_id
from protocol.session_settings import SessionDefaults


class ClientSecretsEndpoint:
    """Makes ephemeral keys. `defaults` are those that the sessions will begin with."""

    def __init__(self, keys: Keys, ephemeral: EphemeralKeys, defaults: SessionDefaults) -> None:
        self._keys = keys
        self._ephemeral = ephemeral
        self._defaults = defaults

    async def create(self, request: Request) -> JSONResponse:
        """Answer with a key, its end and the session that it opens (Realtime GA)."""
        refusal = self._keys.refuse_request(request)
        if refusal is not None:
            return error_response(refusal)
        try:
            asked = client_secret_request(await json_body(request))
            model = asked.session.get("model") or DEFAULT_MODEL
            choose_backend(model)
        except BodyRefused as error:
            return error_response(error.refusal)
        except ProtocolError as error:
            return error_response(Refusal(400, error.message, error.type, error.code, error.param))
        except ModelNotFound as error:
            return error_response(Refusal(400, str(error), code="model_not_found", param="session.model"))
        key = self._ephemeral.issue(asked.session, asked.lifetime_s)
        session = configured_session(asked.session, self._defaults, session_id=random_id("sess"), model=model)
        return JSONResponse({"value": key.value, "expires_at": key.expires_at_s, "session": session})
