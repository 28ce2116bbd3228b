from __future__ import annotations

from clients.virtual_player import VirtualPlayer


def audio(ms: int, value: int = 1) -> bytes:
    return bytes([value, 0]) * (24 * ms)


def test_pieces_play_one_after_the_other() -> None:
    player = VirtualPlayer()
    player.play("a", audio(100), now_s=10.0)
    player.play("a", audio(100, 2), now_s=10.01)
    assert player.ends_at_s == 10.2
    assert player.recording() == audio(100) + audio(100, 2)


def test_a_gap_in_arrival_is_heard_as_silence() -> None:
    player = VirtualPlayer()
    player.play("a", audio(100), now_s=10.0)
    player.play("a", audio(100), now_s=10.25)
    assert player.recording() == audio(100) + audio(150, 0) + audio(100)


def test_a_flush_keeps_what_was_heard_and_names_it() -> None:
    player = VirtualPlayer()
    player.play("a", audio(100), now_s=10.0)
    player.play("b", audio(100, 2), now_s=10.0)
    assert player.flush(now_s=10.15) == ("b", 50)
    assert player.recording() == audio(100) + audio(50, 2)
    assert player.heard_ms("a", now_s=11.0) == 100
    assert player.heard_ms("b", now_s=11.0) == 50


def test_a_flush_while_nothing_plays_names_nothing() -> None:
    player = VirtualPlayer()
    assert player.flush(now_s=1.0) is None
    player.play("a", audio(100), now_s=10.0)
    assert player.flush(now_s=10.1) is None
    assert player.recording() == audio(100)


def test_after_a_flush_new_audio_plays_at_once() -> None:
    player = VirtualPlayer()
    player.play("a", audio(10_000), now_s=10.0)
    player.flush(now_s=11.0)
    player.play("b", audio(100, 2), now_s=11.5)
    assert player.ends_at_s == 11.6
    assert player.recording() == audio(1_000) + audio(500, 0) + audio(100, 2)


def test_heard_is_rounded_down_to_whole_milliseconds() -> None:
    player = VirtualPlayer()
    player.play("a", audio(100), now_s=0.0)
    assert player.heard_ms("a", now_s=0.0509) == 50
