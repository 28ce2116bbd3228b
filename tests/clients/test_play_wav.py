from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.play_wav import main
from clients.wav_audio import Clip, read_clip, write_wav

REPLY_MS = 200


class Answering:
    """A server that answers each stretch of loud audio, 60 ms after its end, with a tone."""

    def __init__(self, *, answers: bool = True, silence_ms: int = 0, reply_ms: int = REPLY_MS) -> None:
        self.answers = answers
        self.silence_ms = silence_ms
        self.reply_ms = reply_ms
        self.turns = 0
        self.loud = False
        self.quiet_chunks = 0

    async def react(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        if event["type"] == "session.update":
            return [{"type": "session.updated", "event_id": "e", "session": event["session"]}]
        if event["type"] != "input_audio_buffer.append":
            return []
        loud = np.abs(np.frombuffer(base64.b64decode(event["audio"]), "<i2").astype(int)).max() > 1_000
        if loud:
            self.quiet_chunks = 0
            begun, self.loud = not self.loud, True
            return (
                [{"type": "input_audio_buffer.speech_started", "item_id": f"u{self.turns}", "audio_start_ms": 0}]
                if begun
                else []
            )
        self.quiet_chunks += 1
        if not self.loud or self.quiet_chunks < 3:
            return []
        self.loud = False
        self.turns += 1
        return self._answer() if self.answers else []

    def _answer(self) -> list[dict[str, Any]]:
        response, item, user = f"r{self.turns}", f"a{self.turns}", f"u{self.turns - 1}"
        audio = base64.b64encode(b"\0\0" * 24 * self.silence_ms + b"\1\1" * 24 * self.reply_ms).decode()
        transcription = "conversation.item.input_audio_transcription.completed"
        return [
            {"type": "input_audio_buffer.speech_stopped", "item_id": user, "audio_end_ms": 0},
            {"type": "response.created", "response": {"id": response}},
            {"type": transcription, "item_id": user, "transcript": "Beep."},
            {"type": "response.output_audio.delta", "response_id": response, "item_id": item, "delta": audio},
            {"type": "response.output_audio_transcript.done", "response_id": response, "transcript": "Boop."},
            {"type": "response.done", "response": {"id": response, "status": "completed"}},
        ]


@pytest.fixture
def wav(tmp_path: Path, tone: Callable[[int], Clip]) -> str:
    write_wav(tmp_path / "in.wav", tone(100).pcm)
    return str(tmp_path / "in.wav")


async def play(realtime_server: Any, *arguments: str) -> int:
    async with realtime_server(Answering().react) as server:
        return await asyncio.to_thread(main, [*arguments, "--url", server.url])


async def test_play_prints_the_timeline_and_the_latencies_and_saves_the_reply(
    realtime_server: Any, wav: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.wav"
    assert await play(realtime_server, wav, "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert "turn 1: “Beep.” → “Boop.” (completed)" in printed
    assert "last speech sample → first audio byte" in printed
    assert "1 deltas, 0.20 s" in printed
    event_column = {line.index("input_audio_buffer.") for line in printed.splitlines() if "input_audio_buffer." in line}
    assert len(event_column) == 1
    assert read_clip(out).pcm == b"\1\1" * 24 * REPLY_MS


async def test_play_takes_as_many_turns_as_asked_for(
    realtime_server: Any, wav: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await play(realtime_server, wav, "--turns", "2", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [turn["reply_text"] for turn in report["turns"]] == ["Boop.", "Boop."]
    assert all(0 < turn["latencies"]["first_audio"] < 2_000 for turn in report["turns"])
    assert report["timeline"][0]["event"] == "session.created"


async def test_play_asks_for_the_silence_that_it_was_told(realtime_server: Any, wav: str) -> None:
    async with realtime_server(Answering().react) as server:
        await asyncio.to_thread(main, [wav, "--url", server.url, "--silence-ms", "700", "--api-key", "k"])
        (update,) = [event for event in server.received if event["type"] == "session.update"]
        assert update["session"]["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 700
        assert server.headers[0]["Authorization"] == "Bearer k"


async def test_play_fails_without_an_answer(
    realtime_server: Any, wav: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("clients.conversation.TURN_TIMEOUT_S", 0.3)
    async with realtime_server(Answering(answers=False).react) as server:
        assert await asyncio.to_thread(main, [wav, "--url", server.url]) == 1
    assert "never" in capsys.readouterr().out


async def test_play_tells_a_refusal_of_its_settings(
    realtime_server: Any, wav: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(_event: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"type": "error", "error": {"message": "No such thing."}}]

    async with realtime_server(refuse) as server:
        assert await asyncio.to_thread(main, [wav, "--url", server.url]) == 1
    assert "No such thing." in capsys.readouterr().err


def test_play_tells_in_a_sentence_what_is_wrong(
    wav: str, unused_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.wav"), "--url", unused_url]) == 1
    assert main([wav, "--url", unused_url]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "none.wav" in first
    assert "is a gateway running there" in second
