"""Writes recordings from one background thread, so that a slow disk never holds up the event loop."""

from __future__ import annotations

import logging
import os
import queue
import threading
import wave
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gateway.recording.stereo import BYTES_PER_FRAME, CHANNELS
from protocol.audio_time import BYTES_PER_SAMPLE, SESSION_RATE_HZ

logger = logging.getLogger(__name__)

QUEUE_PARTS = 20_000
"""Parts that may wait for the disk (chosen): about 4 minutes of one session."""

MOST_SOUND_BYTES = 2**32 - 2**20
"""A WAV file's header counts in 32 bits: 12 hours of stereo. What comes after that is left out of the sound."""


@dataclass(slots=True)
class _Files:
    """The open files of one session."""

    lines: IO[str]
    sound: wave.Wave_write
    stack: ExitStack


class RecordingDisk:
    """A folder with two files a session: `<id>.jsonl` and `<id>.wav` (stereo, 24 kHz, PCM16)."""

    def __init__(self, folder: Path, queue_parts: int = QUEUE_PARTS) -> None:
        """Make `folder` if it is new; only its owner may read it, and the files.

        Raises OSError.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._queue: queue.SimpleQueue[tuple[str, str | bytes | None] | None] = queue.SimpleQueue()
        self._queue_parts = queue_parts
        self._files: dict[str, _Files] = {}
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, session_id: str, part: str | bytes | None) -> bool:
        """Queue a line, sound, or None for the session's end; False if the queue is full. Never waits.

        Overflow rule: the caller ends its recording, since one with a gap can't be replayed. An end, one a session, is
        always taken: it closes the session's files.
        """
        if part is not None and self._queue.qsize() >= self._queue_parts:
            return False
        self._queue.put((session_id, part))
        return True

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what waits, close all files, end the thread. Waits at most `timeout_s` for the disk."""
        self._queue.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.warning("the disk is too slow for the recordings; their ends are lost")

    def _run(self) -> None:
        try:
            while (entry := self._queue.get()) is not None:
                self._write(*entry)
        except Exception:  # the disk's failure, or a bug of ours: nobody would see either in this thread
            logger.exception("recordings cannot be written; they are off from now on")
            self._discard()
        finally:
            for files in self._files.values():
                files.stack.close()

    def _discard(self) -> None:
        """Keep taking parts, so that sessions go on; nothing of them is kept."""
        while self._queue.get() is not None:
            pass

    def _write(self, session_id: str, part: str | bytes | None) -> None:
        if part is None:
            if (files := self._files.pop(session_id, None)) is not None:
                files.stack.close()
            return
        files = self._files.get(session_id) or self._open(session_id)
        if isinstance(part, str):
            files.lines.write(part + "\n")
        elif files.sound.tell() * BYTES_PER_FRAME + len(part) <= MOST_SOUND_BYTES:
            files.sound.writeframes(part)  # keeps the header right, so that a killed process leaves a whole file
            files.lines.flush()

    def _open(self, session_id: str) -> _Files:
        path = self._folder / session_id
        stack = ExitStack()
        # "replace": a lone surrogate, which a client's JSON can smuggle in and UTF-8 can't hold, becomes "?".
        lines = stack.enter_context(
            open(path.with_suffix(".jsonl"), "w", encoding="utf-8", errors="replace", opener=_private)
        )
        sound_file = stack.enter_context(open(path.with_suffix(".wav"), "wb", opener=_private))
        sound = stack.enter_context(wave.open(sound_file, "wb"))
        sound.setnchannels(CHANNELS)
        sound.setsampwidth(BYTES_PER_SAMPLE)
        sound.setframerate(SESSION_RATE_HZ)
        self._files[session_id] = files = _Files(lines, sound, stack)
        return files


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)
