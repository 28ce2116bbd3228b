"""The way to another Realtime server: one WebSocket, opened with that server's own key and nothing of ours.

Nothing of the environment but proxies and certificates, as for every endpoint: proxies (HTTPS_PROXY, ALL_PROXY,
NO_PROXY) carry wss to other machines only. Redirects aren't followed, so that the key goes nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from gateway.loopback import is_loopback
from gateway.outbox import LIMIT_BYTES
from gateway.remote_settings import http_url
from gateway.settings import Remote

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
"""A server answers its handshake within milliseconds; beyond this it isn't there (chosen)."""

SEND_TIMEOUT_S = 10.0
"""How long a server may take nothing of what it is sent (chosen); then it counts as lost."""

PING_S = 10.0
"""Interval of pings, and how long an answer may take (chosen): a server that vanished is missed after 20 s at most."""

CLOSE_TIMEOUT_S = 1.0
"""How long a server may take to say goodbye (chosen): nobody waits for more of it."""

MAX_FRAME_BYTES = LIMIT_BYTES // 2
"""Largest event that is relayed (chosen: ours are below 1 MiB). A larger one ends the connection (RFC 6455: 1009)."""

WAITING_FRAMES = 16
"""Frames of a server that wait to be relayed; then it is read no further and its TCP window fills."""

NAME_NOT_SERVED = "host_not_allowed"
"""Code with which a gateway or a `duplex-server` refuses a Host that it doesn't know (`endpoints/access.py`)."""

_IDENTIFIER = re.compile(r"[A-Za-z0-9_.]{1,64}")


class RemoteUnavailable(Exception):
    """A server could not be reached or refused. The text completes "The model … is not available: "."""


class RemoteLost(Exception):
    """The connection to a server broke, or it went away without having ended the session."""


class RemoteEnded(Exception):
    """The server ended the session by its own word: `code` and `reason` of its close frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """Where a server's sockets and its list of models are. `place` is what messages may say of it."""

    realtime: str
    models: str
    place: str
    headers: Mapping[str, str]
    loopback: bool

    @property
    def secure(self) -> bool:
        """Say whether TLS protects what is sent."""
        return self.realtime.startswith("wss:")


def address_of(remote: Remote, intent: str | None = None) -> RemoteAddress:
    """Return the address of a server that settings name. `intent` as in a handshake. Raises ValueError for no URL."""
    parts = urlsplit(http_url(remote.base_url))
    query = parse_qsl(parts.query, keep_blank_values=True)
    asked = [("model", remote.model)] * bool(remote.model) + [("intent", str(intent))] * (intent is not None)
    scheme = "wss" if parts.scheme == "https" else "ws"
    headers = {"Authorization": f"Bearer {remote.api_key}"} if remote.api_key else {}
    if remote.dialect == "beta":
        headers["OpenAI-Beta"] = "realtime=v1"
    return RemoteAddress(
        realtime=urlunsplit((scheme, parts.netloc, f"{parts.path}/realtime", urlencode([*query, *asked]), "")),
        models=urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/models", parts.query, "")),
        place=parts.netloc,
        headers=headers,
        loopback=is_loopback(parts.hostname or ""),
    )


class _Connect(websocket_connect):
    """Connects to the one server that it is given."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow no redirect: the key is for the server that was named."""
        return exc


class RemoteConnection:
    """An open socket. One reader and any number of writers; a frame is taken whole or not at all."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        self._given_up = False

    async def send(self, frame: str) -> None:
        """Send a frame; returns when the socket has taken it. Raises RemoteLost, also where the server takes none."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._websocket.send(frame)
        except ConnectionClosed as error:
            raise RemoteLost("the connection broke") from error
        except TimeoutError as error:
            self._given_up = True
            self._websocket.transport.abort()  # a goodbye would wait behind what it doesn't take
            raise RemoteLost(f"it took nothing for {SEND_TIMEOUT_S:g} s") from error

    async def receive(self, *, last_error: str = "") -> str:
        """Return the server's next frame. Raises RemoteLost or RemoteEnded.

        `last_error`: the code of its last `error` event, which tells the end of a session from that of a server.
        """
        while True:
            try:
                frame = await self._websocket.recv()
            except ConnectionClosed as error:
                raise RemoteLost("it took nothing") if self._given_up else _ended(error, last_error) from error
            if isinstance(frame, str):
                return frame
            logger.debug("a remote server sent a binary frame, which no event is")

    async def aclose(self) -> None:
        """Say goodbye and close. Raises nothing."""
        try:
            async with asyncio.timeout(2 * CLOSE_TIMEOUT_S):  # the library waits for more than the answer
                await self._websocket.close()
        except (WebSocketException, OSError, TimeoutError) as error:
            logger.debug("a connection to a remote server ended badly (%s)", type(error).__name__)
            self._websocket.transport.abort()


