"""The listening sockets and the server process: uvicorn as this gateway needs it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import cast

import uvicorn
from starlette.applications import Starlette

from gateway.local_certificate import CertificateError, local_certificate, server_context, without_tickets
from gateway.settings import Settings

GRACE_S = 2
"""How long open connections may take to end at a shutdown; with the rest of it the process ends within 3 s."""

DEAD_PEER_MS = 40_000
"""After this long without an acknowledgement the kernel drops a connection: a ping's interval and its timeout.

Pings alone don't do it, since a connection with unsent bytes is only closed once they are sent.
"""

MAX_FRAME_BYTES = 24 * 2**20
"""Largest WebSocket message of a client; OpenAI takes appends of 15 MiB."""

_PORT_TRIES = 10
_FALSE_ALARMS = frozenset(
    {
        "ASGI callable returned without completing handshake.",
        "ASGI callable returned without completing response.",
    }
)
"""What uvicorn 0.54 logs as errors: after each upgrade that was answered with a refusal, and when an observer that
reads too slowly is left behind (no other answer of ours is streamed, so that no other can be incomplete)."""

_OUR_LOGGERS = ("gateway", "models", "protocol", "clients")
_NO_SUCH_ADDRESS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}


class ListenError(Exception):
    """The gateway cannot listen where it was told to. The text is one sentence for the user."""


def open_sockets(hosts: tuple[str, ...], port: int, flag: str = "--port") -> list[socket.socket]:
    """Return bound sockets, one per address, all on the same port (a free one for port 0).

    `flag` is what chooses another port. An address of a family that this machine lacks (::1 without IPv6) is skipped if
    another one is left. Raises ListenError.
    """
    for attempt in range(_PORT_TRIES):
        try:
            return _bind_all(hosts, port)
        except _PortTaken as taken:
            # Port 0: the port that was free on the first address may be taken on the second. Try with another.
            if port != 0 or attempt == _PORT_TRIES - 1:
                raise ListenError(
                    f"Port {taken.port} on {taken.host} is already in use: stop what listens there or choose another "
                    f"with {flag}."
                ) from taken
    raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True, slots=True)
class TlsListener:
    """Sockets beside the plain ones on which TLS is spoken, and the authority that clients must trust (PEM)."""

    sockets: list[socket.socket]
    context: ssl.SSLContext
    authority: Path

    @property
    def port(self) -> int:
        """Return the port of all its sockets."""
        return int(self.sockets[0].getsockname()[1])


def open_listeners(settings: Settings, data_folder: Path) -> tuple[list[socket.socket], TlsListener | None]:
    """Return the bound sockets and, with `--tls`, those beside them. Raises CertificateError and ListenError.

    `data_folder` keeps the certificate. Faults in a user's own one are found here, too: uvicorn tells them late and in
    many lines.
    """
    if settings.ssl_certfile is not None:
        server_context(settings.ssl_certfile, settings.ssl_keyfile)
    certificate = local_certificate(data_folder) if settings.tls else None
    sockets = open_sockets(settings.host, settings.port)
    if certificate is None:
        return sockets, None
    try:
        context = server_context(certificate.chain)
        return sockets, TlsListener(
            open_sockets(settings.host, settings.tls_port, "--tls-port"), context, certificate.authority
        )
    except (CertificateError, ListenError):
        for bound in sockets:
            bound.close()
        raise


class _PortTaken(Exception):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.host = host
        self.port = port


def _bind_all(hosts: tuple[str, ...], port: int) -> list[socket.socket]:
    with contextlib.ExitStack() as opened:
        sockets: list[socket.socket] = []
        missing = ""
        for host in hosts:
            try:
                bound = _bind(host, port)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise _PortTaken(host, port) from error
                missing = f"Cannot listen on {host} port {port} ({error.strerror}): give another address with --host."
                if error.errno in _NO_SUCH_ADDRESS:
                    continue
                raise ListenError(missing) from error
            opened.callback(bound.close)
            sockets.append(bound)
            port = bound.getsockname()[1]
        if not sockets:
            raise ListenError(missing)
        opened.pop_all()
        return sockets


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_MS)
        bound.bind(address)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


def server_config(app: Starlette, settings: Settings) -> uvicorn.Config:
    """Return uvicorn's settings.

    `websockets-sansio` on uvloop took 45–56 µs of CPU per echoed 1.3 kB message at 2000 messages a second; the older
    `websockets` implementation 80–88, sansio on the stock loop 110 (measured 2026-11-29, uvicorn 0.54, 2 cores).
    """
    return uvicorn.Config(
        app,
        ws="websockets-sansio",
        loop="uvloop" if importlib.util.find_spec("uvloop") else "asyncio",
        http="httptools",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,  # base64 audio barely shrinks and costs CPU per message
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=settings.ssl_certfile,
        ssl_keyfile=settings.ssl_keyfile,
        ssl_context_factory=_tls_context if settings.ssl_certfile is not None else None,
    )


def _tls_context(_config: uvicorn.Config, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    return without_tickets(default())


def configure_logging(level: str) -> None:
    """Log our own rooms at `level`, everything else at warning, to stderr.

    Never lower for libraries: at INFO uvicorn writes each client's URL, at DEBUG websockets writes the Authorization
    header. The OpenAI library logs requests when OPENAI_LOG says so: it doesn't here.
    The MCP library's errors hold what tools said, so of it nothing is written: the hub tells what failed.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in _OUR_LOGGERS:
        logging.getLogger(name).setLevel(level.upper())
    os.environ.pop("OPENAI_LOG", None)  # read when the library is imported, now or before
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets", "openai", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn.error").addFilter(_is_no_false_alarm)


