"""`wav --target …`: whose figures are shown, from what, and where keys go."""

from __future__ import annotations

import asyncio
import http
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websockets

from clients.compare_targets import shown_table, target_of
from clients.listed_models import listed_models
from clients.observed_figures import Figures, figures_of
from clients.play_wav import main
from clients.realtime_connection import RealtimeError
from clients.wav_audio import Clip, write_wav
from tests.clients.test_play_wav import Answering

GATEWAY = "ws://127.0.0.1:8765/v1/realtime"


# --- targets -------------------------------------------------------------------------------------------------------


def test_a_name_is_a_model_of_the_gateway_and_a_url_is_itself() -> None:
    assert target_of("http://10.0.0.1:9/v1", GATEWAY, "k", {}).url == "ws://10.0.0.1:9/v1/realtime"
    assert target_of("duplex", GATEWAY, "k", {}).url == f"{GATEWAY}?model=duplex"
    assert target_of("duplex", f"{GATEWAY}?model=x&a=b", "k", {}).url == f"{GATEWAY}?model=duplex&a=b"
    assert target_of("https://example.org/v1/realtime", GATEWAY, "k", {}).url == "wss://example.org/v1/realtime"
    assert (
        target_of("ws://10.0.0.1:9/v1/realtime?model=m", GATEWAY, "k", {}).url == "ws://10.0.0.1:9/v1/realtime?model=m"
    )


def test_a_key_goes_to_its_own_host_and_to_no_other() -> None:
    keys = {"example.org": "theirs"}
    assert target_of("cascade", GATEWAY, "ours", keys).api_key == "ours"
    assert target_of("ws://127.0.0.1:8765/v1/realtime?model=x", GATEWAY, "ours", keys).api_key == "ours"
    assert target_of("wss://example.org/v1/realtime", GATEWAY, "ours", keys).api_key == "theirs"
    assert target_of("wss://example.com/v1/realtime", GATEWAY, "ours", keys).api_key == ""
    assert target_of("ws://127.0.0.1:8766/v1/realtime", GATEWAY, "ours", keys).api_key == ""


# --- figures -------------------------------------------------------------------------------------------------------


def test_the_meters_figures_are_those_of_spoken_turns_and_of_overlaps() -> None:
    turn = {"type": "waterfall", "turn": "speech", "outcome": "heard", "total_ms": 612}
    overlap = {"type": "overlap.measured", "outcome": "yielded", "yield_ms": 240, "stop_ms": 300}
    events: list[dict[str, Any]] = [
        turn, {**turn, "total_ms": 580}, {**turn, "outcome": "unanswered"}, {**turn, "turn": "own", "total_ms": 9},
        overlap, {**overlap, "outcome": "went_on", "yield_ms": None, "stop_ms": None},
        {**overlap, "outcome": "stopped", "yield_ms": None, "stop_ms": 200},
        {**overlap, "outcome": "ended", "yield_ms": None, "stop_ms": None},
    ]  # fmt: skip
    assert figures_of(events) == Figures("meter", [612, 580], [240], [300, 200], unanswered=1, went_on=1, ended=1)


def test_the_table_has_a_line_for_each_target_and_says_whose_figures_they_are() -> None:
    target = target_of("duplex", GATEWAY, "", {})
    text = shown_table([(target, Figures("meter", [600, 700], [240], [300])), (target, RealtimeError("gone"))])
    cells = text.splitlines()[2].split()
    assert cells == ["duplex", "meter", "650", "2", "240", "1", "300", "1", "0", "0", "0"]
    assert text.splitlines()[3].split()[:4] == ["duplex", "not", "reached", "–"]
    assert "no meter of ours" not in text
    assert "no meter of ours" in shown_table([(target, Figures("client"))])


# --- the command ---------------------------------------------------------------------------------------------------


