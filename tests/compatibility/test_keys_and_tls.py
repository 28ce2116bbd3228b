"""The stock openai SDK with ephemeral keys, and over TLS with the gateway's own certificate."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from openai import AsyncOpenAI, OpenAI
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from clients.bench.gateway_process import GatewayProcess
from protocol.wire_law import violations

pytestmark = pytest.mark.compatibility

SESSION: Any = {"type": "realtime", "instructions": "Be kind.", "audio": {"output": {"voice": "cedar"}}}
KEY = "k-test"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("Application Support")  # a space, as on macOS


@pytest.fixture(scope="module")
def secured(home: Path) -> Iterator[GatewayProcess]:
    flags = ["--profile", "scripted", "--api-key", KEY, "--tls", "--tls-port", "0", "--home", str(home)]
    environment = {"FOREGROUND_BASE_URL": "", "DUPLEX_GATEWAY_API_KEY": ""}
    with GatewayProcess(flags, environment) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def tls_port(secured: GatewayProcess) -> int:
    found = re.search(r"wss://localhost:(\d+)/v1/realtime", "\n".join(secured.output))
    assert found
    return int(found[1])


@pytest.fixture(scope="module")
def authority(secured: GatewayProcess) -> Path:
    (line,) = (line for line in secured.output if "NODE_EXTRA_CA_CERTS" in line)
    (told,) = (word for word in shlex.split(line) if word.startswith("NODE_EXTRA_CA_CERTS="))
    return Path(told.partition("=")[2])


def test_the_sdk_makes_a_secret_and_opens_a_session_with_it(secured: GatewayProcess) -> None:
    base_url = secured.http_url + "/v1"
    with OpenAI(api_key=KEY, base_url=base_url) as server:
        secret = server.realtime.client_secrets.create(session=SESSION)
    with OpenAI(api_key=secret.value, base_url=base_url) as page, page.realtime.connect() as connection:
        created = connection.recv()
        assert violations(created.to_dict()) == []
        assert created.type == "session.created"
        assert created.session.type == "realtime"
        assert created.session.instructions == "Be kind."


async def test_the_async_sdk_makes_a_secret_and_opens_a_session_with_it(secured: GatewayProcess) -> None:
    base_url = secured.http_url + "/v1"
    async with AsyncOpenAI(api_key=KEY, base_url=base_url) as server:
        secret = await server.realtime.client_secrets.create(session=SESSION)
    async with (
        AsyncOpenAI(api_key=secret.value, base_url=base_url) as page,
        page.realtime.connect(model="gpt-realtime") as connection,
        asyncio.timeout(10),
    ):
        created = await connection.recv()
        assert created.type == "session.created"
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        updated = await connection.recv()
        assert violations(updated.to_dict()) == []
        assert updated.type == "session.updated"
        assert updated.session.type == "realtime"
        assert updated.session.output_modalities == ["text"]
        assert updated.session.instructions == "Be kind."


def test_a_secret_for_a_transcription_session_opens_one(secured: GatewayProcess) -> None:
    base_url = secured.http_url + "/v1"
    session: Any = {"type": "transcription", "audio": {"input": {"transcription": {"model": "whisper-1"}}}}
    with OpenAI(api_key=KEY, base_url=base_url) as server:
        secret = server.realtime.client_secrets.create(session=session)
    with OpenAI(api_key=secret.value, base_url=base_url) as page, page.realtime.connect() as connection:
        created = connection.recv()
        assert violations(created.to_dict()) == []
        assert created.type == "session.created"
        assert created.session.type == "transcription"
        assert created.session.audio is not None
        assert created.session.audio.input is not None
        assert created.session.audio.input.transcription is not None
        assert created.session.audio.input.transcription.model == "whisper-1"


def test_the_sdk_reads_why_its_key_is_refused(secured: GatewayProcess) -> None:
    with (
        OpenAI(api_key="wrong", base_url=secured.http_url + "/v1") as client,
        pytest.raises(InvalidStatus) as caught,
        client.realtime.connect(model="gpt-realtime"),
    ):
        pass
    assert caught.value.response.status_code == 401


SDK_SCRIPT = """
import os
from openai import OpenAI

