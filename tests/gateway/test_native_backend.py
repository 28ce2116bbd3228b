"""What a stock client sees of a full-duplex model behind the gateway."""

from __future__ import annotations

import base64
import logging
from dataclasses import replace

import pytest

from gateway.backends.frame_queue import LONGEST_BACKLOG, LONGEST_BURST, LONGEST_HELD, SKIP_SILENCE_FROM, FrameQueue
from gateway.backends.native import NativeBackend
from gateway.composition import new_session
from gateway.observing.sessions import ObservedSessions
from gateway.session_request import DUPLEX, SessionRequest
from gateway.settings import Settings
from gateway.turns.input_pace import Pace
from models.engines.scripted_duplex import DuplexReply, DuplexScript, ScriptedDuplex
from protocol.audio_time import samples_from_ms
from protocol.wire import Dialect
from tests.gateway.fed_time import FedTime
from tests.gateway.native_session import native_session
from tests.gateway.scripted_cascade import quiet, samples_in, scripted_engines, voice

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all " * 3)


async def test_a_spoken_turn_is_answered_in_the_events_of_the_protocol() -> None:
    async with native_session(FedTime(), DuplexReply("Good morning."), heard=("hello there",)) as native:
        await native.play(voice(800), quiet(3_200))
        kinds = await native.kinds()
        order = [
            "session.created", "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed", "response.created", "response.output_item.added",
            "response.output_audio.delta", "response.output_audio.done", "response.done"]  # fmt: skip
        assert [kind for kind in kinds if kind in order and kinds.count(kind) == 1 or kind == order[6]][:1] == order[:1]
        places = [kinds.index(kind) for kind in order]
        assert places == sorted(places)
        (done,) = await native.told("response.done")
        assert done["response"]["status"] == "completed"
        assert done["response"]["output"][0]["content"][0]["transcript"].strip() == "Good morning."
        (spoken,) = native.stream.truth
        assert abs(samples_in(await native.told("response.output_audio.delta")) - (spoken.end - spoken.start)) <= 4_000


async def test_the_instructions_and_what_was_said_before_are_the_models_prompt() -> None:
    async with native_session(FedTime()) as native:
        await native.send("session.update", session={"type": "realtime", "instructions": "You are a pirate."})
        content = [{"type": "input_text", "text": "My name is Ann."}]
        await native.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await native.play(quiet(400))
        assert native.stream.prompt.instructions == "You are a pirate."
        assert native.stream.prompt.history == (("user", "My name is Ann."),)


async def test_a_tool_is_called_and_its_result_is_spoken() -> None:
    reply = DuplexReply("It is {result}.", call=("get_time", {"zone": "UTC"}))
    async with native_session(FedTime(), reply) as native:
        await native.play(voice(800), quiet(1_600))
        (call,) = await native.told("response.function_call_arguments.done")
        assert call["arguments"] == '{"zone": "UTC"}'
        item = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
        await native.send("conversation.item.create", item=item)
        await native.send("response.create")
        await native.play(quiet(2_400))
        assert native.stream.results == ["noon"]
        spoken = (await native.told("response.done"))[-1]["response"]
        assert spoken["output"][0]["content"][0]["transcript"].strip() == "It is noon."
        assert await native.told("error") == []


async def test_a_response_asked_for_before_any_audio_begins_the_conversation() -> None:
    async with native_session(FedTime(), DuplexReply("Welcome!")) as native:
        await native.send("response.create")
        await native.play(quiet(2_400))
        (done,) = await native.told("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"].strip() == "Welcome!"


async def test_the_agents_nod_is_heard_and_writes_no_words() -> None:
    async with native_session(FedTime(), DuplexReply("I see.")) as native:
        await native.play(voice(4_000), quiet(2_400))
        nod, answer = [done["response"] for done in await native.told("response.done")]
        (part,) = nod["output"][0]["content"]
        assert (nod["status"], part["transcript"]) == ("completed", "")
        deltas = await native.told("response.output_audio.delta")
        assert samples_in([delta for delta in deltas if delta["response_id"] == nod["id"]]) >= samples_from_ms(320)
        assert answer["output"][0]["content"][0]["transcript"].strip() == "I see."
        words = await native.told("response.output_audio_transcript.delta")
        assert {delta["response_id"] for delta in words} == {answer["id"]}


async def test_a_client_that_stops_sending_hears_the_sentence_to_its_end() -> None:
    time = FedTime()
    async with native_session(time, DuplexReply("And so they all lived happily ever after.")) as native:
        await native.play(voice(800), quiet(640))
        await time.advance(4_000)
        (done,) = await native.told("response.done")
        assert done["response"]["status"] == "completed"
        assert native.stream.truth[0].end - native.stream.truth[0].start >= samples_from_ms(1_500)


