"""The engines as a recording knows them: asked again, they answer what they answered then, as fast as then.

Other settings ask other questions. A stretch of audio that nobody asked about has the words of the recognitions
inside it; a reply that was never written is that of the recorded one of the same number; speech that was never made
lasts as long as speech usually does. A judge that was never asked about a pause stays silent.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Any

from gateway.recording.recording import Step
from gateway.turns.actions import (
    Generate,
    JudgeSound,
    JudgeWords,
    Synthesize,
    Transcribe,
    TranscribeItem,
    TranscribePartial,
    TranscribePause,
)
from gateway.turns.inputs import (
    ContextProvided,
    FunctionCallDelta,
    GenerationAlive,
    GenerationEnded,
    GenerationFailed,
    Input,
    Judged,
    PartialTranscript,
    PauseTranscript,
    SynthesisEnded,
    SynthesizedSpeech,
    TextDelta,
    Transcript,
    TranscriptFailed,
)
from gateway.turns.response import DEFAULT_PACE, Output
from protocol.audio_time import Samples, bytes_from_samples, samples_from_ms
from protocol.backend_events import ContextForeseen, ContextRequested, EngineFault

Answers = list[tuple[Samples, Input]]
"""What an engine answers, each after a delay."""

_Written = TextDelta | FunctionCallDelta | GenerationAlive | GenerationEnded | GenerationFailed
_Reply = list[tuple[Samples, _Written]]
_Speech = list[tuple[Samples, SynthesizedSpeech | SynthesisEnded]]

NEAR: Samples = samples_from_ms(200)
"""Two stretches of audio whose ends differ by less hold the same words (chosen: less than a short word)."""

SAME_START: Samples = samples_from_ms(500)
"""The same for their beginnings, which lie in silence (the prefix padding, a VAD threshold) (chosen)."""

UNKNOWN_DELAY: Samples = samples_from_ms(100)
"""How long an engine takes that the recording says nothing about (chosen)."""

LISTENER = "audio"
"""The judge that listens; the others read (`models.interfaces`)."""


@dataclass(frozen=True, slots=True)
class _Recognition:
    """What a recogniser made of the input [start, end)."""

    start: Samples
    end: Samples
    delay: Samples
    answer: Transcript | TranscriptFailed | PauseTranscript | PartialTranscript

    @property
    def text(self) -> str:
        """Return the words, "" where there are none."""
        return (None if isinstance(self.answer, TranscriptFailed) else self.answer.text) or ""

    @property
    def fault(self) -> EngineFault | None:
        """Return why it failed, if it did."""
        return self.answer.fault if isinstance(self.answer, TranscriptFailed) else None


class RecordedEngines:
    """The answers of one recording. `speculation` tells the id of the answer that runs ahead in the replay, if any."""

    def __init__(self, steps: Sequence[Step], speculation: Callable[[], str | None]) -> None:
        self._speculation = speculation
        found = _Found()
        for step in steps:
            found.add(step)
        self._found = found
        delays = [recognition.delay for recognition in found.recognitions]
        self._recognition_delay = median_low(delays) if delays else UNKNOWN_DELAY
        self._pause_ends: dict[tuple[str, int], Samples] = {}
        self._replies = 0

    def answers(self, output: Output) -> Answers:
        """Return what follows from `output`; nothing for what asks no engine."""
        match output:
            case ContextForeseen(speculation_id=speculation_id):
                return [(0, ContextProvided(speculation_id))]
            case ContextRequested(response_id=response_id):
                return [(0, ContextProvided(response_id, foreseen=self._speculation() or ""))]
            case Transcribe(item_id=item_id, start=start, end=end):
                delay, text, fault = self._words(start, end)
                return [(delay, Transcript(item_id, text) if fault is None else TranscriptFailed(item_id, fault))]
            case TranscribeItem(item_id=item_id):
                return self._found.given.get(item_id, [(self._recognition_delay, Transcript(item_id, ""))])
            case TranscribePause(item_id=item_id, pause=pause, start=start, end=end):
                self._pause_ends[item_id, pause] = end
                delay, text, fault = self._words(start, end)
                return [(delay, PauseTranscript(item_id, pause, text if fault is None else None))]
            case TranscribePartial(item_id=item_id, end=end):
                look = min(self._found.looks, key=lambda known: abs(known.end - end), default=None)
                known = look is not None and abs(look.end - end) <= NEAR
                if look is None or not known:
                    return [(self._recognition_delay, PartialTranscript(item_id, None))]
                return [(look.delay, PartialTranscript(item_id, look.text))]
            case JudgeSound(item_id=item_id, pause=pause) | JudgeWords(item_id=item_id, pause=pause):
                return self._judgements(item_id, pause, listens=isinstance(output, JudgeSound))
            case Generate(response_id=response_id):
                return [(delay, replace(piece, response_id=response_id)) for delay, piece in self._next_reply()]
            case Synthesize(response_id=response_id, chunk=chunk, text=text):
                return [
                    (delay, replace(piece, response_id=response_id, chunk=chunk)) for delay, piece in self._speech(text)
                ]
            case _:
                return []

    def _words(self, start: Samples, end: Samples) -> tuple[Samples, str, EngineFault | None]:
        """Return how long the recogniser takes for [start, end), what it hears, and why it fails if it does."""
        known = self._found.recognitions
        same = [r for r in known if abs(r.end - end) <= NEAR and abs(r.start - start) <= SAME_START]
        if same:
            best = min(same, key=lambda r: abs(r.end - end) + abs(r.start - start))
            return best.delay, best.text, best.fault
        # The longest recognitions inside, one behind the other: turns that are one turn now.
        words: list[str] = []
        at = start - SAME_START
        while inside := [r for r in known if r.start >= at and r.end <= end + NEAR and r.text]:
            first = min(inside, key=lambda r: (r.start // NEAR, -r.end))
            words.append(first.text)
            at = max(first.start + 1, first.end - SAME_START)  # a short one is not inside again
        return self._recognition_delay, " ".join(words), None

    def _judgements(self, item_id: str, pause: int, *, listens: bool) -> Answers:
        end = self._pause_ends.get((item_id, pause))
        if end is None:
            return []
        return [
            (judged.delay, replace(judged.answer, item_id=item_id, pause=pause))
            for judged in self._found.judgements
            if judged.listens == listens and abs(judged.end - end) <= NEAR
        ]

    def _speech(self, text: str) -> _Speech:
        known = self._found.speech[text]
        return known.popleft() if known else _usual_speech(text)

    def _next_reply(self) -> _Reply:
        replies = self._found.replies
        if not replies:
            return []
        reply = replies[min(self._replies, len(replies) - 1)]
        self._replies += 1
        return reply


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What a judge said about the pause before which the input up to `end` was recognised."""

    end: Samples
    delay: Samples
    listens: bool
    answer: Judged


