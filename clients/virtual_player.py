"""A player at 1× that exists only on paper: what a user would have heard, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from clients.wav_audio import RATE_HZ


@dataclass(slots=True)
class _Piece:
    item_id: str
    start_s: float
    pcm: bytes

    @property
    def end_s(self) -> float:
        return self.start_s + len(self.pcm) / 2 / RATE_HZ


class VirtualPlayer:
    """Plays each piece of audio at its arrival or after the piece before it, whichever is later."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    def play(self, item_id: str, pcm: bytes, *, now_s: float) -> None:
        """Queue audio of an item that arrived at `now_s`."""
        self._pieces.append(_Piece(item_id, max(now_s, self.ends_at_s), pcm))

    @property
    def ends_at_s(self) -> float:
        """Return when the queue runs empty; 0 if nothing was ever played."""
        return self._pieces[-1].end_s if self._pieces else 0.0

    def flush(self, *, now_s: float) -> tuple[str, int] | None:
        """Drop what isn't played yet, as clients do on speech_started.

        Return the item that was playing and how many ms of it were heard; None if nothing was being played.
        """
        playing = next((piece for piece in self._pieces if piece.start_s <= now_s < piece.end_s), None)
        kept = []
        for piece in self._pieces:
            if piece.start_s >= now_s:
                continue
            piece.pcm = piece.pcm[: 2 * round((now_s - piece.start_s) * RATE_HZ)]
            kept.append(piece)
        self._pieces = kept
        return (playing.item_id, self.heard_ms(playing.item_id, now_s=now_s)) if playing else None

    def heard_ms(self, item_id: str, *, now_s: float) -> int:
        """Return how much of an item has been heard at `now_s`, in whole ms, rounded down."""
        samples = 0
        for piece in self._pieces:
            if piece.item_id == item_id and piece.start_s < now_s:
                samples += min(len(piece.pcm) // 2, round((now_s - piece.start_s) * RATE_HZ))
        return samples * 1000 // RATE_HZ

    def recording(self) -> bytes:
        """Return what came out of the player since its first sound, gaps as silence (PCM16, mono, `RATE_HZ`)."""
        out = bytearray()
        for piece in self._pieces:
            start = 2 * round((piece.start_s - self._pieces[0].start_s) * RATE_HZ)
            out.extend(bytes(max(0, start - len(out))))
            out.extend(piece.pcm)
        return bytes(out)
