"""Shows a fetch of weights to the person at the keyboard."""

from __future__ import annotations

import sys
from typing import TextIO

from models.weights import FetchProgress

_MB = 1_000_000


class ConsoleProgress:
    """A progress callback that writes `stream`: one line that counts on a terminal, a line for each part elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._counts = self._stream.isatty()
        self._line: str | None = None

    def __call__(self, progress: FetchProgress) -> None:
        """Show where the fetch stands."""
        total_mb = progress.total_bytes / _MB
        title = f"Fetching weights {progress.part}/{progress.parts}: {progress.name}"
        done = progress.done_bytes == progress.total_bytes
        if self._counts:
            line = f"\r{title}, {progress.done_bytes / _MB:.0f} of {total_mb:.0f} MB"
            end = "\n" if done else ""
        else:
            line, end = f"{title}, {total_mb:.0f} MB", "\n"
        if line == self._line:
            return
        self._line = line
        self._stream.write(line + end)
        self._stream.flush()
