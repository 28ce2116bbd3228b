"""One of many users in the load bench: speaks a clip over and over and keeps times only, no audio."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from clients.conversation import server_vad
from clients.microphone import Microphone, Utterance
from clients.realtime_connection import RealtimeConnection, RealtimeError, StampedEvent
from clients.timeline import AUDIO, DONE, Turn, turns
from clients.wav_audio import RATE_HZ, Clip

SILENCE_MS = 500
"""Endpointing silence that the sessions ask for (OpenAI's default)."""

ANSWER_TIMEOUT_S = 30.0


@dataclass(slots=True)
class SessionFigures:
    """What a session saw, in ms."""

    first_audio: list[float] = field(default_factory=list)
    speech_started: list[float] = field(default_factory=list)
    barge_in: list[float] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    turns: int = 0
    errors: list[str] = field(default_factory=list)


class LoadSession:
    """One connection and its microphone."""

    def __init__(self, url: str, clip: Clip) -> None:
        self.figures = SessionFigures()
        self.connection = RealtimeConnection(url, on_event=_forget_audio)
        self._clip = clip
        self._microphone = Microphone(self.connection.send_text)

    async def connect(self) -> None:
        """Connect and set the session up; nothing is sent after it. Raises RealtimeError."""
        await self.connection.__aenter__()
        await self.connection.send(server_vad(SILENCE_MS))
        await self.connection.until("session.updated", within_s=ANSWER_TIMEOUT_S)

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.__aexit__(None, None, None)

    async def talk(self, *, until_s: float, pause_s: float, barge_in: bool) -> None:
        """Take turns until the loop's clock shows `until_s`; the last one is brought to its end.

        Each next utterance begins `pause_s` after the end of the one before it or, for `barge_in`, after the first
        audio of its reply.
        """
        loop = asyncio.get_running_loop()
        self._microphone = Microphone(self.connection.send_text)
        first_event = len(self.connection.events)
        sending = asyncio.create_task(self._microphone.run())
        try:
            await asyncio.sleep(pause_s)
            while loop.time() < until_s:
                await self._turn(pause_s, wait_for_audio=barge_in)
        except RealtimeError as error:
            self.figures.errors.append(str(error))
        finally:
            self._microphone.stop()
            await asyncio.gather(sending, return_exceptions=True)
        self._note(self.connection.events[first_event:], barge_in)

    async def _turn(self, pause_s: float, *, wait_for_audio: bool) -> None:
        utterance = self._microphone.say(self._clip)
        loop = asyncio.get_running_loop()
        end_s = self._microphone.time_of(utterance.end)  # the loop's clock is the monotonic one
        await asyncio.sleep(max(0.0, end_s - loop.time()))
        if wait_for_audio:
            await self.connection.until(
                lambda event: event.type == AUDIO and event.at_s >= end_s, within_s=ANSWER_TIMEOUT_S
            )
        await asyncio.sleep(pause_s)

    def _note(self, events: list[StampedEvent], barge_in: bool) -> None:
        microphone = self._microphone
        found = turns(events, microphone.utterances, microphone.started_at_s)
        # The last turn has no pause after it in which its reply could have come.
        whole = found[:-1]
        self.figures.turns += len(whole)
        if not barge_in:
            self.figures.first_audio += [turn.latencies.first_audio for turn in whole if turn.latencies.first_audio]
            self.figures.speech_started += [
                turn.latencies.speech_started for turn in whole if turn.latencies.speech_started
            ]
        self.figures.lateness += microphone.lateness_ms
        self.figures.errors += [str(event.details("error", "message")) for event in events if event.type == "error"]
        if barge_in:
            self.figures.barge_in += _cuts(events, found, microphone.utterances, microphone.started_at_s)


def _cuts(
    events: list[StampedEvent], found: list[Turn], utterances: list[Utterance], started_at_s: float
) -> list[float]:
    """Return for each reply that was cut the ms from the cutting utterance's onset to its response.done."""
    ends = {event.details("response", "id"): event for event in events if event.type == DONE}
    delays = []
    for turn, following in zip(found, utterances[1:], strict=False):
        end = ends.get(turn.response_id)
        if end is not None and end.details("response", "status") == "cancelled":
            delays.append((end.at_s - started_at_s - following.onset / RATE_HZ) * 1000)
    return delays


def _forget_audio(event: StampedEvent) -> None:
    if event.type == AUDIO:
        event.body["delta"] = ""  # forty sessions' audio would fill this client's memory
