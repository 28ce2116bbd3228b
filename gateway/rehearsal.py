"""A conversation rehearsed: the served session on scripted engines and virtual time, over as soon as it has begun.

When an agent misbehaves the first question is whether it is the loop or the room: this is the loop, with the protocol,
turn-taking, history and stopwatch of every session, and neither microphone, models, server nor waiting.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gateway.lockstep import FIRST_AUDIO_MS, FIRST_TOKEN_MS, lockstep_session
from gateway.lockstep_engines import Delays
from gateway.observing.kinds import Kind
from gateway.observing.sessions import ObservedSessions
from gateway.turns.states import Agent
from gateway.virtual_loop import VirtualLoop
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad, echo
from models.interfaces import VAD_FRAME_SAMPLES, Engines
from protocol.audio_time import Samples, bytes_from_samples, s_from_samples, samples_from_ms, samples_from_s

INTERRUPTION = "Wait."
"""What the user says over the last reply, for which no text is left."""

_STEP: Samples = VAD_FRAME_SAMPLES  # decisions fall when a frame is complete
_WORD: Samples = samples_from_ms(300)
"""How long the user takes for a word (chosen: as the scripted voice does)."""

_LEAD_IN: Samples = samples_from_ms(300)
_VOICE_HZ = 330
_VOICE_PEAK = 1_600
"""The user's voice: a tone that the scripted VAD takes for speech, and not the agent's own."""

_QUIET = bytes(bytes_from_samples(_STEP))
_NO_AUDIO = {"type": "input_audio_buffer.append", "audio": ""}
_MARGIN = " " * 11

_LONGEST_WAIT: Samples = samples_from_s(120)
"""Longest wait for a reply, in virtual time (chosen): a loop that never answers must be seen, too."""

Say = Callable[[str], None]


class RehearsalStuck(Exception):
    """The loop did not answer: a bug. The text says what was waited for."""


def rehearse(
    texts: list[str], say: Say, *, interrupt_after_s: float | None = None, reply: str = "", observe: bool = False
) -> None:
    """Let a scripted user say `texts`, a turn each, and tell `say` each line of the conversation, with its timing.

    `interrupt_after_s`: how long each reply is heard before the user cuts in with the next text. `reply`: what the
    agent always says; "": what it heard. `observe`: tell what observers read, too. Raises RehearsalStuck.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_Rehearsal(say, interrupt_after_s, reply, observe).run(texts))


@dataclass
class _Reply:
    """One reply as its client and its observers saw it. `cut`: what an observer read when it was cut short."""

    text: str = ""
    waterfall: dict[str, Any] = field(default_factory=dict)
    cut: dict[str, Any] = field(default_factory=dict)


class _Rehearsal:
    def __init__(self, say: Say, interrupt_after_s: float | None, reply: str, observe: bool) -> None:
        self._say = say
        self._interrupt_after_s = interrupt_after_s
        self._observe = observe
        self._saying = ""
        self._fed: Samples = 0
        self._reply = _Reply()
        self._cut: dict[str, Any] = {}
        self._agent = Agent.IDLE
        self._engines = Engines(
            vad=ScriptedVad(),
            asr=ScriptedRecognizer(lambda _pcm: self._saying, delay_ms=Delays().transcript_s * 1000),
            chat=ScriptedChat([reply] if reply else echo, ttft_ms=FIRST_TOKEN_MS),
            tts=ScriptedSynthesizer(ttfb_ms=FIRST_AUDIO_MS),
        )

    async def run(self, texts: list[str]) -> None:
        """Have the whole conversation."""
        observed = ObservedSessions()
        async with lockstep_session(self._engines, observed=observed) as self._session:
            await self._session.send(_NO_AUDIO)  # from here on the session has begun
            observer = observed.find(observed.list()[0]["id"])
            assert observer is not None
            self._reader = observer.ring.follow()
            await self._silence(_LEAD_IN)
            for text in texts:
                await self._turn(text)
                await self._listen(cut_in=self._interrupt_after_s is not None)
            if self._agent is not Agent.IDLE:
                await self._turn(INTERRUPTION)
                await self._listen(cut_in=False)

    async def _turn(self, text: str) -> None:
        """Say `text`, over the agent if it still speaks."""
        began_s, over_agent = s_from_samples(self._fed), self._agent is not Agent.IDLE
        self._say(f"{began_s:7.2f} s  you:   {text}")
        self._saying, self._reply, self._cut = text, _Reply(), {}
        await self._voice(_WORD * len(text.split()))
        if over_agent:
            heard = self._cut.get("heard_text", "nothing was cut")
            silent_ms = self._cut.get("at_ms", 0) - began_s * 1000
            self._say(f"{_MARGIN}the agent is silent {silent_ms:.0f} ms later and remembers that it said: {heard!r}")

    async def _listen(self, *, cut_in: bool) -> None:
        """Hear the reply: to its end, or until it is time to cut in."""
        await self._until(lambda: bool(self._reply.waterfall), "an answer")
        reply, account = self._reply, self._reply.waterfall
        if cut_in:
            assert self._interrupt_after_s is not None
            due = self._fed + samples_from_s(self._interrupt_after_s)
            await self._until(lambda: self._fed >= due or self._agent is Agent.IDLE, "the moment to cut in")
        else:
            await self._until(lambda: self._agent is Agent.IDLE, "the end of the reply")
        heard_s = (account["begin_ms"] + account["total_ms"]) / 1000
        self._say(f"{heard_s:7.2f} s  agent: {reply.text}")
        stages = ", ".join(f"{stage} {length}" for stage, length in account["stages_ms"].items() if length)
        self._say(f"{_MARGIN}{account['outcome']} {account['total_ms']} ms after your last word ({stages})")

    # --- the microphone --------------------------------------------------------------------------------------------

    async def _voice(self, duration: Samples) -> None:
        end = self._fed + duration
        while self._fed < end:
            phase = 2 * np.pi * _VOICE_HZ / samples_from_s(1) * np.arange(self._fed, self._fed + _STEP)
            await self._feed((np.sin(phase) * _VOICE_PEAK).astype("<i2").tobytes())

    async def _silence(self, duration: Samples) -> None:
        end = self._fed + duration
        while self._fed < end:
            await self._feed(_QUIET)

    async def _until(self, over: Callable[[], bool], what: str) -> None:
        latest = self._fed + _LONGEST_WAIT
        while not over():
            if self._fed >= latest:
                waited_s = s_from_samples(_LONGEST_WAIT)
                raise RehearsalStuck(f"The loop is stuck: {what} did not come within {waited_s:g} s.")
            await self._silence(_STEP)

    async def _feed(self, pcm: bytes) -> None:
        for stamped in await self._session.feed(pcm):
            if stamped.event["type"] == "response.output_audio_transcript.delta":
                self._reply.text += stamped.event["delta"]
        self._fed += _STEP
        for _, line in self._reader.take():
            if self._observe:
                self._say(line)
            self._observed(json.loads(line))

    def _observed(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case Kind.AGENT_STATE:
                self._agent = Agent(event["state"])
            case Kind.WATERFALL:
                self._reply.waterfall = event
            case Kind.PLAYOUT_CUT:
                self._cut = event
            case _:
                pass
