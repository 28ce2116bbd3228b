"""Many paced sessions on one gateway: what one costs, and whether the others stay on time.

`python -m clients.bench.load --start` starts a gateway with scripted engines and a real voice detector;
`--url … --pid …` measures one that runs. For each number of sessions: idle, then turns; idle, then barge-ins.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import signal
import sys
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]

from clients.bench.calibration import calibrate, load_average
from clients.bench.figures import percentile, shown, table
from clients.bench.gateway_process import GatewayProcess, GatewayStartError
from clients.bench.load_session import SILENCE_MS, LoadSession, SessionFigures
from clients.realtime_connection import RealtimeError
from clients.wav_audio import Clip, WavError, bench_clips

SESSIONS = (1, 8, 40)
ENGINES_MS = 130
"""Fixed delays of the scripted engines, which no gateway can save: transcript 50, first token 50, first audio 30."""

START_FLAGS = "--profile scripted --vad silero"
SENTENCE = "This is one of the sentences that the bench says."
TURN_REPLY = " ".join([SENTENCE] * 4)
"""40 words, 12 s at the scripted voice's pace."""

BARGE_IN_REPLY = " ".join([SENTENCE] * 16)
"""48 s: more than a gateway sends ahead of the player, so that the reply still runs when it is cut off."""

IDLE_S = 5.0
LIVE_S = 40.0
TURN_PAUSE_S = 3.0
BARGE_IN_AFTER_S = 1.0
STAGGER_S = 0.137
"""Between the sessions' starts, so that they don't speak in step."""


@dataclass(frozen=True, slots=True)
class Load:
    """The figures for one number of sessions. Times in ms, memory in MB; None where the server's pid is unknown."""

    sessions: int
    cpu_s_per_session_minute: float | None
    cores: float | None
    idle_mb_per_session: float | None
    live_mb_per_session: float | None
    append_late_p99: float | None
    loop_p50: float | None
    loop_p99: float | None
    loop_max: float | None
    speech_started_p50: float | None
    added_p50: float | None
    added_p95: float | None
    barge_in_p50: float | None
    barge_in_p95: float | None
    turns: int
    answered: int
    barge_ins: int
    cut: int
    errors: int
    calibration_ms: float
    load_average: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench and return its exit status: 1 if a session failed."""
    asked = _parser().parse_args(argv)
    try:
        clip = bench_clips([asked.file] if asked.file else [])[0]
        found = []
        for count in asked.sessions:
            turns, cuts = _Part(False, TURN_REPLY), _Part(True, BARGE_IN_REPLY)
            for part in (turns, cuts):  # a new gateway for each, so that memory starts from its baseline
                with ExitStack() as stack:
                    url, pid = asked.url, asked.pid
                    if asked.start is not None:
                        flags = shlex.split(asked.start or START_FLAGS)
                        gateway = stack.enter_context(GatewayProcess([*flags, "--scripted-reply", part.reply]))
                        url, pid = gateway.url, gateway.pid
                    asyncio.run(measure(part, url, pid, count, clip, asked.seconds))
            found.append(_load(count, turns, cuts, asked.stages_ms))
            print(f"{count} sessions: done", file=sys.stderr)
    except (WavError, RealtimeError, GatewayStartError) as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    print(json.dumps([asdict(load) for load in found], indent=1) if asked.json else _table(found))
    return 1 if any(load.errors for load in found) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clients.bench.load", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, metavar="WAV", help="what each session says")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="a running gateway's Realtime URL")
    where.add_argument(
        "--start", nargs="?", const="", metavar="FLAGS", help=f"start one, with these flags (default: {START_FLAGS})"
    )
    parser.add_argument("--pid", type=int, help="the running gateway's process")
    parser.add_argument("--sessions", type=int, nargs="+", default=list(SESSIONS))
    parser.add_argument("--seconds", type=float, default=LIVE_S, help="length of each part (default: %(default)s)")
    parser.add_argument("--stages-ms", type=int, default=ENGINES_MS, help="engines' fixed delays, taken off `added`")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    cpu_s: float
    rss_mb: float


class _Meter:
    """CPU time and memory of the server's process."""

    def __init__(self, pid: int | None) -> None:
        self._process = None if pid is None else psutil.Process(pid)

    def read(self) -> _Reading | None:
        if self._process is None:
            return None
        with self._process.oneshot():
            cpu = self._process.cpu_times()
            memory = self._process.memory_info()
        return _Reading(asyncio.get_running_loop().time(), cpu.user + cpu.system, memory.rss / 2**20)


@dataclass(slots=True)
class _Part:
    """One part of the bench for one number of sessions: turns, or barge-ins."""

    barge_in: bool
    reply: str
    before: _Reading | None = None
    idle: _Reading | None = None
    start: _Reading | None = None
    end: _Reading | None = None
    lag: dict[str, float] = field(default_factory=dict)
    figures: list[SessionFigures] = field(default_factory=list)
    calibration_ms: float = 0.0
    load_average: float = 0.0


