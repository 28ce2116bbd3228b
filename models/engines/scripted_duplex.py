"""A full-duplex model that follows a script, with known truth: for tests of the mapping, and for those without a Mac.

It listens by level alone. It answers when the user has been quiet for a while, yields when they speak over it, nods
during long turns, calls tools and waits for their results, and can be told to stall. Its voice is a murmur, its silence
a hiss, as such models' silence is never digital. TRIAL is the script that is served.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from models.duplex_interface import DuplexAbilities, DuplexCall, DuplexPrompt, DuplexStep
from models.engines.invented_calls import invented_call
from models.engines.scripted import SPEECH_LEVEL_DBFS, Sleep
from models.interfaces import AUDIO_RATE_HZ, EngineError, EngineInfo

FRAME_MS = 80
"""Frame of VoiceChat and Moshi."""

MURMUR_LEVEL = 0.1
MURMUR_SAMPLES = 12
"""Neighbours of a noise that are averaged: what is left lies mostly below 1 kHz. A steady tone instead would be
taken for the echo, or the source, of every other tone that a test's user speaks in."""

HISS_LEVEL = 0.001

ENOUGH_SPEECH_MS = 160
"""So much voice is a turn; less is a click (chosen)."""

_FULL_SCALE = 32_768.0


@dataclass(frozen=True, slots=True)
class DuplexReply:
    """What the model does in its turn: says `text`, or calls the function `call` (name, arguments) and then says it.

    In the text `{result}` stands for the tool's output. `calls_offered`: it calls the first function that the prompt
    offers, if there is one. `stalls`: it takes the floor and says nothing.
    """

    text: str = ""
    call: tuple[str, dict[str, object]] | None = None
    calls_offered: bool = False
    stalls: bool = False


@dataclass(frozen=True, slots=True)
class DuplexScript:
    """How the model behaves. `replies`: one a turn, after the last the first again.

    `heard`: the user's words, a turn each. `greeting`: what it says when it is made to speak and nobody has spoken;
    "": its next reply.
    """

    replies: tuple[DuplexReply, ...] = (DuplexReply("I heard you."),)
    heard: tuple[str, ...] = ()
    greeting: str = ""
    answer_after_ms: int = 480
    yield_after_ms: int = 240
    nod_after_ms: int | None = 2_400
    nod_ms: int = 320
    word_ms: int = 240
    step_s: float = 0.0
    fails_at_ms: int | None = None


_STORY = (
    "Once upon a time there was a murmur that wanted to be a voice. It went up the hill and down the hill, it met a "
    "hiss and a hum, and it asked each of them for the way. You may stop me whenever you like, since I am listening "
    "while I speak, and I shall give way as soon as you mean it."
)

