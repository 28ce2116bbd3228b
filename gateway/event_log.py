"""An opt-in record of a session's events for debugging and replay: what happened when, never what was said.

One JSONL file per session. Of texts only the length is kept, of audio only the samples, or the bytes as they
travel on the wire in whatever format. What may stay is listed by name
(`_KEPT_KEYS`); a field that nobody thought of is therefore never written.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import queue
import threading
from collections.abc import Mapping
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import IO, Any

from protocol.audio_time import BYTES_PER_SAMPLE, Samples

logger = logging.getLogger(__name__)

QUEUE_RECORDS = 10_000
"""Records that may wait for the disk (chosen): about 3 minutes of one busy session."""

_KEPT_KEYS = frozenset(
    "type event_id id item_id response_id speculation_id call_id previous_item_id conversation_id client_event_id "
    "object status reason code param role kind model voice format language name output_modalities modalities include "
    "conversation tool_choice eagerness finish_reason max_output_tokens truncation tracing input_audio_format "
    "output_audio_format max_response_output_tokens".split()
)
"""Fields whose strings are words of the protocol or ids."""

_LONGEST_KEPT = 80
_MOST_ENTRIES = 200
"""Entries of one list or object that are written, so that no single record of a client's fills the queue's memory."""
_AUDIO_EVENTS = frozenset({"input_audio_buffer.append", "response.output_audio.delta", "response.audio.delta"})


class EventLog:
    """The record of one session. `off()` gives one that records nothing at no cost."""

    def __init__(self, writer: EventLogWriter | None, session_id: str) -> None:
        self._writer = writer
        self._session_id = session_id
        self._dropped = 0

    @classmethod
    def off(cls) -> EventLog:
        """Return a log that keeps nothing."""
        return cls(None, "")

    def record(self, direction: str, at_samples: Samples, event: object) -> None:
        """Note that `event` (the server's dict, or a neutral dataclass) passed in `direction`.

        `at_samples` is on the gateway clock. Never waits. Overflow rule: with a full queue the record is dropped and
        counted; the next one that fits says how many are missing.
        """
        if self._writer is not None:
            self._put(direction, at_samples, redacted(event))

    def record_frame(self, at_samples: Samples, frame: str | bytes) -> None:
        """Note a client's frame as it came, lawful or not; of one that is no JSON, its length.

        It is parsed for the log alone, on the caller's thread (any, but one at a time): what is refused belongs to the
        record, in the client's own dialect.
        """
        if self._writer is None:
            return
        try:
            event = redacted(json.loads(frame))
        except (ValueError, RecursionError):  # the protocol refuses it; here only its size is told
            event = {"chars": len(frame)}
        self._put("client", at_samples, event)

    def close(self) -> None:
        """End the session's file. Every record before it is written, none after it."""
        if self._writer is not None:
            self._writer.put_end(self._session_id)
            self._writer = None

    def _put(self, direction: str, at_samples: Samples, event: object) -> None:
        assert self._writer is not None
        line = {"at_samples": at_samples, "direction": direction, "event": event}
        if self._dropped:
            line["dropped_before"] = self._dropped
        if self._writer.put(self._session_id, line):
            self._dropped = 0
        else:
            self._dropped += 1


class EventLogWriter:
    """Writes all sessions' records from one background thread, so that a slow disk never holds up the event loop."""

    def __init__(self, folder: Path, queue_records: int = QUEUE_RECORDS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._queue: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue(queue_records)
        self._ends: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ended: set[str] = set()
        self._files: dict[str, IO[str]] = {}
        self._thread = threading.Thread(target=self._run, name="event-log", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def open(self, session_id: str) -> EventLog:
        """Return the log of a new session."""
        return EventLog(self, session_id)

    def put(self, session_id: str, line: dict[str, Any]) -> bool:
        """Queue one record; False if the queue is full."""
        try:
            self._queue.put_nowait((session_id, line))
        except queue.Full:
            return False
        return True

    def put_end(self, session_id: str) -> None:
        """Close the session's file once all of its records are written; never lost to a full queue."""
        self._ends.put(session_id)
        self.put("", {})  # wakes the thread; when the queue is full it is awake anyway

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what waits, close all files, end the thread. Waits at most `timeout_s` for the disk."""
        try:
            self._queue.put(("", None), timeout=timeout_s)
        except queue.Full:
            logger.warning("the event log's disk is too slow; its last records are lost")
            return
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while True:
                session_id, line = self._queue.get()
                if line is None:
                    break
                if line:
                    self._write(session_id, line)
                self._settle()
        except OSError:
            logger.exception("the event log cannot be written; it is off from now on")
        finally:
            for file in self._files.values():
                file.close()

    def _write(self, session_id: str, line: dict[str, Any]) -> None:
        file = self._files.get(session_id)
        if file is None:
            file = self._files[session_id] = (self._folder / f"{session_id}.jsonl").open("a", encoding="utf-8")
        file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def _settle(self) -> None:
        """Flush and close ended sessions' files, if nothing more waits for them."""
        while not self._ends.empty():
            self._ended.add(self._ends.get())
        # Ends first, then the look: what an ended session put into the queue lay there before its end.
        if not self._queue.empty():
            return
        for session_id in self._ended & self._files.keys():
            self._files.pop(session_id).close()
        self._ended.clear()
        for file in self._files.values():
            file.flush()


def redacted(event: object) -> object:
    """Return `event` as JSON values without any text or audio of the conversation."""
    if dataclasses.is_dataclass(event) and not isinstance(event, type):
        fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        return {"type": type(event).__name__, **{key: _redacted(value, key) for key, value in fields.items()}}
    if isinstance(event, Mapping) and event.get("type") in _AUDIO_EVENTS:
        audio_key = "audio" if "audio" in event else "delta"
        rest = {key: _redacted(value, key) for key, value in event.items() if key != audio_key}
        return {**rest, audio_key: {"bytes": _base64_bytes(event.get(audio_key))}}
    return _redacted(event, "")


def _redacted(value: object, key: str) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return value if key in _KEPT_KEYS and len(value) <= _LONGEST_KEPT else {"chars": len(value)}
        case bytes():
            # What a client appended is in the session's format of the moment, all other audio is PCM16.
            return {"bytes": len(value)} if key == "audio" else {"samples": len(value) // BYTES_PER_SAMPLE}
        case Mapping():
            # The keys of a client's own objects (metadata, tool parameters) are text as well.
            if key in {"metadata", "parameters", "variables", "headers", "input_schema"}:
                return {"entries": len(value)}
            named = islice(value.items(), _MOST_ENTRIES)
            inside = {_kept_name(name): _redacted(inner, str(name)) for name, inner in named}
            if len(value) > _MOST_ENTRIES:
                inside["entries"] = len(value)
            if value.get("type") == "mcp_approval_response":  # its reason is the user's, all others are the protocol's
                inside |= {key: {"chars": len(value[key])} for key in ("reason",) if isinstance(value.get(key), str)}
            return inside
        case list() | tuple():
            if key == "logprobs":  # each token is text, also as bytes
                return {"entries": len(value)}
            entries = [_redacted(inner, key) for inner in value[:_MOST_ENTRIES]]
            return entries if len(value) <= _MOST_ENTRIES else [*entries, {"entries": len(value)}]
        case _ if dataclasses.is_dataclass(value):
            return redacted(value)
        case _:
            return {"object": type(value).__name__}


def _kept_name(name: object) -> str:
    """Return a key; one that is longer than any of the protocol's is told by its length."""
    return str(name) if len(str(name)) <= _LONGEST_KEPT else f"({len(str(name))} chars)"


def _base64_bytes(audio: object) -> int:
    if not isinstance(audio, str):
        return 0
    padding = len(audio) - len(audio.rstrip("="))
    return len(audio) * 3 // 4 - padding
