"""Audio that is kept for retrieve, and what is dropped."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from protocol.backend_events import InputCommitted, OutputAudio, ResponseStarted
from protocol.kept_audio import ITEM_LIMIT_BYTES, SESSION_BUDGET_BYTES, KeptAudio, RecentInput

MEBIBYTE = 1024 * 1024


def audio_of(item: Any) -> bytes | None:
    audio = item["content"][0].get("audio")
    return None if audio is None else base64.b64decode(audio)


def test_a_users_audio_is_retrieved_as_it_was_sent(talk: Any) -> None:
    pcm = bytes(range(200))
    talk.append(pcm[:50])
    talk.append(pcm[50:])
    talk.backend(InputCommitted("u", 10, 60))
    assert audio_of(talk.retrieved("u")) == pcm[20:120]


def test_the_agents_audio_is_retrieved_up_to_the_clients_truncate(talk: Any) -> None:
    talk.agent_says("r", "a", ("Hello.", 2400))
    assert audio_of(talk.retrieved("a")) == bytes(4800)
    talk.send("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=50)
    assert audio_of(talk.retrieved("a")) == bytes(2400)
    talk.send("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=0)
    assert audio_of(talk.retrieved("a")) is None


@pytest.mark.parametrize(("length", "kept"), [(ITEM_LIMIT_BYTES, True), (ITEM_LIMIT_BYTES + 2, False)])
def test_an_item_too_long_for_a_frame_is_retrieved_without_audio(talk: Any, length: int, kept: bool) -> None:
    talk.backend(ResponseStarted("r"), OutputAudio("r", "a", bytes(length - 2)), OutputAudio("r", "a", bytes(2)))
    item = talk.retrieved("a")
    assert (audio_of(item) is not None) is kept
    assert len(json.dumps(item)) < MEBIBYTE
    talk.backend(OutputAudio("r", "a", bytes(2)))
    assert audio_of(talk.retrieved("a")) is None


def test_the_oldest_audio_goes_when_the_budget_is_spent() -> None:
    kept = KeptAudio()
    for number in range(4):
        kept.append(f"i{number}", bytes(ITEM_LIMIT_BYTES))
    assert 4 * ITEM_LIMIT_BYTES == SESSION_BUDGET_BYTES
    assert kept.get("i0") is not None
    kept.append("i4", bytes(2))
    assert kept.get("i0") is None
    assert all(kept.get(f"i{number}") for number in (1, 2, 3, 4))
    kept.append("i0", bytes(2))
    assert kept.get("i0") is None


def test_forgotten_audio_makes_room() -> None:
    kept = KeptAudio()
    for number in range(4):
        kept.append(f"i{number}", bytes(ITEM_LIMIT_BYTES))
    kept.forget("i2")
    kept.append("i4", bytes(ITEM_LIMIT_BYTES))
    assert kept.get("i0") is not None
    assert kept.get("i2") is None


def test_an_item_that_is_made_anew_under_the_id_of_one_that_had_outgrown_the_limit_is_kept() -> None:
    kept = KeptAudio()
    kept.append("i1", bytes(ITEM_LIMIT_BYTES + 2))
    kept.append("i1", bytes(2))
    assert kept.get("i1") is None
    kept.forget("i1")
    kept.append("i1", bytes(4))
    assert kept.get("i1") == bytes(4)


def test_recent_input_gives_only_what_it_has_whole() -> None:
    recent = RecentInput()
    assert recent.cut(0, 1) is None
    for number in range(20):
        recent.append(bytes([number, 0]) * 24_000)
    assert recent.cut(0, 24_000) is None
    assert recent.cut(4 * 24_000, 5 * 24_000) is None
    assert recent.cut(5 * 24_000 - 1, 5 * 24_000 + 1) is None
    assert recent.cut(5 * 24_000, 5 * 24_000 + 2) == b"\x05\0\x05\0"
    assert recent.cut(6 * 24_000 - 1, 6 * 24_000 + 1) == b"\x05\0\x06\0"
    assert recent.cut(20 * 24_000 - 1, 20 * 24_000 + 1) is None
    assert recent.cut(20 * 24_000, 20 * 24_000) is None


def test_audio_can_be_shortened_from_its_end_and_makes_room_again() -> None:
    kept = KeptAudio()
    kept.append("a", b"abcdef")
    kept.shorten("a", 1)
    assert kept.get("a") == b"abcd"
    assert kept._total_bytes == 4
    kept.shorten("a", 0)
    assert kept.get("a") == b"abcd"
    kept.shorten("a", 9)
    assert kept.get("a") == b""
    assert kept._total_bytes == 0
    kept.shorten("nobody", 5)
    assert kept.get("nobody") is None
