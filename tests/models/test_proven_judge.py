import asyncio
import logging

import pytest

from models.engines.proven_judge import RETRY_AFTER_S, Proof, ProvenJudge, Unfit
from models.interfaces import EngineError, Judgement, Utterance

YES = Utterance(text="yes")


class Always:
    name = "verdict"
    listens = False
    closed = False

    async def judge(self, utterance: Utterance) -> Judgement:
        return Judgement(0.7)

    async def aclose(self) -> None:
        self.closed = True


class Prover:
    """Fails with each of `failures` in turn, then succeeds."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.tries = 0
        self.now_s = 0.0

    async def __call__(self) -> None:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)


def proven(prover: Prover) -> ProvenJudge:
    return ProvenJudge(Always(), prover, clock_s=lambda: prover.now_s)


async def test_a_proven_judge_judges_as_the_judge_does() -> None:
    judge = proven(Prover())
    assert await judge.attempt() is Proof.FIT
    assert (judge.name, judge.listens) == ("verdict", False)
    assert await judge.judge(YES) == Judgement(0.7)


@pytest.mark.parametrize(
    "failure", [Unfit("9 of 20 right"), EngineError("llm_auth", "key refused"), EngineError("llm_http_error", "404")]
)
async def test_an_unfit_one_is_off_for_good_and_one_line_says_why(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    prover = Prover(failure)
    judge = proven(prover)
    assert await judge.attempt() is Proof.UNFIT
    prover.now_s += 10 * RETRY_AFTER_S
    assert await judge.judge(YES) == Judgement(None)
    assert await judge.attempt() is Proof.UNFIT
    assert prover.tries == 1
    (record,) = caplog.records
    assert str(failure) in record.getMessage()


async def test_a_server_that_comes_up_later_is_asked_again_at_a_pause_but_not_at_every_one() -> None:
    prover = Prover(EngineError("llm_unreachable", "not there"), EngineError("eot_timeout", "too slow"))
    judge = proven(prover)
    assert await judge.attempt() is Proof.OPEN
    prover.now_s = RETRY_AFTER_S - 0.001
    assert await judge.judge(YES) == Judgement(None)
    assert prover.tries == 1
    prover.now_s = RETRY_AFTER_S
    assert await judge.judge(YES) == Judgement(None)  # the pause doesn't wait for the proof
    await judge.judge(YES)
    assert await judge.attempt() is Proof.OPEN
    assert prover.tries == 2
    prover.now_s = 2 * RETRY_AFTER_S
    await judge.judge(YES)
    assert await judge.attempt() is Proof.FIT
    assert await judge.judge(YES) == Judgement(0.7)
    assert prover.tries == 3


async def test_two_who_want_to_know_share_one_proof() -> None:
    prover = Prover()
    judge = proven(prover)
    assert await asyncio.gather(judge.attempt(), judge.attempt()) == [Proof.FIT, Proof.FIT]
    assert prover.tries == 1


async def test_closing_stops_a_proof_under_way_and_closes_the_judge() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    inner = Always()
    judge = ProvenJudge(inner, slow)
    await judge.judge(YES)
    await started.wait()
    await judge.aclose()
    assert stopped.is_set()
    assert inner.closed


async def test_a_bug_in_the_proof_turns_the_judge_off_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    prover = Prover(RuntimeError("a bug"))
    judge = proven(prover)
    assert await judge.attempt() is Proof.UNFIT
    assert await judge.judge(YES) == Judgement(None)
    assert prover.tries == 1
    assert caplog.text.count("RuntimeError: a bug") == 1