def _ended(closed: ConnectionClosed, last_error: str) -> Exception:
    """Return what a close means: servers may say that they go away (RFC 6455: 1001, 1011 …), which ends no session.

    OpenAI closes a session at its longest duration with an `error` before it, as our own sessions do with 1001.
    """
    if closed.rcvd is None:
        return RemoteLost("the connection broke")
    code, reason = closed.rcvd.code, closed.rcvd.reason
    if code in (1000, 1008) or code >= 3000 or last_error == "session_expired":
        return RemoteEnded(code, reason)
    return RemoteLost(f"it closed the connection with {code}")


async def open_remote(address: RemoteAddress) -> RemoteConnection:
    """Return a connection to the server at `address`. Raises RemoteUnavailable."""
    try:
        websocket = await _Connect(
            address.realtime,
            additional_headers=address.headers,
            user_agent_header="duplex-gateway",
            compression=None,  # base64 audio barely shrinks and costs CPU per message
            proxy=True if address.secure and not address.loopback else None,
            open_timeout=CONNECT_TIMEOUT_S,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            close_timeout=CLOSE_TIMEOUT_S,
            max_size=MAX_FRAME_BYTES,
            max_queue=WAITING_FRAMES,
            logger=_QUIET,
        )
    except (OSError, InvalidHandshake, WebSocketException, ValueError, ImportError) as error:
        raise RemoteUnavailable(f"{address.place} {_why(error, address)}") from error
    return RemoteConnection(websocket)


_QUIET = logging.getLogger(f"{__name__}.websocket")
_QUIET.setLevel(logging.CRITICAL)  # the library writes the Authorization header at DEBUG, stacks at ERROR


def _why(error: Exception, address: RemoteAddress) -> str:
    """Return why a server could not be opened, without its own words, which may repeat a key."""
    match error:
        case InvalidStatus():
            status = error.response.status_code
            name = urlsplit(address.realtime).hostname
            if status == 403 and _code(error.response.body) == NAME_NOT_SERVED:
                return f"does not know the name {name}; start it with --allow-host {name}."
            return _refused(status)
        case TimeoutError():
            return f"did not answer within {CONNECT_TIMEOUT_S:g} s."
        case ssl.SSLCertVerificationError():
            return (
                f"has a certificate that isn't trusted ({error.verify_message}); "
                "point SSL_CERT_FILE to the authority that signed it."
            )
        case ssl.SSLError():
            return "does not speak TLS as expected; if it speaks plain HTTP its URL begins with http://."
        case socket.gaierror():
            return "can't be reached; its name is unknown, check the base URL."
        case ConnectionResetError():
            return "broke off the handshake; check the base URL, whether it is http or https above all."
        case OSError():
            return "can't be reached; check that it runs."
        case ImportError():
            return "is behind a SOCKS proxy, for which the package python-socks is missing."
        case _:
            return "did not answer as a Realtime server does; check the base URL."


def _code(body: bytes | bytearray) -> object:
    """Return the `code` of OpenAI's error body, None for any other body."""
    try:
        told = json.loads(body)
    except ValueError:
        return None
    error = told.get("error") if isinstance(told, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _refused(status: int) -> str:
    match status:
        case 401 | 403:
            return f"refused the key that is set for it ({status})."
        case 404 | 405 | 426:
            return f"serves no Realtime API there ({status}); check the base URL."
        case 429:
            return "takes no more sessions for now (429); wait, or raise its limit."
        case 503:
            return "is full, or still loading its model (503); try again."
        case _ if 300 <= status < 400:
            return f"answered with a redirect ({status}), which isn't followed; give its final address."
        case _:
            return f"refused ({status})."


def words_of_refusal(error: Any, what: str = "the session") -> str:
    """Return what can be told of an `error` object with which a server refused something: its code, not its words."""
    told = error if isinstance(error, dict) else {}
    words = [str(told.get(key)) for key in ("code", "type") if isinstance(told.get(key), str)]
    shown = next((word for word in words if _IDENTIFIER.fullmatch(word)), "")
    return f"refused {what}{f' ({shown})' if shown else ''}."
