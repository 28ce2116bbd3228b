"""Keys and words go to the host that they were set for, whatever else the environment says.

A real gateway runs a spoken turn on endpoints while every variable of the OpenAI library, all proxies and `~/.netrc`
lead to a trap.
"""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest
from websockets.sync.client import connect

from clients.bench.gateway_process import GatewayProcess
from tests.gateway.trap_server import TrapServer

SPEECH = Path(__file__).parents[1] / "data" / "speech" / "goforward.wav"
TRAP_KEY = "sk-trapped"
HEARD, REPLY, INSTRUCTIONS = "Go forward ten metres.", "Certainly, ten it is.", "You are a pelican."

ROLES = ("foreground", "asr", "tts")


def sse(*chunks: object) -> str:
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


ANSWERS: dict[str, tuple[str | bytes, str]] = {
    "foreground": (
        sse({"choices": [{"index": 0, "delta": {"content": REPLY}, "finish_reason": "stop"}]}),
        "text/event-stream",
    ),
    "asr": (json.dumps({"text": HEARD}), "application/json"),
    "tts": (b"\x00\x10\x00\xf0" * 3_000, "audio/pcm"),
}
"""What a server of each role says to everything."""


def own_address() -> str:
    """Return an address of this machine beside loopback, which proxies would serve; else loopback. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def names_that_the_library_reads() -> set[str]:
    """Return the variables of the OpenAI library, as its sources name them."""
    sources = Path(openai.__file__).parent
    texts = [*sources.glob("*.py"), *sources.glob("_utils/*.py"), *sources.glob("lib/*.py")]
    found: set[str] = set()
    for path in texts:
        found |= set(re.findall(r"\b(?:AZURE_)?OPENAI_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    return found


def traps(trap: TrapServer, home: Path) -> dict[str, str]:
    """Return an environment in which everything that isn't ours leads to `trap`."""
    (home / ".netrc").write_text(f"default login trap password {TRAP_KEY}\n")
    (home / ".netrc").chmod(0o600)
    environment = dict.fromkeys(names_that_the_library_reads(), TRAP_KEY)
    environment |= {name: f"{trap.url}/v1" for name in environment if name.endswith(("_URL", "_ENDPOINT"))}
    environment |= {
        "OPENAI_CUSTOM_HEADERS": f"Authorization: Bearer {TRAP_KEY}\nX-Trap: {TRAP_KEY}",
        "OPENAI_LOG": "debug",
        "HOME": str(home),
        "NETRC": str(home / ".netrc"),
        "HF_TOKEN": TRAP_KEY,
        "HF_ENDPOINT": trap.url,
    }
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    environment |= {spelt: trap.url for name in proxies for spelt in (name, name.upper())}
    return environment | {"no_proxy": "", "NO_PROXY": ""}


@dataclass(frozen=True)
class Ran:
    """What a turn left behind. `requests`: by role."""

    requests: dict[str, list[bytes]]
    trapped: list[bytes]
    output: str
    events: list[dict[str, object]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """A gateway with all roles on endpoints, after one spoken turn."""
    with ExitStack() as stack:
        trap = stack.enter_context(TrapServer())
        servers = {
            role: stack.enter_context(TrapServer(ANSWERS[role][0], content_type=ANSWERS[role][1], host=own_address()))
            for role in ROLES
        }
        environment = traps(trap, tmp_path_factory.mktemp("home"))
        for role, server in servers.items():
            environment[f"{role.upper()}_BASE_URL"] = f"{server.url}/v1"
            environment[f"{role.upper()}_API_KEY"] = f"key-of-{role}"
            environment[f"{role.upper()}_MODEL"] = f"model-of-{role}"
        flags = [
            "--profile",
            "scripted",
            "--log-level",
            "debug",
            "--end-of-turn",
            "verdict",
            "--end-of-turn",
            "probability",
        ]
        with GatewayProcess(flags, environment) as gateway:
            events = spoken_turn(gateway.url)
        yield Ran(
            {role: server.requests for role, server in servers.items()},
            trap.requests,
            "\n".join(gateway.output),
            events,
        )


def spoken_turn(url: str) -> list[dict[str, object]]:
    events = []
    with connect(url) as client:
        append = {
            "type": "input_audio_buffer.append",
            "audio": base64.b64encode(SPEECH.read_bytes()[44:]).decode(),
        }
        session = {
            "type": "realtime",
            "instructions": INSTRUCTIONS,
            "audio": {"input": {"transcription": {"model": "whisper-1"}}},
        }
        for event in (
            {"type": "session.update", "session": session},
            append,
            {"type": "input_audio_buffer.commit"},
            {"type": "response.create"},
        ):
            client.send(json.dumps(event))
        while not events or events[-1]["type"] != "response.done":
            events.append(json.loads(client.recv(timeout=30)))
    return events


def test_the_library_has_the_variables_that_people_set() -> None:
    expected = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"}
    assert expected | {"OPENAI_WEBHOOK_SECRET", "OPENAI_LOG"} <= names_that_the_library_reads()


def test_the_turn_was_held_by_the_servers_that_were_set(ran: Ran) -> None:
    (done,) = [event for event in ran.events if event["type"] == "response.done"]
    assert done["response"]["status"] == "completed", done
    said = "".join(
        str(event["delta"]) for event in ran.events if event["type"] == "response.output_audio_transcript.delta"
    )
    assert said.strip() == REPLY
    (heard,) = [e for e in ran.events if e["type"] == "conversation.item.input_audio_transcription.completed"]
    assert heard["transcript"] == HEARD


def test_nothing_went_into_the_traps(ran: Ran) -> None:
    assert ran.trapped == []


@pytest.mark.parametrize("role", ROLES)
def test_each_server_gets_its_own_key_and_nothing_of_the_environments(ran: Ran, role: str) -> None:
    requests = ran.requests[role]
    assert requests
    for request in requests:
        head = request.partition(b"\r\n\r\n")[0].decode("latin-1").lower()
        offered = re.findall(r"^authorization: (.*)$", head, re.MULTILINE)
        assert [value.strip() for value in offered] == [f"bearer key-of-{role}"]
        assert not re.findall(r"^(?:openai-|x-trap|proxy-|api-key|cookie).*$", head, re.MULTILINE)
        for foreign in (TRAP_KEY, *(f"key-of-{other}" for other in ROLES if other != role)):
            assert foreign.encode() not in request


def test_no_key_and_no_word_is_in_the_log(ran: Ran) -> None:
    assert "ready: " in ran.output
    assert any(INSTRUCTIONS.encode() in request for request in ran.requests["foreground"])
    for secret in (TRAP_KEY, HEARD, REPLY, INSTRUCTIONS, *(f"key-of-{role}" for role in ROLES)):
        assert secret not in ran.output
    assert "openai._base_client" not in ran.output  # what the library would log by itself
