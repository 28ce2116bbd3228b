"""Engines that do what a script says, with the delays it says, without weights: for tests, benches and first looks.

They are observable (what was asked, what was cancelled) and deterministic. Time is spent in `sleep`, which tests
replace by a clock of their own.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from models.interfaces import (
    AUDIO_RATE_HZ,
    VAD_FRAME_SAMPLES,
    ChatEnd,
    ChatEvent,
    ChatRequest,
    ChatText,
    ChatToolCall,
    EngineError,
    Judgement,
    SpeechPiece,
    TokenLogprob,
    Transcription,
    Utterance,
    WordTime,
)

Sleep = Callable[[float], Awaitable[None]]
"""Waits that many seconds: `asyncio.sleep`, or a test's own."""

JudgeScore = float | Judgement | EngineError | None
"""What a scripted judge says: a probability, all of a judgement, a failure, or no opinion."""

SPEECH_LEVEL_DBFS = -45.0
"""A frame at or above this RMS level counts as speech: below quiet speech, above a quiet room's noise (chosen)."""

BENCH_REPLY = " ".join(
    f"This is sentence number {n} of the load bench's reply." for n in ("one", "two", "three", "four")
)
"""The reply of the load bench's stub: 4 sentences of 10 words."""

KEPT_REQUESTS = 16
"""Requests that a scripted language model remembers for whoever asks; the profile `scripted` may serve for days."""

SCRIPTED_LOGPROB = -0.25
"""Log probability of each word of a scripted transcript: exact in binary, so that tests may compare."""

_FRAME_BYTES = 2 * VAD_FRAME_SAMPLES
_FULL_SCALE = 32_768.0


class ScriptedVadStream:
    """One session's energy gate."""

    def __init__(self, level_dbfs: float) -> None:
        self._threshold = (10 ** (level_dbfs / 20) * _FULL_SCALE) ** 2
        self._rest = b""

    async def feed(self, pcm: bytes) -> list[float]:
        """Return 1.0 for each completed frame that is loud enough, else 0.0."""
        data = self._rest + pcm
        whole = len(data) // _FRAME_BYTES * _FRAME_BYTES
        self._rest = data[whole:]
        frames = np.frombuffer(data[:whole], "<i2").astype(np.float64).reshape(-1, VAD_FRAME_SAMPLES)
        return [float(power >= self._threshold) for power in (frames**2).mean(axis=1)]


class ScriptedVad:
    """VoiceActivityDetector that takes every sound of `level_dbfs` or more for speech."""

    def __init__(self, level_dbfs: float = SPEECH_LEVEL_DBFS) -> None:
        self._level_dbfs = level_dbfs

    def open(self) -> ScriptedVadStream:
        """Return a new session's stream."""
        return ScriptedVadStream(self._level_dbfs)


class ScriptedRecognizer:
    """SpeechRecognizer that "hears" `texts`.

    `texts` is a function from PCM to text, or final transcripts in order, the last one repeated. A partial shows the
    words that the audio so far would hold at two a second, of the text that the final call will return.
    """

    def __init__(
        self,
        texts: Callable[[bytes], str] | Iterable[str] = ("Hello there.",),
        *,
        delay_ms: float = 50.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._hear = texts if callable(texts) else None
        self._texts = [] if callable(texts) else list(texts)
        self._delay_ms = delay_ms
        self._sleep = sleep
        self.finals: list[str] = []
        self.partials: list[str] = []
        self.cancelled = 0

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        """Return the next text of the script after `delay_ms`; each word is a token."""
        text = self._hear(pcm) if self._hear else self._texts[min(len(self.finals), len(self._texts) - 1)]
        if partial_of is None:
            self.finals.append(text)
        else:
            words = text.split()
            text = " ".join(words[: int(len(pcm) / 2 / AUDIO_RATE_HZ * 2)])
            self.partials.append(text)
        try:
            await self._sleep(self._delay_ms / 1000)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Transcription(text, _word_logprobs(text) if logprobs else None)


class ScriptedJudge:
    """EndOfTurnJudge that judges by `script`, a function or a table from the last word (lower case, no punctuation).

    A table's missing words get the score of "", or no opinion. A score may be a Judgement, or an EngineError to raise.
    """

    def __init__(
        self,
        script: Callable[[Utterance], JudgeScore] | Mapping[str, JudgeScore],
        *,
        name: str = "lexical",
        listens: bool = False,
        delay_ms: float = 10.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = name
        self.listens = listens
        self._script = script if callable(script) else lambda utterance: _by_last_word(script, utterance.text)
        self._delay_ms = delay_ms
        self._sleep = sleep
        self.asked: deque[Utterance] = deque(maxlen=KEPT_REQUESTS)
        self.prepared_for: deque[str] = deque(maxlen=KEPT_REQUESTS)

    async def prepare(self, agent_text: str, language: str | None = None) -> None:
        """Note what the agent said, in `prepared_for`."""
        self.prepared_for.append(agent_text)

    async def judge(self, utterance: Utterance) -> Judgement:
        """Return the script's judgement after `delay_ms`."""
        self.asked.append(utterance)
        await self._sleep(self._delay_ms / 1000)
        score = self._script(utterance)
        if isinstance(score, EngineError):
            raise score
        return score if isinstance(score, Judgement) else Judgement(score)


def _by_last_word(table: Mapping[str, JudgeScore], text: str) -> JudgeScore:
    words = text.split()
    last = "".join(filter(str.isalnum, words[-1].lower())) if words else ""
    return table.get(last, table.get(""))


def _word_logprobs(text: str) -> tuple[TokenLogprob, ...]:
    words = text.split(" ")
    tokens = [word if index == 0 else f" {word}" for index, word in enumerate(words)] if text else []
    return tuple(TokenLogprob(token, SCRIPTED_LOGPROB, token.encode()) for token in tokens)


@dataclass(frozen=True, slots=True)
class Hang:
    """In a chat script: say nothing more, until the iterator is closed."""


ScriptedReply = str | list[ChatEvent | EngineError | Hang]
"""A reply's text, or its events; an EngineError in the list is raised at that point."""


def echo(request: ChatRequest) -> ScriptedReply:
    """Return a reply for someone who tries the gateway without a language model: it says what was heard."""
    heard = ""
    for message in request.messages:
        if message.get("role") == "user":
            content = message.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            heard = " ".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))
    if not heard:
        return "Hello. This is the scripted profile: no model is loaded, and I repeat what you say."
    return f"I heard: {heard.rstrip('.!?')}. This is the scripted profile, so I only repeat."


