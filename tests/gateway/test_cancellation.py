"""Stopping: decided and told at once, whatever the engines do; the next turn never waits for the last one's work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from models.engines.scripted import ScriptedChat, ScriptedSynthesizer
from models.interfaces import ChatEvent, ChatRequest, ChatText, SpeechPiece
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.scripted_cascade import kinds, open_session, samples_in, scripted_engines, voice


class StuckSynthesizer(ScriptedSynthesizer):
    """Speaks its first piece, then is blocked in its worker and deaf to cancellation until `release`."""

    def __init__(self, time: FedTime) -> None:
        super().__init__(sleep=time.sleep)
        self.release = asyncio.Event()
        self.stuck = 0
        self.freed = 0

    async def synthesize(self, text: str, **options: Any) -> AsyncGenerator[SpeechPiece, None]:
        async for piece in super().synthesize(text, **options):
            yield piece
            self.stuck += 1
            await until(self.release)
            self.freed += 1
            yield piece


class ClingingChat:
    """Writes on and on, and takes until `release` to close its connection."""

    def __init__(self, time: FedTime) -> None:
        self.release = asyncio.Event()
        self.requests: list[ChatRequest] = []
        self.closing = 0
        self.closed = 0
        self._time = time

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        self.requests.append(request)
        try:
            while True:
                await self._time.sleep(0.01)
                yield ChatText("word and word. ")
        finally:
            self.closing += 1
            await until(self.release)
            self.closed += 1


async def until(event: asyncio.Event) -> None:
    """Wait for `event` whoever cancels; the cancellation takes effect afterwards."""
    cancelled = False
    waiting = asyncio.ensure_future(event.wait())
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def test_response_done_waits_for_no_voice_that_is_deaf_to_cancellation(time: FedTime) -> None:
    tts = StuckSynthesizer(time)
    async with open_session(time, scripted_engines(time, tts=tts)) as running:
        await running.send("response.create")
        await time.advance(200)
        assert tts.stuck == 1
        await running.read()
        await running.send("response.cancel")
        await asyncio.sleep(0)  # the turn of the loop in which it was decided
        assert kinds(await running.read())[-2:] == ["response.done", "rate_limits.updated"]
        assert running.sent[-2]["response"]["status"] == "cancelled"
        await settle()
        assert tts.freed == 0
        assert running.backend._work.running == 1

        await running.send("response.create")
        await time.advance(200)
        assert "response.output_audio.delta" in kinds(await running.read())
        assert (tts.stuck, tts.freed) == (2, 0)

        tts.release.set()
        await settle()
        first = running.sent[kinds(running.sent).index("response.created")]["response"]["id"]
        late = [event for event in await running.read() if event.get("response_id") == first]
        assert late == []


async def test_response_done_waits_for_no_stream_that_is_slow_to_close(time: FedTime) -> None:
    chat = ClingingChat(time)
    async with open_session(time, scripted_engines(time, chat=chat)) as running:
        await running.send("response.create")
        await time.advance(300)
        await running.send("response.cancel")
        await asyncio.sleep(0)
        assert "response.done" in kinds(await running.read())
        await settle()
        assert (chat.closing, chat.closed) == (1, 0)
        await running.send("response.create")
        await time.advance(100)
        assert len(chat.requests) == 2
        assert "response.output_audio_transcript.delta" in kinds(await running.read())
        chat.release.set()
        await settle()
        assert chat.closed == 1


async def test_a_session_that_ends_waits_for_its_work_so_that_none_outlives_it(time: FedTime) -> None:
    chat = ClingingChat(time)
    async with open_session(time, scripted_engines(time, chat=chat)) as running:
        await running.send("response.create")
        await time.advance(300)
        asyncio.get_running_loop().call_soon(chat.release.set)
    assert (chat.closing, chat.closed) == (1, 1)


async def test_a_barge_in_is_told_in_order_and_nothing_of_the_reply_follows_its_end(time: FedTime) -> None:
    chat = ScriptedChat(["One two three four. " * 20], sleep=time.sleep)
    async with open_session(time, scripted_engines(time, chat=chat)) as running:
        await running.user_types("Tell me.")
        await running.send("response.create")
        await time.advance(1_500)
        await running.read(25)  # the socket is slow: most of the audio still waits
        sent = samples_in(running.sent)
        assert sent > 0
        response_id = next(event["response"]["id"] for event in running.sent if event["type"] == "response.created")
        await running.play(voice(100))
        rest = await running.read()
        assert samples_in(rest) == 0
        end = kinds(rest)
        assert end[end.index("input_audio_buffer.speech_started") :] == [
            "input_audio_buffer.speech_started",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
            "rate_limits.updated",
        ]
        done = rest[-2]["response"]
        assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert running.backend._work.running == 0
        await time.advance(3_000)
        await running.play(voice(200))
        assert all(event.get("response_id") != response_id for event in await running.read())


async def test_a_reply_that_is_complete_but_not_yet_sent_is_silenced_by_a_barge_in(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        await running.user_types("Tell me.")
        await running.send("response.create")
        await time.advance(400)
        await running.read(10)
        sent = samples_in(running.sent)
        await running.play(voice(100))
        rest = await running.read()
        assert [event["response"]["status"] for event in rest if event["type"] == "response.done"] == ["completed"]
        assert samples_in(rest) == 0
        item_id = next(event["item_id"] for event in rest if event["type"] == "response.output_audio.done")
        truncate = {"item_id": item_id, "content_index": 0}
        sent_ms = sent // 24
        await running.send("conversation.item.truncate", **truncate, audio_end_ms=sent_ms + 33)
        await running.send("conversation.item.truncate", **truncate, audio_end_ms=sent_ms)
        assert kinds(await running.read()) == ["error", "conversation.item.truncated"]


async def test_the_model_reads_only_what_was_sent_and_heard_before_a_cancel(time: FedTime) -> None:
    chat = ScriptedChat(["One two three. Four five six. Seven eight nine.", "Right."], sleep=time.sleep)
    async with open_session(time, scripted_engines(time, chat=chat)) as running:
        await running.user_types("Count.")
        await running.send("response.create")
        await time.advance(250)
        while samples_in(running.sent) < 9_600:  # 400 ms: one word and a third
            await running.read(1)
        await running.send("response.cancel")
        await settle()
        rest = await running.read()
        assert samples_in(rest) == 0
        await running.user_types("Go on.")
        await running.send("response.create")
        await time.advance(500)
        told = [message["content"] for message in chat.requests[1].messages if message["role"] == "assistant"]
        assert len(told) == 1
        assert told[0].startswith("One")
        assert "two" not in told[0]


async def test_many_cancelled_responses_leave_nothing_behind(time: FedTime) -> None:
    chat = ScriptedChat(["One two three. " * 50], sleep=time.sleep)
    tts = ScriptedSynthesizer(sleep=time.sleep)
    async with open_session(time, scripted_engines(time, chat=chat, tts=tts)) as running:
        for _ in range(50):
            await running.send("response.create")
            await time.advance(120)
            await running.send("response.cancel")
            await settle()
            await running.read()
        assert running.backend._work.running == 0
        assert running.backend._contexts == {}
        assert chat.closed_early == 50
        assert time.waiting <= 2  # the machine's and the observer's
        assert running.session._protocol._running == {}
        assert running.session._protocol._asked_for == {}
