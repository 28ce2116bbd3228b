"""What the doctor finds of a full-duplex model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.doctor import native
from gateway.doctor.findings import Finding, Verdict
from gateway.doctor.native import examine_native
from models.duplex_interface import DuplexModel
from models.engine_plan import NativePlan
from models.engines.scripted_duplex import DuplexReply, DuplexScript, ScriptedDuplex

PLAN = NativePlan("scripted")


async def found(model: DuplexModel, plan: NativePlan = PLAN) -> list[Finding]:
    return [finding async for finding in examine_native(model, plan)]


async def test_a_model_that_keeps_real_time_and_answers_is_well() -> None:
    pace, answer = await found(ScriptedDuplex(DuplexScript(answer_after_ms=480)))
    assert (pace.verdict, answer.verdict) == (Verdict.OK, Verdict.OK)
    assert pace.figures["frame_ms"] == 80
    assert 0 < pace.figures["step_p50_ms"] <= pace.figures["step_p95_ms"]
    assert 300 <= answer.figures["answer_ms"] <= 900  # the packaged voice fades before its file ends


@pytest.mark.parametrize(("factor", "verdict"), [(0.85, Verdict.OK), (0.95, Verdict.WARN), (1.3, Verdict.WARN)])
def test_a_model_that_is_too_slow_is_warned_of(factor: float, verdict: Verdict) -> None:
    pace = native._pace(ScriptedDuplex(), native.Talked(steps_ms=[80 * factor] * 20))
    assert pace.verdict is verdict
    assert pace.figures["real_time_factor"] == pytest.approx(factor)
    assert ("slower than real time" in pace.detail) == (factor > 1)
    assert bool(pace.advice) == (verdict is Verdict.WARN)


async def test_a_model_that_says_nothing_is_warned_of_but_not_one_of_random_weights() -> None:
    silent = ScriptedDuplex(DuplexScript((DuplexReply(stalls=True),), nod_after_ms=None))
    _, answer = await found(silent)
    assert answer.verdict is Verdict.WARN
    _, answer = await found(silent, replace(PLAN, tiny=True))
    assert answer.verdict is Verdict.OK


async def test_a_model_that_fails_is_told_in_its_own_words() -> None:
    (finding,) = await found(ScriptedDuplex(DuplexScript(fails_at_ms=400)))
    assert (finding.verdict, finding.check) == (Verdict.FAIL, "speaks")
    assert finding.advice == "The full-duplex model failed."


async def test_a_model_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "EXAMINED_S", 0.05)
    _, answer = await found(ScriptedDuplex(DuplexScript(step_s=0.02)))
    assert answer.verdict is Verdict.FAIL
    assert "not enough" in answer.detail


def test_without_a_cascade_only_what_is_there_is_examined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--profile", "scripted", "--no-cascade", "--duplex", "scripted", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [check["role"] for check in told["checks"]] == ["settings", "vad", "native", "native"]
    assert told["checks"][0]["detail"].endswith("full-duplex model scripted")


def test_a_model_that_is_not_installed_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "mlx_vlm", None)
    arguments = ["--profile", "scripted", "--no-cascade", "--duplex", "voicechat", "--duplex-tiny", "--json"]
    assert main(["doctor", *arguments]) == 1
    *_, last = json.loads(capsys.readouterr().out)["checks"]
    assert (last["role"], last["check"], last["verdict"]) == ("native", "loads", "fail")
    assert last["advice"]
