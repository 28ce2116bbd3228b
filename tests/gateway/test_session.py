"""The session's shell: frames in and out, in order, between a socket's outbox, the protocol, the ear and a backend."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.backends.interface import Capabilities
from gateway.event_log import EventLogWriter
from gateway.g711 import G711Codec, G711Decoder
from gateway.hearing import Hearing
from gateway.outbox import Outbox, OutboxOverflow
from gateway.session import LARGE_FRAME_BYTES, MANY_FIELDS_BYTES
from models.interfaces import VAD_FRAME_SAMPLES
from protocol import wire as wire_module
from protocol.audio_format import AudioFormat, encoded
from protocol.backend_events import (
    BackendEvent,
    ContextRequested,
    EndReason,
    EndStatus,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
)
from protocol.client_events import ClientEvent, Reading, checked_event
from protocol.commands import AppendAudio, ClearInput, Command, CommitInput, Configure, CreateResponse, ProvideContext
from protocol.errors import session_expired
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.scripted_cascade import kinds, open_session, quiet, samples_in, scripted_engines, voice

PCMU = {"type": "audio/pcmu"}


class RecordingBackend:
    """Notes its commands and says what the test says."""

    capabilities = Capabilities()

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.closed = False
        self.stopped = False
        self._events: asyncio.Queue[BackendEvent | None] = asyncio.Queue()
        self.bug = asyncio.Event()

    def submit(self, command: Command) -> None:
        self.commands.append(command)

    async def says(self, *events: BackendEvent | None) -> None:
        for event in events:
            self._events.put_nowait(event)
        await settle()

    async def events(self) -> AsyncGenerator[BackendEvent, None]:
        try:
            while (event := await self._events.get()) is not None:
                yield event
        finally:
            self.closed = True

    async def run(self) -> None:
        try:
            await self.bug.wait()
        finally:
            self.stopped = True
        raise ZeroDivisionError("a bug")

    def of(self, kind: type) -> list[Any]:
        return [command for command in self.commands if isinstance(command, kind)]


def spoken(response_id: str, item_id: str, *chunks: tuple[str, int]) -> list[BackendEvent]:
    """Return a reply up to its end; a chunk is a text and its samples."""
    events: list[BackendEvent] = [ResponseStarted(response_id)]
    text_end = audio_end = 0
    for text, samples in chunks:
        text_end, audio_end = text_end + len(text), audio_end + samples
        events += [
            OutputTextDelta(response_id, item_id, text),
            OutputAudio(response_id, item_id, bytes(2 * samples)),
            OutputSpoken(response_id, item_id, text_end, audio_end),
        ]
    return events


# --- the beginning and the end -------------------------------------------------------------------------------------


async def test_session_created_comes_before_everything_else(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        await running.append(quiet(100))
        (created,) = await running.read()
        assert created["type"] == "session.created"
        assert created["session"]["id"] == running.session.session_id == "sess_1"
        assert created["session"]["model"] == "cascade"


async def test_the_backend_gets_its_first_settings_before_any_other_command(time: FedTime) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend) as running:
        await running.append(quiet(100))
        assert [type(command) for command in backend.commands] == [Configure, AppendAudio]
    assert backend.stopped
    assert backend.closed


async def test_an_expired_session_tells_its_client_and_goes_on_until_it_is_closed(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        await running.read()
        running.session.expire(session_expired(60))
        (error,) = await running.read()
        assert (error["type"], error["error"]["code"]) == ("error", "session_expired")
        await running.user_types("Hi.")
        assert kinds(await running.read()) == ["conversation.item.added", "conversation.item.done"]


async def run_of(backend: RecordingBackend, time: FedTime, act: Callable[[Any], Any]) -> BaseException | None:
    """Run a session, let the test act on it, and return what its run() raised."""
    found: BaseException | None = None
    try:
        async with open_session(time, scripted_engines(time), backend=backend) as running:
            await act(running)
            await settle()
    except BaseExceptionGroup as group:
        found = group.exceptions[0]
    return found


async def test_a_backend_that_ends_ends_the_session(time: FedTime) -> None:
    backend = RecordingBackend()

    async def act(_running: Any) -> None:
        await backend.says(None)
        backend.bug.set()

    assert isinstance(await run_of(backend, time, act), ZeroDivisionError)
    assert backend.closed


async def test_a_backends_bug_ends_the_session_with_that_exception(time: FedTime) -> None:
    backend = RecordingBackend()

    async def act(_running: Any) -> None:
        backend.bug.set()

    assert isinstance(await run_of(backend, time, act), ZeroDivisionError)
    assert backend.closed


async def test_an_overflow_while_the_backend_speaks_ends_run_and_closes_the_backend(time: FedTime) -> None:
    backend = RecordingBackend()

    async def act(running: Any) -> None:
        running.session.outbox._limit_bytes = running.session.outbox.waiting_bytes + 2_000
        await backend.says(*spoken("r", "a", ("Hi.", 24_000)))

    assert isinstance(await run_of(backend, time, act), OutboxOverflow)
    assert backend.closed
    assert backend.stopped


async def test_an_overflow_by_an_answer_is_raised_to_the_reader(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        running.session.outbox = Outbox(limit_bytes=100)
        with pytest.raises(OutboxOverflow):
            await running.user_types("Hi.")


# --- frames --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", ["", "{", "[]", "null", '{"type": "nonsense"}', '{"type": "response.create"'])
async def test_a_malformed_frame_gets_exactly_one_error_and_reaches_nobody(time: FedTime, frame: str) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend) as running:
        await running.read()
        await running.session.receive_text(frame)
        assert kinds(await running.read()) == ["error"]
        assert [type(command) for command in backend.commands] == [Configure]


async def test_a_binary_frame_gets_exactly_one_error(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        await running.read()
        await running.session.receive_binary(b'{"type": "response.create"}')
        (error,) = await running.read()
        assert error["error"]["type"] == "invalid_request_error"


def append_frame(pcm: bytes, event_id: str | None = None) -> str:
    event = {"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()}
    return json.dumps({**event, "event_id": event_id} if event_id else event)


@pytest.mark.parametrize(
    ("length", "off_loop"), [(LARGE_FRAME_BYTES - 1, False), (LARGE_FRAME_BYTES, False), (LARGE_FRAME_BYTES + 1, True)]
)
async def test_only_frames_above_256_kib_are_parsed_off_the_loop(
    time: FedTime, monkeypatch: pytest.MonkeyPatch, length: int, off_loop: bool
) -> None:
    threads = watched_checks(monkeypatch)
    async with open_session(time, scripted_engines(time)) as running:
        frame = append_frame(quiet(3_000))
        await running.session.receive_text(frame + " " * (length - len(frame)))
    assert (threads[0] is not threading.main_thread()) is off_loop


def watched_checks(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Return the threads in which events are checked from now on."""
    threads: list[threading.Thread] = []

    def check(raw: dict[str, Any], size: int, *reading: Reading) -> ClientEvent:
        threads.append(threading.current_thread())
        return checked_event(raw, size, *reading)

    monkeypatch.setattr(wire_module, "checked_event", check)
    return threads


