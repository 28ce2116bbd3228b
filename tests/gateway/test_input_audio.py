"""The user's audio that may still be needed, by its position on the input clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.input_audio import InputAudio
from protocol.audio_time import samples_from_s

STEP = samples_from_s(2)


def numbered(first: int, samples: int) -> bytes:
    """Samples that name their own position."""
    return b"".join((position % 30_000).to_bytes(2, "little") for position in range(first, first + samples))


def test_a_stretch_is_found_by_its_positions() -> None:
    audio = InputAudio()
    audio.append(numbered(0, 100))
    audio.append(numbered(100, 50))
    assert audio.end == 150
    assert audio.between(0, 150) == numbered(0, 150)
    assert audio.between(90, 110) == numbered(90, 20)
    assert audio.between(40, 40) == b""
    assert audio.between(140, 999) == numbered(140, 10)
    assert audio.between(150, 200) == b""


def test_audio_is_dropped_in_steps_just_under_at_and_over() -> None:
    for position, kept in ((STEP - 1, 0), (STEP, STEP), (STEP + 1, STEP + 1)):
        audio = InputAudio()
        audio.append(bytes(2 * 3 * STEP))
        audio.forget_before(position)
        assert audio.end == 3 * STEP
        assert len(audio.between(0, 3 * STEP)) == 2 * (3 * STEP - kept)


def test_forgetting_what_is_forgotten_changes_nothing() -> None:
    audio = InputAudio()
    audio.append(numbered(0, 2 * STEP))
    audio.forget_before(STEP)
    audio.forget_before(0)
    audio.forget_before(STEP)
    assert audio.between(STEP, STEP + 3) == numbered(STEP, 3)
    assert audio.between(0, STEP + 3) == numbered(STEP, 3)
    assert audio.between(0, STEP) == b""


@given(
    st.lists(st.tuples(st.integers(0, 3 * STEP), st.integers(0, 4 * STEP)), max_size=6),
    st.integers(0, 2 * STEP),
    st.integers(0, 2 * STEP),
)
def test_what_was_not_allowed_to_be_dropped_is_there(steps: list[tuple[int, int]], back: int, length: int) -> None:
    audio, needed_from, end = InputAudio(), 0, 0
    for samples, advance in steps:
        audio.append(bytes(2 * samples))
        end += samples
        needed_from = min(end, needed_from + advance)
        audio.forget_before(needed_from)
        assert audio.end == end
        start = max(needed_from, end - back)
        assert len(audio.between(start, start + length)) == 2 * min(length, end - start)
