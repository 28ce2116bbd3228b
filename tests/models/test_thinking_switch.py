import json
import logging
from typing import Any

import pytest

from models.engines.openai_chat import OpenAIChat
from models.engines.request_options import TEMPLATE_SWITCH
from models.interfaces import ChatRequest, EngineError
from tests.models.chat_server import HELLO, Exchange, ask, chat_server, reply, text_of

TEMPLATE, EFFORT = "chat_template_kwargs", "reasoning_effort"


async def bodies_of(count: int, refuses: dict[str, str], **options: Any) -> list[dict[str, Any]]:
    """Ask `count` times a server that refuses fields: name → its words, a value after a = is refused only by itself."""
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        for field, words in refuses.items():
            name, _, value = field.partition("=")
            if name in exchange.body and (not value or exchange.body[name] == value):
                await exchange.refuse(400, json.dumps({"error": {"message": words}}))
                return
        await reply({"content": "ok"})(exchange)

    async with chat_server(respond) as server:
        chat = OpenAIChat(server.base_url, "m", **options)
        for _ in range(count):
            assert text_of([event async for event in chat.stream(HELLO)]) == "ok"
        await chat.aclose()
    return bodies


def switches(bodies: list[dict[str, Any]]) -> list[tuple[bool, str | None]]:
    return [(TEMPLATE in body, body.get(EFFORT)) for body in bodies]


@pytest.mark.parametrize(
    ("thinking", "sent"),
    [
        ("unchanged", (False, None)),
        ("chat_template_kwargs", (True, None)),
        ("reasoning_effort", (False, "none")),
        ("off", (True, "none")),
    ],
)
async def test_the_setting_names_the_field_that_turns_thinking_off(
    thinking: Any, sent: tuple[bool, str | None]
) -> None:
    (body,) = await bodies_of(1, {}, thinking=thinking)
    assert switches([body]) == [sent]
    if sent[0]:
        assert body[TEMPLATE] == TEMPLATE_SWITCH
        assert body[TEMPLATE]["enable_thinking"] is False


async def test_off_finds_out_which_field_a_server_takes_and_loses_no_turn() -> None:
    refusing_template = {TEMPLATE: f"Unrecognized request argument supplied: {TEMPLATE}"}
    bodies = await bodies_of(2, refusing_template, thinking="off")
    assert switches(bodies) == [(True, "none"), (False, "none"), (False, "none")]
    refusing_effort = {EFFORT: f"property '{EFFORT}' is unsupported"}
    bodies = await bodies_of(2, refusing_effort, thinking="off")
    assert switches(bodies) == [(True, "none"), (True, "minimal"), (True, "low"), (True, None), (True, None)]


async def test_the_least_effort_that_a_model_takes_is_remembered() -> None:
    words = "Unsupported value: 'reasoning_effort' does not support 'none' with this model."
    bodies = await bodies_of(3, {f"{EFFORT}=none": words}, thinking="reasoning_effort")
    assert [body[EFFORT] for body in bodies] == ["none", "minimal", "minimal", "minimal"]


async def test_a_server_that_refuses_everything_and_names_nothing_gets_a_plain_request() -> None:
    refusals = dict.fromkeys((TEMPLATE, EFFORT, "stream_options"), "bad request")
    bodies = await bodies_of(2, refusals, thinking="off")
    assert switches(bodies) == [(True, "none"), (False, None), (False, None)]
    assert ["stream_options" in body for body in bodies] == [True, False, False]


async def test_a_refusal_for_another_reason_is_told_and_teaches_nothing() -> None:
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        if len(bodies) <= 2:
            await exchange.refuse(400, '{"error": {"message": "messages must alternate"}}')
        else:
            await reply({"content": "ok"})(exchange)

    async with chat_server(respond) as server:
        chat = OpenAIChat(server.base_url, "m", thinking="off")
        with pytest.raises(EngineError, match="400"):
            await anext(chat.stream(HELLO))
        assert text_of([event async for event in chat.stream(HELLO)]) == "ok"
        await chat.aclose()
    assert switches(bodies) == [(True, "none"), (False, None), (True, "none")]


async def test_the_switch_wins_over_a_client_s_effort_and_the_extra_body_over_the_switch() -> None:
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        await reply({"content": "ok"})(exchange)

    asked = ChatRequest(HELLO.messages, reasoning_effort="high")
    await ask(respond, asked, thinking="chat_template_kwargs")
    await ask(respond, asked, thinking="off", extra_body={TEMPLATE: {"tone": "dry"}, EFFORT: "low", "top_k": 20})
    assert switches(bodies) == [(True, None), (True, "low")]
    assert bodies[1][TEMPLATE] == {**TEMPLATE_SWITCH, "tone": "dry"}
    assert bodies[1]["top_k"] == 20


async def test_a_model_that_thinks_all_the_same_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    for thoughts in ({"reasoning_content": "Hmm."}, {"reasoning": "Hmm."}, {"content": "<think>Hmm.</think>"}):
        caplog.clear()
        async with chat_server(reply(thoughts, {"content": "Yes."})) as server:
            chat = OpenAIChat(server.base_url, "m", thinking="off")
            with caplog.at_level(logging.WARNING):
                for _ in range(2):
                    assert text_of([event async for event in chat.stream(HELLO)]) == "Yes."
            await chat.aclose()
        assert [record.getMessage().count("although it is told not to") for record in caplog.records] == [1]
        assert "Hmm" not in caplog.text
