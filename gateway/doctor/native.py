"""The full-duplex model's examination: one spoken turn, as fast as it goes. Does it keep real time, does it answer?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gateway.audible_output import audible_spans
from gateway.doctor.ears import packaged_voice
from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from gateway.endpoints.health import memory
from models.duplex_interface import DuplexModel, DuplexPrompt
from models.engine_plan import NativePlan
from models.interfaces import EngineError
from protocol.audio_time import Samples, bytes_from_samples, ms_from_samples, samples_from_bytes, samples_from_s

ROLE = "native"

OPEN_S = 120.0
"""Longest wait for the prompt to be read (as in a session)."""

EXAMINED_S = 120.0
"""Longest time for the whole turn (chosen: such a model at a tenth of real time is judged by what it has done)."""

BEFORE: Samples = samples_from_s(0.48)
AFTER: Samples = samples_from_s(6.4)
"""Silence around the voice: models answer within 3.2 s or not at all (chosen)."""

INSTRUCTIONS = "You are a voice agent. Answer briefly, in plain words."

TIGHT_FACTOR = 0.9
"""From this share of real time on nothing is left for the gateway and other programs (chosen)."""


@dataclass(slots=True)
class Talked:
    """A turn with the model. `audible`: where its output is (samples), `steps_ms`: how long each frame took."""

    opened_ms: float = 0.0
    steps_ms: list[float] = field(default_factory=list)
    audible: list[Samples] = field(default_factory=list)
    characters: int = 0
    late: bool = False


async def examine_native(model: DuplexModel, plan: NativePlan) -> AsyncIterator[Finding]:
    """Yield how soon the model begins, whether it keeps real time, and whether it answers a spoken sentence."""
    before, voice = bytes(bytes_from_samples(BEFORE)), packaged_voice()
    voice_end = BEFORE + samples_from_bytes(len(voice))
    try:
        talked = await _talked(model, before + voice + bytes(bytes_from_samples(AFTER)))
    except EngineError as error:
        yield Diagnosis(f"it fails ({error.code})", error.message).of(ROLE, "speaks")
        return
    except TimeoutError:
        yield Diagnosis(
            f"its prompt is not read after {OPEN_S:g} s",
            "it is too large for this machine: set DUPLEX_MODEL to fewer bits.",
        ).of(ROLE, "speaks")
        return
    yield _pace(model, talked)
    yield _answer(model, plan, talked, voice_end)


async def _talked(model: DuplexModel, pcm: bytes) -> Talked:
    """Return a turn in which the model hears `pcm`. Raises EngineError, and TimeoutError while it reads its prompt."""
    talked = Talked()
    size = bytes_from_samples(model.frame_samples)
    began_s = time.perf_counter()
    async with asyncio.timeout(OPEN_S):
        stream = await model.open(DuplexPrompt(INSTRUCTIONS))
    talked.opened_ms = (time.perf_counter() - began_s) * 1000
    at: Samples = 0
    try:
        async with asyncio.timeout(EXAMINED_S):
            for place in range(0, len(pcm) - size + 1, size):
                began_s = time.perf_counter()
                step = await stream.step(pcm[place : place + size])
                talked.steps_ms.append((time.perf_counter() - began_s) * 1000)
                talked.audible += [at + start for start, _ in audible_spans(step.pcm)]
                talked.characters += len(step.text)
                at += model.frame_samples
    except TimeoutError:
        talked.late = True
        if not talked.steps_ms:
            raise EngineError("duplex_timeout", "The first frame took too long: take a smaller model.") from None
    finally:
        await stream.aclose()
    return talked


def _pace(model: DuplexModel, talked: Talked) -> Finding:
    frame_ms = ms_from_samples(model.frame_samples)
    steps = sorted(talked.steps_ms)
    factor = sum(steps) / (len(steps) * frame_ms)
    p50, p95 = (steps[round(share * (len(steps) - 1))] for share in (0.5, 0.95))
    resident = memory()["peak_mb"]
    detail = (
        f"{p50:.1f} ms (p95 {p95:.1f}) for each {frame_ms} ms of audio, {factor:.2f} of real time; "
        f"prompt read in {talked.opened_ms:.0f} ms, at most {resident:.0f} MB in this process"
    )
    figures = {
        "real_time_factor": factor,
        "step_p50_ms": p50,
        "step_p95_ms": p95,
        "frame_ms": float(frame_ms),
        "prompt_ms": talked.opened_ms,
        "peak_mb": resident,
    }
    if factor > 1:
        return Diagnosis(
            f"it is slower than real time: {detail}",
            "set DUPLEX_MODEL to fewer bits, or serve it from a faster machine; it answers late and misses words.",
            Verdict.WARN,
        ).of(ROLE, "keeps pace", **figures)
    if factor > TIGHT_FACTOR:
        return Diagnosis(
            f"it just keeps real time: {detail}",
            "close other programs, or set DUPLEX_MODEL to fewer bits.",
            Verdict.WARN,
        ).of(ROLE, "keeps pace", **figures)
    return sound(ROLE, "keeps pace", detail, **figures)


def _answer(model: DuplexModel, plan: NativePlan, talked: Talked, voice_end: Samples) -> Finding:
    answers = [at for at in talked.audible if at + model.frame_samples > voice_end]
    if plan.tiny:
        return sound(ROLE, "speaks", "random weights: what it says is not judged")
    if talked.late:
        return Diagnosis(
            f"{EXAMINED_S:g} s were not enough for a turn of {ms_from_samples(voice_end + AFTER) / 1000:.0f} s",
            "this machine is too slow for it: set DUPLEX_MODEL to fewer bits.",
        ).of(ROLE, "speaks")
    if not answers:
        return Diagnosis(
            "it says nothing audible after a spoken sentence",
            "try another DUPLEX_MODEL: these weights, or their quantisation, do not answer.",
            Verdict.WARN,
        ).of(ROLE, "speaks")
    # Its output is as old as its input when a frame has been heard: a frame later.
    answer_ms = max(0, ms_from_samples(answers[0] + model.frame_samples - voice_end))
    words = "" if talked.characters else ", without text"
    return sound(ROLE, "speaks", f"{answer_ms} ms of audio after a spoken sentence{words}", answer_ms=float(answer_ms))