class _Found:
    """What a recording tells of its engines, collected step by step."""

    def __init__(self) -> None:
        self.recognitions: list[_Recognition] = []
        self.looks: list[_Recognition] = []
        self.given: dict[str, Answers] = {}
        self.judgements: list[_Judgement] = []
        self.replies: list[_Reply] = []
        self.speech: defaultdict[str, deque[_Speech]] = defaultdict(deque)
        self._asked: dict[tuple[Any, ...], tuple[Samples, Samples, Samples]] = {}
        self._listeners: dict[tuple[str, int], Samples] = {}
        self._readers: dict[tuple[str, int], Samples] = {}
        self._writing: dict[str, tuple[Samples, _Reply]] = {}
        self._speaking: dict[tuple[str, int], tuple[Samples, _Speech]] = {}

    def add(self, step: Step) -> None:
        """Add what the machine was told, then what it asked."""
        self._answered(step.message, step.at)
        for output in step.outputs:
            self._ask(output, step.at)

    def _ask(self, output: Mapping[str, Any], at: Samples) -> None:
        match output["type"]:
            case "Transcribe" | "TranscribePartial":
                self._asked[output["type"], output["item_id"]] = at, output["start"], output["end"]
            case "TranscribeItem":
                self._asked["TranscribeItem", output["item_id"]] = at, 0, 0
            case "TranscribePause":
                self._asked["pause", output["item_id"], output["pause"]] = at, output["start"], output["end"]
            case "JudgeSound":
                self._listeners[output["item_id"], output["pause"]] = at
            case "JudgeWords":
                self._readers[output["item_id"], output["pause"]] = at
            case "Generate":
                self._writing[output["response_id"]] = at, []
                self.replies.append(self._writing[output["response_id"]][1])
            case "Synthesize":
                self._speaking[output["response_id"], output["chunk"]] = at, []
                self.speech[output["text"]].append(self._speaking[output["response_id"], output["chunk"]][1])
            case _:
                pass

    def _answered(self, message: Input, at: Samples) -> None:
        match message:
            case Transcript(item_id=item_id) | TranscriptFailed(item_id=item_id):
                if (asked := self._asked.get(("TranscribeItem", item_id))) is not None:
                    self.given[item_id] = [(at - asked[0], message)]
                elif (asked := self._asked.get(("Transcribe", item_id))) is not None:
                    self.recognitions.append(_Recognition(asked[1], asked[2], at - asked[0], message))
            case PartialTranscript(item_id=item_id):
                if message.text is not None and (asked := self._asked.get(("TranscribePartial", item_id))) is not None:
                    self.looks.append(_Recognition(asked[1], asked[2], at - asked[0], message))
            case PauseTranscript(item_id=item_id, pause=pause):
                if message.text is not None and (asked := self._asked.get(("pause", item_id, pause))) is not None:
                    self.recognitions.append(_Recognition(asked[1], asked[2], at - asked[0], message))
            case Judged(item_id=item_id, pause=pause):
                self._judged(message, at, self._asked.get(("pause", item_id, pause)))
            case TextDelta() | FunctionCallDelta() | GenerationAlive() | GenerationEnded() | GenerationFailed():
                if (writing := self._writing.get(message.response_id)) is not None:
                    writing[1].append((at - writing[0], message))
            case SynthesizedSpeech(chunk=chunk) | SynthesisEnded(chunk=chunk):
                if (speaking := self._speaking.get((message.response_id, chunk))) is not None:
                    speaking[1].append((at - speaking[0], message))
            case _:
                pass

    def _judged(self, judged: Judged, at: Samples, asked: tuple[Samples, Samples, Samples] | None) -> None:
        if asked is None:
            return
        key = judged.item_id, judged.pause
        began = self._listeners.get(key)
        listens = judged.judge == LISTENER and began is not None
        began = began if listens else self._readers.get(key)
        if began is not None:
            self.judgements.append(_Judgement(asked[2], at - began, listens, judged))


def _usual_speech(text: str) -> _Speech:
    pcm = bytes(bytes_from_samples(DEFAULT_PACE * len(text)))
    return [(UNKNOWN_DELAY, SynthesizedSpeech("", 0, pcm)), (UNKNOWN_DELAY, SynthesisEnded("", 0))]
