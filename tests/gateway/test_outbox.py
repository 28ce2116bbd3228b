from __future__ import annotations

import asyncio

import pytest

from gateway.outbox import Outbox, OutboxClosed, OutboxOverflow


async def ready_frames(outbox: Outbox) -> list[str]:
    """Take frames as the socket's writer does, until none is ready."""
    frames = [await outbox.next_frame()]
    while outbox.waiting_bytes:
        frames.append(await outbox.next_frame())
    return frames


async def test_frames_come_out_in_the_order_they_went_in() -> None:
    outbox = Outbox()
    for frame in ("a", "b", "c"):
        outbox.put(frame, audio_of=None)
    assert await outbox.next_frame() == "a"
    assert await ready_frames(outbox) == ["b", "c"]
    assert outbox.waiting_bytes == 0


async def test_a_reader_that_waits_gets_the_first_frame() -> None:
    outbox = Outbox()
    reading = asyncio.ensure_future(ready_frames(outbox))
    await asyncio.sleep(0)
    outbox.put("late")
    assert await reading == ["late"]


async def test_discarding_drops_only_that_responses_audio_and_keeps_the_order() -> None:
    outbox = Outbox()
    outbox.put("text of 1")
    outbox.put("audio of 1", audio_of="resp_1")
    outbox.put("audio of 2", audio_of="resp_2")
    outbox.put("more audio of 1", audio_of="resp_1")
    outbox.put("done of 1")
    outbox.discard_audio("resp_1")
    outbox.put("audio of 1 from later", audio_of="resp_1")
    assert await ready_frames(outbox) == ["text of 1", "audio of 2", "done of 1", "audio of 1 from later"]


async def test_discarding_tells_how_much_of_which_item_was_dropped() -> None:
    outbox = Outbox()
    outbox.put("taken", audio_of="resp_1", item_id="a", samples=7)
    await outbox.next_frame()
    outbox.put("1a", audio_of="resp_1", item_id="a", samples=240)
    outbox.put("1b", audio_of="resp_1", item_id="b", samples=100)
    outbox.put("2c", audio_of="resp_2", item_id="c", samples=1)
    outbox.put("1a more", audio_of="resp_1", item_id="a", samples=60)
    assert outbox.discard_audio("resp_1") == {"a": 300, "b": 100}
    assert outbox.discard_audio("resp_1") == {}
    assert outbox.waiting_bytes == 2
    assert await ready_frames(outbox) == ["2c"]


async def test_an_items_audio_is_dropped_and_its_other_frames_stay() -> None:
    outbox = Outbox()
    outbox.put("text of a", item_id="a")
    outbox.put("audio of a", audio_of="resp_1", item_id="a", samples=10)
    outbox.put("audio of b", audio_of="resp_1", item_id="b", samples=10)
    outbox.put("done of a", item_id="a")
    assert outbox.discard_item_audio("a") == {"a": 10}
    assert outbox.discard_item_audio("x") == {}
    assert await ready_frames(outbox) == ["text of a", "audio of b", "done of a"]


async def test_a_reader_wakes_only_for_a_frame_after_everything_was_discarded() -> None:
    outbox = Outbox()
    outbox.put("audio", audio_of="resp_1")
    outbox.discard_audio("resp_1")
    reading = asyncio.ensure_future(outbox.next_frame())
    await asyncio.sleep(0)
    outbox.put("done")
    assert await reading == "done"


async def test_exactly_the_bound_fits() -> None:
    outbox = Outbox(limit_bytes=10)
    outbox.put("x" * 9)
    outbox.put("x")
    assert outbox.waiting_bytes == 10


async def test_one_byte_more_than_the_bound_overflows_for_good_and_frees_the_memory() -> None:
    outbox = Outbox(limit_bytes=10)
    outbox.put("x" * 10)
    with pytest.raises(OutboxOverflow):
        outbox.put("x")
    assert outbox.waiting_bytes == 0
    with pytest.raises(OutboxOverflow):
        outbox.put("x")


async def test_discarded_audio_makes_room_again() -> None:
    outbox = Outbox(limit_bytes=10)
    outbox.put("x" * 10, audio_of="resp_1")
    outbox.discard_audio("resp_1")
    outbox.put("y" * 10)
    assert await ready_frames(outbox) == ["y" * 10]


async def test_bytes_are_counted_as_the_socket_sends_them() -> None:
    outbox = Outbox()
    outbox.put("é€")
    assert outbox.waiting_bytes == 5


async def test_a_lone_surrogate_is_sent_as_the_replacement_character() -> None:
    outbox = Outbox()
    outbox.put('"a\ud800b 👋"')
    assert await outbox.next_frame() == '"a\ufffdb 👋"'


async def test_a_closed_outbox_gives_what_it_holds_and_then_says_so() -> None:
    outbox = Outbox()
    outbox.put("last")
    outbox.close()
    outbox.put("too late")
    assert await outbox.next_frame() == "last"
    with pytest.raises(OutboxClosed):
        await outbox.next_frame()


async def test_closing_wakes_a_waiting_reader() -> None:
    outbox = Outbox()
    reading = asyncio.ensure_future(outbox.next_frame())
    await asyncio.sleep(0)
    outbox.close()
    with pytest.raises(OutboxClosed):
        await reading


async def test_audio_counts_as_accepted_once_its_writer_says_so_and_only_then() -> None:
    accepted: list[tuple[str, int]] = []
    outbox = Outbox(audio_accepted=lambda response_id, samples: accepted.append((response_id, samples)))
    outbox.put("text")
    outbox.put("audio", audio_of="resp_1", item_id="a", samples=480)
    outbox.put("late audio", audio_of="resp_1", item_id="a", samples=240)
    outbox.accepted()
    await outbox.next_frame()
    outbox.accepted()
    await outbox.next_frame()
    assert accepted == []
    outbox.accepted()
    outbox.accepted()
    assert accepted == [("resp_1", 480)]
    outbox.discard_audio("resp_1")
    outbox.accepted()
    assert accepted == [("resp_1", 480)]