class ScriptedChat:
    """ChatModel that answers with `replies`: a function of the request, or replies in order, the last one repeated.

    Text is streamed word by word: the first token after `ttft_ms`, each later one after `token_ms`. Events of a list
    come at the same pace, as they are; a missing ChatEnd is added.
    """

    def __init__(
        self,
        replies: Callable[[ChatRequest], ScriptedReply] | Iterable[ScriptedReply] = echo,
        *,
        ttft_ms: float = 50.0,
        token_ms: float = 5.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._reply = replies if callable(replies) else None
        self._replies = [] if callable(replies) else list(replies)
        self._ttft_ms = ttft_ms
        self._token_ms = token_ms
        self._sleep = sleep
        self.requests: deque[ChatRequest] = deque(maxlen=KEPT_REQUESTS)
        self._turns = 0
        self.completed = 0
        self.closed_early = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the script's next reply."""
        turn = self._turns
        self._turns += 1
        self.requests.append(request)
        reply = self._reply(request) if self._reply else self._replies[min(turn, len(self._replies) - 1)]
        script = _words(reply) if isinstance(reply, str) else reply
        input_tokens = sum(len(str(message.get("content") or "").split()) for message in request.messages)
        whole = False
        try:
            for index, event in enumerate(script):
                await self._sleep((self._token_ms if index else self._ttft_ms) / 1000)
                if isinstance(event, EngineError):
                    raise event
                if isinstance(event, Hang):
                    await asyncio.Event().wait()
                    continue
                yield event
            if not script or not isinstance(script[-1], ChatEnd):
                calls = any(isinstance(event, ChatToolCall) for event in script)
                yield ChatEnd("tool_calls" if calls else "stop", input_tokens, 0, len(script))
            whole = True
            self.completed += 1
        finally:
            self.closed_early += not whole


def _words(text: str) -> list[ChatEvent | EngineError | Hang]:
    words = text.split(" ")
    return [ChatText(word if index == 0 else f" {word}") for index, word in enumerate(words) if word or index]


@dataclass(slots=True)
class SpokenText:
    """One call of a ScriptedSynthesizer: what it should say and how much of it was handed out."""

    text: str
    first: bool
    audio_ms: float
    yielded_ms: float = 0.0
    completed: bool = False
    language: str = ""


@dataclass(slots=True)
class ScriptedSynthesizer:
    """SpeechSynthesizer whose audio is a soft tone of `word_ms` for each word.

    The first piece (`piece_ms` of audio) comes `ttfb_ms` after the call, the rest at `realtime_factor` times real time.
    `timed`: it tells when words end.
    """

    word_ms: float = 300.0
    ttfb_ms: float = 30.0
    realtime_factor: float = 20.0
    piece_ms: float = 200.0
    timed: bool = True
    sleep: Sleep = asyncio.sleep
    calls: list[SpokenText] = field(default_factory=list)

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the tone for `text`."""
        words = list(re.finditer(r"\S+", text))
        audio_ms = len(words) * self.word_ms / speed
        call = SpokenText(text, first, audio_ms, language=language)
        self.calls.append(call)
        samples = int(audio_ms * AUDIO_RATE_HZ / 1000)
        times = deque(WordTime(word.end(), samples * (at + 1) // len(words)) for at, word in enumerate(words))
        piece = max(1, int(self.piece_ms * AUDIO_RATE_HZ / 1000))
        for start in range(0, samples, piece):
            end = min(start + piece, samples)
            piece_s = (end - start) / AUDIO_RATE_HZ
            await self.sleep(self.ttfb_ms / 1000 if start == 0 else piece_s / self.realtime_factor)
            call.yielded_ms = end * 1000 / AUDIO_RATE_HZ
            ended = []
            while times and times[0].audio_end_samples <= end:
                ended.append(times.popleft())
            yield SpeechPiece(soft_tone(start, end), tuple(ended) if self.timed else None)
        call.completed = True

    @property
    def cancelled(self) -> list[SpokenText]:
        """The calls whose audio was not taken to the end."""
        return [call for call in self.calls if not call.completed]


def soft_tone(start: int, end: int) -> bytes:
    """Return samples [start, end) at 24 kHz of an endless 220 Hz tone at −26 dBFS peak, as PCM16."""
    phase = 2 * np.pi * 220 / AUDIO_RATE_HZ * np.arange(start, end)
    samples: np.ndarray[tuple[int], np.dtype[np.int16]] = (np.sin(phase) * 0.05 * _FULL_SCALE).astype("<i2")
    return samples.tobytes()
