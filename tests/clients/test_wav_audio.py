from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from clients.wav_audio import RATE_HZ, SPEECH_DROP_DB, Clip, WavError, bench_clips, read_clip, speech_span, write_wav


def write(path: Path, samples: np.ndarray, *, rate_hz: int = RATE_HZ, channels: int = 1, width: int = 2) -> Path:
    """Write float samples (−1…1), interleaved, as PCM of that width."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        if width == 1:
            file.writeframes(np.round(samples * 127 + 128).astype(np.uint8).tobytes())
        else:
            whole = np.round(samples * (2 ** (8 * width - 1) - 1)).astype("<i4")
            file.writeframes(whole.view(np.uint8).reshape(-1, 4)[:, :width].tobytes())
    return path


def tone(seconds: float, rate_hz: int = RATE_HZ) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate_hz)) / rate_hz)


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
def test_any_rate_becomes_24_khz(tmp_path: Path, rate_hz: int) -> None:
    clip = read_clip(write(tmp_path / "a.wav", tone(0.5, rate_hz), rate_hz=rate_hz))
    assert abs(clip.samples - RATE_HZ // 2) <= 1
    middle = np.frombuffer(clip.pcm, "<i2")[RATE_HZ // 8 : -RATE_HZ // 8]
    assert np.abs(middle).max() == pytest.approx(16_384, rel=0.02)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_any_width_of_sample_is_read(tmp_path: Path, width: int) -> None:
    samples = np.frombuffer(read_clip(write(tmp_path / "a.wav", tone(0.1), width=width)).pcm, "<i2")
    assert samples / 32_768 == pytest.approx(tone(0.1), abs=0.01)


def test_channels_are_mixed(tmp_path: Path) -> None:
    stereo = np.stack([tone(0.1), np.zeros(2_400)], axis=1).ravel()
    samples = np.frombuffer(read_clip(write(tmp_path / "a.wav", stereo, channels=2)).pcm, "<i2")
    assert samples / 32_768 == pytest.approx(tone(0.1) / 2, abs=0.001)


@pytest.mark.parametrize(
    ("drop_db", "is_speech"), [(SPEECH_DROP_DB - 0.5, True), (SPEECH_DROP_DB + 0.5, False)], ids=["above", "below"]
)
def test_a_frame_35_db_below_the_loudest_is_the_border_of_speech(drop_db: float, is_speech: bool) -> None:
    loud = np.full(RATE_HZ, 10_000, np.int16)
    faint = np.full(240, round(10_000 * 10 ** (-drop_db / 20)), np.int16)
    onset, end = speech_span(np.concatenate([np.zeros(240, np.int16), faint, loud, faint, np.zeros(240, np.int16)]))
    assert (onset, end) == ((240, 240 + RATE_HZ + 480) if is_speech else (480, 480 + RATE_HZ))


def test_a_trimmed_clip_is_all_speech() -> None:
    clip = Clip("a", bytes(20) + b"\1\1" * 50 + bytes(20), 10, 60).trimmed()
    assert (clip.onset, clip.end, clip.pcm) == (0, 50, b"\1\1" * 50)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    pcm = np.round(tone(0.2) * 32_767).astype("<i2").tobytes()
    write_wav(tmp_path / "a.wav", pcm)
    assert read_clip(tmp_path / "a.wav").pcm == pcm


@pytest.mark.parametrize("content", [None, b"no WAV at all", b""])
def test_what_is_no_wav_is_refused_in_a_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.wav"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WavError, match=r"a\.wav"):
        read_clip(path)


def test_a_wav_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WavError, match="no audio"):
        read_clip(write(tmp_path / "a.wav", np.zeros(0)))


def test_benches_find_the_repositorys_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent.parent)
    assert all(clip.onset == 0 and clip.end == clip.samples for clip in bench_clips([]))
