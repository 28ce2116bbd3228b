"""A server that notes everything that is sent to it, whatever it is, and answers one line of HTTP."""

from __future__ import annotations

import re
import socket
import threading
from types import TracebackType
from typing import Self

LONGEST_WAIT_S = 5.0


class TrapServer:
    """Listens on `host` in a thread of its own. `requests`: the bytes of each connection, up to the end of its body.

    Whoever is a trap expects `requests` to stay empty.
    """

    def __init__(
        self,
        body: str | bytes = "{}",
        *,
        status: str = "200 OK",
        header: str = "",
        host: str = "127.0.0.1",
        content_type: str = "application/json",
    ) -> None:
        self.requests: list[bytes] = []
        data = body if isinstance(body, bytes) else body.encode()
        head = f"HTTP/1.1 {status}\r\n{header}Content-Type: {content_type}\r\n" if status else ""
        self._answer = f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data
        self._listening = socket.create_server((host, 0))
        self._host = host
        self._thread = threading.Thread(target=self._serve)

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.settimeout(LONGEST_WAIT_S)
            with connection:
                self._answer_one(connection)

    def _answer_one(self, connection: socket.socket) -> None:
        received = b""
        try:
            while not _is_whole(received):
                piece = connection.recv(65_536)
                if not piece:
                    break
                received += piece
        except OSError:
            pass  # what came until then counts
        self.requests.append(received)
        try:
            connection.sendall(self._answer)
        except OSError:
            pass  # it didn't want to know


def _is_whole(received: bytes) -> bool:
    """Say whether all has come: of HTTP a head and its body, of anything else (a TLS greeting) the first bytes."""
    if not received[:1].isalpha():
        return bool(received)
    head, end, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return bool(end) and len(body) >= int(length[1] if length else 0)
