"""Starts a gateway of this installation as a process of its own, and stops it by its process id."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import IO, Self

START_TIMEOUT_S = 300.0
"""Longest wait for the ready line: the first start fetches weights."""

STOP_TIMEOUT_S = 10.0
KEPT_LINES = 2_000

_READY = re.compile(r"ready: (wss?://\S+)")


class GatewayStartError(Exception):
    """The gateway did not come up. The text holds its last lines."""


class GatewayProcess:
    """`duplex-gateway serve --port 0` with more `flags`. Use as a context manager; it then is ready at `url`.

    `program`: another command of this installation, with all that stands before its flags.
    """

    def __init__(
        self,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
    ) -> None:
        self.url = ""
        self.pid = 0
        self.output: deque[str] = deque(maxlen=KEPT_LINES)
        """Its latest lines on stdout and stderr."""
        self._command = [*(program or (*_command(), "serve")), "--port", "0", *flags]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._lines: Queue[str | None] = Queue()
        self._reader: threading.Thread | None = None

    @property
    def http_url(self) -> str:
        """Return the address of its HTTP side, without a path."""
        return self.url.replace("ws", "http", 1).removesuffix("/v1/realtime")

    @property
    def alive(self) -> bool:
        """Say whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        """Start and wait for the ready line. Raises GatewayStartError."""
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        try:
            self.url = self._ready_url()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, by force if it doesn't want to."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:  # to its end, or the process would block on a full pipe
            self.output.append(line.rstrip("\n"))
            self._lines.put(line)
        self._lines.put(None)

    def _ready_url(self) -> str:
        while True:
            try:
                line = self._lines.get(timeout=START_TIMEOUT_S)
            except Empty as error:
                raise GatewayStartError(f"The gateway said nothing for {START_TIMEOUT_S:.0f} s.") from error
            if line is None:
                raise GatewayStartError("The gateway ended at its start:\n" + "\n".join(list(self.output)[-20:]))
            if found := _READY.search(line):
                return found[1]


def _command() -> list[str]:
    script = Path(sys.executable).with_name("duplex-gateway")
    return [str(script)] if script.exists() else [sys.executable, "-m", "gateway.cli"]
