import asyncio
import json
from typing import Any

import pytest

from models.engines.probability_examples import ENGLISH
from models.engines.probability_judge import USER_WORDS, ProbabilityJudge, probability_from, prompt_for
from models.engines.token_scores import MOST_CANDIDATES, TokenScores, read_candidates
from models.interfaces import EngineError, Judgement, Utterance
from tests.models.chat_server import Exchange, Respond, chat_server
from tests.models.judge_server import NEXT, always, as_llama_cpp, as_vllm, llama_cpp


async def judge(respond: Respond, text: str = "What time is it?", **options: Any) -> Judgement:
    async with chat_server(respond) as server:
        judge = ProbabilityJudge(TokenScores(server.base_url, "some"), **options)
        try:
            return await judge.judge(Utterance(text=text))
        finally:
            await judge.aclose()


def test_the_prompt_is_the_examples_and_the_words_without_what_the_recogniser_added() -> None:
    assert (
        prompt_for(["what", "time", "is", "it"], [])
        == ENGLISH.text + "agent: how can i help you? caller: what time is it"
    )
    assert prompt_for(["two"], ["how", "many"]).endswith("\nagent: how many? caller: two")


def test_the_examples_show_both_kinds_equally_often() -> None:
    first, *lines = ENGLISH.text.splitlines()
    assert "full stop" in first
    ended = [line.endswith(".") and not line.endswith("...") for line in lines]
    assert ended.count(True) == ended.count(False)


def test_ends_speak_for_an_end_and_dots_against_it() -> None:
    plain = probability_from({".": 0.3, " and": 0.3})
    surer = probability_from({".": 0.6, " and": 0.3})
    dotted = probability_from({".": 0.3, "...": 0.3})
    assert plain is not None
    assert surer is not None
    assert dotted is not None
    assert dotted < plain < surer


@pytest.mark.parametrize("end", [".", "?", "!", " .", "?\n", "\n", "\n\n", ".\n", "<|im_end|>", "</s>", ""])
def test_marks_lines_and_messages_end_an_utterance_in_any_tokeniser(end: str) -> None:
    assert probability_from({end: 0.5, " and": 0.1}) == probability_from({".": 0.5, " and": 0.1})


def test_words_alone_are_no_end_and_nothing_is_no_opinion() -> None:
    found = probability_from({" and": 0.5, " trip": 0.4})
    assert found is not None
    assert found < 0.1
    assert probability_from({}) is None


async def test_llama_cpp_and_vllm_are_both_understood() -> None:
    expected = Judgement(probability_from(NEXT))
    assert await judge(llama_cpp()) == expected
    assert await judge(always(200, as_vllm(NEXT))) == expected


async def test_the_judge_keeps_to_the_last_slot_so_that_conversations_keep_theirs() -> None:
    async with chat_server(llama_cpp(slots=4)) as server:
        judge = ProbabilityJudge(TokenScores(server.base_url, "some", api_key="secret"))
        await judge.warm_up()
        await judge.judge(Utterance(text="yes"))
        await judge.aclose()
    properties, _, completion = server.exchanges
    assert properties.headers["authorization"] == completion.headers["authorization"] == "Bearer secret"
    assert completion.body["id_slot"] == 3
    assert completion.body["cache_prompt"] is True
    assert completion.body["max_tokens"] == 1


async def test_the_agents_line_is_read_ahead_and_the_judgement_only_adds_the_users_words() -> None:
    agent_text = "That makes ten dollars. Would you like to pay now?"
    async with chat_server(llama_cpp()) as server:
        judge = ProbabilityJudge(TokenScores(server.base_url, "some"))
        await judge.prepare(agent_text)
        await judge.judge(Utterance(text="Yes, please.", agent_text=agent_text))
        await judge.aclose()
    ahead, asked = (exchange.body["prompt"] for exchange in server.exchanges)
    assert ahead.endswith("would you like to pay now? caller: ")
    assert asked == ahead + "yes please"


def test_of_a_long_utterance_the_last_words_are_shown() -> None:
    words = [f"w{number}" for number in range(40)]
    assert prompt_for(words, []).endswith(f"caller: {' '.join(words[-USER_WORDS:])}")


