"""The client matrix: unmodified client libraries, each in an environment of its own, against a served gateway."""

from __future__ import annotations

import os
import tempfile
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from clients.bench.gateway_process import GatewayProcess
from clients.wav_audio import RATE_HZ
from tests.endtoend.recording_chat_server import RecordingChatServer
from tests.endtoend.speech_references import FOLDER, clip
from tests.matrix.environments import NEWEST, Environments
from tests.matrix.matrix import GatewayUnderTest, Matrix
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
    """The same behind TLS, for clients that know no other. Its certificate's authority is in SSL variables only."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    served = authority.issue_cert("127.0.0.1", "localhost")
    for number, blob in enumerate(served.cert_chain_pems):
        blob.write_to_path(folder / "chain.pem", append=number > 0)
    served.private_key_pem.write_to_path(folder / "key.pem")
    flags = ["--ssl-certfile", str(folder / "chain.pem"), "--ssl-keyfile", str(folder / "key.pem")]
    yield from _served(rule_based_llm.base_url, tmp_path_factory.mktemp("events"), flags, folder / "authority.pem")


@pytest.fixture(scope="session")
def embedded_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    """What `duplex-gateway serve` is: the language model is in process as well."""
    yield from _served("", tmp_path_factory.mktemp("events"))


def _served(
    llm_url: str, events: Path, flags: tuple[str, ...] | list[str] = (), authority: Path | None = None
) -> Iterator[GatewayUnderTest]:
    variables = {
        "DUPLEX_GATEWAY_API_KEY": GATEWAY_KEY,
        "FOREGROUND_BASE_URL": llm_url,
        "FOREGROUND_API_KEY": "",
        "FOREGROUND_TEMPERATURE": "0",
    }
    with GatewayProcess(["--profile", "embedded", "--event-log", str(events), *flags], variables) as process:
        yield GatewayUnderTest(process, events, GATEWAY_KEY, authority, repeats=bool(llm_url))


@pytest.fixture
def matrix(environments: Environments, speech_dir: Path) -> Matrix:
    return Matrix(environments, speech_dir)
