from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect

from gateway import cli
from gateway.rooms import ROOMS, RoomsError, check_rooms, locate
from gateway.serving import ListenError, open_sockets

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    prefixes = ("DUPLEX_GATEWAY_", "FOREGROUND_", "ASR_", "TTS_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(prefixes)},
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def served(folder: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """Run `serve` in `folder` and wait for its ready line; yield process, output so far, port."""
    command = [sys.executable, "-m", "gateway.cli", "serve", "--profile", "scripted", "--port", "0", *flags]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            output = ""
            while "ready: " not in output:
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                output += line
            match = re.search(r"ready: ws://127\.0\.0\.1:(\d+)/v1/realtime", output)
            assert match
            yield process, output, int(match[1])
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_when_it_is_ready_and_ends_within_3_s_with_clients_connected(tmp_path: Path, number: int) -> None:
    with served(tmp_path) as (process, output, port):
        assert f"(OpenAI SDK: base_url=http://127.0.0.1:{port}/v1)" in output
        assert "loading profile scripted (--profile changes it)\n" in output
        assert "asr: scripted" in output
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as response:
            assert json.load(response)["pid"] == process.pid
        with connect(f"ws://127.0.0.1:{port}/v1/realtime") as client:
            assert json.loads(client.recv(timeout=5))["type"] == "session.created"
            started_s = time.monotonic()
            process.send_signal(number)
            assert process.wait(timeout=10) == 0
            assert time.monotonic() - started_s < 3
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_both_loopback_addresses_are_served_on_one_port(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    with served(tmp_path) as (_, _, port):
        for host in ("127.0.0.1", "[::1]", "localhost"):
            with urllib.request.urlopen(f"http://{host}:{port}/health") as response:
                assert response.status == 200


def test_a_key_and_what_clients_send_appear_in_no_log(tmp_path: Path) -> None:
    with served(tmp_path, "--api-key", "k-secret", "--log-level", "debug") as (process, output, port):
        header = {"Authorization": "Bearer k-secret"}
        with connect(f"ws://127.0.0.1:{port}/v1/realtime", additional_headers=header) as client:
            created = client.recv(timeout=5)
        process.terminate()
        assert process.wait(timeout=5) == 0
        assert process.stderr is not None
        assert process.stdout is not None
        for text in (output, str(created), process.stderr.read(), process.stdout.read()):
            assert "k-secret" not in text


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str], chosen_folder: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--host", "127.0.0.1", "--port", str(port)]) == 1
    error = capsys.readouterr().err
    assert error == (
        f"duplex-gateway: Port {port} on 127.0.0.1 is already in use: stop what listens there or choose another "
        "with --port.\n"
    )


def test_the_tls_port_in_use_names_its_own_flag(capsys: pytest.CaptureFixture[str], chosen_folder: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        flags = ["--host", "127.0.0.1", "--port", "0", "--tls", "--tls-port", port, "--home", str(chosen_folder)]
        assert cli.main(["serve", *flags]) == 1
    assert capsys.readouterr().err.endswith("choose another with --tls-port.\n")


def test_a_certificate_that_cannot_be_used_is_one_sentence(
    capsys: pytest.CaptureFixture[str], chosen_folder: Path
) -> None:
    for name in ("cert.pem", "key.pem"):
        (chosen_folder / name).write_text("not a certificate")
    assert cli.main(["serve", "--port", "0", "--ssl-certfile", "cert.pem", "--ssl-keyfile", "key.pem"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("duplex-gateway: The certificate in cert.pem and key.pem cannot be used")
    assert error.count("\n") == 1


def test_serve_ends_with_a_client_on_the_tls_port(tmp_path: Path) -> None:
    with served(tmp_path, "--tls", "--tls-port", "0", "--home", str(tmp_path)) as (process, output, _):
        found = re.search(r"wss://localhost:(\d+)/v1/realtime", output)
        assert found
        trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.pem"))
        with connect(f"wss://localhost:{found[1]}/v1/realtime", ssl=trusting) as client:
            assert json.loads(client.recv(timeout=5))["type"] == "session.created"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_wrong_setting_is_one_sentence_and_status_2(capsys: pytest.CaptureFixture[str], chosen_folder: Path) -> None:
    assert cli.main(["serve", "--port", "many"]) == 2
    assert (
        capsys.readouterr().err == "duplex-gateway: The flag --port is 'many': give a whole number from 0 to 65535.\n"
    )


def test_a_public_bind_without_a_key_is_refused(capsys: pytest.CaptureFixture[str], chosen_folder: Path) -> None:
    assert cli.main(["serve", "--host", "0.0.0.0"]) == 2
    assert "without a key" in capsys.readouterr().err


def test_an_unknown_command_or_flag_is_status_2(chosen_folder: Path) -> None:
    for arguments in (["sing"], ["serve", "--prot", "1"], []):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 2


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out.strip()


def test_every_setting_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    shown = capsys.readouterr().out
    for word in ("--max-sessions", "FOREGROUND_BASE_URL", "DUPLEX_GATEWAY_API_KEY"):
        assert word in shown


def test_warmup_loads_all_engines_once(capsys: pytest.CaptureFixture[str], chosen_folder: Path) -> None:
    assert cli.main(["warmup", "--profile", "scripted"]) == 0
    assert "asr: scripted" in capsys.readouterr().out


@pytest.fixture
def chosen_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)
    monkeypatch.setenv("DUPLEX_GATEWAY_HOME", str(tmp_path / "home"))
    return tmp_path


def test_sockets_on_port_0_share_one_port() -> None:
    sockets = open_sockets(("127.0.0.1", "127.0.0.2"), 0)
    try:
        assert len({opened.getsockname()[1] for opened in sockets}) == 1
    finally:
        for opened in sockets:
            opened.close()


def test_an_address_that_is_not_this_machines_is_refused_unless_another_is_left() -> None:
    with pytest.raises(ListenError, match=r"203\.0\.113\.1"):
        open_sockets(("203.0.113.1",), 0)
    (left,) = open_sockets(("203.0.113.1", "127.0.0.1"), 0)
    left.close()


def test_rooms_of_another_distribution_are_noticed() -> None:
    check_rooms()

    def shadowed(name: str) -> Path | None:
        return Path("/elsewhere/models/__init__.py") if name == "models" else locate(name)

    with pytest.raises(RoomsError, match="`models` comes from another distribution"):
        check_rooms(shadowed)
    with pytest.raises(RoomsError, match="`gateway` of duplex-gateway is missing"):
        check_rooms(lambda _name: None)
    find: Callable[[str], Path | None] = locate
    assert all(find(room) is not None for room in ROOMS)


def test_a_recorded_session_is_replayed_bit_for_bit_and_with_another_setting(tmp_path: Path) -> None:
    speech = (ROOT / "tests/data/speech/goforward.wav").read_bytes()[44:]
    with served(tmp_path, "--record", str(tmp_path / "recordings")) as (process, _, port):
        with connect(f"ws://127.0.0.1:{port}/v1/realtime") as client:
            session_id = json.loads(client.recv())["session"]["id"]
            append = {"type": "input_audio_buffer.append", "audio": base64.b64encode(speech).decode()}
            client.send(json.dumps(append))
            client.send(json.dumps({"type": "input_audio_buffer.commit"}))
            client.send(json.dumps({"type": "response.create"}))
            while json.loads(client.recv())["type"] != "response.done":
                pass
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    recording = tmp_path / "recordings" / f"{session_id}.jsonl"

    same = replay_of(recording)
    other = replay_of(recording, "--set", "threshold=0.99", "--set", "create_response=false")

    assert "none changed" in same
    assert "bit for bit" in same
    assert "lines differ" in other
    assert (tmp_path / "recordings" / f"{session_id}.wav").stat().st_size > 44


def replay_of(recording: Path, *flags: str) -> str:
    command = [sys.executable, "-m", "gateway.cli", "replay", str(recording), *flags]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["nothing.jsonl"], 1, "nothing.jsonl cannot be read"),
        (["nothing.jsonl", "--set", "patience=1"], 2, "--set patience: not a setting of turn-taking"),
        (["nothing.jsonl", "--set", "threshold"], 2, "--set threshold=: give a number from 0 to 1."),
    ],
)
def test_a_replay_that_cannot_be_is_told_in_a_sentence(
    arguments: list[str], status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replay", *arguments]) == status
    assert sentence in capsys.readouterr().err
