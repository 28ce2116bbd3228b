import asyncio
import json
from typing import Any

import pytest

from models.engines.verdict_judge import SURE, VerdictJudge, read_verdict
from models.interfaces import EngineError, Judgement, Utterance
from tests.models.chat_server import Exchange, Respond, chat_server
from tests.models.judge_server import always, first_token, verdicts


async def judge(respond: Respond, text: str = "What time is it?", **options: Any) -> Judgement:
    async with chat_server(respond) as server:
        judge = VerdictJudge(server.base_url, "some", **options)
        try:
            return await judge.judge(Utterance(text=text))
        finally:
            await judge.aclose()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("COMPLETE", Judgement(SURE)),
        ("Complete.", Judgement(SURE)),
        (' "complete"', Judgement(SURE)),
        ("**COMPLETE**", Judgement(SURE)),
        ("INCOMPLETE\n", Judgement(1 - SURE)),
        ("incomplete, because", Judgement(1 - SURE)),
        ("WAIT", Judgement(1 - SURE, wait=True)),
        ("`Wait`", Judgement(1 - SURE, wait=True)),
    ],
)
async def test_a_bare_verdict_is_understood_however_it_is_dressed(answer: str, expected: Judgement) -> None:
    assert await judge(verdicts(lambda _: answer)) == expected


@pytest.mark.parametrize(
    "answer", ["", "I think it is COMPLETE", "COMPLETELY", "<think>", "完了", "WAITING", "NOT COMPLETE"]
)
async def test_anything_else_is_no_verdict(answer: str) -> None:
    with pytest.raises(EngineError) as caught:
        await judge(verdicts(lambda _: answer))
    assert caught.value.code == "eot_bad_verdict"


async def test_the_first_tokens_probabilities_grade_the_verdict() -> None:
    scores = []
    for share in (0.55, 0.8, 0.99):
        shares = {"COM": share, " INC": (1 - share) / 2, "WA": (1 - share) / 2}
        found = await judge(verdicts(lambda _: "COMPLETE", lambda _, shares=shares: first_token(shares)))
        assert found.complete is not None
        scores.append(found.complete)
    assert 0.5 < scores[0] < scores[1] < scores[2] < 1.0


async def test_a_token_that_begins_no_word_or_several_counts_for_none() -> None:
    shares = {"COMPLETE": 0.5, "": 0.2, "\n": 0.1, "X": 0.2}
    found = await judge(verdicts(lambda _: "COMPLETE", lambda _: first_token(shares)))
    assert found.complete is not None
    assert found.complete > 0.95


@pytest.mark.parametrize(
    "logprobs", [{}, {"content": None}, {"content": []}, {"content": [{}]}, {"content": [{"top_logprobs": [{}]}]}, 3,
                 first_token({"**": 0.9}), first_token({"INC": 0.9})]
)  # fmt: skip
async def test_probabilities_that_tell_nothing_leave_the_bare_verdict(logprobs: Any) -> None:
    assert await judge(verdicts(lambda _: "COMPLETE", lambda _: logprobs)) == Judgement(SURE)


async def test_the_model_sees_the_agents_words_and_the_users_without_the_recognisers_full_stop() -> None:
    async with chat_server(verdicts(lambda _: "WAIT")) as server:
        judge = VerdictJudge(server.base_url, "some", api_key="key")
        await judge.judge(Utterance(text="Two, please.", agent_text="How many?"))
        await judge.judge(Utterance(text="x" * 100_000, agent_text="y" * 100_000))
        assert await judge.judge(Utterance(text=" ")) == Judgement(None)
        await judge.aclose()
    first, second = server.exchanges
    assert first.body["messages"][1]["content"] == "Agent: How many?\nCaller: two please"
    assert first.headers["authorization"] == "Bearer key"
    assert first.body["temperature"] == 0
    assert len(second.body["messages"][1]["content"]) < 1_300


async def test_a_server_that_refuses_options_is_asked_without_them_from_then_on() -> None:
    async def respond(exchange: Exchange) -> None:
        if {"logprobs", "max_tokens"} & set(exchange.body):
            await exchange.refuse(400, json.dumps({"error": {"code": "unsupported_parameter"}}))
        else:
            await verdicts(lambda _: "COMPLETE")(exchange)

    async with chat_server(respond) as server:
        judge = VerdictJudge(server.base_url, "some")
        assert await judge.judge(Utterance(text="yes")) == Judgement(SURE)
        tried = len(server.exchanges)
        assert await judge.judge(Utterance(text="yes")) == Judgement(SURE)
        await judge.aclose()
    assert len(server.exchanges) == tried + 1
    assert server.exchanges[-1].body.keys() == {"model", "messages", "stream", "max_completion_tokens"}


async def test_a_server_that_refuses_everything_is_an_engine_error() -> None:
    with pytest.raises(EngineError) as caught:
        await judge(always(400, {"error": {"code": "bad"}}))
    assert caught.value.code == "llm_http_error"


@pytest.mark.parametrize("body", [{}, [], {"choices": [{}]}, {"choices": [{"message": {"content": 5}}]}, "no", None])
async def test_answers_of_another_shape_are_no_verdict(body: Any) -> None:
    with pytest.raises(EngineError) as caught:
        read_verdict(body, "somewhere")
    assert caught.value.code == "eot_bad_verdict"


@pytest.mark.parametrize("body", [b"\xff\xfe", b"{", b"[" * 100_000])
async def test_unreadable_answers_are_an_engine_error(body: bytes) -> None:
    with pytest.raises(EngineError) as caught:
        await judge(always(200, body))
    assert caught.value.code == "llm_bad_response"


async def test_a_slow_server_is_given_up() -> None:
    async def never(_: Exchange) -> None:
        await asyncio.Event().wait()

    with pytest.raises(EngineError) as caught:
        await judge(never, deadline_s=0.05)
    assert caught.value.code == "eot_timeout"