@pytest.mark.parametrize("nod_after_ms", [None, 2_000])
async def test_the_words_of_who_sends_nothing_behind_them_are_known_soon_after(nod_after_ms: int | None) -> None:
    time = FedTime()
    async with native_session(time, heard=("one two three",), nod_after_ms=nod_after_ms) as native:
        audio = {"input": {"turn_detection": None, "transcription": {"model": "whisper-1"}}}
        await native.send("session.update", session={"type": "realtime", "audio": audio})
        await native.play(voice(3_000))
        await native.send("input_audio_buffer.commit")
        await native.send("response.create")
        await time.advance(2_000)
        kinds = await native.kinds()
        completed = kinds.index("conversation.item.input_audio_transcription.completed")
        (done,) = await native.told("conversation.item.input_audio_transcription.completed")
        assert done["transcript"].strip() == "one two three"
        assert completed < len(kinds) - kinds[::-1].index("response.output_audio.delta")  # the answer goes on


async def test_a_cancelled_response_sends_nothing_more_and_the_next_turn_works() -> None:
    async with native_session(FedTime(), STORY, DuplexReply("As you like.")) as native:
        await native.play(voice(800), quiet(1_600))
        await native.send("response.cancel")
        await native.play(quiet(80))
        before = samples_in(await native.told("response.output_audio.delta"))
        (done,) = await native.told("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        await native.play(quiet(800))
        assert samples_in(await native.told("response.output_audio.delta")) == before
        await native.play(voice(800), quiet(2_400))
        assert (await native.told("response.done"))[-1]["response"]["status"] == "completed"


def test_the_native_backend_assumes_the_delay_that_is_set() -> None:
    settings = Settings(playout_delay_ms=1_000)
    model = ScriptedDuplex(DuplexScript())
    engines = replace(scripted_engines(FedTime()), native=model)
    request = SessionRequest(DUPLEX, None, Dialect.GA, {}, "realtime", None, expires_at_s=2**31)
    backend = new_session(request, settings, engines, ObservedSessions())._backend
    assert isinstance(backend, NativeBackend)
    assert backend._core._player.delay == samples_from_ms(1_000)


async def test_a_model_that_fails_fails_its_response_and_the_session_lives() -> None:
    async with native_session(FedTime(), STORY, fails_at_ms=2_400) as native:
        await native.play(voice(800), quiet(2_400))
        (done,) = await native.told("response.done")
        assert done["response"]["status"] == "failed"
        assert done["response"]["status_details"]["error"]["code"] == "duplex_failed"
        await native.send("session.update", session={"type": "realtime", "output_modalities": ["text"]})
        assert len(await native.told("session.updated")) == 1


async def test_a_response_beside_the_conversation_is_refused() -> None:
    async with native_session(FedTime()) as native:
        await native.send("response.create", response={"conversation": "none"}, event_id="event_1")
        await native.play(quiet(100))
        (error,) = await native.told("error")
        assert error["error"]["event_id"] == "event_1"


async def test_a_model_slower_than_real_time_leaves_out_silence_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gateway")
    async with native_session(FedTime(), step_s=0.104) as native:
        longest = 0
        for _ in range(60):
            await native.play(voice(200), quiet(300))
            longest = max(longest, native.backend._queue.waiting)
        assert native.backend.real_time_factor == pytest.approx(1.3, rel=0.05)
        assert longest <= LONGEST_BACKLOG
        assert native.backend._queue.dropped.silent > 0
    assert sum("slower than real time" in record.message for record in caplog.records) == 1


# --- the queue ------------------------------------------------------------------------------------------------------

FRAME = 1_920


def test_frames_come_out_as_they_were_cut_and_padding_fills_the_last() -> None:
    queue = FrameQueue(FRAME)
    queue.put(b"\1\0" * 3_000, voiced=True)
    assert queue.take() == b"\1\0" * FRAME
    assert queue.take() is None
    assert queue.take_padded() == b"\1\0" * 1_080 + bytes(2 * 840)
    assert queue.take_padded() == bytes(2 * FRAME)


def test_silence_goes_first_and_voice_only_when_it_is_too_old() -> None:
    queue = FrameQueue(FRAME)
    for number in range(100):
        queue.put(b"\0\0" * FRAME, voiced=number % 2 == 0)
    assert queue.waiting <= LONGEST_BACKLOG
    assert queue.dropped.silent > 0
    assert queue.dropped.old > 0
    assert queue.dropped.silent + queue.dropped.old + queue.waiting == 100 * FRAME
    assert queue.waiting > SKIP_SILENCE_FROM
    queue.clear()
    assert queue.waiting == 0


def test_a_recording_may_wait_for_a_minute() -> None:
    queue = FrameQueue(FRAME)
    queue.put(bytes(2 * 24_000 * 50), voiced=False, pace=Pace.RECORDED)
    assert queue.dropped.old == queue.dropped.silent == 0
    queue.put(bytes(2 * 24_000 * 50), voiced=False, pace=Pace.RECORDED)
    assert queue.waiting <= LONGEST_BURST
    assert queue.dropped.old > 0


def test_what_comes_live_behind_a_recording_waits_with_it_and_loses_its_silence_alone() -> None:
    queue = FrameQueue(FRAME)
    for _ in range(100):
        queue.put(bytes(2 * FRAME), voiced=False, pace=Pace.RECORDED)
    for number in range(40):
        assert queue.take() is not None
        queue.put(bytes(2 * FRAME), voiced=number >= 30)
    assert queue.dropped.old == 0
    assert queue.dropped.silent == 30 * FRAME
    assert queue.waiting == 70 * FRAME
    while queue.take():
        pass
    for _ in range(60):
        queue.put(bytes(2 * FRAME), voiced=True)
    assert queue.waiting <= LONGEST_BACKLOG


def test_what_the_network_held_up_loses_its_silence_alone() -> None:
    queue = FrameQueue(FRAME)
    for number in range(200):
        queue.put(bytes(2 * FRAME), voiced=30 <= number < 70, pace=Pace.LATE)
    assert queue.dropped.old == 0
    assert 40 * FRAME <= queue.waiting < 40 * FRAME + SKIP_SILENCE_FROM + FRAME
    queue.put(bytes(2 * FRAME * 200), voiced=True, pace=Pace.LATE)
    assert queue.waiting <= LONGEST_HELD


def test_the_queue_knows_how_far_the_model_is_whatever_was_left_out() -> None:
    queue = FrameQueue(FRAME)
    queue.hold()
    queue.put(bytes(2 * FRAME * 10), voiced=True)
    for _ in range(40):
        queue.put(bytes(2 * FRAME), voiced=False)
    assert queue.waiting < 15 * FRAME
    assert queue.behind == 50 * FRAME
    for _ in range(10):
        queue.take()
    assert queue.behind <= SKIP_SILENCE_FROM
    while queue.take():
        pass
    assert queue.behind == 0
    queue.put(bytes(2 * 500), voiced=False)
    queue.take_padded()
    assert queue.behind == 500 - FRAME
    queue.take_padded()
    assert queue.behind == 500 - 2 * FRAME
    queue.put(bytes(2 * FRAME), voiced=False)
    assert queue.behind == FRAME
    queue.clear()
    assert queue.behind == 0


def test_a_frame_is_the_agents_own_voice_if_no_other_is_heard_in_it() -> None:
    queue = FrameQueue(FRAME)
    part = bytes(FRAME // 2)  # four appends a frame
    given = []
    for voiced, own in (
        (True, True), (False, False), (True, True), (False, False),  # its own, with gaps between the VAD's frames
        (True, True), (True, False), (False, False), (False, False),  # and a user's
        (False, False), (False, False), (False, False), (False, False),
    ):  # fmt: skip
        queue.put(part, voiced=voiced, own_voice=own)
        if queue.take() is not None:
            given.append(queue.gave_own_voice)
    assert given == [True, False, False]
    queue.take_padded()
    assert not queue.gave_own_voice


@pytest.mark.parametrize("append_ms", [100, 6_000])
async def test_each_recording_of_a_client_that_sends_several_is_heard_whole(append_ms: int) -> None:
    time = FedTime()
    async with native_session(time, DuplexReply("Yes."), DuplexReply("No."), nod_after_ms=None) as native:
        for turns in (1, 2):
            pcm = voice(5_000) + quiet(1_000)
            for at in range(0, len(pcm), 48 * append_ms):
                await native.send(
                    "input_audio_buffer.append", audio=base64.b64encode(pcm[at : at + 48 * append_ms]).decode()
                )
            await time.advance(30_000)
            assert native.backend._queue.dropped.old == 0
            assert native.backend._queue.dropped.silent < samples_from_ms(1_000)
            assert len(await native.told("input_audio_buffer.committed")) == turns
            assert [done["response"]["status"] for done in await native.told("response.done")] == ["completed"] * turns


async def test_audio_that_ends_in_mid_frame_is_heard_to_its_end() -> None:
    time = FedTime()
    async with native_session(time, frame_ms=20) as native:
        await native.send("input_audio_buffer.append", audio=base64.b64encode(voice(30)).decode())
        await time.advance(600)
        assert native.stream._at >= samples_from_ms(160)
