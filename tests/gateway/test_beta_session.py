"""The shell in the beta dialect: what waits is dropped and counted as in GA, large frames choose as small ones do."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from gateway.event_log import EventLogWriter
from gateway.session import LARGE_FRAME_BYTES
from protocol.backend_events import EndReason, EndStatus, OutputItemEnded, PlayoutCut, ResponseEnded
from protocol.beta.wire_law import beta_violations
from protocol.errors import session_expired
from protocol.wire import Dialect
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import kinds, open_session, quiet, samples_in, scripted_engines, voice
from tests.gateway.test_session import RecordingBackend, spoken


async def test_a_spoken_turn_from_the_microphone_to_the_reply_is_lawful(time: FedTime) -> None:
    engines = scripted_engines(time, texts=["Hello there."])
    async with open_session(time, engines, dialect=Dialect.BETA) as running:
        await running.play(voice(960), quiet(600))
        await time.advance(2_000)
        await running.read()
        assert kinds(running.sent)[:2] == ["session.created", "input_audio_buffer.speech_started"]
        assert kinds(running.sent).count("conversation.item.created") == 2
        assert "conversation.item.done" not in kinds(running.sent)
        assert running.sent[-2]["response"]["status"] == "completed"
        assert samples_in(running.sent)


async def kept_audio_samples(running: Any, item_id: str) -> int:
    await running.read()
    await running.send("conversation.item.retrieve", item_id=item_id)
    (event,) = await running.read()
    return len(base64.b64decode(event["item"]["content"][0]["audio"])) // 2


async def test_a_cancel_drops_what_waits_and_the_item_ends_where_the_sent_audio_ends(time: FedTime) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend, dialect=Dialect.BETA) as running:
        await backend.says(*spoken("r", "a", ("One two.", 9_600), (" Three four.", 9_600)))
        while samples_in(running.sent) < 3 * 4_800:
            await running.read(1)
        await backend.says(ResponseEnded("r", EndStatus.CANCELLED, 0, EndReason.CLIENT_CANCELLED))
        assert await kept_audio_samples(running, "a") == samples_in(running.sent) == 3 * 4_800


async def test_a_cut_drops_what_waits_of_a_complete_reply(time: FedTime) -> None:
    backend = RecordingBackend()
    async with open_session(time, scripted_engines(time), backend=backend, dialect=Dialect.BETA) as running:
        ended = (OutputItemEnded("r", "a"), ResponseEnded("r", EndStatus.COMPLETED))
        await backend.says(*spoken("r", "a", ("One two.", 9_600), (" Three four.", 9_600)), *ended)
        while samples_in(running.sent) < 4_800:
            await running.read(1)
        await backend.says(PlayoutCut("a", 9_600))
        assert await kept_audio_samples(running, "a") == samples_in(running.sent) == 4_800


async def test_a_first_update_parsed_off_the_loop_turns_the_session_to_beta(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time)) as running:
        await running.read()
        update = json.dumps({"type": "session.update", "session": {"voice": "echo", "turn_detection": None}})
        await running.session.receive_text(update + " " * LARGE_FRAME_BYTES)
        running.law = beta_violations
        (updated,) = await running.read()
        assert (updated["type"], updated["session"]["voice"]) == ("session.updated", "echo")
        await running.user_types("Hello.")
        assert kinds(await running.read()) == ["conversation.item.created"]


async def test_the_end_of_a_session_s_time_is_told_alike(time: FedTime) -> None:
    async with open_session(time, scripted_engines(time), dialect=Dialect.BETA) as running:
        await running.read()
        running.session.expire(session_expired(60))
        (error,) = await running.read()
        assert error["error"]["code"] == "session_expired"


async def test_the_event_log_holds_what_the_client_was_sent(time: FedTime, tmp_path: Path) -> None:
    writer = EventLogWriter(tmp_path)
    writer.start()
    engines = scripted_engines(time)
    async with open_session(time, engines, log=writer.open("sess_1"), dialect=Dialect.BETA) as running:
        await running.user_types("Blueberry plans.")
        await running.send("response.create")
        await time.advance(2_000)
        await running.read()
    writer.close()
    text = (tmp_path / "sess_1.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    sent = [record["event"] for record in records if record["direction"] == "server"]
    assert [event["type"] for event in sent] == kinds(running.sent)
    audio = [event["delta"] for event in sent if event["type"] == "response.audio.delta"]
    assert sum(delta["bytes"] for delta in audio) == 2 * samples_in(running.sent) > 0
    assert "Blueberry" not in text
