"""The agent's own voice in the microphone is told from a person's: through walls, noise and a bad loudspeaker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gateway.hearing import Hearing
from models.engines.scripted import ScriptedVad
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    EndReason,
    EndStatus,
    OutputAudio,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
)
from protocol.commands import AppendAudio, SpeechFrame
from tests.gateway.echo_room import (
    PLAYOUT_DELAY,
    Room,
    Sound,
    amplitude,
    heard_frames,
    hiss,
    mixed,
    pcm_of,
    silence,
    sound_of,
)
from tests.models.conftest import clip

STRETCH = 16
"""VAD frames in half a second."""

ACQUIRED = 32
"""Frames of the first echo, after which nothing is excused (1 s)."""


@pytest.fixture(scope="module")
def agent() -> Sound:
    """Ten seconds of a reader, in the agent's part."""
    return np.concatenate([sound_of(clip(name)) for name in ("librivox_0870", "librivox_0920")])


@pytest.fixture(scope="module")
def user() -> Sound:
    """Another person."""
    return np.concatenate([sound_of(clip(name)) for name in ("goforward", "something", "numbers")])


def microphone(*sounds: Sound) -> Sound:
    """Return sounds in a room that is never quite silent."""
    together = mixed(*sounds)
    return together + hiss(together.size)


def ear_above(level_dbfs: float) -> ScriptedVad:
    return ScriptedVad(level_dbfs)


def voiced(frames: list[SpeechFrame]) -> list[SpeechFrame]:
    return [frame for frame in frames if frame.probability >= 0.5]


