import asyncio
from collections import Counter

import pytest

from models.engines import verdict_check
from models.engines.verdict_check import AT_A_TIME, ITEMS, TO_PASS, Expected, right_answers
from models.engines.verdict_judge import VerdictJudge
from models.interfaces import EngineError
from tests.models.chat_server import Exchange, Respond, chat_server
from tests.models.eot_texts import TEXTS
from tests.models.judge_server import always, verdicts

RIGHT = {caller: expected.name for _, caller, expected in ITEMS}


def answer(asked: str) -> str:
    return RIGHT[asked.partition("Caller: ")[2]]


async def check(respond: Respond) -> int:
    async with chat_server(respond) as server:
        judge = VerdictJudge(server.base_url, "some")
        try:
            return await right_answers(judge)
        finally:
            await judge.aclose()


def test_there_are_twenty_items_and_nobody_passes_by_always_saying_the_same() -> None:
    kinds = Counter(expected for _, _, expected in ITEMS)
    assert len(ITEMS) == len(RIGHT) == 20
    assert set(kinds) == set(Expected)
    assert max(kinds.values()) < TO_PASS / 2


def test_no_item_is_among_the_texts_that_judges_are_measured_on() -> None:
    measured = "".join(file.read_text(encoding="utf-8") for file in TEXTS)
    assert not [caller for _, caller, _ in ITEMS if len(caller.split()) > 3 and f'"text": "{caller}"' in measured]


async def test_a_model_that_knows_passes_and_one_that_always_says_the_same_does_not() -> None:
    assert await check(verdicts(answer)) == 20
    assert await check(verdicts(lambda _: "COMPLETE")) == 8 < TO_PASS


async def test_an_answer_that_is_no_verdict_is_wrong_and_ends_nothing() -> None:
    wrong = list(RIGHT)[3]
    assert await check(verdicts(lambda asked: "Well," if asked.endswith(wrong) else answer(asked))) == 19


async def test_at_most_four_are_asked_at_a_time() -> None:
    now, most = 0, 0

    async def respond(exchange: Exchange) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        await verdicts(answer)(exchange)
        now -= 1

    assert await check(respond) == 20
    assert 1 < most <= AT_A_TIME


async def test_a_server_that_fails_fails_the_check_with_its_own_error() -> None:
    with pytest.raises(EngineError) as caught:
        await check(always(401, {}))
    assert caught.value.code == "llm_auth"


async def test_the_check_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_check, "DEADLINE_S", 0.05)

    async def never(_: Exchange) -> None:
        await asyncio.Event().wait()

    with pytest.raises(EngineError) as caught:
        await check(never)
    assert caught.value.code == "eot_timeout"