async def test_a_single_slot_is_shared_and_another_server_gets_no_field_of_llama_cpps() -> None:
    for respond, slots in ((llama_cpp(slots=1), 1), (always(404, {}), None), (always(200, b"\xff\xfe"), None)):
        async with chat_server(respond) as server:
            scores = TokenScores(server.base_url, "some")
            assert await scores.take_last_slot() == slots
            await asyncio.gather(scores.next_token("x"), return_exceptions=True)
            await scores.aclose()
            assert "id_slot" not in server.exchanges[-1].body


async def test_words_of_a_script_that_the_model_spells_in_bytes_are_no_opinion() -> None:
    half_a_character = {"choices": [{"text": "\ufffd", "index": 0, "logprobs": None}]}
    assert await judge(always(200, half_a_character), "我的号码是") == Judgement(None)


async def test_no_words_ask_nobody() -> None:
    async with chat_server(llama_cpp()) as server:
        judge = ProbabilityJudge(TokenScores(server.base_url, "some"))
        assert await judge.judge(Utterance(text=" … ")) == Judgement(None)
        await judge.aclose()
    assert server.exchanges == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        "text",
        {"choices": []},
        {"choices": [{"text": "x", "logprobs": None}]},
        {"choices": [{"text": "x", "logprobs": {"content": "no"}}]},
        {"choices": [{"text": "x", "logprobs": {"content": [{"top_logprobs": [{"token": "."}]}]}}]},
        {"choices": [{"text": "x", "logprobs": {"top_logprobs": [{".": "high"}]}}]},
        {"choices": [{"text": "x", "logprobs": {"top_logprobs": None}}]},
        {
            "choices": [
                {"text": "x", "logprobs": {"top_logprobs": [{str(n): -9.0 for n in range(MOST_CANDIDATES + 1)}]}}
            ]
        },
        b"\xff\xfe\x00",
        b"{",
        b"[" * 100_000,
        b'{"choices": "' + b"x" * 3_000_000 + b'"}',
    ],
)
async def test_garbage_is_an_engine_error(body: Any) -> None:
    with pytest.raises(EngineError) as caught:
        await judge(always(200, body))
    assert caught.value.code == "llm_bad_response"


async def test_odd_numbers_stay_probabilities() -> None:
    odd = '{".": NaN, "?": 800.0, "...": -1e400, "!": 1e400}'
    found = read_candidates(json.loads('{"choices": [{"text": "", "logprobs": {"top_logprobs": [' + odd + "]}}]}"))
    assert found == {".": 0.0, "?": 1.0, "...": pytest.approx(0.0), "!": 1.0}
    assert 0.0 <= (probability_from(found) or -1.0) <= 1.0


@pytest.mark.parametrize(("status", "code"), [(401, "llm_auth"), (404, "llm_http_error"), (500, "llm_http_error")])
async def test_refusals_have_their_codes(status: int, code: str) -> None:
    with pytest.raises(EngineError) as caught:
        await judge(always(status, {"error": {"message": "secret words"}}))
    assert caught.value.code == code
    assert "secret words" not in caught.value.message


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    judge = ProbabilityJudge(TokenScores("http://127.0.0.1:9/v1", "some"))
    with pytest.raises(EngineError) as caught:
        await judge.judge(Utterance(text="yes"))
    await judge.aclose()
    assert caught.value.code == "llm_unreachable"


async def test_a_slow_server_is_given_up_and_its_connection_closed() -> None:
    asked: list[Exchange] = []

    async def never(exchange: Exchange) -> None:
        asked.append(exchange)
        await asyncio.Event().wait()

    with pytest.raises(EngineError) as caught:
        await judge(never, deadline_s=0.05)
    assert caught.value.code == "eot_timeout"
    assert asked[0].client_gone.is_set()


async def test_a_cancelled_judgement_hangs_up() -> None:
    asked, hung_up = asyncio.Event(), asyncio.Event()

    async def never(exchange: Exchange) -> None:
        asked.set()
        await exchange.client_gone.wait()
        hung_up.set()

    async with chat_server(never) as server:
        judge = ProbabilityJudge(TokenScores(server.base_url, "some"))
        task = asyncio.create_task(judge.judge(Utterance(text="yes")))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await judge.aclose()
    assert server.exchanges[0].client_gone.is_set()


def test_a_helper_of_these_tests_writes_what_llama_cpp_writes() -> None:
    assert read_candidates(as_llama_cpp(NEXT)) == pytest.approx(NEXT)