async def test_a_server_without_observers_is_measured_by_the_client(
    realtime_server: Any, tone: Callable[[int], Clip], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wav(tmp_path / "in.wav", tone(100).pcm)
    async with realtime_server(Answering().react) as server:
        arguments = [str(tmp_path / "in.wav"), "--target", server.url, "--json", "--api-key", "secret"]
        assert await asyncio.to_thread(main, arguments) == 0
        assert "Authorization" not in server.headers[0]
    (found,) = json.loads(capsys.readouterr().out)["targets"]
    assert (found["source"], len(found["answer_ms"]), found["unanswered"]) == ("client", 1, 0)
    assert 0 < found["median"]["answer_ms"] < 1_000


@pytest.mark.parametrize(
    "answer",
    [
        (404, ""),
        (200, "<html>"),
        (200, "[]"),
        (200, '{"data": null}'),
        (200, '{"data": [1]}'),
        (200, '{"data": []}'),
        (200, '{"data": [{"id": "m"}]}'),
    ],
)
async def test_a_name_is_taken_as_it_is_where_no_list_can_be_read(answer: tuple[int, str]) -> None:
    def answering(connection: websockets.ServerConnection, _request: websockets.Request) -> websockets.Response:
        return connection.respond(http.HTTPStatus(answer[0]), answer[1])

    async def nobody(_socket: websockets.ServerConnection) -> None:
        raise AssertionError("only asked for its list")

    async with websockets.serve(nobody, "127.0.0.1", 0, process_request=answering) as listening:
        url = f"ws://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}/v1/realtime"
        listed = await asyncio.to_thread(listed_models, url, "k")
    assert listed == (["m"] if "id" in answer[1] else None)


def test_a_server_that_is_not_there_or_has_its_socket_elsewhere_lists_nothing(unused_url: str) -> None:
    assert listed_models(unused_url, "") is None
    assert listed_models("ws://127.0.0.1:9/talk", "") is None


async def test_a_name_is_measured_at_a_server_that_has_no_list(
    realtime_server: Any, tone: Callable[[int], Clip], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wav(tmp_path / "in.wav", tone(100).pcm)
    async with realtime_server(Answering().react) as server:
        arguments = [str(tmp_path / "in.wav"), "--url", server.url, "--target", "any", "--json"]
        assert await asyncio.to_thread(main, arguments) == 0
    assert json.loads(capsys.readouterr().out)["targets"][0]["url"] == f"{server.url}?model=any"


@pytest.mark.parametrize("silence_ms", [0, 400])
async def test_the_user_cuts_in_on_the_sound_of_an_answer_also_if_it_came_while_the_clip_still_rang(
    realtime_server: Any,
    tone: Callable[[int], Clip],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    silence_ms: int,
) -> None:
    ringing = (np.frombuffer(tone(160).pcm, "<i2") // 16).astype("<i2")  # quiet to the server, loud by its level
    write_wav(tmp_path / "in.wav", tone(100).pcm + ringing.tobytes())
    write_wav(tmp_path / "cut.wav", tone(100).pcm)
    async with realtime_server(Answering(silence_ms=silence_ms, reply_ms=1_200).react) as server:
        arguments = [str(tmp_path / "in.wav"), "--target", server.url, "--json", "--cut-in", str(tmp_path / "cut.wav")]
        assert await asyncio.to_thread(main, [*arguments, "--cut-in-ms", "20"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["targets"]
    # The reply was sent whole; the user's voice empties the player of what is left of it.
    assert (len(found["answer_ms"]), len(found["yield_ms"]), len(found["stop_ms"]), found["ended"]) == (2, 1, 1, 0)


def test_a_target_that_is_not_there_is_told_and_fails(
    unused_url: str, tone: Callable[[int], Clip], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wav(tmp_path / "in.wav", tone(100).pcm)
    assert main([str(tmp_path / "in.wav"), "--target", unused_url]) == 1
    told = capsys.readouterr()
    assert "not reached" in told.out
    assert "is a gateway running there?" in told.err


@pytest.mark.parametrize("arguments", [["--cut-in", "x.wav"], ["--target", "x", "--key", "secretword"]])
def test_wrong_flags_are_refused_in_a_sentence_without_keys(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["in.wav", *arguments])
    assert ended.value.code == 2
    assert "secretword" not in capsys.readouterr().err