@pytest.mark.parametrize(
    ("length", "off_loop"), [(MANY_FIELDS_BYTES - 1, False), (MANY_FIELDS_BYTES, False), (MANY_FIELDS_BYTES + 1, True)]
)
async def test_events_of_many_fields_are_checked_off_the_loop_and_keep_their_place(
    time: FedTime, monkeypatch: pytest.MonkeyPatch, length: int, off_loop: bool
) -> None:
    threads = watched_checks(monkeypatch)
    async with open_session(time, scripted_engines(time)) as running:
        await running.read()
        frame = json.dumps({"type": "session.update", "session": {"type": "realtime", "tools": []}})
        await running.session.receive_text(frame + " " * (length - len(frame)))
        await running.user_types("Hi.")
        assert kinds(await running.read())[:2] == ["session.updated", "conversation.item.added"]
    assert (threads[0] is not threading.main_thread()) is off_loop
    assert threads[1] is threading.main_thread()


async def test_a_large_frame_keeps_its_place_before_the_frames_after_it(time: FedTime) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend) as running:
        large = voice(8_000)
        assert len(append_frame(large)) > LARGE_FRAME_BYTES
        for frame in (append_frame(large), '{"type": "input_audio_buffer.commit"}', append_frame(quiet(20))):
            await running.session.receive_text(frame)
        assert [type(command) for command in backend.commands[1:]] == [AppendAudio, CommitInput, AppendAudio]
        assert backend.commands[1].pcm == large


