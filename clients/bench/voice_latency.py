"""Voice to voice on one session: how long after the last word the answer is heard, and how soon it stops when cut off.

`python -m clients.bench.voice_latency --start` starts a gateway itself; `--url` measures one that runs.
A run is ten turns and some barge-ins; its figures are medians over them. Each run stands beside the time of a fixed
piece of work, and is repeated while another load makes that time too long. `--start --compare=--no-speculation` starts
a second gateway, with those flags, measures both in turn and prints how much earlier the first one is heard.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from clients.bench.calibration import TOLERANCE, calibrate, load_average
from clients.bench.figures import median, percentile, shown, table
from clients.bench.gateway_process import GatewayProcess, GatewayStartError
from clients.conversation import TURN_TIMEOUT_S, Conversation, semantic_vad, server_vad
from clients.realtime_connection import RealtimeError
from clients.timeline import DONE, SPEECH_STARTED, Latencies, turns
from clients.wav_audio import Clip, WavError, bench_clips

TURNS = 10
RUNS = 3
MOST_REPEATS = 6
BARGE_INS = 3
BARGE_IN_AFTER_S = 1.0
"""How much of a reply is heard before it is cut off."""

PAUSE_S = 0.5
"""Silence between a reply's end and the next turn."""

_STAGES = [field.name for field in dataclasses.fields(Latencies)]


@dataclass(frozen=True, slots=True)
class Run:
    """One run's figures in ms.

    `barge_in` counts from a speech onset to what ends the reply: response.done (cancelled) or, where the whole reply
    had been sent already, speech_started, on which clients empty their player.
    """

    turns: tuple[Latencies, ...]
    barge_in: tuple[float, ...]
    calibration_ms: float
    load_average: float
    append_lateness_ms: float

    def stage(self, name: str) -> list[float | None]:
        """Return one stage of all turns."""
        return [getattr(turn, name) for turn in self.turns]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench and return its exit status: 1 if turns went unanswered."""
    asked = _parser().parse_args(argv)
    try:
        clips = bench_clips(asked.files)
        with ExitStack() as stack:
            flags = [given for given in (asked.start, asked.compare) if given is not None]
            started = [stack.enter_context(GatewayProcess(shlex.split(given))).url for given in flags]
            rounds = measure([asked.url, *started] if asked.url else started, clips, asked)
    except (WavError, RealtimeError, GatewayStartError) as error:
        print(f"voice_latency: {error}", file=sys.stderr)
        return 1
    runs, other = [each[0] for each in rounds], [each[1] for each in rounds if len(each) > 1]
    if asked.json:
        print(json.dumps(report(runs, other), indent=1))
    else:
        _print(runs)
        if other:
            print(f"\nwith {asked.compare}:\n")
            _print(other)
            print(f"\nfirst audio is heard {shown(gain(runs, other))} ms earlier than with {asked.compare}")
    return 0 if all(value is not None for run in (*runs, *other) for value in run.stage("first_audio")) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clients.bench.voice_latency", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="WAV", help="speech, taken in turn")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="a running gateway's Realtime URL")
    where.add_argument("--start", nargs="?", const="", metavar="FLAGS", help="start one, with these flags for `serve`")
    parser.add_argument("--compare", metavar="FLAGS", help="start another one, with these flags, to compare with")
    parser.add_argument("--api-key", default="unused")
    parser.add_argument("--silence-ms", type=int, default=300, help="endpointing silence (default: %(default)s)")
    parser.add_argument("--eagerness", choices=("low", "medium", "high"), help="semantic_vad instead of silence")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--barge-ins", type=int, default=BARGE_INS)
    parser.add_argument("--instructions", help="instructions for the session")
    parser.add_argument("--json", action="store_true", help="print JSON with every turn")
    return parser


def measure(urls: Sequence[str], clips: Sequence[Clip], asked: argparse.Namespace) -> list[tuple[Run, ...]]:
    """Return `asked.runs` rounds, each with one run of each of `urls`, one after the other.

    Their calibration is within `TOLERANCE` of the best, or else they are the best ones.
    """
    done: list[tuple[Run, ...]] = []
    for attempt in range(asked.runs + MOST_REPEATS):
        done.append(tuple(asyncio.run(_run(url, clips, asked)) for url in urls))
        best_ms = min(map(_calibration_ms, done))
        good = [each for each in done if _calibration_ms(each) <= TOLERANCE * best_ms]
        print(f"run {attempt + 1}: calibration {_calibration_ms(done[-1]):.1f} ms", file=sys.stderr)
        if len(good) >= asked.runs:
            return good[: asked.runs]
    return sorted(done, key=_calibration_ms)[: asked.runs]


def _calibration_ms(runs: Sequence[Run]) -> float:
    """Return the worst calibration of a round."""
    return max(run.calibration_ms for run in runs)


def gain(runs: Sequence[Run], other: Sequence[Run]) -> float | None:
    """Return how many ms earlier the first audio of `runs` came than that of `other`, run by run the same turns.

    It is the median over the turns that both answered.
    """
    return median(
        after - before
        for one, two in zip(runs, other, strict=True)
        for before, after in zip(one.stage("first_audio"), two.stage("first_audio"), strict=True)
        if before is not None and after is not None
    )


async def _run(url: str, clips: Sequence[Clip], asked: argparse.Namespace) -> Run:
    before_ms = await asyncio.to_thread(calibrate)
    session = {} if asked.instructions is None else {"instructions": asked.instructions}
    update = semantic_vad(asked.eagerness, **session) if asked.eagerness else server_vad(asked.silence_ms, **session)
    barge_ins: list[float] = []
    async with Conversation(url, update=update, api_key=asked.api_key) as conversation:
        for number in range(asked.turns):
            response_id = await conversation.answered(conversation.say(clips[number % len(clips)]))
            if response_id is not None:
                await conversation.ended(response_id)
                await conversation.played()
            await asyncio.sleep(PAUSE_S)
        for number in range(asked.barge_ins):
            delay_ms = await _barge_in(conversation, clips[number % len(clips)])
            if delay_ms is not None:
                barge_ins.append(delay_ms)
        microphone = conversation.microphone
        found = turns(conversation.events, microphone.utterances, microphone.started_at_s)
    after_ms = await asyncio.to_thread(calibrate)
    return Run(
        turns=tuple(turn.latencies for turn in found[: asked.turns]),
        barge_in=tuple(barge_ins),
        calibration_ms=max(before_ms, after_ms),
        load_average=load_average(),
        append_lateness_ms=percentile(microphone.lateness_ms, 0.99) or 0.0,
    )


async def _barge_in(conversation: Conversation, clip: Clip) -> float | None:
    """Return the ms from a second utterance's onset to the end of the reply it cut; None if there was none to cut."""
    response_id = await conversation.answered(conversation.say(clip))
    if response_id is None or (await conversation.first_audio(response_id)).type == DONE:
        return None
    await asyncio.sleep(BARGE_IN_AFTER_S)
    if conversation.player.ends_at_s < time.monotonic() + BARGE_IN_AFTER_S:
        await conversation.played()
        return None  # too short a reply: the user would speak after it
    cut = conversation.say(clip)
    onset_s = conversation.microphone.time_of(cut.onset)
    started = await conversation.connection.until(
        lambda event: event.type == SPEECH_STARTED and event.at_s > onset_s, within_s=TURN_TIMEOUT_S
    )
    end = await conversation.ended(response_id)
    second = await conversation.answered(cut)
    if second is not None:
        await conversation.ended(second)
        await conversation.played()
    return (max(started.at_s, end.at_s) - onset_s) * 1000


