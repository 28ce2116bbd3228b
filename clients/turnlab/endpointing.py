"""The endpointing table: false cut-offs against delay, for `semantic_vad` beside plain silence, on the same audio."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clients.turnlab.presenting import Presented, present
from clients.turnlab.scoring import (
    CutOffs,
    Delays,
    Outcomes,
    cut_offs,
    delays,
    ends_by,
    outcomes,
    pauses_by,
    weighted_cut_offs,
)
from clients.turnlab.statistics import Interval
from clients.turnlab.stimuli import Stimulus
from clients.turnlab.target import OpenTarget
from protocol.audio_time import ms_from_samples

POLICIES: Mapping[str, dict[str, Any]] = {
    **{f"semantic {level}": {"type": "semantic_vad", "eagerness": level} for level in ("low", "medium", "high")},
    **{f"silence {ms}": {"type": "server_vad", "silence_duration_ms": ms} for ms in (300, 500, 700, 1000)},
}
"""What is compared: a `turn_detection` block by its name in the table."""

SIDE_BY_SIDE = 8
"""Sessions at a time. In lockstep they share nothing but the engines' compute: the VAD takes them as one batch."""

PROGRESS_EVERY = 50

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One policy's figures. `whole`: utterances without a pause of ours; `paused`: ends of the others, if not cut."""

    policy: str
    cut_offs: CutOffs
    weighted: Interval
    whole: Delays
    paused: Delays
    elsewhere: int
    cut_offs_by: dict[str, dict[str, CutOffs]]
    whole_by: dict[str, dict[str, Delays]]


async def run_policy(
    name: str, turn_detection: dict[str, Any], stimuli: Sequence[Stimulus], open_target: OpenTarget, progress: Progress
) -> list[Presented]:
    """Present each stimulus to a fresh session with these settings, a few of them side by side; results in order."""
    places = asyncio.Semaphore(SIDE_BY_SIDE)
    done = 0

    async def one(stimulus: Stimulus) -> Presented:
        nonlocal done
        async with places, open_target() as target:
            presented = await present(target, stimulus, turn_detection)
        done += 1
        if done % PROGRESS_EVERY == 0 or done == len(stimuli):
            progress(f"{name}: {done} of {len(stimuli)} utterances")
        return presented

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(stimulus)) for stimulus in stimuli]
    return [task.result() for task in running]


def row(policy: str, presented: Sequence[Presented]) -> Row:
    """Return the figures of what was presented under `policy`."""
    found: Outcomes = outcomes(presented)
    return Row(
        policy,
        cut_offs(found.pauses),
        weighted_cut_offs(found.pauses),
        delays([end for end in found.ends if not end.stimulus.pauses]),
        delays([end for end in found.ends if end.stimulus.pauses and end.intact]),
        found.elsewhere,
        pauses_by(found),
        ends_by(found),
    )


def table(rows: Sequence[Row]) -> str:
    """Return the figures as aligned text: one table of policies, one of false cut-offs by what the pauses are."""
    head = (
        f"{'policy':<16} {'false cut-offs':>30}  {'as in calls':>19}  {'delay of whole utterances (ms)':>56}"
        f"  {'after a pause':>22}  elsewhere"
    )
    lines = [head]
    for entry in rows:
        rate = f"{entry.cut_offs.cut_off}/{entry.cut_offs.pauses} {_percent(entry.cut_offs.rate)}"
        whole = entry.whole
        delay = f"mean {_ms(whole.mean_ms)}  p50 {_ms(whole.p50_ms)}  p95 {whole.p95_ms.value:.0f}"
        if whole.unanswered:
            delay += f" ({whole.unanswered} unanswered)"
        paused = f"mean {_ms(entry.paused.mean_ms)} n {entry.paused.ends}"
        lines.append(
            f"{entry.policy:<16} {rate:>30}  {_percent(entry.weighted):>19}  {delay:>56}  {paused:>22}"
            f"  {entry.elsewhere}"
        )
    for name in rows[0].cut_offs_by:
        groups = list(rows[0].cut_offs_by[name])
        lines += ["", f"{'false cut-offs by ' + name:<26}" + "".join(f"{entry.policy:>18}" for entry in rows)]
        for group in groups:
            cells = [entry.cut_offs_by[name][group] for entry in rows]
            shown = (f"{cell.cut_off}/{cell.pauses} {cell.rate.value:.0%}" for cell in cells)
            lines.append(f"  {group:<24}" + "".join(f"{cell:>18}" for cell in shown))
    for name in rows[0].whole_by:
        lines += ["", f"{'mean delay (ms) by ' + name:<26}" + "".join(f"{entry.policy:>18}" for entry in rows)]
        for group in rows[0].whole_by[name]:
            cells_ms = [entry.whole_by[name][group].mean_ms.value for entry in rows]
            lines.append(f"  {group:<24}" + "".join(f"{cell:>18.0f}" for cell in cells_ms))
    return "\n".join(lines)


def _percent(rate: Interval) -> str:
    if math.isnan(rate.value):
        return "–"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}]"


def _ms(value: Interval) -> str:
    if math.isnan(value.value):
        return "–"
    return f"{value.value:.0f} [{value.low:.0f}, {value.high:.0f}]"


def report(rows: Sequence[Row], presented: Mapping[str, Sequence[Presented]]) -> str:
    """Return everything as JSON: the figures, and each utterance's truth and times in ms since its session began."""
    utterances: dict[str, dict[str, Any]] = {}
    for policy, found in presented.items():
        for one in found:
            stimulus = one.stimulus
            entry = utterances.setdefault(
                stimulus.key,
                {
                    "text": stimulus.card.text,
                    "kind": stimulus.card.kind,
                    "voice": stimulus.voice,
                    "level_dbfs": stimulus.level_dbfs,
                    "lengthened": stimulus.lengthened,
                    "speech_end_ms": ms_from_samples(stimulus.speech_end),
                    "pauses": [
                        {"start_ms": ms_from_samples(p.start), "end_ms": ms_from_samples(p.end), "after": p.kind}
                        for p in stimulus.pauses
                    ],
                    "taken_at_ms": {},
                },
            )
            entry["taken_at_ms"][policy] = [ms_from_samples(at) for at in one.taken_at]
    figures = {entry.policy: asdict(entry) for entry in rows}
    return json.dumps({"synthetic": True, "figures": figures, "utterances": utterances}, ensure_ascii=False, indent=1)
