"""`duplex-gateway doctor` as a whole: order, exit status, JSON, servers that are well, and what it never says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from gateway.doctor.ears import examine_asr, examine_vad, packaged_voice
from gateway.doctor.examination import examine
from gateway.doctor.findings import Finding, Verdict
from gateway.doctor.sentences import SENTENCES, base_language, error_rate
from gateway.doctor.turn_ends import examine_judges, reasons_told
from gateway.doctor.voice import Spoken, examine_round_trip
from gateway.settings import Settings
from models.engine_plan import AsrPlan, TtsPlan
from models.engines.scripted import ScriptedJudge, ScriptedRecognizer, ScriptedVad
from models.interfaces import EngineError
from tests.gateway import fault_tables
from tests.gateway.speech_endpoint_faults import HEARD
from tests.models.chat_server import chat_server
from tests.models.openai_servers import MODEL, chatting, server, speaking

KEY = "k-doctor-secret"
ORDER = ["settings", "vad", "asr", "tts", "speech", "foreground", "end_of_turn", "native", "native", "latency"]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working directory without anybody's settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("FOREGROUND", "ASR", "TTS"):
        for part in ("BASE_URL", "API_KEY", "MODEL"):
            monkeypatch.delenv(f"{name}_{part}", raising=False)
    return tmp_path


async def found(examining: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in examining]


# --- the command ---------------------------------------------------------------------------------------------------


def test_scripted_engines_are_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--profile", "scripted"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1].rstrip(":") for line in lines[:-1]] == [
        "settings", "vad", "asr", "tts", "speech", "foreground", "foreground", "end_of_turn", "native",
        "native", "latency",
    ]  # fmt: skip
    assert all(line.startswith("ok ") for line in lines[:-1])
    assert lines[-1] == "11 ok, 0 warn, 0 fail"


def test_json_holds_what_the_lines_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--profile", "scripted", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["ok"] is True
    assert [check["role"] for check in told["checks"] if check["check"] != "tools"] == ORDER
    streams = next(check for check in told["checks"] if check["check"] == "streams")
    assert streams["verdict"] == "ok"
    assert streams["figures"]["pieces"] > 1
    assert streams["figures"]["first_token_ms"] >= 50  # the scripted model's own delay


def test_a_failure_is_an_exit_status(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the examination goes on behind it."""
    flags = ["--foreground-base-url", "http://127.0.0.1:9/v1"]
    assert main(["doctor", "--profile", "scripted", *flags, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [check["role"] for check in told["checks"] if check["verdict"] == "fail"] == ["foreground"]
    assert told["checks"][-1]["role"] == "latency"


def test_a_wrong_setting_is_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--port", "none", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [check["role"] for check in told["checks"]] == ["settings"]
    assert "--port" in told["checks"][0]["advice"]


# --- servers that are well -----------------------------------------------------------------------------------------

SERVERS = {
    "chat": (server(chat=chatting, key=KEY), ("foreground",)),
    "transcription": (server(transcription=HEARD, key=KEY), ("asr",)),
    "speech": (server(speech=speaking(), key=KEY), ("tts",)),
    "all": (server(chat=chatting, transcription=HEARD, speech=speaking(), key=KEY), ("foreground", "asr", "tts")),
}


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_server_that_is_well_passes(kind: str) -> None:
    respond, roles = SERVERS[kind]
    async with chat_server(respond) as served:
        told: dict[str, Any] = {}
        for role in roles:
            told |= {f"{role}_base_url": served.base_url, f"{role}_api_key": KEY, f"{role}_model": MODEL}
        findings = await found(examine(Settings(profile="scripted", port=0, **told)))
    assert [finding for finding in findings if finding.verdict is not Verdict.OK] == []
    assert [role for role in ORDER if any(finding.role == role for finding in findings)] == ORDER
    for role in roles:
        assert {"reachable", "model"} <= {finding.check for finding in findings if finding.role == role}
    lines = " ".join(line for finding in findings for line in finding.lines())
    assert KEY not in lines
    assert served.exchanges
    assert all(exchange.headers["authorization"] == f"Bearer {KEY}" for exchange in served.exchanges)


# --- single checks -------------------------------------------------------------------------------------------------


class DeafVad:
    """Hears nothing, or everything."""

    def __init__(self, probability: float) -> None:
        self._probability = probability

    def open(self) -> DeafVad:
        return self

    async def feed(self, pcm: bytes) -> list[float]:
        return [self._probability] * (len(pcm) // 1536)


async def test_the_packaged_voice_is_heard() -> None:
    assert 2.0 < len(packaged_voice()) / 48_000 < 5.0
    (finding,) = await found(examine_vad(ScriptedVad()))
    assert finding.verdict is Verdict.OK
    assert finding.figures["voiced_share"] > 0.5


@pytest.mark.parametrize("probability", [0.0, 1.0])
async def test_a_vad_that_hears_nothing_or_everything_fails(probability: float) -> None:
    (finding,) = await found(examine_vad(DeafVad(probability)))
    assert finding.verdict is Verdict.FAIL
    assert "silero" in finding.advice


async def test_a_recogniser_in_process_that_fails_says_so() -> None:
    class Broken(ScriptedRecognizer):
        async def transcribe(self, pcm: bytes, **options: Any) -> Any:
            raise EngineError("asr_failed", "The recogniser is broken.")

    (finding,) = await found(examine_asr(Broken(), AsrPlan("moonshine"), None, Settings()))
    assert (finding.verdict, finding.detail) == (Verdict.FAIL, "The recogniser is broken.")


@pytest.mark.parametrize(
    ("heard", "verdict"),
    [
        (SENTENCES["en"], Verdict.OK),
        ("please bring 7 apples and a glass of water to the table", Verdict.OK),
        ("please bring seven apples and a glass of wine to them", Verdict.WARN),
        ("police sing haven't chapels", Verdict.FAIL),
        ("", Verdict.FAIL),
    ],
)
async def test_a_round_trip_is_as_good_as_its_words(heard: str, verdict: Verdict) -> None:
    asr = ScriptedRecognizer([heard], delay_ms=0)
    spoken = Spoken(packaged_voice())
    (finding,) = await found(examine_round_trip(asr, AsrPlan("moonshine"), TtsPlan("piper"), spoken, Settings()))
    assert finding.verdict is verdict, finding


def judge(name: str, complete: float, delay_ms: float = 0.0) -> ScriptedJudge:
    return ScriptedJudge({"tomorrow": complete, "": 0.1}, name=name, delay_ms=delay_ms)


async def test_judges_are_told_with_the_reasons_of_those_that_are_off() -> None:
    with reasons_told() as reasons:
        import logging

        logger = logging.getLogger("models.engines.proven_judge")
        logger.info("the end-of-turn judge %r is off: %s", "verdict", "the model judged 3 of 20 right.")
    judges = [judge("probability", 0.9), judge("lexical", 0.9)]
    (finding,) = await found(examine_judges(judges, ("probability", "verdict", "lexical"), reasons))
    assert finding.verdict is Verdict.OK
    assert finding.detail.endswith("; without verdict: the model judged 3 of 20 right")
    assert set(finding.figures) == {"probability_ms", "lexical_ms"}


async def test_a_judge_that_can_not_tell_is_doubtful() -> None:
    (finding,) = await found(examine_judges([judge("probability", 0.05)], ("probability",), {}))
    assert "(doubtful)" in finding.detail


@pytest.mark.parametrize("on", [("lexical",), ("audio", "lexical")])
async def test_no_judge_that_reads_is_worth_a_warning(on: tuple[str, ...]) -> None:
    reasons = {"probability": "the server took too long to judge.", "verdict": "it judged 3 of 20 right."}
    wanted = ("audio", "probability", "verdict", "lexical")
    (finding,) = await found(examine_judges([judge(name, 0.9) for name in on], wanted, reasons))
    assert finding.verdict is Verdict.WARN
    assert "log probabilities" in finding.advice
    assert "without probability: the server took too long to judge; without verdict: it judged" in finding.detail


async def test_a_judge_that_is_too_slow_should_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.doctor.turn_ends.JUDGE_DEADLINE_S", 0.05)
    judges = [judge("probability", 0.9, delay_ms=5_000), judge("lexical", 0.9)]
    (finding,) = await found(examine_judges(judges, ("probability", "lexical"), {}))
    assert finding.verdict is Verdict.WARN
    assert finding.advice == "leave it out: DUPLEX_GATEWAY_END_OF_TURN=lexical."


# --- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_that_arrives_whole_has_no_errors(language: str) -> None:
    sentence = SENTENCES[language]
    assert error_rate(sentence, sentence.upper().replace(",", ""), language) == 0
    assert error_rate(sentence, "", language) == 1


def test_wrong_missing_and_additional_words_count_once_each() -> None:
    assert error_rate("one two three four", "one too three four", "en") == 0.25
    assert error_rate("one two three four", "one three four", "en") == 0.25
    assert error_rate("one two three four", "one two and three four", "en") == 0.25


@pytest.mark.parametrize(
    ("tag", "language"), [("fr-CA", "fr"), ("EN", "en"), ("", "en"), ("fi", "en"), ("zh-Hant", "zh")]
)
def test_a_language_is_found_by_its_tag(tag: str, language: str) -> None:
    assert base_language(tag) == language


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_faults_that_are_injected() -> None:
    """Else run `python -m tests.gateway.fault_tables`."""
    text = fault_tables.PAGE.read_text(encoding="utf-8")
    assert fault_tables.page(text) == text