with OpenAI(api_key=os.environ["KEY"], base_url=os.environ["BASE_URL"]) as client:
    secret = client.realtime.client_secrets.create()
    with client.with_options(api_key=secret.value).realtime.connect(model="gpt-realtime") as connection:
        print(connection.recv().type)
    # The beta client speaks wss whatever its base URL says.
    with client.beta.realtime.connect(model="gpt-realtime") as connection:
        print(connection.recv().type)
"""


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


no_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", pytest.param("[::1]", marks=no_ipv6)])
def test_the_sdk_reaches_the_tls_port_with_what_the_start_up_prints(tls_port: int, authority: Path, host: str) -> None:
    environment = {
        **os.environ,
        "KEY": KEY,
        "BASE_URL": f"https://{host}:{tls_port}/v1",
        "SSL_CERT_FILE": str(authority),
    }
    done = subprocess.run(
        [sys.executable, "-c", SDK_SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["session.created", "session.created"], done.stderr


def test_a_stock_websocket_client_speaks_wss_and_trusts_nothing_else(tls_port: int, authority: Path) -> None:
    url = f"wss://localhost:{tls_port}/v1/realtime"
    header = {"Authorization": f"Bearer {KEY}"}
    trusting = ssl.create_default_context(cafile=str(authority))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    with connect(url, ssl=trusting, additional_headers=header) as client:
        assert json.loads(client.recv(timeout=10))["type"] == "session.created"
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(url, ssl=ssl.create_default_context(), additional_headers=header)


def test_a_certificate_of_ones_own_serves_the_sdk_on_the_one_port(tmp_path: Path) -> None:
    own = trustme.CA()
    served = own.issue_cert("localhost", "gateway.example")
    chain, key, trusted = (tmp_path / name for name in ("chain.pem", "key.pem", "ca.pem"))
    for number, blob in enumerate(served.cert_chain_pems):
        blob.write_to_path(chain, append=number > 0)
    served.private_key_pem.write_to_path(key)
    own.cert_pem.write_to_path(trusted)
    flags = ["--profile", "scripted", "--api-key", KEY, "--ssl-certfile", str(chain), "--ssl-keyfile", str(key)]
    with GatewayProcess(flags, {"FOREGROUND_BASE_URL": ""}) as gateway:
        assert gateway.url.startswith("wss://")
        port = gateway.http_url.rpartition(":")[2]
        environment = {
            **os.environ,
            "KEY": KEY,
            "BASE_URL": f"https://localhost:{port}/v1",
            "SSL_CERT_FILE": str(trusted),
        }
        done = subprocess.run(
            [sys.executable, "-c", SDK_SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout.split() == ["session.created", "session.created"], done.stderr
        probe = [sys.executable, str(Path(__file__).parents[2] / "docker" / "healthcheck.py")]
        told = {"DUPLEX_GATEWAY_PORT": port, "DUPLEX_GATEWAY_SSL_CERTFILE": str(chain)}
        subprocess.run(probe, env=told, timeout=10, check=True)
        with pytest.raises(OSError, match="closed"):  # nobody speaks plain HTTP there
            urllib.request.urlopen(f"http://localhost:{port}/health", timeout=10)


def test_both_ports_are_one_gateway(secured: GatewayProcess, tls_port: int, authority: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(authority))
    with urllib.request.urlopen(f"https://localhost:{tls_port}/health", context=trusting) as response:
        over_tls = json.load(response)
    with urllib.request.urlopen(secured.http_url + "/health") as response:
        plain = json.load(response)
    assert over_tls["pid"] == plain["pid"] == secured.pid