@pytest.mark.parametrize(("length", "off_loop"), [(20_000, False), (300_000, True)])
async def test_a_long_append_of_g711_is_decoded_off_the_loop_and_keeps_its_place(
    time: FedTime, monkeypatch: pytest.MonkeyPatch, length: int, off_loop: bool
) -> None:
    threads: list[threading.Thread] = []
    feed = G711Decoder.feed

    def watched(decoder: G711Decoder, audio: bytes) -> bytes:
        threads.append(threading.current_thread())
        return feed(decoder, audio)

    monkeypatch.setattr(G711Decoder, "feed", watched)
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend) as running:
        await running.send("session.update", session={"type": "realtime", "audio": {"input": {"format": PCMU}}})
        for frame in (append_frame(bytes(length)), '{"type": "input_audio_buffer.commit"}', append_frame(b"abc")):
            await running.session.receive_text(frame)
        commands = [command for command in backend.commands if not isinstance(command, Configure)]
        assert [type(command) for command in commands[-2:]] == [CommitInput, AppendAudio]
        appends = [command for command in commands if isinstance(command, AppendAudio)]
        assert sum(len(append.pcm) // 2 for append in appends) == 3 * (length + 3)
        assert all(len(append.pcm) <= 480_000 for append in appends)
        # Each piece passed the ear: their frames tile the input.
        ends = [frame.until for append in appends for frame in append.frames]
        assert ends == list(range(VAD_FRAME_SAMPLES, 3 * (length + 3) + 1, VAD_FRAME_SAMPLES))
    assert (threads[0] is not threading.main_thread()) is off_loop
    assert threads[1] is threading.main_thread()


async def test_a_large_wav_of_another_format_gets_its_one_error_with_its_event_id(time: FedTime) -> None:
    header = b"RIFF....WAVEfmt " + (16).to_bytes(4, "little") + bytes(16)
    async with open_session(time, scripted_engines(time)) as running:
        await running.read()
        await running.session.receive_text(append_frame(header + bytes(LARGE_FRAME_BYTES), "evt_wav"))
        (error,) = await running.read()
        assert (error["type"], error["error"]["event_id"]) == ("error", "evt_wav")
        assert "WAV header" in error["error"]["message"]


async def test_a_spoken_turn_in_g711_keeps_the_sessions_time(time: FedTime) -> None:
    """The same turn in µ-law and in PCM: the same events at the same milliseconds, a reply of the same length."""
    told: list[list[Any]] = []
    for wire in ({"type": "audio/pcm", "rate": 24_000}, PCMU):
        async with open_session(time, scripted_engines(time)) as running:
            audio = {"input": {"format": wire}, "output": {"format": wire}}
            await running.send("session.update", session={"type": "realtime", "audio": audio})
            codec, format_ = G711Codec(), AudioFormat(wire["type"])
            # Sound begins and ends within VAD frames: on an edge the decoder's 2.75 ms would decide on the next frame.
            sound = encoded(quiet(656) + voice(960) + quiet(624), format_, codec)
            step = len(sound) // 112  # 20 ms
            for at in range(0, len(sound), step):
                await time.advance(20)
                await running.append(sound[at : at + step])
            await settle()
            await time.advance(3_000)
            await running.read()
        times = [
            (event["type"], event.get("audio_start_ms"), event.get("audio_end_ms"))
            for event in running.sent
            if event["type"].startswith("input_audio_buffer.speech")
        ]
        deltas = [base64.b64decode(e["delta"]) for e in running.sent if e["type"] == "response.output_audio.delta"]
        done = next(event for event in running.sent if event["type"] == "response.done")["response"]
        told.append([times, sum(map(len, deltas)) / format_.rate_hz / format_.bytes_per_sample, done["usage"]])
    assert told[0] == told[1]
    assert len(told[0][0]) == 2
    assert told[0][1] > 1


async def test_a_large_malformed_frame_gets_its_one_error_with_its_event_id(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        await running.read()
        await running.session.receive_text(
            append_frame(quiet(10), "evt_big").replace('"audio": "', '"audio": "' + "!" * LARGE_FRAME_BYTES)
        )
        (error,) = await running.read()
        assert error["error"]["event_id"] == "evt_big"


async def test_an_append_passes_the_ear_before_the_backend_gets_it(time: FedTime) -> None:
    """The VAD is slow; what the client sends next waits for it, and the backend gets both in order, with the frames."""
    backend = RecordingBackend()
    heard, go_on = asyncio.Event(), asyncio.Event()

    class SlowVad:
        def open(self) -> SlowVad:
            return self

        async def feed(self, pcm: bytes) -> list[float]:
            heard.set()
            await go_on.wait()
            return [0.5] * (len(pcm) // 2 // VAD_FRAME_SAMPLES)

    async with open_session(time, scripted_engines(time), backend=backend, hearing=Hearing(SlowVad())) as running:

        async def read() -> None:
            await running.append(bytes(2 * 1536))
            await running.send("input_audio_buffer.clear")

        reader = asyncio.ensure_future(read())
        await heard.wait()
        await settle()
        assert [type(command) for command in backend.commands] == [Configure]
        go_on.set()
        await reader
        (append,) = backend.of(AppendAudio)
        assert [(frame.until, frame.probability) for frame in append.frames] == [(768, 0.5), (1536, 0.5)]
        assert isinstance(backend.commands[-1], ClearInput)


async def test_backend_events_are_carried_while_the_ear_is_busy(time: FedTime) -> None:
    backend = RecordingBackend()
    go_on = asyncio.Event()

    class SlowVad:
        def open(self) -> SlowVad:
            return self

        async def feed(self, pcm: bytes) -> list[float]:
            await go_on.wait()
            return []

    async with open_session(time, scripted_engines(time), backend=backend, hearing=Hearing(SlowVad())) as running:
        await running.read()
        reader = asyncio.ensure_future(running.append(quiet(100)))
        await backend.says(ResponseStarted("r"))
        assert kinds(await running.read()) == ["response.created"]
        go_on.set()
        await reader


# --- the record ----------------------------------------------------------------------------------------------------


async def test_the_event_log_holds_what_passed_in_order_and_no_words(time: FedTime, tmp_path: Path) -> None:
    writer = EventLogWriter(tmp_path)
    writer.start()
    engines = scripted_engines(time, texts=["Strawberry secrets."])
    async with open_session(time, engines, log=writer.open("sess_1")) as running:
        await running.user_types("Blueberry plans.")
        await running.play(voice(960), quiet(600))
        await time.advance(2_000)
        await running.session.receive_text("{")
        await running.read()
    writer.close()
    text = (tmp_path / "sess_1.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    assert [record["direction"] for record in records[:3]] == ["server", "client", "server"]
    assert records[0]["event"]["type"] == "session.created"
    assert {"client", "backend", "server"} == {record["direction"] for record in records}
    times = [record["at_samples"] for record in records]
    assert times == sorted(times)
    backend = [record["event"]["type"] for record in records if record["direction"] == "backend"]
    assert backend[:2] == ["SpeechStarted", "ContextForeseen"]
    assert backend[2] == "SpeechStopped"
    server = [record["event"]["type"] for record in records if record["direction"] == "server"]
    assert server == kinds(running.sent)
    client = [record["event"].get("type") for record in records if record["direction"] == "client"]
    assert client[0] == "conversation.item.create"
    assert client[-1] is None  # what is no JSON is recorded, too
    for word in ("Strawberry", "Blueberry", "three", "sound"):
        assert word not in text


# --- audio that never left -----------------------------------------------------------------------------------------


async def item_of(running: Any, item_id: str) -> dict[str, Any]:
    await running.read()
    await running.send("conversation.item.retrieve", item_id=item_id)
    (event,) = await running.read()
    assert event["type"] == "conversation.item.retrieved"
    item: dict[str, Any] = event["item"]
    return item


async def read_audio(running: Any, deltas: int) -> None:
    """Read up to and with the first `deltas` deltas of audio, each of 200 ms."""
    while samples_in(running.sent) < deltas * 4_800:
        await running.read(1)


async def test_after_a_cancel_the_model_is_told_no_word_of_audio_that_waited_in_the_outbox(time: FedTime) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend) as running:
        await backend.says(*spoken("r", "a", ("One two.", 9_600), (" Three four.", 9_600)))
        await read_audio(running, 3)
        await backend.says(ResponseEnded("r", EndStatus.CANCELLED, 0, EndReason.CLIENT_CANCELLED))
        item = await item_of(running, "a")
        assert samples_in(running.sent) == 3 * 4_800
        assert len(base64.b64decode(item["content"][0]["audio"])) == 2 * 3 * 4_800
        await running.send("response.create")
        (asked,) = backend.of(CreateResponse)
        await backend.says(ContextRequested(asked.response_id))
        (provided,) = backend.of(ProvideContext)
        (message,) = [entry for entry in provided.context.messages if entry["role"] == "assistant"]
        assert message["content"].startswith("One two.")
        assert "four" not in message["content"]


async def test_a_truncate_may_not_reach_beyond_what_was_sent(time: FedTime) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend) as running:
        await backend.says(*spoken("r", "a", ("One two.", 9_600)))
        await read_audio(running, 1)
        await backend.says(ResponseEnded("r", EndStatus.CANCELLED, 0, EndReason.CLIENT_CANCELLED))
        await running.read()
        truncate = {"item_id": "a", "content_index": 0}
        await running.send("conversation.item.truncate", **truncate, audio_end_ms=300)
        await running.send("conversation.item.truncate", **truncate, audio_end_ms=200)
        assert kinds(await running.read()) == ["error", "conversation.item.truncated"]


async def test_a_cut_drops_what_waits_of_a_reply_that_is_already_complete(time: FedTime) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend) as running:
        await backend.says(
            *spoken("r", "a", ("One two.", 9_600), (" Three four.", 9_600)),
            OutputItemEnded("r", "a"),
            ResponseEnded("r", EndStatus.COMPLETED),
        )
        await read_audio(running, 1)
        await backend.says(PlayoutCut("a", 9_600))
        rest = await running.read()
        assert samples_in(rest) == 0
        assert kinds(rest)[-2:] == ["response.done", "rate_limits.updated"]
        item = await item_of(running, "a")
        assert len(base64.b64decode(item["content"][0]["audio"])) == 2 * 4_800


# --- events that a client sends in one breath ----------------------------------------------------------------------


async def test_what_a_client_sends_in_one_breath_is_answered_in_that_order(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        await running.send("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
        await running.append(voice(400))
        await settle()
        await running.read()
        typed = {"type": "message", "role": "user", "id": "typed", "content": [{"type": "input_text", "text": "And?"}]}
        await running.send("input_audio_buffer.commit")
        await running.send("conversation.item.create", item=typed)
        await running.send("input_audio_buffer.commit", event_id="too_short")
        await running.send("session.update", session={"type": "realtime", "instructions": "Be brief."})
        await running.send("response.create")
        await running.send("response.cancel")
        await settle()
        events = await running.read()
        assert kinds(events) == [
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.added",
            "conversation.item.done",
            "error",
            "session.updated",
            "response.created",
            "response.done",
            "rate_limits.updated",
        ]
        spoken_item = events[0]["item_id"]
        assert (events[3]["item"]["id"], events[3]["previous_item_id"]) == ("typed", spoken_item)
        assert events[5]["error"]["event_id"] == "too_short"


@pytest.mark.parametrize("frame", ["nonsense", json.dumps({"type": "conversation.item.delete", "item_id": "nobody"})])
async def test_between_two_frames_of_one_client_everybody_else_has_a_turn(time: FedTime, frame: str) -> None:
    turns = 0

    async def other_session() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with open_session(time, scripted_engines(time)) as running:
        other = asyncio.create_task(other_session())
        for _ in range(100):
            await running.session.receive_text(frame)
        assert turns >= 100
        other.cancel()
