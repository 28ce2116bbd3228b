"""What Prometheus reads: parsed by its own parser, counted from what happened."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from websockets.asyncio.client import connect

from gateway.app import create_app, service_of
from gateway.measured_turn import Outcome, TurnKind
from gateway.metrics import LABEL_VALUES, Metrics
from gateway.observing.kinds import Kind
from gateway.overlaps import OverlapOutcome
from gateway.service import Service
from gateway.settings import Settings
from gateway.turns.observations import OverlapVerdict, PauseVerdict, SpeculationFate
from gateway.waterfall import Stage
from protocol.audio_time import samples_from_s
from tests.gateway.conftest import Serve, no_engines
from tests.gateway.test_observer_endpoint import get

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str) -> Samples:
    """Return each sample of an exposition by its name and its labels."""
    return {
        (sample.name.removeprefix("duplex_gateway_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def counted(*seen: tuple[Kind, dict[str, Any]]) -> Samples:
    metrics = Metrics(Service(8, ("cascade",)))
    for kind, fields in seen:
        metrics.saw(kind, fields)
    return read(metrics.text().decode())


def turn(outcome: Outcome = Outcome.HEARD, total_ms: int = 700) -> tuple[Kind, dict[str, Any]]:
    stages = {Stage.EOT_WAIT: 400, Stage.STT_FINAL: total_ms - 400}
    return Kind.WATERFALL, {"turn": TurnKind.SPEECH, "outcome": outcome, "stages_ms": stages, "total_ms": total_ms}


def test_a_turn_is_counted_with_the_length_of_each_stage_in_seconds() -> None:
    found = counted(turn(), turn(), turn(Outcome.CUT, 900))
    assert found["turns_total", (("kind", "speech"), ("outcome", "heard"))] == 2
    assert found["turns_total", (("kind", "speech"), ("outcome", "cut"))] == 1
    assert found["turn_stage_seconds_count", (("stage", "eot_wait"),)] == 3
    assert found["turn_stage_seconds_sum", (("stage", "stt_final"),)] == pytest.approx(0.3 + 0.3 + 0.5)
    assert found["turn_stage_seconds_bucket", (("le", "0.3"), ("stage", "stt_final"))] == 2
    assert found["turn_seconds_count", (("kind", "speech"),)] == 2, "what was cut was not heard"
    assert found["turn_seconds_sum", (("kind", "speech"),)] == pytest.approx(1.4)


def test_a_voice_over_the_agents_is_counted_with_its_yield_and_its_stop() -> None:
    def overlap(outcome: OverlapOutcome, yield_ms: int | None, stop_ms: int | None) -> tuple[Kind, dict[str, Any]]:
        return Kind.OVERLAP_MEASURED, {"outcome": outcome, "yield_ms": yield_ms, "stop_ms": stop_ms}

    found = counted(
        overlap(OverlapOutcome.YIELDED, 240, 300),
        overlap(OverlapOutcome.STOPPED, None, 500),
        overlap(OverlapOutcome.WENT_ON, None, None),
    )
    assert [found["overlaps_total", (("outcome", outcome),)] for outcome in OverlapOutcome] == [1, 1, 0, 1]
    assert (found["yield_seconds_count", ()], found["yield_seconds_sum", ()]) == (1, pytest.approx(0.24))
    assert (found["stop_seconds_count", ()], found["stop_seconds_sum", ()]) == (2, pytest.approx(0.8))


def test_a_full_duplex_models_pace_is_counted_over_all_sessions() -> None:
    def pace(factor: float, backlog_ms: int, unheard_ms: int) -> tuple[Kind, dict[str, Any]]:
        fields = {"real_time_factor": factor, "backlog_ms": backlog_ms, "unheard_ms": unheard_ms}
        return Kind.MODEL_PACE, fields

    found = counted(pace(0.6, 0, 0), pace(1.3, 400, 1_500), pace(1.3, 400, 500))
    assert found["model_unheard_seconds_total", ()] == pytest.approx(2)
    assert found["model_real_time_factor_bucket", (("le", "1.0"),)] == 1
    assert found["model_backlog_seconds_sum", ()] == pytest.approx(0.8)


def test_decisions_are_counted_by_their_verdict() -> None:
    found = counted(
        (Kind.OVERLAP_VERDICT, {"verdict": OverlapVerdict.BACKCHANNEL}),
        (Kind.OVERLAP_VERDICT, {"verdict": "immediate"}),
        (Kind.END_OF_TURN_VERDICT, {"verdict": PauseVerdict.HOLD}),
        (Kind.SPECULATION, {"fate": SpeculationFate.DROPPED}),
        (Kind.VAD, {}),
    )
    assert found["barge_ins_total", (("verdict", "backchannel"),)] == 1
    assert found["barge_ins_total", (("verdict", "immediate"),)] == 1
    assert found["pauses_total", (("verdict", "hold"),)] == 1
    assert found["speculations_total", (("fate", "dropped"),)] == 1


def test_every_value_of_a_closed_set_is_there_from_the_start() -> None:
    found = counted()
    wanted = {("turn_stage_seconds_count", "stage"): Stage, ("pauses_total", "verdict"): PauseVerdict}
    wanted |= {("speculations_total", "fate"): SpeculationFate, ("turn_seconds_count", "kind"): TurnKind}
    for (name, label), values in wanted.items():
        assert {dict(labels)[label] for metric, labels in found if metric == name} == {value.value for value in values}
    assert all(value == 0 for (name, _), value in found.items() if name.endswith("_total"))


def test_failures_and_errors_are_counted_by_their_codes() -> None:
    found = counted(
        (Kind.ERROR, {"code": "invalid_value"}),
        (Kind.RESPONSE_ENDED, {"status": "failed", "code": "llm_timeout"}),
        (Kind.RESPONSE_ENDED, {"status": "completed"}),
        (Kind.TRANSCRIPT_FAILED, {"code": "asr_failed"}),
    )
    assert found["client_errors_total", (("code", "invalid_value"),)] == 1
    assert found["engine_failures_total", (("code", "llm_timeout"),)] == 1
    assert found["engine_failures_total", (("code", "asr_failed"),)] == 1
    assert sum(value for (name, _), value in found.items() if name == "engine_failures_total") == 2


@pytest.mark.parametrize("code", ["x" * 49, "", None, "a b", 'a"b\n', "A", "é"])
def test_a_code_that_is_no_word_of_ours_is_other(code: str | None) -> None:
    assert counted((Kind.ERROR, {"code": code}))["client_errors_total", (("code", "other"),)] == 1


def test_whatever_codes_there_are_the_label_has_so_many_values_and_one_more() -> None:
    found = counted(*((Kind.ERROR, {"code": f"code_{n}"}) for n in range(3 * LABEL_VALUES)))
    codes = {dict(labels)["code"] for name, labels in found if name == "client_errors_total"}
    assert len(codes) == LABEL_VALUES + 1
    assert found["client_errors_total", (("code", "other"),)] == 2 * LABEL_VALUES


def test_the_services_own_figures_are_those_of_the_latest_look() -> None:
    service = Service(8, ("cascade",))
    metrics = Metrics(service)
    for late_ms in range(1, 101):
        service.lag.note(late_ms)
    metrics.audio(samples_from_s(1.5))
    metrics.audio(samples_from_s(0.25))
    with service.session(), service.session():
        metrics.look()
    found = read(metrics.text().decode())
    assert (found["sessions_active", ()], found["sessions_total", ()]) == (2, 2)
    assert found["output_audio_seconds_total", ()] == 1.75
    late = {dict(labels)["quantile"]: value for (name, labels), value in found.items() if "lateness" in name}
    assert late == {"0.5": 0.05, "0.99": 0.099, "1": 0.1}
    metrics.look()
    assert read(metrics.text().decode())["sessions_active", ()] == 0


async def test_the_text_is_written_off_the_event_loop(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    original = Metrics.text

    def watched(self: Metrics) -> bytes:
        threads.append(threading.current_thread().name)
        return original(self)

    monkeypatch.setattr(Metrics, "text", watched)
    async with serve() as gateway:
        assert (await get(gateway, "/metrics")).status_code == 200
    assert threads
    assert threading.main_thread().name not in threads


def test_two_apps_in_one_process_count_for_themselves() -> None:
    first, second = Metrics(Service(8, ())), Metrics(Service(8, ()))
    first.saw(*turn())
    key = ("turns_total", (("kind", "speech"), ("outcome", "heard")))
    assert (read(first.text().decode())[key], read(second.text().decode())[key]) == (1, 0)


def test_the_endpoint_speaks_prometheus_text_format() -> None:
    app = create_app(Settings(), no_engines())
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        answer = client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        assert read(answer.text)["sessions_active", ()] == service_of(app).sessions_active == 0
        assert client.post("/metrics").status_code == 405


async def test_a_sessions_turn_arrives_in_the_metrics(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway:
        async with connect(gateway.url(), max_queue=None) as socket:
            update = {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}}
            for event in (update, {"type": "no.such.event"}, {"type": "response.create"}):
                await socket.send(json.dumps(event))
            while json.loads(await socket.recv())["type"] != "response.done":
                pass
        found = read((await get(gateway, "/metrics")).text)
    assert found["turns_total", (("kind", "request"), ("outcome", "silent"))] == 1
    assert found["turn_stage_seconds_count", (("stage", "llm_ttft"),)] == 1
    assert sum(value for (name, _), value in found.items() if name == "client_errors_total") == 1
