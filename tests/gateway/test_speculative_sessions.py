"""Whole sessions whose language model begins before the commit, and users who resume after it, on fed time."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.mcp.allowed_hosts import AllowedHosts
from models.engines.scripted import Hang, ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer
from models.interfaces import ChatEnd, ChatRequest, ChatText, ChatToolCall, EngineError
from protocol.commands import ProvideContext, ResponseContext
from protocol.wire import Dialect
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.scripted_cascade import RunningSession, kinds, open_session, quiet, scripted_engines, voice
from tests.gateway.test_fuzzed_sessions import NO_CHECKS, RUNS, RandomClient
from tests.protocol.fuzz.choices import Choices

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
COMMIT_MS = 540
"""Silence after which a turn of these tests is committed: 500 ms, and the frames that are on their way."""


def hear(pcm: bytes) -> str:
    """Return how many tenths of a second of sound there are."""
    tenths = round(np.count_nonzero(np.frombuffer(pcm, "<i2")) / 2_400)
    return f"I said {NUMBERS[min(tenths, 12)]}."


def engines_of(time: FedTime, chat: ScriptedChat, *, asr_ms: float = 50, first_audio_ms: float = 30) -> Any:
    asr = ScriptedRecognizer(hear, delay_ms=asr_ms, sleep=time.sleep)
    return scripted_engines(time, asr=asr, chat=chat, tts=ScriptedSynthesizer(ttfb_ms=first_audio_ms, sleep=time.sleep))


def user_words(request: ChatRequest) -> list[str]:
    return [str(message["content"]) for message in request.messages if message["role"] == "user"]


def agent_words(request: ChatRequest) -> list[str]:
    return [str(message["content"]) for message in request.messages if message["role"] == "assistant"]


def repeat(request: ChatRequest) -> str:
    return f"You said: {user_words(request)[-1]}"


def said(payloads: list[dict[str, Any]]) -> list[str]:
    """Return the transcripts of what the agent said, response by response."""
    deltas: dict[str, str] = {}
    for payload in payloads:
        if payload["type"] == "response.output_audio_transcript.delta":
            deltas[payload["response_id"]] = deltas.get(payload["response_id"], "") + payload["delta"]
    return list(deltas.values())


def items(payloads: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (role, id) of the items added, in order."""
    added = [payload["item"] for payload in payloads if payload["type"] == "conversation.item.added"]
    return [(item["role"], item["id"]) for item in added]


