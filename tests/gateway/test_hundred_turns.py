"""A hundred turns of all kinds through a whole session: the stages of each add up to what its client measured.

The client's own figures come from outside: when its voice ended in the audio that it sent, when the first frame with
sound in it came, how much silence led in. Time is fed, so that both clocks are one.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from gateway.meter import ASSUMED_PLAYOUT_DELAY
from gateway.observing.observer import SessionObserver
from gateway.observing.ring import Ring
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer
from models.interfaces import ChatToolCall, SpeechPiece
from protocol.audio_time import bytes_from_samples, samples_from_ms
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.observed import Socket, reading_at_once, told
from tests.gateway.scripted_cascade import RunningSession, open_session, quiet, scripted_engines, voice

TURNS = 100
KINDS = ("speech", "speech", "manual", "typed", "tool", "barge_in", "cut_unheard", "idle", "text_only")
SEED = 4


@dataclass
class Wanted:
    """What the client knows of a turn: when it began (None: see `timed_out`), and whether an answer was to be heard."""

    kind: str
    began: int
    cut_at: int | None = None


class SlowVoice(ScriptedSynthesizer):
    """A voice with silence before its sound, as real ones have."""

    lead_in_ms = 0

    async def synthesize(self, text: str, **arguments: Any) -> Any:
        if arguments.get("first") and self.lead_in_ms:
            await self.sleep(self.ttfb_ms / 1000)
            yield SpeechPiece(quiet(self.lead_in_ms))
        async for piece in super().synthesize(text, **arguments):
            yield piece


class Client:
    """Holds a hundred turns of all kinds, with engines that are slow in ever new ways."""

    def __init__(self, running: RunningSession, socket: Socket, time: FedTime, engines: Any) -> None:
        self.running, self.socket, self.time, self.engines = running, socket, time, engines
        self.draw = random.Random(SEED)
        self.turns: list[Wanted] = []

    async def detection(self, detection: dict[str, Any] | None) -> None:
        session = {"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
        await self.running.send("session.update", session=session)

    async def until(self, kind: str, count: int) -> None:
        """Stay silent until `count` events of a type have come."""
        for _ in range(4_000):
            if len(self.socket.of(kind)) >= count:
                return
            await self.running.play(quiet(160))
        raise AssertionError(f"no {kind}")

    async def answer(self) -> None:
        """Wait until the response is done and has been played to its end."""
        await self.until("response.done", len(self.socket.of("response.created")))
        await self.running.play(quiet(self.draw.choice([3_200, 4_000])))

    async def turn(self, kind: str) -> None:
        draw, running, engines = self.draw, self.running, self.engines
        engines.asr._delay_ms = draw.uniform(5, 300)
        engines.chat._ttft_ms = draw.uniform(5, 400)
        engines.chat._token_ms = draw.uniform(1, 30)
        engines.tts.ttfb_ms = draw.uniform(5, 200)
        engines.tts.lead_in_ms = draw.choice([0, 0, 50, 130])
        done = len(self.socket.of("response.done"))
        match kind:
            case "speech" | "barge_in" | "cut_unheard" | "tool" | "text_only":
                await self.detection({"type": "server_vad", "silence_duration_ms": draw.choice([200, 500])})
                if kind == "text_only":
                    await running.send("session.update", session={"type": "realtime", "output_modalities": ["text"]})
                await running.play(voice(draw.choice([640, 960])))
                self.turns.append(Wanted(kind, self.time.now()))
                engines.chat.kind = kind
                if kind == "cut_unheard":
                    engines.chat._ttft_ms = 700
                if kind == "barge_in":
                    await self.until(
                        "response.output_audio.delta", len(self.socket.of("response.output_audio.delta")) + 1
                    )
                    await running.play(quiet(800), voice(640))
                    engines.chat.kind = "speech"
                    self.turns.append(Wanted("speech", self.time.now()))
                elif kind == "cut_unheard":
                    await self.until("response.created", len(self.socket.of("response.created")) + 1)
                    await running.play(voice(640))
                    self.turns[-1].cut_at = self.time.now()
                    engines.chat.kind = "speech"
                    self.turns.append(Wanted("speech", self.time.now()))
                elif kind == "tool":
                    await self.until("response.done", done + 1)
                    await running.play(quiet(draw.choice([160, 480])))
                    (call,) = self.socket.of("response.function_call_arguments.done")[-1:]
                    item = {"type": "function_call_output", "call_id": call["call_id"], "output": "42"}
                    await running.send("conversation.item.create", item=item)
                    engines.chat.kind = "speech"
                    await running.send("response.create")
                await self.until("response.created", len(self.socket.of("response.done")) + 1)
                await self.answer()
                if kind == "text_only":
                    await running.send("session.update", session={"type": "realtime", "output_modalities": ["audio"]})
            case "manual":
                await self.detection(None)
                await running.play(voice(960), quiet(160))
                self.turns.append(Wanted(kind, self.time.now()))
                await running.send("input_audio_buffer.commit")
                await running.play(quiet(draw.choice([0, 160])))
                await running.send("response.create")
                await settle()
                await self.answer()
            case "typed":
                await running.user_types("Hello?")
                self.turns.append(Wanted(kind, self.time.now()))
                await running.send("response.create")
                await settle()
                await self.answer()
            case "idle":
                before = len(self.socket.of("input_audio_buffer.timeout_triggered"))
                await self.detection({"type": "server_vad", "idle_timeout_ms": 5_000})
                await self.until("input_audio_buffer.timeout_triggered", before + 1)
                at = [at for at, p in self.socket.frames if p["type"] == "input_audio_buffer.timeout_triggered"][-1]
                self.turns.append(Wanted(kind, at))
                await self.detection(None)
                await self.answer()


class Chat(ScriptedChat):
    """Answers as the kind of turn wants it."""

    kind = "speech"

    def __init__(self, time: FedTime) -> None:
        super().__init__(self.reply, sleep=time.sleep)
        self.calls = 0

    def reply(self, _request: object) -> Any:
        if self.kind == "tool":
            self.calls += 1
            return [ChatToolCall(0, f"call_{self.calls}", "look_up", '{"a":'), ChatToolCall(0, None, None, "1}")]
        return "One two three four. Five six seven eight nine ten."


def first_heard(audio: list[tuple[int, bytes]]) -> int:
    """Return when a player with the usual delay plays the first sound of `audio`, to 10 ms."""
    end = 0
    for at, pcm in audio:
        start = max(at + ASSUMED_PLAYOUT_DELAY, end)
        loud = np.flatnonzero(np.frombuffer(pcm, "<i2"))
        if len(loud):
            return int(start + loud[0] // 240 * 240)
        end = start + len(pcm) // 2
    raise AssertionError("nothing to be heard")


async def test_the_stages_of_every_turn_add_up_to_what_its_client_measured(
    time: FedTime, caplog: pytest.LogCaptureFixture
) -> None:
    engines = scripted_engines(
        time,
        asr=ScriptedRecognizer(["Hello there."], sleep=time.sleep),
        chat=Chat(time),
        tts=SlowVoice(sleep=time.sleep),
    )
    observer = SessionObserver("sess_1", time.now)
    observer.ring = Ring(limit_events=10**6, limit_bytes=10**9)
    caplog.set_level(logging.INFO, logger="gateway.meter")
    async with open_session(time, engines, observer=observer) as running:
        async with reading_at_once(running, time) as socket:
            await settle()
            client = Client(running, socket, time, engines)
            kinds = cycle(KINDS)
            while len(client.turns) < TURNS:
                await client.turn(next(kinds))
            await time.advance(2_000)
    accounts = told(observer.ring, "waterfall")
    assert len(accounts) == len(client.turns) >= TURNS
    assert len([record for record in caplog.records if "slowest=" in record.getMessage()]) == len(accounts)
    outcomes = {
        kind: {a["outcome"] for w, a in zip(client.turns, accounts, strict=True) if w.kind == kind} for kind in KINDS
    }
    assert outcomes == {kind: {"heard"} for kind in KINDS} | {"cut_unheard": {"cut"}, "text_only": {"silent"}}
    worst_ms = 0.0
    for wanted, account in zip(client.turns, accounts, strict=True):
        total_ms = sum(account["stages_ms"].values())
        assert total_ms == account["total_ms"]
        assert account["slowest"] == max(account["stages_ms"], key=account["stages_ms"].get)
        if account["outcome"] == "heard":
            truth_ms = (first_heard(socket.audio(account["response_ids"][-1])) - wanted.began) / 24
            off_ms = abs(total_ms - truth_ms)
            assert off_ms <= max(10, 0.02 * truth_ms), (wanted, account)
            worst_ms = max(worst_ms, off_ms)
        elif wanted.cut_at is not None:
            assert total_ms <= (wanted.cut_at - wanted.began) / 24
    assert worst_ms <= 2  # what whole milliseconds and one loop turn cost


def test_the_bytes_of_this_scripts_silences_are_whole_frames() -> None:
    """160 ms are eight appends and five VAD frames: the end of the voice is the end of a frame."""
    assert len(quiet(160)) == 8 * bytes_from_samples(samples_from_ms(20)) == 5 * 2 * 768
