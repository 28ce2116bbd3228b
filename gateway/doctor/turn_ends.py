"""The end-of-turn judges' examination: which are on, why others are not, and how long they think."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from gateway.backends.cascade import JUDGE_DEADLINE_S
from gateway.doctor.ears import packaged_voice
from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from models.interfaces import EndOfTurnJudge, EngineError, Utterance

ROLE, CHECK = "end_of_turn", "judges"

_QUESTION = "Hello. What can I do for you?"
_COMPLETE = "i would like to know when you open tomorrow"
_INCOMPLETE = "i would like to know when the"
_PROOF_LOGGER = "models.engines.proven_judge"


@contextmanager
def reasons_told() -> Iterator[dict[str, str]]:
    """Collect why judges are off, by name: loading tells it to the log only."""
    reasons: dict[str, str] = {}

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.args, tuple) and len(record.args) == 2:
                reasons[str(record.args[0])] = str(record.args[1])

    handler, logger = Collect(), logging.getLogger(_PROOF_LOGGER)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield reasons
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


async def examine_judges(
    judges: Sequence[EndOfTurnJudge], wanted: Sequence[str], reasons: dict[str, str]
) -> AsyncIterator[Finding]:
    """Yield what the judges are worth; `wanted` are their names in the plan, () for none."""
    if not wanted:
        yield sound(ROLE, CHECK, "none: switched off, or the ears are scripted; silence alone ends turns")
        return
    told, slow, figures = [], [], {}
    for judge in judges:
        took_ms, right = await _tried(judge)
        if not right and judge.name in reasons:
            continue  # not proven yet: it has no opinion until its server shows what it can do
        figures[f"{judge.name}_ms"] = took_ms
        if took_ms >= JUDGE_DEADLINE_S * 1000:
            slow.append(judge.name)
        told.append(f"{judge.name} {took_ms:.0f} ms" + ("" if right else " (doubtful)"))
    off = "; ".join(f"without {name}: {reasons[name].rstrip('.')}" for name in wanted if name in reasons)
    detail = ", ".join(told) + (f"; {off}" if off else "")
    if slow:
        yield Diagnosis(
            f"{detail}: {slow[0]} answers too late to count",
            f"leave it out: DUPLEX_GATEWAY_END_OF_TURN={','.join(n for n in wanted if n not in slow) or 'off'}.",
            Verdict.WARN,
        ).of(ROLE, CHECK, **figures)
        return
    reading = {"probability", "verdict"} & set(wanted)
    if set(figures) <= {"lexical_ms"} or (reading and not any(f"{name}_ms" in figures for name in reading)):
        yield Diagnosis(
            detail if told else f"no judge is on{detail}",
            "let the language model's server show log probabilities (llama.cpp, vLLM), and answer within a second.",
            Verdict.WARN,
        ).of(ROLE, CHECK, **figures)
        return
    yield sound(ROLE, CHECK, detail, **figures)


async def _tried(judge: EndOfTurnJudge) -> tuple[float, bool]:
    """Return the longest judgement in ms and whether what is complete seemed so rather than what is not."""
    voice = packaged_voice()
    complete, incomplete = (
        Utterance(
            pcm=pcm if judge.listens else b"",
            text="" if judge.listens else text,
            agent_text=_QUESTION,
            language="en",
        )
        for pcm, text in ((voice, _COMPLETE), (voice[: len(voice) // 4 * 2], _INCOMPLETE))
    )
    longest_ms, scores = 0.0, []
    for utterance in (complete, incomplete):
        began_s = time.perf_counter()
        try:
            async with asyncio.timeout(JUDGE_DEADLINE_S):
                scores.append((await judge.judge(utterance)).complete)
        except (EngineError, TimeoutError):
            scores.append(None)
        longest_ms = max(longest_ms, (time.perf_counter() - began_s) * 1000)
    sure, unsure = scores
    return longest_ms, sure is not None and unsure is not None and (judge.listens or sure > unsure)
