"""Which path of the Realtime API is served by what, at OpenAI's addresses and at those that Azure's clients use."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route, WebSocketRoute

from gateway.endpoints.client_secrets import ClientSecretsEndpoint
from gateway.endpoints.errors import upgrade_required
from gateway.endpoints.model_list import ModelsEndpoint
from gateway.endpoints.not_served import CALLS, TRANSLATIONS, not_served_routes, webrtc_not_served
from gateway.endpoints.observer import ObserverEndpoint
from gateway.endpoints.realtime import RealtimeEndpoint

BASES = ("/v1", "/openai/v1", "/openai", "")
"""What OpenAI's SDKs call the base URL. The second is Azure's; the third is Azure's before GA, with
`?api-version=…&deployment=…` (`AzureOpenAI` of the SDKs); the last is for base URLs without a path."""

AZURE_PREVIEW_SESSIONS = "/openai/realtimeapi/sessions"
"""Where Azure's preview makes ephemeral keys: beta's sessions."""


def realtime_routes(
    realtime: RealtimeEndpoint,
    client_secrets: ClientSecretsEndpoint,
    models: ModelsEndpoint,
    observer: ObserverEndpoint,
) -> list[BaseRoute]:
    """Return all routes of the Realtime API, and those of the observer stream below it."""
    routes: list[BaseRoute] = [Route(AZURE_PREVIEW_SESSIONS, client_secrets.create_session, methods=["POST"])]
    for base in BASES:
        routes += _socket_routes(f"{base}/realtime", realtime)
        routes += [
            Route(f"{base}/realtime/client_secrets", client_secrets.create, methods=["POST"]),
            Route(f"{base}/realtime/sessions", client_secrets.create_session, methods=["POST"]),
            Route(f"{base}/realtime/sessions", observer.list),
            Route(f"{base}/realtime/sessions/{{session_id}}/events", observer.events),
            Route(
                f"{base}/realtime/transcription_sessions", client_secrets.create_transcription_session, methods=["POST"]
            ),
            Route(f"{base}/models", models.list),
            Route(f"{base}/models/{{model:path}}", models.retrieve),
            *not_served_routes(f"{base}/realtime/calls", CALLS),
            *not_served_routes(f"{base}/realtime/translations", TRANSLATIONS),
        ]
    return routes


def _socket_routes(path: str, realtime: RealtimeEndpoint) -> list[BaseRoute]:
    return [
        WebSocketRoute(path, realtime.serve),
        Route(path, webrtc_not_served, methods=["POST"]),
        Route(path, upgrade_required),
    ]
