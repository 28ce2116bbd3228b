"""Ephemeral keys over REST: a server asks for one, its pages open sessions with it.

`POST /v1/realtime/client_secrets`, and beta's `/v1/realtime/sessions` and `/v1/realtime/transcription_sessions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from gateway.endpoints.access import Refusal
from gateway.endpoints.ephemeral_keys import EphemeralKey, EphemeralKeys
from gateway.endpoints.errors import Refused, error_response
from gateway.endpoints.json_body import json_body
from gateway.endpoints.keys import Keys
from gateway.endpoints.realtime import ModelNotFound, choose_backend
from gateway.session_request import DEFAULT_MODEL
from protocol.beta.session_requests import session_request, session_with_key
from protocol.client_secrets import ClientSecretRequest, client_secret_request, configured_session
from protocol.errors import ProtocolError
from protocol.ids import random_id
from protocol.session_settings import SessionDefaults
from protocol.wire import Dialect


@dataclass(frozen=True, slots=True)
class _Made:
    """A key and the whole session that it opens (GA shape)."""

    key: EphemeralKey
    session: dict[str, Any]


class ClientSecretsEndpoint:
    """Makes ephemeral keys. `defaults` tells what sessions begin with in each dialect, `served` the models' names."""

    def __init__(
        self,
        keys: Keys,
        ephemeral: EphemeralKeys,
        defaults: Callable[[Dialect], SessionDefaults],
        served: Callable[[], Sequence[str]],
    ) -> None:
        self._keys = keys
        self._ephemeral = ephemeral
        self._defaults = defaults
        self._served = served

    async def create(self, request: Request) -> JSONResponse:
        """Answer with a key, its end and the session that it opens (Realtime GA)."""
        try:
            made = await self._made(request, client_secret_request, Dialect.GA)
        except Refused as error:
            return error_response(error.refusal)
        return JSONResponse({"value": made.key.value, "expires_at": made.key.expires_at_s, "session": made.session})

    async def create_session(self, request: Request) -> JSONResponse:
        """Answer with a beta session that has its key in it."""
        return await self._beta(request, lambda body: session_request(body, "realtime"))

    async def create_transcription_session(self, request: Request) -> JSONResponse:
        """Answer with a beta transcription session that has its key in it."""
        return await self._beta(request, lambda body: session_request(body, "transcription"))

    async def _beta(self, request: Request, read: Callable[[dict[str, Any]], ClientSecretRequest]) -> JSONResponse:
        try:
            made = await self._made(request, read, Dialect.BETA)
        except Refused as error:
            return error_response(error.refusal)
        return JSONResponse(session_with_key(made.session, made.key.value, made.key.expires_at_s))

    async def _made(
        self, request: Request, read: Callable[[dict[str, Any]], ClientSecretRequest], dialect: Dialect
    ) -> _Made:
        refusal = self._keys.refuse_request(request)
        if refusal is not None:
            raise Refused(refusal)
        body = await json_body(request)
        try:
            # In a thread: the longest body, of tools without end, takes half a second to check.
            asked, session = await asyncio.to_thread(self._checked, read, body, dialect)
        except ProtocolError as error:
            raise Refused(Refusal(400, error.message, error.type, error.code, error.param)) from None
        except ModelNotFound as error:
            param = "session.model" if dialect is Dialect.GA else "model"
            raise Refused(Refusal(400, str(error), code="model_not_found", param=param)) from None
        return _Made(self._ephemeral.issue(asked.session, asked.lifetime_s), session)

    def _checked(
        self, read: Callable[[dict[str, Any]], ClientSecretRequest], body: dict[str, Any], dialect: Dialect
    ) -> tuple[ClientSecretRequest, dict[str, Any]]:
        """Return the request in `body` and the whole session that its key opens."""
        asked = read(body)
        model = asked.session.get("model") or DEFAULT_MODEL
        choose_backend(model, self._served())
        defaults = self._defaults(dialect)
        return asked, configured_session(asked.session, defaults, session_id=random_id("sess"), model=model)