def report(runs: Sequence[Run], other: Sequence[Run] = ()) -> dict[str, object]:
    """Return all figures for JSON."""
    compared = {"compared_with": report(other), "first_audio_gain": gain(runs, other)} if other else {}
    return {
        "runs": [
            {**dataclasses.asdict(run), "medians": {name: median(run.stage(name)) for name in _STAGES}} for run in runs
        ],
        "median_of_medians": {name: median(median(run.stage(name)) for run in runs) for name in _STAGES},
        "barge_in_median": median(median(run.barge_in) for run in runs),
        **compared,
    }


def _print(runs: Sequence[Run]) -> None:
    header = ["ms, median / p90", *(f"run {number + 1}" for number in range(len(runs))), "median of medians"]
    lines = []
    for name in _STAGES:
        cells = [f"{shown(median(run.stage(name)))} / {shown(percentile(run.stage(name), 0.9))}" for run in runs]
        lines.append([name, *cells, shown(median(median(run.stage(name)) for run in runs))])
    cells = [f"{shown(median(run.barge_in))} / {shown(percentile(run.barge_in, 0.9))}" for run in runs]
    lines.append(["barge_in", *cells, shown(median(median(run.barge_in) for run in runs))])
    lines.append(["calibration", *(shown(run.calibration_ms, 1) for run in runs), ""])
    lines.append(["load average", *(shown(run.load_average, 1) for run in runs), ""])
    lines.append(["appends late, p99", *(shown(run.append_lateness_ms, 1) for run in runs), ""])
    print(table(header, lines))
    print(
        "\nspeech_started, first_partial and barge_in count from the first speech sample, the others from the last one."
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a gateway that it started ends with it
    sys.exit(main())
