import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.settings import END_OF_TURN_JUDGES
from models.engine_plan import EMBEDDED, ChatPlan, EnginePlan
from models.engines.openai_endpoint import server_name
from models.interfaces import EndOfTurnJudge, Engines, Utterance
from models.judge_loading import JUDGES, chosen_judges
from models.loading import load_engines
from models.weights import WeightsStore
from tests.models.chat_server import Exchange, Respond, chat_server
from tests.models.judge_server import llama_cpp, verdicts
from tests.models.test_verdict_check import answer

ASKING = ("probability", "verdict")


async def load(base_url: str, tmp_path: Path, judges: Sequence[str] = ASKING) -> Engines:
    return await load_engines(
        EnginePlan(chat=ChatPlan("endpoint", "m", base_url=base_url), judges=tuple(judges)),
        store=WeightsStore(tmp_path),
    )


def names(engines: Engines) -> list[str]:
    return [judge.name for judge in engines.judges]


def both(first: Respond, second: Respond) -> Respond:
    """Return a server with completions of `first` and chat completions of `second`."""

    async def respond(exchange: Exchange) -> None:
        await (second if exchange.path == "/v1/chat/completions" else first)(exchange)

    return respond


def test_auto_is_everything_for_real_engines_and_nothing_for_scripted_ones() -> None:
    assert chosen_judges(["auto"], real=True) == JUDGES
    assert chosen_judges(["auto"], real=False) == ()
    assert chosen_judges(["lexical", "audio"], real=False) == ("audio", "lexical")
    assert chosen_judges([], real=True) == ()


def test_a_judge_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="'oracle'"):
        chosen_judges(["lexical", "oracle"], real=True)


def test_the_settings_know_the_judges_that_there_are() -> None:
    assert END_OF_TURN_JUDGES == JUDGES


async def test_an_endpoint_that_shows_probabilities_gives_the_probability_judge(tmp_path: Path) -> None:
    async with chat_server(llama_cpp()) as server:
        engines = await load(server.base_url, tmp_path, ("probability",))
        assert names(engines) == ["probability"]
        info = engines.infos[-1]
        assert (info.role, info.name, info.source) == ("end_of_turn", "probability (m)", server_name(server.base_url))
        await engines.aclose()


async def test_what_health_tells_of_an_endpoint_holds_no_password(tmp_path: Path) -> None:
    async with chat_server(llama_cpp()) as server:
        engines = await load(server.base_url.replace("://", "://me:secret@"), tmp_path, ("probability",))
        assert names(engines) == ["probability"]
        assert "secret" not in repr(engines.infos)
        await engines.aclose()


async def test_a_chat_server_gives_the_verdict_judge_if_its_model_passes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "models")
    async with chat_server(verdicts(answer)) as server:
        engines = await load(server.base_url, tmp_path)
        assert names(engines) == ["verdict"]
        judgement = await engines.judges[0].judge(Utterance(text="give me a minute to ask my wife"))
        assert judgement.wait
        await engines.aclose()
    (record,) = caplog.records
    assert "'probability' is off" in record.getMessage()


async def test_a_model_that_fails_the_check_judges_nothing_and_one_line_says_its_score(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "models")
    async with chat_server(verdicts(lambda _: "INCOMPLETE")) as server:
        engines = await load(server.base_url, tmp_path, ("verdict",))
        asked = len(server.exchanges)
        assert engines.judges == ()
        await engines.aclose()
    assert asked == 20
    (record,) = caplog.records
    assert "8 of 20" in record.getMessage()


async def test_both_are_loaded_where_both_are_named(tmp_path: Path) -> None:
    async with chat_server(both(llama_cpp(), verdicts(answer))) as server:
        engines = await load(server.base_url, tmp_path)
        assert names(engines) == ["probability", "verdict"]
        await engines.aclose()


async def test_a_server_that_is_not_up_yet_keeps_nothing_from_starting(tmp_path: Path) -> None:
    engines = await load("http://127.0.0.1:9/v1", tmp_path)
    assert names(engines) == ["probability", "verdict"]
    assert all("not reached yet" in info.name for info in engines.infos[-2:])
    for judge in engines.judges:
        assert (await judge.judge(Utterance(text="yes"))).complete is None
    await engines.aclose()


async def test_a_chat_server_that_refuses_the_key_leaves_only_the_judges_that_need_none(tmp_path: Path) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.refuse(401, json.dumps({"error": {"code": "invalid_api_key"}}))

    async with chat_server(refuse) as server:
        engines = await load(server.base_url, tmp_path, ("probability", "verdict", "lexical"))
        assert names(engines) == ["lexical"]
        await engines.aclose()


@pytest.mark.models
async def test_the_embedded_profile_has_three_judges_of_its_own(store: WeightsStore) -> None:
    engines = await load_engines(EMBEDDED, store=store)
    try:
        assert names(engines) == ["audio", "probability", "lexical"]
        assert [info.role for info in engines.infos].count("end_of_turn") == 3
        by_name: dict[str, EndOfTurnJudge] = {judge.name: judge for judge in engines.judges}
        for name in ("probability", "lexical"):
            over = await by_name[name].judge(Utterance(text="What time is it?"))
            goes_on = await by_name[name].judge(Utterance(text="I would like to book a."))
            assert over.complete is not None
            assert goes_on.complete is not None
            assert goes_on.complete < 0.4 < 0.5 < over.complete
    finally:
        await engines.aclose()