def stretch_means(frames: list[SpeechFrame]) -> list[float]:
    """Return the mean share of each half second with at least three voiced frames, after the first second."""
    begun = next(index for index, frame in enumerate(frames) if frame.probability >= 0.5)
    means = []
    for at in range(begun + ACQUIRED, len(frames) - STRETCH, STRETCH // 2):
        shares = [frame.echo for frame in voiced(frames[at : at + STRETCH])]
        if len(shares) >= 3:
            means.append(float(np.mean(shares)))
    return means


def mean_share(frames: list[SpeechFrame]) -> float:
    return float(np.mean([frame.echo for frame in voiced(frames)]))


@pytest.mark.parametrize(
    "room",
    [
        Room(-20, 80, None, clipped=False),
        Room(-20, 400, 0.4, None),
        Room(-30, 120, 0.3, 0.0),
        Room(-30, 700, 0.2, 0.0),
        Room(-40, 250, 0.3, 0.0, clipped=False),
        Room(-20, -100, 0.3, 0.0),
    ],
    ids=str,
)
async def test_the_agents_voice_in_the_room_is_known_for_what_it_is(agent: Sound, room: Room) -> None:
    """`delay_ms` counts from our estimate: a client that plays earlier than estimated may even be ahead of it."""
    early_ms = max(0, round(-room.delay_ms))
    echo = replace(room, delay_ms=room.delay_ms + early_ms).echo(agent)
    sound = microphone(np.concatenate((silence(150 - early_ms), echo)))
    frames = await heard_frames(sound, agent, ear_above(-55 if room.gain_db > -40 else -58))
    means = stretch_means(frames)
    assert len(means) >= 10
    assert np.mean([mean >= 0.5 for mean in means]) >= 0.97, np.round(means, 2)
    assert np.mean(means) >= 0.75


async def test_the_first_words_of_the_first_reply_are_known_within_half_a_second(agent: Sound) -> None:
    for room in (Room(-20, 120, 0.3), Room(-30, 300, 0.3), Room(-30, 80, None)):
        sound = microphone(np.concatenate((silence(150), room.echo(agent))))
        first = voiced(await heard_frames(sound, agent, ear_above(-55)))[:STRETCH]
        unknown = sum(frame.echo < 0.5 for frame in first)
        assert unknown <= 9, [round(frame.echo, 2) for frame in first]
        assert np.mean([frame.echo for frame in first[9:]]) >= 0.5


async def test_another_person_is_no_echo(agent: Sound, user: Sound) -> None:
    frames = await heard_frames(microphone(np.concatenate((silence(700), user))), agent, ear_above(-50))
    assert len(voiced(frames)) > 100
    assert mean_share(frames) <= 0.1


@pytest.mark.parametrize("gain_db", [-20, -30, -40])
async def test_a_person_who_speaks_over_the_echo_is_no_echo(agent: Sound, user: Sound, gain_db: float) -> None:
    """The user begins when the echo is long known; loud frames are the user's."""
    begins_ms = 4_000
    echo = np.concatenate((silence(150), Room(gain_db, 120).echo(agent)))
    over = np.concatenate((silence(begins_ms), user))[: echo.size]
    frames = await heard_frames(microphone(echo, over), agent, ear_above(-40))
    before = [frame for frame in frames if frame.until <= samples_from_ms(begins_ms)]
    after = [frame for frame in frames if frame.until > samples_from_ms(begins_ms + 32)]
    if gain_db == -20:
        assert mean_share(before) >= 0.5
    assert len(voiced(after)) > 60
    assert mean_share(after) <= 0.3


async def test_a_person_does_not_spoil_what_is_known_of_the_room(agent: Sound, user: Sound) -> None:
    echo = np.concatenate((silence(150), Room(-25, 120).echo(agent)))
    spoken = user[: samples_from_ms(1_500)]
    over = np.concatenate((silence(3_000), spoken))
    frames = await heard_frames(microphone(echo, over), agent, ear_above(-58))
    after = [frame for frame in frames if frame.until > samples_from_ms(4_600)]
    assert mean_share(after) >= 0.75


async def test_an_echo_that_moves_is_found_again(agent: Sound) -> None:
    """The next reply plays 300 ms later: the client buffers more."""
    hearing = Hearing(ear_above(-58), playout_delay=PLAYOUT_DELAY)
    first = microphone(np.concatenate((silence(150), Room(-25, 120).echo(agent))))
    second = microphone(np.concatenate((silence(450), Room(-25, 120).echo(agent))))
    known = await heard_frames(first, agent, ear_above(-58), hearing=hearing)
    at = first.size
    hearing.saw(OutputAudio("resp_2", "item_2", pcm_of(agent)), at)
    frames: list[SpeechFrame] = []
    pcm = pcm_of(second)
    for start in range(0, len(pcm), 960):
        piece = pcm[start : start + 960]
        frames += (await hearing.hear(AppendAudio(piece), at + (start + len(piece)) // 2)).frames
    assert np.mean(stretch_means(known)) >= 0.75
    assert np.mean(stretch_means(frames)) >= 0.75


async def test_without_the_agents_audio_every_share_is_0(user: Sound) -> None:
    frames = await heard_frames(microphone(user), np.zeros(0), ear_above(-50))
    assert len(voiced(frames)) > 100
    assert {frame.echo for frame in frames} == {0.0}


async def test_long_after_the_agents_audio_every_share_is_0(agent: Sound) -> None:
    """The same echo as ever, but 3 s late: nothing that the agent said can come back then."""
    short = agent[: samples_from_ms(2_000)]
    sound = microphone(np.concatenate((silence(5_200), Room(-20, 0).echo(short))))
    frames = await heard_frames(sound, short, ear_above(-55))
    assert len(voiced(frames)) > 20
    assert mean_share(frames) == 0.0


async def test_how_the_input_is_cut_does_not_matter(agent: Sound, user: Sound) -> None:
    echo = np.concatenate((silence(150), Room(-25, 120).echo(agent)))[: samples_from_ms(6_000)]
    sound = microphone(echo, np.concatenate((silence(2_500), user[: samples_from_ms(1_000)])))
    whole = await heard_frames(sound, agent, ear_above(-55))
    assert mean_share(whole) > 0.4
    for samples in (240, 768, 1_000, 2_400):
        cut = await heard_frames(sound, agent, ear_above(-55), append_samples=samples, chunk_samples=5_000)
        assert [frame.until for frame in cut] == [frame.until for frame in whole[: len(cut)]]
        assert len(whole) - len(cut) <= 1
        assert np.allclose([f.echo for f in cut], [f.echo for f in whole[: len(cut)]], atol=1e-6)


async def test_the_gateway_clock_may_run_off_and_the_client_may_pause(agent: Sound) -> None:
    """Input stops for 2 s before the reply (push to talk) and its first packets come 60 ms late: the lag is found."""
    hearing = Hearing(ear_above(-55), playout_delay=PLAYOUT_DELAY)
    now = 0
    for _ in range(50):
        now += 480
        await hearing.hear(AppendAudio(bytes(960)), now)
    now += samples_from_ms(2_000)
    hearing.saw(OutputAudio("resp_1", "item_1", pcm_of(agent)), now)
    sound = pcm_of(microphone(np.concatenate((silence(150), Room(-25, 200).echo(agent)))))
    frames: list[SpeechFrame] = []
    for start in range(0, len(sound), 960):
        late = samples_from_ms(60 if start < 48_000 else start // 960 % 3 * 7)
        piece = sound[start : start + 960]
        frames += (await hearing.hear(AppendAudio(piece), now + (start + len(piece)) // 2 + late)).frames
    assert np.mean(stretch_means(frames)) >= 0.75


# --- what the ear is told -------------------------------------------------------------------------------------------


async def told(agent: Sound, *after: object, at_ms: int = 0) -> float:
    """Return the mean share when the agent's audio was followed by events at `at_ms`."""
    hearing = Hearing(ear_above(-55), playout_delay=PLAYOUT_DELAY)
    out_of_band = any(isinstance(event, ResponseStarted) for event in after)
    for event in after:
        if isinstance(event, ResponseStarted):
            hearing.saw(event, 0)
    hearing.saw(OutputAudio("resp_1", "item_1", pcm_of(agent)), 0)
    sound = pcm_of(microphone(np.concatenate((silence(150), Room(-25, 120).echo(agent)))))
    frames: list[SpeechFrame] = []
    told_after = out_of_band
    for start in range(0, len(sound), 960):
        now = (start + 960) // 2
        if not told_after and now > samples_from_ms(at_ms):
            told_after = True
            for event in after:
                if isinstance(event, int):
                    hearing.unsent("item_1", event, now)
                elif isinstance(event, str):
                    hearing.truncated(event, now)
                else:
                    hearing.saw(event, now)
        frames += (await hearing.hear(AppendAudio(sound[start : start + 960]), now)).frames
    return mean_share([frame for frame in frames if frame.until > samples_from_ms(at_ms + 3_000)])


async def test_what_is_flushed_dropped_or_out_of_band_explains_nothing(agent: Sound) -> None:
    assert await told(agent) >= 0.7
    cancelled = ResponseEnded("resp_1", EndStatus.CANCELLED, reason=EndReason.CLIENT_CANCELLED)
    assert await told(agent, PlayoutCut("item_1", 100), at_ms=500) == 0.0
    assert await told(agent, cancelled, at_ms=500) == 0.0
    assert await told(agent, "item_1", at_ms=500) == 0.0
    assert await told(agent, agent.size - samples_from_ms(1_000), at_ms=500) == 0.0
    assert await told(agent, ResponseStarted("resp_1", out_of_band=True)) == 0.0


async def test_a_completed_response_plays_on(agent: Sound) -> None:
    assert await told(agent, ResponseEnded("resp_1", EndStatus.COMPLETED), at_ms=500) >= 0.7


# --- levels ---------------------------------------------------------------------------------------------------------


async def test_levels_of_known_signals_are_right_to_a_tenth_of_a_decibel() -> None:
    seconds = np.arange(24_000) / 24_000
    for level in (-60.0, -40.0, -20.0, -3.01):
        tone = np.sin(2 * np.pi * 500 * seconds) * np.sqrt(2) * amplitude(level)
        frames = await heard_frames(tone, np.zeros(0), ear_above(-30))
        assert len(frames) == 31
        assert all(abs(frame.level_dbfs - level) < 0.1 for frame in frames), level


async def test_the_level_is_that_of_the_very_frame() -> None:
    loud = np.full(768, 0.5)
    sound = np.concatenate((np.zeros(768), loud, np.zeros(768)))
    frames = await heard_frames(sound, np.zeros(0), ear_above(-30), append_samples=100)
    assert [round(frame.level_dbfs, 2) for frame in frames] == [-100.0, -6.02, -100.0]


async def test_minutes_of_audio_in_one_append_have_their_levels_too() -> None:
    sound = hiss(24_000 * 60, -30.0)
    frames = await heard_frames(sound, np.zeros(0), ear_above(-50), append_samples=sound.size)
    assert len(frames) == 1_875
    assert all(abs(frame.level_dbfs + 30) < 1 for frame in frames)


# --- what tells nothing ---------------------------------------------------------------------------------------------


async def test_a_tone_is_not_taken_for_the_echo_of_a_tone() -> None:
    """A tone is like itself at every lag: whoever hums the agent's note is not its echo."""
    tone = np.sin(2 * np.pi * 220 * np.arange(24_000 * 5) / 24_000) * 0.05
    frames = await heard_frames(np.concatenate((silence(1_500), tone[:24_000])), tone, ear_above(-50))
    assert len(voiced(frames)) > 25
    assert mean_share(frames) <= 0.1


async def test_a_client_whose_clock_runs_away_loses_the_lag_and_nothing_else(agent: Sound) -> None:
    """A burst moves the input's times back by seconds: the known lag is none any more, and a new one may be found."""
    hearing = Hearing(ear_above(-58), playout_delay=PLAYOUT_DELAY)
    sound = microphone(np.concatenate((silence(150), Room(-25, 120).echo(agent))))
    known = await heard_frames(sound[: samples_from_ms(4_000)], agent, ear_above(-58), hearing=hearing)
    assert mean_share(known) > 0.6
    now = samples_from_ms(4_000)
    for _ in range(100):
        heard = await hearing.hear(AppendAudio(pcm_of(sound[now : now + 2_400])), now)
        assert all(0.0 <= frame.echo <= 1.0 for frame in heard.frames)
