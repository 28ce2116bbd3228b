"""`duplex-gateway rehearse`: the served loop on scripted engines, without anything heavy and without waiting."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.rehearsal import INTERRUPTION, rehearse

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("onnxruntime", "openai", "httpx2", "starlette", "uvicorn", "websockets", "mcp", "xllamacpp", "soxr", "aiohttp")
SAID = re.compile(r" *(?P<at>\d+\.\d\d) s  (?P<who>you|agent): +(?P<text>.+)")
HEARD = re.compile(r" +heard (?P<total>\d+) ms after your last word \((?P<stages>.+)\)")


def rehearsed(*texts: str, **options: object) -> list[str]:
    lines: list[str] = []
    rehearse(list(texts), lines.append, **options)
    return lines


def said(lines: list[str]) -> list[tuple[str, str]]:
    return [(match["who"], match["text"]) for line in lines if (match := SAID.fullmatch(line))]


def test_each_text_is_a_turn_and_gets_its_answer() -> None:
    assert said(rehearsed("bonjour", "comment ça va ?", reply="Bien sûr.")) == [
        ("you", "bonjour"),
        ("agent", "Bien sûr."),
        ("you", "comment ça va ?"),
        ("agent", "Bien sûr."),
    ]


def test_without_a_reply_the_agent_says_what_it_heard() -> None:
    assert "one two three" in said(rehearsed("one two three"))[1][1]


def test_the_stages_of_an_answer_sum_to_its_latency() -> None:
    (heard,) = (match for line in rehearsed("hello") if (match := HEARD.fullmatch(line)))
    stages = {name: int(length) for name, length in (stage.split() for stage in heard["stages"].split(", "))}
    assert sum(stages.values()) == int(heard["total"])
    assert stages["playout"] == 150
    assert stages["tts_ttfa"] == 80
    assert 450 <= stages["eot_wait"] + stages["vad_hang"] <= 550  # the silence of server_vad


def test_an_interruption_cuts_the_reply_and_what_is_remembered_is_what_was_heard() -> None:
    reply = "Once upon a time there was a king who had three daughters and a horse."
    lines = rehearsed("tell me everything", interrupt_after_s=1.0, reply=reply)
    assert [text for who, text in said(lines) if who == "you"] == ["tell me everything", INTERRUPTION]
    (line,) = (line for line in lines if "remembers" in line)
    remembered = line.split("that it said: ")[1].strip("'")
    assert remembered
    assert reply.startswith(remembered)
    assert 3 <= len(remembered.split()) <= 4  # the scripted voice takes 300 ms for a word
    silent_ms = int(re.findall(r"silent (\d+) ms later", line)[0])
    assert silent_ms <= 2 * 32 + 32  # two frames of voice, and the one in which it began


def test_the_later_the_interruption_the_more_is_remembered() -> None:
    reply = " ".join(f"word{number}" for number in range(30)) + "."

    def words(after_s: float) -> int:
        (line,) = (line for line in rehearsed("go", interrupt_after_s=after_s, reply=reply) if "remembers" in line)
        return len(line.split("that it said: ")[1].split())

    assert words(0.5) < words(2.0) < words(5.0)


def test_the_next_text_cuts_in() -> None:
    lines = rehearsed("one", "two", interrupt_after_s=0.5)
    assert [text for who, text in said(lines) if who == "you"] == ["one", "two", INTERRUPTION]
    assert sum("remembers" in line for line in lines) == 2


def test_a_reply_that_is_over_can_not_be_interrupted() -> None:
    lines = rehearsed("one", interrupt_after_s=20.0, reply="Yes.")
    assert said(lines) == [("you", "one"), ("agent", "Yes.")]


def test_two_rehearsals_are_the_same() -> None:
    assert rehearsed("a b c", "d", interrupt_after_s=0.7) == rehearsed("a b c", "d", interrupt_after_s=0.7)


def test_observers_see_every_step() -> None:
    events = [json.loads(line)["type"] for line in rehearsed("hello", observe=True) if line.startswith("{")]
    for kind in ("speech.started", "turn.committed", "transcript.final", "llm.asked", "tts.audio", "waterfall"):
        assert kind in events
    assert events.index("speech.started") < events.index("turn.committed") < events.index("waterfall")


def test_a_cold_start_loads_no_engine_no_server_and_no_client() -> None:
    """What makes it answer in well under a second; the second itself is for a quiet machine to show."""
    program = (
        "import sys; from gateway.cli import main; status = main(['rehearse', 'bonjour', '--interrupt-after', '0.3']);"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules];"
        "print('loaded:', *loaded); sys.exit(status)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "loaded:"
    assert result.stderr == ""


@pytest.mark.parametrize("seconds", ["-1", "61", "soon", "nan"])
def test_a_time_that_is_none_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["rehearse", "hello", f"--interrupt-after={seconds}"])
    assert end.value.code == 2
    assert "--interrupt-after" in capsys.readouterr().err
