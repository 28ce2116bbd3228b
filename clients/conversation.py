"""A user made of WAV files: speaks to a Realtime server, listens through a virtual player, and cuts in if told to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from clients.microphone import Microphone, Utterance
from clients.realtime_connection import RealtimeConnection, RealtimeError, StampedEvent
from clients.timeline import AUDIO, CREATED, DONE, SPEECH_STARTED, audio_bytes
from clients.virtual_player import VirtualPlayer
from clients.wav_audio import Clip

SETTLE_S = 0.6
"""Audio sent before the first word: a VAD needs a little to know the room."""

TURN_TIMEOUT_S = 60.0
"""Longest wait for a reply to begin, to sound or to end (chosen: far beyond any engine that can be talked to)."""


def server_vad(silence_ms: int, **session: Any) -> dict[str, Any]:
    """Return a session.update for a spoken conversation with endpointing after `silence_ms`; `session` adds fields."""
    turn_detection = {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": silence_ms,
        "create_response": True,
        "interrupt_response": True,
    }
    return _spoken(turn_detection, session)


def semantic_vad(eagerness: str, **session: Any) -> dict[str, Any]:
    """Return a session.update for a spoken conversation whose ends of turn are judged; `session` adds fields."""
    turn_detection = {
        "type": "semantic_vad",
        "eagerness": eagerness,
        "create_response": True,
        "interrupt_response": True,
    }
    return _spoken(turn_detection, session)


def _spoken(turn_detection: dict[str, Any], session: dict[str, Any]) -> dict[str, Any]:
    transcription = session.pop("transcription", {"model": "gpt-realtime-whisper"})  # streams while the user speaks
    audio = {"input": {"turn_detection": turn_detection, "transcription": transcription}}
    return {
        "type": "session.update",
        "session": {"type": "realtime", "output_modalities": ["audio"], "audio": audio, **session},
    }


class Conversation:
    """One session with microphone and player. Use as `async with`; the microphone is open from entering to leaving.

    With `truncates` it tells the server, as SDKs do, how much of a reply was heard when the user cut in.
    """

    def __init__(
        self,
        url: str,
        *,
        update: dict[str, Any],
        api_key: str = "unused",
        truncates: bool = True,
        on_event: Callable[[StampedEvent], None] | None = None,
    ) -> None:
        self.player = VirtualPlayer()
        self.connection = RealtimeConnection(url, api_key=api_key, on_event=self._hear)
        self.microphone = Microphone(self._send)
        self._update = update
        self._also = on_event
        self._truncates = truncates
        self._truncations: list[str] = []
        self._stack = AsyncExitStack()
        self._sending: asyncio.Task[None] | None = None

    @property
    def events(self) -> list[StampedEvent]:
        """Return all events so far."""
        return self.connection.events

    async def __aenter__(self) -> Self:
        """Connect, set the session up and open the microphone. Raises RealtimeError."""
        await self._stack.enter_async_context(self.connection)
        try:
            await self.connection.send(self._update)
            answer = await self.connection.until(("session.updated", "error"), within_s=TURN_TIMEOUT_S)
            if answer.type == "error":
                raise RealtimeError(f"The server refused the settings: {answer.details('error', 'message')}")
        except BaseException:
            await self._stack.aclose()
            raise
        self._sending = asyncio.create_task(self.microphone.run())
        await asyncio.sleep(SETTLE_S)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the microphone and the session."""
        self.microphone.stop()
        try:
            if self._sending is not None:
                await self._sending
        except RealtimeError:
            if error is None:
                raise
        finally:
            await self._stack.aclose()

    def say(self, clip: Clip) -> Utterance:
        """Start to speak `clip`."""
        return self.microphone.say(clip)

    async def answered(self, utterance: Utterance) -> str | None:
        """Return the response that answers the whole of `utterance`, None if none came within `TURN_TIMEOUT_S`.

        A pause inside the utterance may have started responses that its rest cut off: they aren't meant.
        """
        await self._spoken(utterance)
        onset_s = self.microphone.time_of(utterance.onset)

        def answers(event: StampedEvent) -> bool:
            return (
                event.type == CREATED
                and event.at_s >= onset_s
                and self._status(event.details("response", "id")) != "cancelled"
            )

        try:
            created = await self.connection.until(answers, within_s=TURN_TIMEOUT_S)
        except RealtimeError:
            if self.connection.closed:
                raise
            return None
        return str(created.details("response", "id"))

    async def first_audio(self, response_id: str) -> StampedEvent:
        """Return a response's first audio, or its end if it has none. Raises RealtimeError."""

        def sounds_or_ends(event: StampedEvent) -> bool:
            sounds = event.type == AUDIO and event.details("response_id") == response_id
            return sounds or (event.type == DONE and event.details("response", "id") == response_id)

        return await self.connection.until(sounds_or_ends, within_s=TURN_TIMEOUT_S)

    async def ended(self, response_id: str) -> StampedEvent:
        """Return a response's end. Raises RealtimeError."""

        def ends(event: StampedEvent) -> bool:
            return event.type == DONE and event.details("response", "id") == response_id

        return await self.connection.until(ends, within_s=TURN_TIMEOUT_S)

    async def played(self) -> None:
        """Wait until the player has nothing left."""
        await asyncio.sleep(max(0.0, self.player.ends_at_s - time.monotonic()))

    def _status(self, response_id: str) -> str | None:
        for event in self.events:
            if event.type == DONE and event.details("response", "id") == response_id:
                return str(event.details("response", "status"))
        return None

    async def _spoken(self, utterance: Utterance) -> None:
        """Wait until the utterance's last sample has left, but no longer than the connection lives."""
        remaining_s = self.microphone.time_of(utterance.end) - time.monotonic()
        await asyncio.sleep(max(0.0, remaining_s))
        if self.connection.closed:
            raise RealtimeError(f"The server closed the connection ({self.connection.close_code}).")

    async def _send(self, frame: str) -> None:
        """Send an append; truncations go with it, since whoever hears an event cannot wait for a socket."""
        while self._truncations:
            await self.connection.send_text(self._truncations.pop(0))
        await self.connection.send_text(frame)

    def _hear(self, event: StampedEvent) -> None:
        if event.type == AUDIO:
            self.player.play(event.details("item_id"), audio_bytes(event), now_s=event.at_s)
        elif event.type == SPEECH_STARTED:
            cut = self.player.flush(now_s=event.at_s)
            if cut is not None and self._truncates:
                item_id, heard_ms = cut
                truncate = {"type": "conversation.item.truncate", "item_id": item_id, "content_index": 0}
                self._truncations.append(json.dumps({**truncate, "audio_end_ms": heard_ms}))
        if self._also is not None:
            self._also(event)
