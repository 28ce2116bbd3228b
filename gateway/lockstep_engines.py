"""Engines of a lockstep session: they compute for real, and answer in virtual time after a delay that is written down.

What a machine needs for an answer depends on what else it does; what turn-taking decides must not, if runs are to be
compared. So each answer is held until `asked + delay` on the loop's virtual clock. Since equal questions have equal
answers, they can be kept: six policies on the same audio then cost one.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gateway.virtual_loop import VirtualLoop
from models.interfaces import (
    EndOfTurnJudge,
    Engines,
    Judgement,
    SpeechProbabilityStream,
    SpeechRecognizer,
    TokenLogprob,
    Transcription,
    Utterance,
    VoiceActivityDetector,
)

T = TypeVar("T")

_TIE_BREAK_S = 1e-8
"""Answers due at the same moment come in the order of their questions, whichever was computed first."""

_DEFAULT_JUDGE_S = 0.09


@dataclass(frozen=True, slots=True)
class Delays:
    """How long each engine takes to answer, in seconds of virtual time.

    Measured medians of the embedded engines on two quiet cores, rounded up (2026-11-29): Moonshine 90 ms for a sentence
    of 3 s, Smart Turn 90 ms, SmolLM2's next-token score 40 ms. The VAD's 0.2 ms count as nothing.
    """

    transcript_s: float = 0.09
    judges_s: dict[str, float] = field(default_factory=lambda: {"audio": 0.09, "probability": 0.04, "lexical": 0.0})


class Answers:
    """Answers by question. `saved`: where they outlive the process, if the caller keeps such a mapping."""

    def __init__(self, saved: Any = None) -> None:
        self._answers: Any = {} if saved is None else saved

    async def of(self, question: bytes, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer to `question`, asking only once. Answers are what JSON can hold."""
        found = self._answers.get(question)
        if found is None:
            found = json.dumps(await ask())
            self._answers[question] = found
        return json.loads(found)


def in_lockstep(engines: Engines, answers: Answers, delays: Delays | None = None) -> Engines:
    """Return `engines` on virtual time: VAD, ASR and judges are the real ones, the chat model and the voice as given.

    Use on a VirtualLoop.
    """
    delays = delays or Delays()
    hold = _Hold()
    infos = {info.role: f"{info.name} {info.source}" for info in engines.infos}
    return replace(
        engines,
        vad=_Vad(engines.vad, answers, infos.get("vad", "")),
        asr=_Recogniser(engines.asr, answers, infos.get("asr", ""), hold, delays.transcript_s),
        judges=tuple(
            _Judge(judge, answers, hold, delays.judges_s.get(judge.name, _DEFAULT_JUDGE_S)) for judge in engines.judges
        ),
    )


class _Hold:
    """Computes at once and answers when it is due."""

    def __init__(self) -> None:
        self._order: Iterator[int] = itertools.count()

    async def until_due(self, delay_s: float, compute: Awaitable[T]) -> T:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + delay_s + next(self._order) % 1000 * _TIE_BREAK_S
        answer = await computed(compute)
        await asyncio.sleep(due_s - loop.time())
        return answer


async def computed(work: Awaitable[T]) -> T:
    """Return the result of `work`, during which virtual time stands still."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    with loop.working():
        return await work


def _question(*parts: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


class _Vad:
    def __init__(self, vad: VoiceActivityDetector, answers: Answers, name: str) -> None:
        self._vad, self._answers, self._name = vad, answers, name

    def open(self) -> SpeechProbabilityStream:
        return _VadStream(self._vad, self._answers, self._name)


class _VadStream:
    """A VAD stream that is opened only when it hears something new; then it first hears all that came before."""

    def __init__(self, vad: VoiceActivityDetector, answers: Answers, name: str) -> None:
        self._vad, self._answers = vad, answers
        self._heard = _question("vad", name)
        self._stream: SpeechProbabilityStream | None = None
        self._unheard = bytearray()

    async def feed(self, pcm: bytes) -> list[float]:
        self._heard = _question(self._heard, pcm)
        known = len(self._unheard)
        self._unheard += pcm
        probabilities: list[float] = await self._answers.of(self._heard, lambda: computed(self._catch_up(known)))
        return probabilities

    async def _catch_up(self, known_bytes: int) -> list[float]:
        if self._stream is None:
            self._stream = self._vad.open()
        before, new = bytes(self._unheard[:known_bytes]), bytes(self._unheard[known_bytes:])
        if before:
            await self._stream.feed(before)
        self._unheard.clear()
        return await self._stream.feed(new)


class _Recogniser:
    def __init__(self, asr: SpeechRecognizer, answers: Answers, name: str, hold: _Hold, delay_s: float) -> None:
        self._asr, self._answers, self._name, self._hold, self._delay_s = asr, answers, name, hold, delay_s

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        async def ask() -> Any:
            heard = await self._asr.transcribe(pcm, language=language, prompt=prompt, logprobs=logprobs)
            assert heard is not None  # asked as a final one
            tokens = heard.logprobs
            return heard.text, tokens and [(token.token, token.logprob, token.utf8.hex()) for token in tokens]

        question = _question("asr", self._name, language or "", prompt, str(logprobs), pcm)
        text, tokens = await self._hold.until_due(self._delay_s, self._answers.of(question, ask))
        known = tokens and tuple(TokenLogprob(token, logprob, bytes.fromhex(utf8)) for token, logprob, utf8 in tokens)
        return Transcription(text, known)


class _Judge:
    def __init__(self, judge: EndOfTurnJudge, answers: Answers, hold: _Hold, delay_s: float) -> None:
        self._judge, self._answers, self._hold, self._delay_s = judge, answers, hold, delay_s
        self.name, self.listens = judge.name, judge.listens

    async def judge(self, utterance: Utterance) -> Judgement:
        async def ask() -> Any:
            judgement = await self._judge.judge(utterance)
            return judgement.complete, judgement.wait

        said = (utterance.pcm, utterance.text, utterance.agent_text, utterance.language or "")
        question = _question("judge", self.name, *said)
        complete, wait = await self._hold.until_due(self._delay_s, self._answers.of(question, ask))
        return Judgement(complete, wait)
