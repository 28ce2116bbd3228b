"""The snippets of clients/README.md run as they stand, but for the port."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.bench.gateway_process import GatewayProcess
from models.engines.scripted_duplex import TRIAL
from tests.matrix.environments import Environments

pytestmark = pytest.mark.compatibility

README = Path(__file__).parent.parent.parent / "clients" / "README.md"
SNIPPETS = re.findall(r"<!-- run: (\S+) -->\n```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
REPLY = "This is the reply."
GREETING = TRIAL.greeting
"""What the scripted full-duplex model says when it is made to speak first."""
DEADLINE_S = 60


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    variables = {"DUPLEX_GATEWAY_API_KEY": "", "FOREGROUND_BASE_URL": ""}
    with GatewayProcess(["--profile", "scripted", "--scripted-reply", REPLY], variables) as gateway:
        yield gateway.http_url.removeprefix("http://")


@pytest.mark.parametrize(
    ("environment", "language", "program"), SNIPPETS, ids=[f"{n}-{name}" for n, (name, *_) in enumerate(SNIPPETS, 1)]
)
def test_a_snippet_gets_an_answer(
    environment: str, language: str, program: str, address: str, environments: Environments
) -> None:
    made = environments.ensure(environment)
    path = made.folder / {"python": "snippet.py", "js": "snippet.mjs"}[language]
    path.write_text(program.replace("127.0.0.1:8765", address), encoding="utf-8")
    done = subprocess.run(
        [*made.command, str(path)], capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=made.folder
    )
    assert done.returncode == 0, done.stderr
    assert (GREETING if '"duplex"' in program else REPLY) in done.stdout


def test_there_are_snippets() -> None:
    assert {language for _, language, _ in SNIPPETS} <= {"python", "js"}
    assert len(SNIPPETS) >= 4
