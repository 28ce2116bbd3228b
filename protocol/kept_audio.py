"""The audio that is kept for `conversation.item.retrieve`: bounded for the session and for one frame."""

from __future__ import annotations

from collections import deque

from protocol.audio_time import Samples, bytes_from_samples, samples_from_bytes, samples_from_s

SESSION_BUDGET_BYTES = bytes_from_samples(samples_from_s(60))
"""Audio kept per session; the oldest item's goes first (design, the wire: 60 s)."""

ITEM_LIMIT_BYTES = bytes_from_samples(samples_from_s(15))
"""Longest audio of one item that is returned: 15 s are 0.96 MB of base64, and a frame stays below 1 MiB."""


class KeptAudio:
    """Audio by item id. Of an item that outgrows the limit nothing is kept any more: half of it would be misleading."""

    def __init__(self) -> None:
        self._audio: dict[str, bytearray] = {}
        self._outgrown: set[str] = set()
        self._total_bytes = 0

    def append(self, item_id: str, pcm: bytes) -> None:
        """Keep `pcm` as more audio of the item."""
        if item_id in self._outgrown:
            return
        audio = self._audio.setdefault(item_id, bytearray())
        audio += pcm
        self._total_bytes += len(pcm)
        if len(audio) > ITEM_LIMIT_BYTES:
            self._outgrow(item_id)
        while self._total_bytes > SESSION_BUDGET_BYTES:
            self._outgrow(next(iter(self._audio)))

    def _outgrow(self, item_id: str) -> None:
        self.forget(item_id)
        self._outgrown.add(item_id)

    def get(self, item_id: str, length: Samples | None = None) -> bytes | None:
        """Return the first `length` samples (None: all) of an item's audio, or None if it is not kept."""
        audio = self._audio.get(item_id)
        if audio is None:
            return None
        return bytes(audio if length is None else audio[: bytes_from_samples(length)])

    def shorten(self, item_id: str, samples: Samples) -> None:
        """Drop the last `samples` of an item's audio."""
        audio = self._audio.get(item_id, bytearray())
        surplus = min(bytes_from_samples(samples), len(audio))
        del audio[len(audio) - surplus :]
        self._total_bytes -= surplus

    def forget(self, item_id: str) -> None:
        """Drop an item and its audio; another of its id begins anew."""
        self._outgrown.discard(item_id)
        self._total_bytes -= len(self._audio.pop(item_id, b""))


class RecentInput:
    """The last 15 s of the user's audio, by position on the input clock, until an item is cut from it."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._end: Samples = 0

    def append(self, pcm: bytes) -> None:
        """Take whole samples that the client sent."""
        self._chunks.append(pcm)
        self._bytes += len(pcm)
        self._end += samples_from_bytes(len(pcm))
        while self._chunks and self._bytes - len(self._chunks[0]) >= ITEM_LIMIT_BYTES:
            self._bytes -= len(self._chunks.popleft())

    def cut(self, start: Samples, end: Samples) -> bytes | None:
        """Return the audio [start, end), or None if its beginning is no longer at hand."""
        first = self._end - samples_from_bytes(self._bytes)
        if not first <= start < end <= self._end:
            return None
        joined = b"".join(self._chunks)
        return joined[bytes_from_samples(start - first) : bytes_from_samples(end - first)]
