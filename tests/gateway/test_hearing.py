"""The session's ear: every VAD frame with its place on the input clock, however the audio is cut."""

from __future__ import annotations

from gateway.hearing import Hearing
from models.engines.scripted import ScriptedVad
from protocol.commands import AppendAudio, SpeechFrame
from tests.gateway.scripted_cascade import quiet, voice


async def frames_of(pcm: bytes, *sizes: int) -> tuple[SpeechFrame, ...]:
    """Return the frames of `pcm` heard in pieces of `sizes` bytes, over and over."""
    hearing = Hearing(ScriptedVad())
    frames: list[SpeechFrame] = []
    at = turn = 0
    while at < len(pcm):
        size = sizes[turn % len(sizes)]
        heard = await hearing.hear(AppendAudio(pcm[at : at + size]))
        assert heard.pcm == pcm[at : at + size]
        frames += heard.frames
        at, turn = at + size, turn + 1
    return tuple(frames)


async def test_frames_carry_their_end_on_the_input_clock() -> None:
    frames = await frames_of(quiet(64) + voice(64) + quiet(32), 1 << 20)
    assert [(frame.until, frame.probability) for frame in frames] == [
        (768 * (n + 1), probability) for n, probability in enumerate([0.0, 0.0, 1.0, 1.0, 0.0])
    ]


async def test_how_the_audio_is_cut_does_not_matter() -> None:
    pcm = quiet(100) + voice(333) + quiet(205) + voice(71)
    whole = await frames_of(pcm, len(pcm))
    assert len(whole) == len(pcm) // 1536
    for sizes in ((2,), (960,), (1534,), (1536,), (1538,), (480, 2, 7000), (20_000,)):
        assert await frames_of(pcm, *sizes) == whole


async def test_an_append_that_completes_no_frame_has_none() -> None:
    hearing = Hearing(ScriptedVad())
    assert (await hearing.hear(AppendAudio(bytes(2 * 767)))).frames == ()
    assert (await hearing.hear(AppendAudio(bytes(2)))).frames == (SpeechFrame(768, 0.0),)
    assert (await hearing.hear(AppendAudio(bytes(2)))).frames == ()


async def test_two_sessions_share_the_detector_but_not_their_place_in_the_audio() -> None:
    vad = ScriptedVad()
    one, two = Hearing(vad), Hearing(vad)
    await one.hear(AppendAudio(voice(100)))
    (frame,) = (await two.hear(AppendAudio(quiet(32)))).frames
    assert frame == SpeechFrame(768, 0.0)
