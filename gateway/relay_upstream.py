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
from protocol.ids import IdSource
from protocol.relay.dialects import Dialects, by_ga_name
from protocol.relay.kept_history import KeptHistory
from protocol.relay.kept_settings import KeptSettings
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
        refused: Callable[[str], None],
    ) -> None:
        self._address = address
        self._dialects = dialects
        self._settings = settings
        self._history = history
        self._kind = kind
        self._new_id = new_id
        self._refused = refused
        self._greeted = False
        self._own_updates: set[str] = set()
        self._restoring: set[tuple[str, str]] = set()  # answers to what the gateway itself put into a new session

    async def open(self) -> tuple[RemoteConnection, list[Payload]]:
        """Return a connection and what its server has said by then (GA); another one than the first is restored.

        The first event of a first session is session.created. Raises RemoteUnavailable.
        """
        connection = await open_remote(self._address)
        self._dialects.restart()
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                greeting = await self._until(connection, "session.created")
                if self._greeted:
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
        self._greeted = True
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
        await self._send(connection, self._update())
        updated, *others = await self._until(connection, "session.updated")
        self._own_updates.clear()
        created, *more = greeting
        return [{**created, "session": updated["session"]}, *more, *others]

    async def _restore(self, connection: RemoteConnection) -> None:
        """Tell a new session the settings and the conversation. Its answers are for nobody (`is_ours`)."""
        self.lost()
        if self._settings.accepted:
            await self._send(connection, self._update())
        for item in self._history.items():
            event_id = self._new_id("event")
            self._restoring |= {
                ("error", event_id),
                ("conversation.item.added", item["id"]),
                ("conversation.item.done", item["id"]),
            }
            await self._send(connection, {"type": "conversation.item.create", "event_id": event_id, "item": item})

    def _update(self) -> Payload:
        event_id = self._new_id("event")
        self._own_updates.add(event_id)
        session = {"type": self._kind, **self._settings.accepted}
        return {"type": "session.update", "event_id": event_id, "session": session}

    async def _send(self, connection: RemoteConnection, event: Payload) -> None:
        await connection.send(written(self._dialects.ours_to_server(event)))

    def lost(self) -> None:
        """Wait for no more answers of a session."""
        self._own_updates.clear()
        self._restoring.clear()

    def is_ours(self, event: Payload) -> bool:
        """Say whether a server's event answers the gateway, not the client: settings or items of an earlier session."""
        match by_ga_name(event):
            case {"type": "session.created" | "conversation.created"}:
                return self._greeted
            case {"type": "session.updated"} if self._own_updates:
                self._own_updates.clear()
                return True
            case {"type": "error", "error": {"event_id": str(event_id)} as error} if event_id in self._own_updates:
                self._own_updates.discard(event_id)
                self._refused(words_of_refusal(error, "the session's settings"))
                return True
            case {"type": "error", "error": {"event_id": str(event_id)}} if ("error", event_id) in self._restoring:
                logger.warning("an earlier item could not be restored at %s", self._address.place)
                return True
            case {"type": str(kind), "item": {"id": str(item_id)}} if (kind, item_id) in self._restoring:
                self._restoring.discard((kind, item_id))
                return True
            case _:
                return False


def json_object(frame: str) -> Payload | None:
    """Return the JSON object in a server's frame, None where there is none."""
    try:
        raw = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) else None


def written(payload: Mapping[str, Any]) -> str:
    """Return an event as a frame."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