async def measure(part: _Part, url: str, pid: int | None, count: int, clip: Clip, seconds: float) -> None:
    """Fill `part` with what `count` sessions saw. Raises RealtimeError if one cannot connect."""
    loop = asyncio.get_running_loop()
    part.calibration_ms = await asyncio.to_thread(calibrate)
    meter = _Meter(pid)
    part.before = meter.read()
    sessions = [LoadSession(url, clip) for _ in range(count)]
    try:
        for session in sessions:
            await session.connect()
        await asyncio.sleep(IDLE_S)
        part.idle = meter.read()
        live_from_s = loop.time() + count * STAGGER_S
        watching = asyncio.create_task(_watch(meter, url, live_from_s, seconds))
        pause_s = BARGE_IN_AFTER_S if part.barge_in else TURN_PAUSE_S
        await _talk(sessions, live_from_s + seconds, pause_s, barge_in=part.barge_in)
        part.start, part.end, part.lag = await watching
    finally:
        await asyncio.gather(*(session.close() for session in sessions))
    part.load_average = load_average()
    part.figures = [session.figures for session in sessions]


def _load(count: int, turns: _Part, cuts: _Part, stages_ms: float) -> Load:
    both = turns.figures + cuts.figures
    first_audio = [value for each in turns.figures for value in each.first_audio]
    added = [value - SILENCE_MS - stages_ms for value in first_audio]
    delays = [value for each in cuts.figures for value in each.barge_in]
    before, idle, start, end = turns.before, turns.idle, turns.start, turns.end
    cores = None if not (start and end) else (end.cpu_s - start.cpu_s) / (end.at_s - start.at_s)
    return Load(
        sessions=count,
        cpu_s_per_session_minute=None if cores is None else cores * 60 / count,
        cores=cores,
        idle_mb_per_session=None if not (before and idle) else (idle.rss_mb - before.rss_mb) / count,
        live_mb_per_session=None if not (before and end) else (end.rss_mb - before.rss_mb) / count,
        append_late_p99=percentile([value for each in both for value in each.lateness], 0.99),
        loop_p50=turns.lag.get("p50"),
        loop_p99=turns.lag.get("p99"),
        loop_max=turns.lag.get("max"),
        speech_started_p50=percentile([value for each in turns.figures for value in each.speech_started], 0.5),
        added_p50=percentile(added, 0.5),
        added_p95=percentile(added, 0.95),
        barge_in_p50=percentile(delays, 0.5),
        barge_in_p95=percentile(delays, 0.95),
        turns=sum(each.turns for each in turns.figures),
        answered=len(first_audio),
        barge_ins=sum(each.turns for each in cuts.figures),
        cut=len(delays),
        errors=sum(len(each.errors) for each in both),
        calibration_ms=max(turns.calibration_ms, cuts.calibration_ms),
        load_average=max(turns.load_average, cuts.load_average),
    )


async def _talk(sessions: Sequence[LoadSession], until_s: float, pause_s: float, *, barge_in: bool) -> None:
    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(session.talk(until_s=until_s, pause_s=pause_s, barge_in=barge_in))
            await asyncio.sleep(STAGGER_S)


async def _watch(
    meter: _Meter, url: str, from_s: float, seconds: float
) -> tuple[_Reading | None, _Reading | None, dict[str, float]]:
    """Return the readings at both ends of the part in which all sessions are live, and the loop's lateness in it."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, from_s - loop.time()))
    await asyncio.to_thread(_loop_lateness, url)
    start = meter.read()
    await asyncio.sleep(seconds)
    return start, meter.read(), await asyncio.to_thread(_loop_lateness, url)


def _loop_lateness(url: str) -> dict[str, float]:
    """Return the server's event loop lateness in ms since the last call; {} if it doesn't tell."""
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "wss" else "http"
    try:
        with urllib.request.urlopen(f"{scheme}://{parts.netloc}/health/lag?reset=1", timeout=10) as answer:
            return {str(key): float(value) for key, value in json.loads(answer.read()).items()}
    except (OSError, ValueError):
        return {}


def _table(found: Sequence[Load]) -> str:
    rows: list[tuple[str, Callable[[Load], str]]] = [
        ("CPU s per session-minute", lambda load: shown(load.cpu_s_per_session_minute, 3)),
        ("cores in use", lambda load: shown(load.cores, 2)),
        ("MB per idle session", lambda load: shown(load.idle_mb_per_session, 2)),
        ("MB per live session", lambda load: shown(load.live_mb_per_session, 2)),
        ("appends late p99, ms", lambda load: shown(load.append_late_p99, 1)),
        ("server loop late p50, ms", lambda load: shown(load.loop_p50, 2)),
        ("server loop late p99, ms", lambda load: shown(load.loop_p99, 2)),
        ("server loop late max, ms", lambda load: shown(load.loop_max, 1)),
        ("onset → speech_started p50, ms", lambda load: shown(load.speech_started_p50)),
        ("added latency p50, ms", lambda load: shown(load.added_p50)),
        ("added latency p95, ms", lambda load: shown(load.added_p95)),
        ("onset → cancelled p50, ms", lambda load: shown(load.barge_in_p50)),
        ("onset → cancelled p95, ms", lambda load: shown(load.barge_in_p95)),
        ("turns answered", lambda load: f"{load.answered} of {load.turns}"),
        ("replies cut off", lambda load: f"{load.cut} of {load.barge_ins}"),
        ("errors", lambda load: str(load.errors)),
        ("calibration, ms", lambda load: shown(load.calibration_ms, 1)),
        ("load average", lambda load: shown(load.load_average, 1)),
    ]
    header = ["sessions", *(str(load.sessions) for load in found)]
    return table(header, [[name, *(value(load) for load in found)] for name, value in rows])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a gateway that it started ends with it
    sys.exit(main())
