"""The agent's real voice and the real VAD: how much of an echo is known for what it is, by level, delay and room.

Run with `-s` to see the table that `gateway.self_hearing` quotes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from gateway.echo_lag import EARLIEST, SENT_SPAN, WINDOW
from gateway.self_hearing import SelfHearing
from models.engine_plan import EMBEDDED, ChatPlan
from models.engines.silero_vad import SileroVad
from models.loading import load_engines
from models.weights import WeightsStore
from models.weights_manifest import TURN_TAKING
from protocol.commands import SpeechFrame
from tests.gateway.echo_room import Room, Sound, heard_frames, hiss, mixed, pcm_of, silence, sound_of
from tests.models.conftest import clip

pytestmark = pytest.mark.models

REPLIES = (
    "Of course, I can help you with that. The museum opens at nine in the morning and closes at half past five.",
    "Well, the train to Leeds leaves from platform four at twelve minutes past three, so you will be home for tea.",
)
PEOPLE = ("librivox_0890", "librivox_0930", "cards_005", "goforward", "something", "numbers")
WALLS: tuple[tuple[float | None, float | None], ...] = ((None, 0.0), (0.2, 0.0), (0.4, 0.0), (0.3, None), (0.4, None))
DELAYS_MS = (80, 200, 400)
STRETCH = 16
ACQUIRED = 32
_CLOSED_PORT = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def store() -> WeightsStore:
    return WeightsStore()


@pytest.fixture
async def vad(store: WeightsStore) -> AsyncIterator[SileroVad]:
    store.fetch([TURN_TAKING])
    vad = SileroVad(store.path(TURN_TAKING, "silero_vad.onnx"))
    yield vad
    await vad.aclose()


@pytest.fixture
async def replies() -> list[Sound]:
    """What the embedded profile's voice makes of the replies."""
    engines = await load_engines(replace(EMBEDDED, chat=ChatPlan("endpoint", base_url=_CLOSED_PORT)))
    sounds = []
    for text in REPLIES:
        async with aclosing(engines.tts.synthesize(text)) as pieces:
            sounds.append(sound_of(b"".join([piece.pcm async for piece in pieces])))
    await engines.aclose()
    return sounds


def stretches(frames: list[SpeechFrame]) -> list[float]:
    """Return the mean share over the voiced frames of each half second after the first second of voice."""
    begun = next((index for index, frame in enumerate(frames) if frame.probability >= 0.5), len(frames))
    means = []
    for at in range(begun + ACQUIRED, len(frames) - STRETCH, STRETCH // 4):
        shares = [frame.echo for frame in frames[at : at + STRETCH] if frame.probability >= 0.5]
        if len(shares) >= 3:
            means.append(float(np.mean(shares)))
    return means


def first_unknown_ms(frames: list[SpeechFrame]) -> int:
    """Return how much voice of the first half second was not taken for an echo."""
    begun = next(index for index, frame in enumerate(frames) if frame.probability >= 0.5)
    return 32 * sum(f.probability >= 0.5 and f.echo < 0.5 for f in frames[begun : begun + STRETCH])


async def test_echoes_are_known_at_every_level_delay_and_room(vad: SileroVad, replies: list[Sound]) -> None:
    print("\n gain  rt60 direct | voiced  half seconds  known  mean share | unknown of the first 500 ms: median, most")
    every: list[float] = []
    firsts: list[int] = []
    for gain_db in (-20.0, -30.0, -40.0):
        for turn, (rt60_s, direct_db) in enumerate(WALLS if gain_db > -40 else WALLS[:2]):
            means, unknown, voiced = [], [], 0
            for number, reply in enumerate(replies):
                room = Room(gain_db, DELAYS_MS[(turn + number) % 3], rt60_s, direct_db, clipped=number == 0)
                sound = np.concatenate((silence(150), room.echo(reply, seed=turn)))
                frames = await heard_frames(sound + hiss(sound.size), reply, vad)
                now_voiced = sum(frame.probability >= 0.5 for frame in frames)
                voiced += now_voiced
                means += stretches(frames)
                if now_voiced >= STRETCH:
                    unknown.append(first_unknown_ms(frames))
            known = np.mean([mean >= 0.5 for mean in means]) if means else float("nan")
            print(
                f"{gain_db:5.0f} {rt60_s or 0:5.1f} {'none' if direct_db is None else '0 dB':>6} | {voiced:6} "
                f"{len(means):13} {known:6.3f} {np.mean(means) if means else float('nan'):11.2f} | "
                f"{np.median(unknown) if unknown else float('nan'):.0f}, {max(unknown, default=0)} ms"
            )
            if gain_db >= -30:
                every += means
                firsts += unknown
    known = float(np.mean([mean >= 0.5 for mean in every]))
    print(
        f"to -30 dB: {known:.4f} of {len(every)} half seconds known; unknown at first {np.median(firsts):.0f} ms median"
    )
    assert len(every) > 400
    assert known >= 0.98
    assert np.median(firsts) <= 160


async def test_people_are_not_taken_for_the_agent(vad: SileroVad, replies: list[Sound]) -> None:
    print("\n echo    | mean share of the user's voiced frames: mean, most; frames of 0.5 or more")
    for gain_db in (None, -30.0, -20.0):
        means: list[float] = []
        taken: list[bool] = []
        for number, name in enumerate(PEOPLE):
            reply = replies[number % 2]
            over = np.concatenate((silence(2_200), sound_of(clip(name))[: reply.size - 60_000]))
            echo = silence(0) if gain_db is None else np.concatenate((silence(150), Room(gain_db).echo(reply)))
            sound = mixed(over, echo)
            frames = await heard_frames(sound + hiss(sound.size), reply, vad)
            own = await heard_frames(over + hiss(over.size), silence(0), vad)
            shares = [f.echo for f, o in zip(frames, own, strict=False) if min(f.probability, o.probability) >= 0.5]
            means.append(float(np.mean(shares)))
            taken += [share >= 0.5 for share in shares]
        label = "none" if gain_db is None else f"{gain_db:.0f} dB"
        print(f"{label:>8} | {np.mean(means):.3f}, {max(means):.3f}; {np.mean(taken):.4f}")
        assert np.mean(means) <= (0.2 if gain_db is None else 0.3)
        assert max(means) <= 0.35


def cpu_us(call: Callable[[], object], times: int) -> float:
    """Return the CPU time of a call on this thread alone: the machine is shared."""
    begun = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - begun) / times * 1e6


async def test_a_frame_costs_a_few_times_what_the_vad_costs(vad: SileroVad, replies: list[Sound]) -> None:
    sent = np.frombuffer(pcm_of(np.concatenate(replies)), "<i2")[48_000 : 48_000 + SENT_SPAN]
    end = SENT_SPAN + EARLIEST
    stranger = np.frombuffer(clip("numbers"), "<i2")[24_000 : 24_000 + WINDOW]
    known, unknown = SelfHearing(), SelfHearing()
    assert known.share(sent[end - WINDOW : end], sent) == 1.0
    assert abs(known.lag or 0) <= 24
    stream, row = vad.open(), np.zeros(512, np.float32)
    vad_us = cpu_us(lambda: vad._run_rows([stream], [row]), 300)
    known_us = cpu_us(lambda: known.share(sent[end - WINDOW : end], sent), 100)
    unknown_us = cpu_us(lambda: unknown.share(stranger, sent), 100)
    print(f"\nCPU of a frame: VAD {vad_us:.0f} us; echo that is known {known_us:.0f} us; sought {unknown_us:.0f} us")
    assert known_us < 8 * vad_us
    assert unknown_us < 30 * vad_us
