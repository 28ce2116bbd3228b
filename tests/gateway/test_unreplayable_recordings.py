"""Sessions whose decisions are not our core's in the files of `--record` and `--event-log`."""

from __future__ import annotations

import asyncio
import base64
import json
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import connect

from gateway.cli import main
from gateway.settings import Remote
from models.engines.scripted import ScriptedVad
from models.engines.scripted_duplex import DuplexReply, DuplexScript, ScriptedDuplex
from tests.gateway.conftest import Gateway, Serve, no_engines
from tests.gateway.scripted_cascade import quiet, voice

APPEND_BYTES = 48 * 80


async def one_turn(gateway: Gateway, model: str) -> None:
    """Say something to the model and wait for its answer, in real time, then for the session's end."""
    async with connect(gateway.url(f"?model={model}")) as socket:
        pcm = quiet(240) + voice(640) + quiet(640)
        for at in range(0, len(pcm), APPEND_BYTES):
            audio = base64.b64encode(pcm[at : at + APPEND_BYTES]).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
            await asyncio.sleep(0.08)
        async with asyncio.timeout(10):
            while json.loads(await socket.recv())["type"] != "response.done":
                pass
    await gateway.idle()


def only_recording(folder: Path) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    """Return the one recording in a folder, its head and its records."""
    (recording,) = folder.glob("*.jsonl")
    head, *records = map(json.loads, recording.read_text("utf-8").splitlines())
    return recording, head, records


def loud_s(recording: Path) -> list[float]:
    """Return for how long the user and the agent are loud in a recording's sound."""
    with wave.open(str(recording.with_suffix(".wav"))) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)
    return [np.count_nonzero(np.abs(sound[:, side]) > 500) / 24_000 for side in (0, 1)]


async def test_a_session_is_recorded_with_its_sound_and_replay_says_in_a_sentence_why_it_cannot(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = DuplexScript((DuplexReply("Good morning to you."),), heard=("secret words",))
    engines = replace(no_engines(), vad=ScriptedVad(), native=ScriptedDuplex(script), cascade=False)
    folders = {"record": tmp_path / "recordings", "event_log": tmp_path / "events"}
    async with serve(whole=True, engines=engines, **folders) as gateway:
        await one_turn(gateway, "duplex")

    recording, head, records = only_recording(tmp_path / "recordings")
    assert head["backend"] == "duplex"
    kinds = {record["out"][0]["type"] for record in records}
    assert {"DuplexNotice", "SpeechStarted", "FloorTaken", "OutputAudio", "FloorYielded", "ResponseEnded"} <= kinds
    for loud, seconds in zip(loud_s(recording), (0.64, 0.96), strict=True):
        assert seconds / 2 < loud < seconds * 1.1

    assert main(["replay", str(recording)]) == 1
    (sentence,) = capsys.readouterr().err.splitlines()
    assert "cannot be replayed" in sentence

    (log,) = (tmp_path / "events").glob("*.jsonl")
    events = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert {"client", "server", "backend"} == {event["direction"] for event in events}
    assert "secret" not in log.read_text("utf-8")
    assert "morning" not in log.read_text("utf-8")


async def test_a_relayed_session_is_recorded_with_its_sound(serve: Serve, tmp_path: Path) -> None:
    async with (
        serve(whole=True, profile="scripted", cascade=False) as upstream,
        serve(
            whole=True,
            profile="scripted",
            remotes=(Remote("mac", f"http://127.0.0.1:{upstream.port}/v1"),),
            record=tmp_path,
        ) as gateway,
    ):
        await one_turn(gateway, "mac")
    recording, head, records = only_recording(tmp_path)
    assert head["backend"] == "mac"
    kinds = {record["out"][0]["type"] for record in records}
    assert {"SpeechStarted", "InputCommitted", "OutputAudio", "OutputTextDelta", "ResponseEnded"} <= kinds
    user, agent = loud_s(recording)
    assert 0.32 < user < 0.7
    assert agent > 0.3