def _is_no_false_alarm(record: logging.LogRecord) -> bool:
    return record.msg not in _FALSE_ALARMS


class Server(uvicorn.Server):
    """uvicorn's server, which by itself speaks either TLS or plain on all its sockets, with a TLS listener beside."""

    def __init__(self, config: uvicorn.Config, tls: TlsListener | None = None) -> None:
        super().__init__(config)
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on all sockets. The listeners share connections, tasks and shutdown."""
        await super().startup(sockets)
        if self._tls is None:
            return
        loop = asyncio.get_running_loop()
        for bound in self._tls.sockets:
            listening = await loop.create_server(
                self._protocol, sock=bound, ssl=self._tls.context, backlog=self.config.backlog
            )
            self.servers.append(listening)

    def _protocol(self) -> asyncio.Protocol:
        make = cast(Callable[..., asyncio.Protocol], self.config.http_protocol_class)
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def serve(
    app: Starlette,
    settings: Settings,
    sockets: list[socket.socket],
    when_settled: Callable[[], Awaitable[bool]],
    tls: TlsListener | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM or until `when_settled` (run beside the server) returns False."""
    config = server_config(app, settings)
    server = Server(config, tls)

    async def serve_and_tell() -> None:
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(_stop_unless(server, when_settled))
            await server.serve(sockets)
            if not telling.done():
                _leave_loading()
            telling.cancel()

    with _signals_already_handled(), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve_and_tell())


def _leave_loading() -> None:
    """End the process although a thread still loads: an ordinary end would wait for it, minutes for a download.

    The weights store throws half-fetched parts away at its next start.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _stop_unless(server: uvicorn.Server, when_settled: Callable[[], Awaitable[bool]]) -> None:
    if not await when_settled():
        server.should_exit = True


@contextlib.contextmanager
def _signals_already_handled() -> Iterator[None]:
    """Make an end by signal an ordinary end: uvicorn raises the signals that it caught again after its shutdown."""

    def ignore(_number: int, _frame: FrameType | None) -> None: ...

    before = {number: signal.signal(number, ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