TRIAL = DuplexScript(
    greeting="Hello. I am a script, and I have a murmur for a voice.",
    replies=(
        DuplexReply("I heard you."),
        DuplexReply("Here is what I know. {result}", calls_offered=True),
        DuplexReply(_STORY),
        DuplexReply("You were saying?"),
        DuplexReply(_STORY),
        DuplexReply("So much for that."),
    ),
    heard=tuple(f"These are the words of turn {number}." for number in range(1, 61)),
    answer_after_ms=640,
    nod_after_ms=2_000,
)
"""What is served to those who try a client: an answer, a tool's call, a story of 15 s to be cut into, and so on.

It answers somewhat later than the usual voice activity detection ends a turn, as a model does that thinks.
"""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was truly said: a `turn`, a `nod` or what was made to be `said`, in samples of output at 24 kHz."""

    kind: str
    start: int
    end: int


@dataclass(slots=True)
class _Speech:
    """What the model is saying: `left` frames of voice, and the words that are still to be written."""

    kind: str
    start: int
    left: int
    words: deque[str] = field(default_factory=deque)
    marked: bool = True


class ScriptedDuplexStream:
    """One conversation with the script. `truth` says what it did."""

    def __init__(self, script: DuplexScript, prompt: DuplexPrompt, frame_samples: int, sleep: Sleep) -> None:
        self.prompt = prompt
        self.truth: list[Spoken] = []
        self.results: list[str] = []
        self._script = script
        self._frame = frame_samples
        self._sleep = sleep
        self._dice = np.random.default_rng(5)
        self._at = 0
        self._turn = 0
        self._voiced_ms = 0.0
        self._quiet_ms = 0.0
        self._over_ms = 0.0
        self._nodded = False
        self._heard: deque[str] = deque()
        self._speech: _Speech | None = None
        self._commands: deque[str] = deque()
        self._made_to_start = False
        self._pending: deque[DuplexReply] = deque()  # waits for a tool's result
        self._calling_frames = 0
        self._closed = False

    @property
    def _frame_ms(self) -> float:
        return self._frame * 1000 / AUDIO_RATE_HZ

    async def step(self, pcm: bytes, *, own_voice: bool = False) -> DuplexStep:
        """Hear one frame; see DuplexStream. Whose voice it is makes no difference."""
        if self._closed or len(pcm) != 2 * self._frame:
            raise EngineError("duplex_failed", "The model was given no whole frame, or its conversation is over.")
        if self._script.step_s:
            await self._sleep(self._script.step_s)
        failing = self._script.fails_at_ms
        if failing is not None and self._at * 1000 / AUDIO_RATE_HZ >= failing:
            raise EngineError("duplex_failed", "The full-duplex model failed.")
        voiced = _level_dbfs(pcm) >= SPEECH_LEVEL_DBFS
        user_text = self._listen(voiced)
        before, spoke = self._speech, self._speech is not None
        call, takes = self._decide(voiced)
        yields = spoke and before is not self._speech and before is not None and before.marked
        text, sounds = self._utter()
        if spoke and self._speech is None and before is not None and before.marked:
            yields = True
        self._at += self._frame
        calling = self._calling_frames > 0 or call is not None
        return DuplexStep(self._sound(sounds), text, user_text, takes, yields, calling, call)

    def answer_call(self, output: str) -> None:
        """Take the tool's result and say the reply that waited for it."""
        self.results.append(output)
        if self._pending:
            reply = self._pending.popleft()
            self._commands.append(reply.text.replace("{result}", output))

    def say(self, text: str) -> None:
        """Say `text` next."""
        self._commands.append(text)

    def stop(self) -> None:
        """Fall silent with the next frame, and forget what else was to be said."""
        self._commands.clear()
        self._made_to_start = False
        self._end_speech()

    def start(self) -> None:
        """Take the floor with the next frame: with the answer that is due, with a greeting if none is."""
        self._made_to_start = True

    async def aclose(self) -> None:
        """Refuse further frames."""
        self._closed = True

    # --- listening -------------------------------------------------------------------------------------------------

    def _listen(self, voiced: bool) -> str:
        if not voiced:
            self._quiet_ms += self._frame_ms
            self._over_ms = 0.0
            return ""
        if not self._voiced_ms and self._turn < len(self._script.heard):
            self._heard = deque(self._script.heard[self._turn].split())
        self._voiced_ms += self._frame_ms
        self._quiet_ms = 0.0
        if self._speech is not None:
            self._over_ms += self._frame_ms
        return self._heard.popleft() + " " if self._heard else ""

    def _decide(self, voiced: bool) -> tuple[DuplexCall | None, bool]:
        """Begin or end what is said; return a call that is complete now, and whether the floor is taken."""
        script = self._script
        if self._speech is not None and self._over_ms >= script.yield_after_ms and self._speech.kind != "nod":
            self._end_speech()
        if self._calling_frames:
            self._calling_frames -= 1
            if not self._calling_frames:
                name, arguments = self._pending[-1].call or ("", {})
                return DuplexCall(name, json.dumps(arguments)), False
        if self._speech is not None:
            return None, False
        if self._commands and not voiced:
            self._begin("turn", self._commands.popleft())
            return None, True
        spoken_to = self._voiced_ms >= ENOUGH_SPEECH_MS
        made, self._made_to_start = self._made_to_start, False
        if (made or (spoken_to and self._quiet_ms >= script.answer_after_ms)) and not self._pending:
            self._voiced_ms, self._nodded = 0.0, False
            greets = made and not spoken_to and script.greeting
            return None, self._take_turn(DuplexReply(script.greeting) if greets else self._next_reply())
        if script.nod_after_ms is not None and self._voiced_ms >= script.nod_after_ms and not self._nodded:
            self._nodded = True
            self._speech = _Speech("nod", self._at, max(1, round(script.nod_ms / self._frame_ms)), marked=False)
        return None, False

    def _next_reply(self) -> DuplexReply:
        reply = self._script.replies[self._turn % len(self._script.replies)]
        self._turn += 1
        if reply.calls_offered:
            call = invented_call(self.prompt.tools)
            reply = replace(reply, call=call, text=reply.text if call else reply.text.replace("{result}", "").strip())
        return reply

    def _take_turn(self, reply: DuplexReply) -> bool:
        if reply.call is not None:
            self._pending.append(reply)
            self._calling_frames = 3
            return False
        if reply.stalls:
            self._speech = _Speech("stall", self._at, 0)
            return True
        self._begin("turn", reply.text)
        return True

    # --- speaking --------------------------------------------------------------------------------------------------

    def _begin(self, kind: str, text: str) -> None:
        words = deque(text.split())
        frames = max(1, round(len(words) * self._script.word_ms / self._frame_ms))
        self._speech = _Speech(kind, self._at, frames, words)

    def _utter(self) -> tuple[str, bool]:
        """Return the text of this frame and whether it sounds; the words run ahead of the voice."""
        speech = self._speech
        if speech is None or speech.kind == "stall":
            return "", False
        word = speech.words.popleft() + " " if speech.words else ""
        speech.left -= 1
        if speech.left < 0:
            self._end_speech()
            return "", False
        return word, True

    def _end_speech(self) -> None:
        speech, self._speech = self._speech, None
        self._over_ms = 0.0
        if speech is not None and speech.kind != "stall":
            self.truth.append(Spoken(speech.kind, speech.start, self._at))

    def _sound(self, voice: bool) -> bytes:
        sound: NDArray[np.float64] = HISS_LEVEL * self._dice.standard_normal(self._frame)
        if voice:
            noise = self._dice.standard_normal(self._frame + MURMUR_SAMPLES - 1)
            sound = sound + MURMUR_LEVEL * np.convolve(noise, np.ones(MURMUR_SAMPLES), "valid") / MURMUR_SAMPLES**0.5
        return np.rint(np.clip(sound, -1, 1) * (_FULL_SCALE - 1)).astype("<i2").tobytes()


class ScriptedDuplex:
    """DuplexModel over a script; each conversation begins it anew. `streams` are those that were opened."""

    info = EngineInfo("native", "scripted full-duplex model")
    abilities = DuplexAbilities(
        marks=True, hears_words=True, instructions=True, tools=True, steered=True, voices=("murmur",), languages=("en",)
    )

    def __init__(
        self, script: DuplexScript | None = None, *, frame_ms: int = FRAME_MS, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.frame_samples = frame_ms * AUDIO_RATE_HZ // 1000
        self._script = script or DuplexScript()
        self._sleep = sleep
        self.streams: deque[ScriptedDuplexStream] = deque(maxlen=16)

    async def open(self, prompt: DuplexPrompt) -> ScriptedDuplexStream:
        """Return a conversation at the script's beginning."""
        stream = ScriptedDuplexStream(self._script, prompt, self.frame_samples, self._sleep)
        self.streams.append(stream)
        return stream

    async def aclose(self) -> None:
        """Nothing to free."""


def _level_dbfs(pcm: bytes) -> float:
    samples = np.frombuffer(pcm, "<i2").astype(np.float64)
    power = float((samples**2).mean()) / _FULL_SCALE**2
    return 10 * float(np.log10(power)) if power else -100.0
