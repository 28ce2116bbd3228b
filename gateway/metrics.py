"""What Prometheus is told: counted from the same events that observers read, in a registry of the app's own.

Label values come from closed sets; codes, which others choose, from at most `LABEL_VALUES` and then `other`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.measured_turn import Outcome, TurnKind
from gateway.observing.kinds import Kind
from gateway.observing.story import IMMEDIATE
from gateway.overlaps import OverlapOutcome
from gateway.service import Service
from gateway.turns.observations import OverlapVerdict, PauseVerdict, SpeculationFate
from gateway.waterfall import Stage
from protocol.audio_time import Samples, s_from_samples

BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Of stages and turns (chosen: fine where turn-taking's targets lie, 0.1 to 1 s)."""

FACTORS = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 2.0)
"""Buckets of shares of real time (chosen: fine where a full-duplex model begins to fall behind)."""

LABEL_VALUES = 64
"""Different values of one label whose set is open (chosen: more codes than there are)."""

_WORD = re.compile(r"[a-z0-9_.]{1,48}")


class _OpenLabel:
    """Keeps the values of a label few, whoever chose them."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, value: object) -> str:
        word = str(value)
        if word in self._known:
            return word
        if len(self._known) >= LABEL_VALUES or not _WORD.fullmatch(word):
            return "other"
        self._known.add(word)
        return word


class Metrics:
    """The metrics of one app. `saw` is given each event of each session, `audio` what the sockets took."""

    def __init__(self, service: Service) -> None:
        self._registry = registry = CollectorRegistry()
        self._stages = Histogram(
            "duplex_gateway_turn_stage_seconds",
            "What each stage added to a turn's waiting.",
            ["stage"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._totals = Histogram(
            "duplex_gateway_turn_seconds",
            "From a turn's beginning to its answer's first sound in the user's ear, by estimate.",
            ["kind"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._turns = _counter(registry, "turns", "Turns.", ["kind", "outcome"])
        self._yields = _seconds(registry, "yield", "From the user's voice over the agent's until the agent gave way.")
        self._stops = _seconds(registry, "stop", "From the user's voice over the agent's until its last was heard.")
        self._overlaps = _counter(
            registry, "overlaps", "The user's voice over the agent's, by what came of it.", ["outcome"]
        )
        self._factors = Histogram(
            "duplex_gateway_model_real_time_factor",
            "Time that a full-duplex model needed for a second of audio; above 1 it is too slow.",
            buckets=FACTORS,
            registry=registry,
        )
        self._backlog = _seconds(
            registry, "model_backlog", "Audio that waited for a full-duplex model, every few seconds."
        )
        self._unheard = _counter(
            registry, "model_unheard_seconds", "Audio that a full-duplex model was too slow to hear.", []
        )
        self._barge_ins = _counter(registry, "barge_ins", "Sounds over the agent, by what they were.", ["verdict"])
        self._pauses = _counter(registry, "pauses", "Decisions about pauses.", ["verdict"])
        self._speculations = _counter(registry, "speculations", "Replies begun before a turn was over.", ["fate"])
        self._errors = _counter(registry, "client_errors", "Errors told to clients.", ["code"])
        self._failures = _counter(registry, "engine_failures", "Engine calls that failed.", ["code"])
        self._audio = _counter(registry, "output_audio_seconds", "Audio that sockets took.", [])
        self._error_code, self._failure_code = _OpenLabel(), _OpenLabel()
        self._of_service = _ServiceCollector(service)
        registry.register(self._of_service)
        _begin_at_zero(self._stages, Stage)
        _begin_at_zero(self._totals, TurnKind)
        _begin_at_zero(self._barge_ins, [*OverlapVerdict, IMMEDIATE])
        _begin_at_zero(self._overlaps, OverlapOutcome)
        _begin_at_zero(self._pauses, PauseVerdict)
        _begin_at_zero(self._speculations, SpeculationFate)
        for kind in TurnKind:
            for outcome in Outcome:
                self._turns.labels(kind, outcome)

    def look(self) -> None:
        """Take the service's own figures, on the event loop; `text` shows the latest."""
        self._of_service.look()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format. On any thread: it takes some milliseconds."""
        return generate_latest(self._registry)

    def audio(self, samples: Samples) -> None:
        """Count audio that a socket took."""
        self._audio.inc(s_from_samples(samples))

    def saw(self, kind: Kind, fields: Mapping[str, Any]) -> None:
        """Count an event, if it is one to be counted."""
        match kind:
            case Kind.WATERFALL:
                self._turns.labels(fields["turn"], fields["outcome"]).inc()
                for stage, length_ms in fields["stages_ms"].items():
                    self._stages.labels(stage).observe(length_ms / 1000)
                if fields["outcome"] is Outcome.HEARD:
                    self._totals.labels(fields["turn"]).observe(fields["total_ms"] / 1000)
            case Kind.OVERLAP_MEASURED:
                self._overlaps.labels(fields["outcome"]).inc()
                for metric, length_ms in ((self._yields, fields["yield_ms"]), (self._stops, fields["stop_ms"])):
                    if length_ms is not None:
                        metric.observe(length_ms / 1000)
            case Kind.MODEL_PACE:
                self._factors.observe(fields["real_time_factor"])
                self._backlog.observe(fields["backlog_ms"] / 1000)
                self._unheard.inc(fields["unheard_ms"] / 1000)
            case Kind.OVERLAP_VERDICT:
                self._barge_ins.labels(fields["verdict"]).inc()
            case Kind.END_OF_TURN_VERDICT:
                self._pauses.labels(fields["verdict"]).inc()
            case Kind.SPECULATION:
                self._speculations.labels(fields["fate"]).inc()
            case Kind.ERROR:
                self._errors.labels(self._error_code(fields["code"])).inc()
            case Kind.RESPONSE_ENDED | Kind.TRANSCRIPT_FAILED:
                if "code" in fields:
                    self._failures.labels(self._failure_code(fields["code"])).inc()
            case _:
                pass


class _ServiceCollector(Collector):
    """What the service knew at the latest look."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.look()

    def look(self) -> None:
        self._active, self._total = self._service.sessions_active, self._service.sessions_total
        self._lateness = self._service.lag.lateness()

    def collect(self) -> Iterator[Metric]:
        """Yield sessions and the event loop's lateness."""
        sessions = GaugeMetricFamily("duplex_gateway_sessions_active", "Sessions that run.")
        sessions.add_metric([], self._active)
        yield sessions
        total = CounterMetricFamily("duplex_gateway_sessions", "Sessions since the start.")
        total.add_metric([], self._total)
        yield total
        late = GaugeMetricFamily(
            "duplex_gateway_event_loop_lateness_seconds",
            "How late the event loop woke a probe, over the last minute.",
            labels=["quantile"],
        )
        lateness = self._lateness
        for quantile, late_ms in (("0.5", lateness.p50_ms), ("0.99", lateness.p99_ms), ("1", lateness.max_ms)):
            late.add_metric([quantile], late_ms / 1000)
        yield late


def _counter(registry: CollectorRegistry, name: str, text: str, labels: list[str]) -> Counter:
    return Counter(f"duplex_gateway_{name}", text, labels, registry=registry)


def _seconds(registry: CollectorRegistry, name: str, text: str) -> Histogram:
    return Histogram(f"duplex_gateway_{name}_seconds", text, buckets=BUCKETS_S, registry=registry)


def _begin_at_zero(metric: Counter | Histogram, values: Iterable[str]) -> None:
    """Show every value from the start: a counter that appears with its first event has no rate before it."""
    for value in values:
        metric.labels(value)
