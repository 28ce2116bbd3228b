"""The client matrix: unmodified client libraries, each in an environment of its own, against a served gateway."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import wave
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from clients.bench.gateway_process import GatewayProcess
from clients.wav_audio import RATE_HZ
from tests.endtoend.recording_chat_server import RecordingChatServer
from tests.endtoend.speech_references import FOLDER, clip
from tests.matrix.environments import NEWEST, Environments
from tests.matrix.matrix import GatewayUnderTest, Matrix
from tests.matrix.native_dialogue import DIALOGUES_AT_A_TIME, NATIVE_CLIENTS, NativeDialogue, hold_native_dialogue
from tests.simulation.rule_based_chat import rule_based_chat

GATEWAY_KEY = "sk-the-matrix-needs-a-key"


INSTALLED: pytest.StashKey[dict[str, float]] = pytest.StashKey()
"""What the environments took to make, for the summary."""


@pytest.fixture(scope="session")
def environments(request: pytest.FixtureRequest) -> Iterator[Environments]:
    home = os.environ.get("DUPLEX_MATRIX_HOME")
    with tempfile.TemporaryDirectory(prefix="duplex-matrix-") as temporary:  # pytest's own would keep three of them
        environments = Environments(Path(home) if home and not NEWEST else Path(temporary))
        yield environments
        request.config.stash[INSTALLED] = environments.took_s


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what the environments took to install: it is part of the clients stage."""
    took_s = config.stash.get(INSTALLED, {})
    if took_s:
        told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took_s.items())
        terminalreporter.write_line(f"client environments: {sum(took_s.values()):.0f} s ({told})")


@pytest.fixture(scope="session")
def speech_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All clips, trimmed to their speech, at the Realtime API's rate."""
    folder = tmp_path_factory.mktemp("speech")
    for path in FOLDER.glob("*.wav"):
        with wave.open(str(folder / path.name), "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
            file.writeframes(clip(path.stem).pcm)
    return folder


@pytest.fixture(scope="session")
def rule_based_llm() -> Iterator[RecordingChatServer]:
    with rule_based_chat() as server:
        yield server


@pytest.fixture(scope="session")
def gateway(
    rule_based_llm: RecordingChatServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayUnderTest]:
    """Real ears and voice around the rule-based language model, on plain TCP."""
    yield from _served(rule_based_llm.base_url, tmp_path_factory.mktemp("events"))


@pytest.fixture(scope="session")
def tls_gateway(
    rule_based_llm: RecordingChatServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayUnderTest]:
    """The same with `--tls`, for clients that know no other: they are given what the start prints, and nothing else."""
    yield from _served(rule_based_llm.base_url, tmp_path_factory.mktemp("events"), ["--tls", "--tls-port", "0"])


@pytest.fixture(scope="session")
def embedded_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    """What `duplex-gateway serve` is: the language model is in process as well."""
    yield from _served("", tmp_path_factory.mktemp("events"))


@pytest.fixture(scope="module")
def native_dialogues(
    request: pytest.FixtureRequest,
    environments: Environments,
    speech_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[str, Future[NativeDialogue]]]:
    """The dialogues of all clients that this run is about, several at a time: they wait for speech most of the time."""
    wanted = {
        item.callspec.params["client"] for item in request.session.items if "native_dialogues" in item.fixturenames
    }
    clients = {name: client for name, client in NATIVE_CLIENTS.items() if name in wanted}
    for client in clients.values():
        environments.ensure(client.environment)
    with ThreadPoolExecutor(DIALOGUES_AT_A_TIME) as pool:
        yield {
            name: pool.submit(
                hold_native_dialogue,
                client,
                environments.ensure(client.environment),
                speech_dir,
                tmp_path_factory.mktemp("events"),
                GATEWAY_KEY,
            )
            for name, client in clients.items()
        }


def _served(llm_url: str, events: Path, flags: Sequence[str] = ()) -> Iterator[GatewayUnderTest]:
    variables = {
        "DUPLEX_GATEWAY_API_KEY": GATEWAY_KEY,
        "FOREGROUND_BASE_URL": llm_url,
        "FOREGROUND_API_KEY": "",
        "FOREGROUND_TEMPERATURE": "0",
    }
    with GatewayProcess(["--profile", "embedded", "--event-log", str(events), *flags], variables) as process:
        base_url, authority = _told(process) if "--tls" in flags else (f"{process.http_url}/v1", None)
        yield GatewayUnderTest(process, events, GATEWAY_KEY, base_url, authority, repeats=bool(llm_url))


def _told(process: GatewayProcess) -> tuple[str, Path]:
    """Return the base URL and the file to trust that `serve --tls` prints."""
    base_url = re.search(r"base_url=(https://\S+?)\)", "\n".join(process.output))
    (line,) = (line for line in process.output if "NODE_EXTRA_CA_CERTS" in line)
    (authority,) = (word for word in shlex.split(line) if word.startswith("NODE_EXTRA_CA_CERTS="))
    assert base_url
    return base_url[1], Path(authority.partition("=")[2])


@pytest.fixture
def matrix(environments: Environments, speech_dir: Path) -> Matrix:
    return Matrix(environments, speech_dir)