def ends(payloads: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    done = [payload["response"] for payload in payloads if payload["type"] == "response.done"]
    return [(each["status"], (each["status_details"] or {}).get("reason")) for each in done]


# --- before the commit -----------------------------------------------------------------------------------------------


async def test_the_model_is_asked_before_the_commit_and_the_client_is_told_nothing_of_it(time: FedTime) -> None:
    chat = ScriptedChat(repeat, ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await running.play(voice(800), quiet(460))
        assert len(chat.requests) == 1
        assert kinds(await running.read()) == ["session.created", "input_audio_buffer.speech_started"]
        await running.play(quiet(100))
        await time.advance(3_000)
        payloads = await running.read()
    assert kinds(payloads)[:2] == ["input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    assert said(payloads) == ["You said: I said eight."]
    assert len(chat.requests) == 1, "it was asked once"
    assert "spec_" not in json.dumps(running.sent)
    assert running.backend._contexts == {}


async def test_usage_and_calls_of_an_adopted_answer_are_the_responses(time: FedTime) -> None:
    script = [ChatToolCall(0, "call_1", "look_up", '{"a": 1}'), ChatEnd("tool_calls", 40, 0, 4)]
    chat = ScriptedChat([list(script)], ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await running.play(voice(800), quiet(460))
        assert not any("function_call" in kind for kind in kinds(await running.read()))
        await running.play(quiet(400))
        payloads = await running.read()
    (done,) = [payload["response"] for payload in payloads if payload["type"] == "response.done"]
    assert [(item["type"], item["arguments"]) for item in done["output"]] == [("function_call", '{"a": 1}')]
    assert done["usage"]["output_tokens"] == 4


async def test_an_item_that_the_client_adds_in_the_pause_makes_the_model_answer_afresh(time: FedTime) -> None:
    chat = ScriptedChat(repeat, ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await running.play(voice(800), quiet(460))
        await running.user_types("Mind the gap.")
        await running.play(quiet(100))
        await time.advance(3_000)
        payloads = await running.read()
    assert said(payloads) == ["You said: Mind the gap.\nI said eight."]
    assert len(chat.requests) == 2


async def test_new_instructions_in_the_pause_make_the_model_answer_afresh(time: FedTime) -> None:
    chat = ScriptedChat(lambda request: str(request.messages[0]["content"]), ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await running.play(voice(800), quiet(460))
        await running.send("session.update", session={"type": "realtime", "instructions": "Be kind."})
        await running.play(quiet(100))
        await time.advance(3_000)
        payloads = await running.read()
    assert said(payloads) == ["Be kind."]
    assert len(chat.requests) == 2


async def test_a_user_who_goes_on_stops_the_model_and_gets_one_answer_to_all(time: FedTime) -> None:
    chat = ScriptedChat(lambda _: [ChatText("Stale. "), Hang()], ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await running.play(voice(600), quiet(460))
        assert len(chat.requests) == 1
        chat._reply = repeat
        await running.play(voice(400), quiet(700))
        await time.advance(3_000)
        payloads = await running.read()
        assert running.backend._contexts == {}
    assert chat.closed_early == 1
    assert said(payloads) == ["You said: I said ten."]
    assert len(items(payloads)) == 2


async def test_a_model_that_fails_ahead_of_the_turn_is_asked_again(time: FedTime) -> None:
    replies: list[Any] = [[EngineError("llm_failed", "It broke.")], "Fine."]
    chat = ScriptedChat(replies, ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await running.play(voice(800), quiet(700))
        await time.advance(3_000)
        payloads = await running.read()
    assert ends(payloads) == [("completed", None)]
    assert said(payloads) == ["Fine."]


async def test_a_session_may_do_without(time: FedTime) -> None:
    chat = ScriptedChat(repeat, ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await running.send("session.update", session={"type": "realtime", "gateway": {"speculation": False}})
        await running.play(voice(800), quiet(460))
        assert len(chat.requests) == 0
        await running.play(quiet(400))
        assert len(chat.requests) == 1


async def first_audio_ms(time: FedTime, *, speculation: bool) -> list[float]:
    """Return how long after the last sound of each of nine turns its first audio was sent."""
    chat = ScriptedChat(repeat, ttft_ms=200, sleep=time.sleep)
    delays = []
    async with open_session(time, engines_of(time, chat, asr_ms=90)) as running:
        running.law = lambda _: []  # OpenAI's law doesn't know the extension that the client asks for next
        await running.send("session.update", session={"type": "realtime", "gateway": {"speculation": speculation}})
        for turn in range(9):
            await running.play(voice(500 + 70 * turn))
            await running.read()
            silent_from = time.samples
            while "response.output_audio.delta" not in kinds(await running.read()):
                await running.play(quiet(20))
            delays.append((time.samples - silent_from) / 24)
            await running.play(quiet(4_000))
    return sorted(delays)


async def test_first_audio_is_sent_a_hundred_milliseconds_earlier_at_least(time: FedTime) -> None:
    eager = await first_audio_ms(time, speculation=True)
    waiting = await first_audio_ms(time, speculation=False)
    assert len(eager) == len(waiting) == 9
    assert waiting[4] - eager[4] >= 100


# --- the user who resumes after the commit (T14, T15) ---------------------------------------------------------------


async def converse(running: RunningSession, *sounds: bytes) -> None:
    """Speak and be silent as a client does that reads what it is sent meanwhile."""
    pcm = b"".join(sounds)
    for begin in range(0, len(pcm), 960):
        await running.play(pcm[begin : begin + 960])
        await running.read()


def after_the_turn(payloads: list[dict[str, Any]]) -> list[str]:
    """Return the kinds of the second speech_started and what follows, up to the end of the first response."""
    found = kinds(payloads)
    begin = found.index("input_audio_buffer.speech_started", found.index("input_audio_buffer.committed"))
    return found[begin : found.index("response.done") + 1]


@pytest.mark.parametrize("gap_ms", [150, 220, 300, 400])
@pytest.mark.parametrize("ttft_ms", [20, 2_000])
async def test_t14_who_resumes_before_the_first_audio_gets_one_answer_to_both(
    time: FedTime, gap_ms: int, ttft_ms: int
) -> None:
    """With the short one the answer has been adopted and is being told as text when the user resumes."""
    chat = ScriptedChat(repeat, ttft_ms=ttft_ms, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat, first_audio_ms=900)) as running:
        await converse(running, voice(500), quiet(COMMIT_MS + gap_ms), voice(700), quiet(2_600))
        await time.advance(6_000)
        await running.read()
        payloads = running.sent
    assert after_the_turn(payloads)[0] == "input_audio_buffer.speech_started"
    assert set(after_the_turn(payloads)[1:]) <= {
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    }
    assert ends(payloads) == [("cancelled", "turn_detected"), ("completed", None)]
    answered = chat.requests[-1]
    assert user_words(answered) == ["I said five.\nI said seven."]
    assert agent_words(answered) == []
    assert said(payloads)[-1] == "You said: I said five.\nI said seven."
    assert [role for role, _ in items(payloads)] == ["user", *["assistant"] * (ttft_ms < 100), "user", "assistant"]
    first, second = (started["item_id"] for started in payloads if started["type"].endswith("speech_started"))
    assert first != second
    transcripts = {p["item_id"]: p["transcript"] for p in payloads if p["type"].endswith("transcription.completed")}
    assert set(transcripts) <= {first, second}


async def test_t15_who_resumes_just_after_the_first_audio_gets_one_answer_to_both(time: FedTime) -> None:
    chat = ScriptedChat(lambda request: repeat(request) + " Do you want to hear more of it?", ttft_ms=20)
    chat._sleep = time.sleep
    async with open_session(time, engines_of(time, chat)) as running:
        await converse(running, voice(500), quiet(COMMIT_MS))
        while "response.output_audio.delta" not in kinds(running.sent):
            await converse(running, quiet(20))
        await converse(running, voice(700), quiet(700))
        await time.advance(3_000)
        await running.read()
        payloads = running.sent
    assert ends(payloads) == [("cancelled", "turn_detected"), ("completed", None)]
    assert user_words(chat.requests[-1]) == ["I said five.\nI said seven."]
    assert agent_words(chat.requests[-1]) == [], "nothing of it was heard"
    assert [role for role, _ in items(payloads)] == ["user", "assistant", "user", "assistant"]


async def test_who_resumes_when_some_words_were_heard_is_answered_with_them_in_mind(time: FedTime) -> None:
    chat = ScriptedChat(lambda _: "One two three four five six seven eight nine ten.", ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat)) as running:
        await converse(running, voice(500), quiet(COMMIT_MS + 1_200), voice(700), quiet(700))
        await time.advance(3_000)
        await running.read()
        payloads = running.sent
    (heard,) = agent_words(chat.requests[-1])
    assert heard.endswith(" —")
    assert 1 <= len(heard.split()) - 1 <= 4, "three words of 300 ms were played, or nearly four"
    assert user_words(chat.requests[-1]) == ["I said five.", "I said seven."]
    assert len(items(payloads)) == 4


async def test_who_resumes_twice_is_answered_once_and_to_all(time: FedTime) -> None:
    chat = ScriptedChat(repeat, ttft_ms=20, sleep=time.sleep)
    async with open_session(time, engines_of(time, chat, first_audio_ms=900)) as running:
        pause = quiet(COMMIT_MS + 200)
        await converse(running, voice(500), pause, voice(700), pause, voice(900), quiet(2_000))
        await time.advance(6_000)
        await running.read()
        payloads = running.sent
    assert ends(payloads) == [("cancelled", "turn_detected")] * 2 + [("completed", None)]
    assert user_words(chat.requests[-1]) == ["I said five.\nI said seven.\nI said nine."]
    assert agent_words(chat.requests[-1]) == []
    audible = {p["response_id"] for p in payloads if p["type"] == "response.output_audio.delta"}
    assert len(audible) == 1, "nothing is said twice"


# --- any client ------------------------------------------------------------------------------------------------------


class Witnessed:
    """A language model that names each of its requests in every word, and the contexts that the session provided."""

    def __init__(self, time: FedTime) -> None:
        self.requests: list[ChatRequest] = []
        self.contexts: dict[str, ResponseContext] = {}
        self.chat = ScriptedChat(self._reply, ttft_ms=150, token_ms=60, sleep=time.sleep)

    def _reply(self, request: ChatRequest) -> str:
        self.requests.append(request)
        return " ".join([f"q{len(self.requests) - 1}"] * 6) + "."

    def watch(self, running: RunningSession) -> None:
        submit = running.backend.submit

        def noted(command: Any) -> None:
            if isinstance(command, ProvideContext):
                self.contexts[command.response_id] = command.context
            submit(command)

        running.backend.submit = noted

    def check(self, payloads: list[dict[str, Any]]) -> int:
        """Check that each response says what was written from its own context; return how many said anything."""
        texts: dict[str, str] = {}
        for payload in payloads:
            assert "spec_" not in json.dumps(payload)
            if payload["type"].endswith(("transcript.delta", "output_text.delta", "response.text.delta")):
                texts[payload["response_id"]] = texts.get(payload["response_id"], "") + payload["delta"]
        for response_id, text in texts.items():
            (name,) = {word.strip(".") for word in text.split()}
            written_from = self.requests[int(name.removeprefix("q"))]
            context = self.contexts[response_id]
            assert (written_from.messages, written_from.tools) == (context.messages, context.tools)
        return len(texts)


async def check(data: bytes, seen: Counter[str]) -> None:
    choices = Choices(data)
    time = FedTime()
    asyncio.get_running_loop().call_later = time.call_later
    witnessed = Witnessed(time)
    nowhere = AllowedHosts(bound=("0.0.0.0",))  # no MCP server may be reached: the test leaves no machine
    async with open_session(time, engines_of(time, witnessed.chat), mcp_hosts=nowhere) as running:
        witnessed.watch(running)
        client = RandomClient(running, choices, Dialect.GA)
        while not choices.exhausted:
            await running.play(voice(300 + 100 * choices.number(3)), quiet(300 + 20 * choices.number(20)))
            if choices.chance(2):
                await client._send()
            if choices.chance(3):
                await time.advance(choices.one_of([5, 50, 500, 5_000]))
            await client._read()
        await client.come_to_rest()
        await settle()
        assert running.backend._contexts == {}
        seen["responses"] += witnessed.check(running.sent)
        seen["speculations"] += sum(response_id.startswith("spec_") for response_id in witnessed.contexts)


def test_whatever_a_client_does_a_response_says_what_was_written_from_its_own_context() -> None:
    seen: Counter[str] = Counter()

    @given(RUNS)
    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
    def fuzz(data: bytes) -> None:
        asyncio.run(check(data, seen))

    fuzz()
    assert seen["responses"] > 50
    assert seen["speculations"] > 50


@pytest.mark.long
@given(st.binary(min_size=50, max_size=300))
@settings(
    max_examples=int(os.environ.get("EXAMPLES", "2000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_response_says_what_was_written_from_its_own_context_in_a_long_run(data: bytes) -> None:
    asyncio.run(check(data, Counter()))
