"""The server's side of a relayed session: its sessions, one after the other, each as the client had left the last."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from gateway.backends.remote import (
    RemoteAddress,
    RemoteConnection,
    RemoteEnded,
    RemoteLost,
    RemoteUnavailable,
    open_remote,
    words_of_refusal,
)
from gateway.outbox import encodable
from protocol.ids import IdSource
from protocol.relay.dialects import Dialects, by_ga_name
from protocol.relay.hidden_ids import HiddenIds
from protocol.relay.kept_history import KeptHistory
from protocol.relay.kept_settings import KeptSettings
from protocol.relay.known_ids import KnownIds
from protocol.relay.restored import Restored
from protocol.session_settings import SessionKind

logger = logging.getLogger(__name__)

Payload = dict[str, Any]

GREETING_TIMEOUT_S = 10.0
"""How long a server may take to open its session and to accept the first settings (chosen)."""


class Upstream:
    """Opens the sessions. `settings` and `history` are what a new one is told; `refused` hears that it didn't obey."""

    def __init__(
        self,
        address: RemoteAddress,
        dialects: Dialects,
        settings: KeptSettings,
        history: KeptHistory,
        *,
        kind: SessionKind,
        new_id: IdSource,
        hidden_id: HiddenIds,
        refused: Callable[[str], None],
    ) -> None:
        self._address = address
        self._dialects = dialects
        self._settings = settings
        self._history = history
        self._kind = kind
        self._hidden_id = hidden_id
        self._refused = refused
        self._sessions = 0
        self._ids = KnownIds(new_id)
        self._restored = Restored(self._ids, hidden_id)

    async def open(self) -> tuple[RemoteConnection, list[Payload]]:
        """Return a connection and what its server has said by then (GA); another one than the first is restored.

        The first event of a first session is session.created. Raises RemoteUnavailable.
        """
        connection = await open_remote(self._address)
        self._dialects.restart()
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                greeting = await self._until(connection, "session.created")
                if self._sessions:
                    await self._restore(connection)
                elif self._settings.accepted:
                    greeting = await self._with_settings(connection, greeting)
        except (RemoteLost, RemoteEnded) as error:
            await connection.aclose()
            raise RemoteUnavailable(f"{self._address.place} closed the connection at once.") from error
        except TimeoutError as error:
            await connection.aclose()
            raise RemoteUnavailable(
                f"{self._address.place} opened no session within {GREETING_TIMEOUT_S:g} s."
            ) from error
        except BaseException:
            await connection.aclose()
            raise
        self._sessions += 1
        return connection, greeting

    async def _until(self, connection: RemoteConnection, kind: str) -> list[Payload]:
        """Return the events up to the first of `kind`, that one first. Raises RemoteUnavailable at an `error`."""
        events: list[Payload] = []
        while True:
            for event in self._dialects.from_server(json_object(await connection.receive()) or {}):
                if event.get("type") == "error":
                    raise RemoteUnavailable(f"{self._address.place} {words_of_refusal(event.get('error'))}")
                if event.get("type") == kind and isinstance(event.get("session"), dict):
                    return [event, *events]
                if "type" in event:
                    events.append(event)

    async def _with_settings(self, connection: RemoteConnection, greeting: list[Payload]) -> list[Payload]:
        """Set what the client's key carries, and return the greeting as if the session had begun so."""
        await self._send(connection, self._restored.updates(self._set()))
        updated, *others = await self._until(connection, "session.updated")
        self._restored.answers(updated)
        created, *more = greeting
        return [{**created, "session": updated["session"]}, *more, *others]

    async def _restore(self, connection: RemoteConnection) -> None:
        """Tell a new session the settings and the conversation. Its answers are for nobody (`is_ours`)."""
        self.lost()
        if self._settings.accepted:
            await self._send(connection, self._restored.updates(self._set()))
        for item in self._history.items():
            await self._send(connection, self._restored.creates(item))
        await self.tell_anew(connection)  # what was truncated meanwhile

    async def tell_anew(self, connection: RemoteConnection) -> None:
        """Tell the session what has become of items that it was told of: its client has truncated them since.

        Raises RemoteLost.
        """
        while commands := self._restored.tells_anew(self._history):  # which may have changed meanwhile
            for command in commands:
                await self._send(connection, command)

    def _set(self) -> Payload:
        return {"type": self._kind, **self._settings.accepted}

    async def _send(self, connection: RemoteConnection, command: Payload) -> None:
        await connection.send(written(self._dialects.ours_to_server(command)))

    def lost(self) -> None:
        """Wait for no more answers of a session."""
        self._ids.restart()
        self._restored = Restored(self._ids, self._hidden_id)

    def is_ours(self, event: Payload) -> bool:
        """Say whether a server's event answers the gateway, not the client: settings or items of an earlier session."""
        event = by_ga_name(event)
        if event.get("type") in ("session.created", "conversation.created"):
            return self._sessions > 1
        own = self._restored.answers(event)
        if own is not None and event.get("type") == "error":
            if own.kind == "session.update":
                self._refused(words_of_refusal(event["error"], "the session's settings"))
            else:
                logger.warning("an earlier item could not be restored at %s", self._address.place)
        return own is not None

    def for_client(self, event: Payload) -> Payload:
        """Return a server's event (GA) under the ids that the client knows; as it is where none differs."""
        return self._ids.to_client(event)

    def for_server(self, event: Payload) -> Payload:
        """Return a client's event under the ids that the server's present session knows."""
        return self._ids.to_server(event)


def json_object(frame: str) -> Payload | None:
    """Return the JSON object in a server's frame, None where there is none."""
    try:
        raw = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) else None


def written(payload: Mapping[str, Any]) -> str:
    """Return an event as a frame that a socket can send."""
    return encodable(json.dumps(payload, ensure_ascii=False, separators=(",", ":")))[0]
