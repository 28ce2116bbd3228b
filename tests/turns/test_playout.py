"""The virtual player: what the user has heard, by the clock and by the client's own word."""

from __future__ import annotations

import pytest

from gateway.turns.playout import KEPT_ITEMS, LEARNING_RATE, LONGEST_DELAY, Heard, VirtualPlayer
from gateway.turns.states import Agent
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import OutputAudio, PlayoutCut, ResponseEnded
from tests.simulation.conversation import Conversation, by_hand

DELAY = samples_from_ms(150)
SECOND = samples_from_s(1)


def player() -> VirtualPlayer:
    return VirtualPlayer(DELAY)


# --- by the clock ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "heard"), [(DELAY - 1, 0), (DELAY, 0), (DELAY + 1, 1), (DELAY + SECOND, SECOND)])
def test_audio_is_heard_from_the_playout_delay_after_its_sending_on(at: int, heard: int) -> None:
    it = player()
    it.push("item", SECOND, now=0)
    assert it.heard("item", at) == heard


def test_no_more_is_heard_than_was_sent() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    assert it.heard("item", 100 * SECOND) == SECOND


def test_audio_sent_faster_than_it_plays_queues_up() -> None:
    it = player()
    for now in range(0, 10):
        it.push("item", SECOND, now)
    assert it.ends_at == DELAY + 10 * SECOND
    assert it.heard("item", DELAY + 5 * SECOND) == 5 * SECOND


@pytest.mark.parametrize("late", [-1, 0, 1, 500])
def test_a_chunk_that_comes_after_the_last_was_played_starts_at_its_own_send_time(late: int) -> None:
    it = player()
    it.push("item", SECOND, now=0)
    sent_at = SECOND + late  # its own start would be this plus the delay; the first chunk ends at SECOND + DELAY
    it.push("item", SECOND, now=sent_at)
    gap = max(0, late)
    assert it.ends_at == DELAY + 2 * SECOND + gap
    assert it.heard("item", DELAY + SECOND + gap) == SECOND
    assert it.heard("item", DELAY + SECOND + gap + 1) == SECOND + 1


def test_the_gap_between_two_chunks_is_not_heard() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.push("item", SECOND, now=5 * SECOND)
    assert it.heard("item", 3 * SECOND) == SECOND
    it.settle(3 * SECOND)
    assert it.heard("item", 5 * SECOND + DELAY + 7) == SECOND + 7


def test_the_next_responses_audio_plays_after_the_last_ones() -> None:
    it = player()
    it.push("one", 2 * SECOND, now=0)
    it.push("two", SECOND, now=10)
    assert it.heard("two", DELAY + 2 * SECOND) == 0
    assert it.heard("two", DELAY + 2 * SECOND + 9) == 9
    assert it.ends_at == DELAY + 3 * SECOND


def test_what_is_settled_is_still_known() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    assert it.audible(DELAY + SECOND - 1)
    it.settle(DELAY + SECOND)
    assert not it.audible(DELAY + SECOND)
    assert it.ends_at is None
    assert it.heard("item", 9 * SECOND) == SECOND


def test_an_item_that_was_never_sent_was_not_heard() -> None:
    assert player().heard("nothing", 9 * SECOND) == 0


# --- flush ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "cut"),
    [
        (0, [Heard("item", 0, SECOND)]),
        (DELAY + 7, [Heard("item", 7, SECOND)]),
        (DELAY + SECOND - 1, [Heard("item", SECOND - 1, SECOND)]),
        (DELAY + SECOND, []),
    ],
)
def test_a_flush_tells_what_was_heard_of_what_it_cut(at: int, cut: list[Heard]) -> None:
    it = player()
    it.push("item", SECOND, now=0)
    assert it.flush(at) == cut
    assert not it.audible(at)
    assert it.flush(at) == []


def test_a_flush_cuts_every_queued_item() -> None:
    it = player()
    it.push("one", SECOND, now=0)
    it.push("two", SECOND, now=0)
    it.push("three", SECOND, now=0)
    assert it.flush(DELAY + SECOND + 5) == [Heard("two", 5, SECOND), Heard("three", 0, SECOND)]
    assert [it.heard(item, 99 * SECOND) for item in ("one", "two", "three")] == [SECOND, 5, 0]


def test_after_a_flush_the_next_audio_starts_at_once() -> None:
    it = player()
    it.push("one", 20 * SECOND, now=0)
    it.flush(SECOND)
    it.push("two", SECOND, now=2 * SECOND)
    assert it.ends_at == 3 * SECOND + DELAY


# --- the client's word ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heard", [1, 5_000, SECOND])
def test_the_clients_truncate_wins_over_the_estimate_either_way(heard: int) -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.flush(DELAY + 10_000)
    it.correct("item", heard, now=DELAY + 12_000)
    assert it.heard("item", 99 * SECOND) == heard


def test_a_truncate_in_mid_playout_ends_it() -> None:
    it = player()
    it.push("item", 10 * SECOND, now=0)
    it.correct("item", SECOND, now=2 * SECOND)
    assert not it.audible(2 * SECOND)
    assert it.heard("item", 99 * SECOND) == SECOND


def test_a_truncated_item_that_is_still_written_is_not_played_on() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.correct("item", 100, now=200)
    it.push("item", SECOND, now=300)
    assert not it.audible(400)
    assert it.heard("item", 99 * SECOND) == 100


def test_no_client_hears_more_than_was_sent() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.correct("item", SECOND + 24, now=9 * SECOND)  # the protocol tolerates one frame
    assert it.heard("item", 99 * SECOND) == SECOND


def test_what_follows_a_truncated_item_moves_up() -> None:
    it = player()
    it.push("one", 10 * SECOND, now=0)
    it.push("two", SECOND, now=100)
    it.push("three", SECOND, now=200)
    it.correct("one", 0, now=2 * SECOND)
    assert it.ends_at == 4 * SECOND
    assert it.heard("two", 2 * SECOND + 5) == 5


def test_what_follows_a_truncated_item_starts_no_earlier_than_it_can_arrive() -> None:
    it = player()
    it.push("one", 10 * SECOND, now=0)
    it.push("two", SECOND, now=2 * SECOND - 10)
    it.correct("one", 0, now=2 * SECOND)
    assert it.ends_at == 3 * SECOND - 10 + DELAY


def test_truncating_an_item_that_has_been_played_leaves_the_playing_one_alone() -> None:
    it = player()
    it.push("one", SECOND, now=0)
    it.push("two", 5 * SECOND, now=0)
    it.push("three", SECOND, now=0)
    it.settle(DELAY + 2 * SECOND)
    it.correct("one", SECOND, now=DELAY + 2 * SECOND)
    it.correct("three", 0, now=DELAY + 2 * SECOND)
    assert it.ends_at == DELAY + 6 * SECOND


def test_a_truncate_of_an_unknown_item_changes_nothing() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.correct("other", 5, now=DELAY + 9)
    assert (it.heard("item", DELAY + 9), it.heard("other", DELAY + 9), it.delay) == (9, 0, DELAY)


# --- learning the delay ---------------------------------------------------------------------------------------------


def test_a_client_that_heard_less_than_estimated_plays_later_than_assumed() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.flush(DELAY + 10_000)
    it.correct("item", 8_000, now=DELAY + 10_500)
    assert it.delay == DELAY + LEARNING_RATE * 2_000


def test_a_client_that_heard_more_than_estimated_plays_earlier_than_assumed() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.flush(DELAY + 10_000)
    it.correct("item", 12_000, now=DELAY + 10_500)
    assert it.delay == DELAY - LEARNING_RATE * 2_000


def test_two_corrections_settle_the_delay() -> None:
    true_delay = samples_from_ms(350)
    it = player()
    for n in range(6):
        start = n * 100 * SECOND
        it.push(f"item_{n}", 10 * SECOND, now=start)
        it.flush(start + 5 * SECOND)
        it.correct(f"item_{n}", 5 * SECOND - true_delay, now=start + 5 * SECOND)
    assert abs(it.delay - true_delay) <= samples_from_ms(5)


@pytest.mark.parametrize("heard", [0, SECOND])
def test_an_item_heard_in_full_or_not_at_all_teaches_nothing(heard: int) -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.flush(DELAY + 10_000)
    it.correct("item", heard, now=DELAY + 10_000)
    assert it.delay == DELAY


@pytest.mark.parametrize(("estimate", "delay"), [(7_198, 1), (7_200, 0), (7_202, 0)])
def test_the_learned_delay_is_never_negative(estimate: int, delay: int) -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.flush(DELAY + 10_000)
    it.correct("item", 10_000 + estimate, now=DELAY + 10_000)
    assert it.delay == delay


@pytest.mark.parametrize(("less", "delay"), [(-2, LONGEST_DELAY - 1), (0, LONGEST_DELAY), (2, LONGEST_DELAY)])
def test_the_learned_delay_is_never_longer_than_a_second(less: int, delay: int) -> None:
    it = player()
    it.push("item", 10 * SECOND, now=0)
    played = 5 * SECOND
    it.flush(DELAY + played)
    it.correct("item", played - 2 * (LONGEST_DELAY - DELAY) - less, now=DELAY + played)
    assert it.delay == delay


def test_the_same_truncate_twice_teaches_once() -> None:
    it = player()
    it.push("item", SECOND, now=0)
    it.flush(DELAY + 10_000)
    it.correct("item", 8_000, now=DELAY + 10_500)
    learned = it.delay
    it.correct("item", 8_000, now=DELAY + 11_000)
    assert it.delay == learned


def test_only_so_many_played_items_are_remembered() -> None:
    it = player()
    for n in range(KEPT_ITEMS + 1):
        it.push(f"item_{n}", 10, now=n * SECOND)
    now = 2 * KEPT_ITEMS * SECOND
    it.settle(now)
    assert [it.heard(f"item_{n}", now) for n in (0, 1)] == [0, 10]


def test_an_item_still_in_the_queue_is_never_forgotten() -> None:
    it = player()
    for n in range(2 * KEPT_ITEMS):
        it.push(f"item_{n}", SECOND, now=0)
    it.settle(DELAY + SECOND // 2)
    assert it.flush(DELAY + SECOND // 2)[0] == Heard("item_0", SECOND // 2, SECOND)


# --- in a conversation ----------------------------------------------------------------------------------------------


def test_a_reply_that_was_played_to_its_end_is_not_cut_when_the_user_speaks() -> None:
    conversation = Conversation()
    conversation.create()
    conversation.silence(3_000)
    assert conversation.agent is Agent.IDLE
    conversation.speak(800)
    conversation.silence(800)
    assert conversation.all(PlayoutCut) == []
    assert conversation.ends()[0] == ("client_resp_1", "completed", None)


def test_the_agent_is_idle_from_the_last_sample_on() -> None:
    conversation = Conversation(by_hand())
    conversation.create()
    conversation.wait(310)
    assert conversation.agent is Agent.SPEAKING
    first = conversation.all(OutputAudio)[0]
    end = conversation.at(first) + DELAY + samples_from_ms(900)
    conversation.run_until(end - 1)
    assert conversation.agent is Agent.SPEAKING
    conversation.run_until(end)
    assert conversation.agent is Agent.IDLE
    assert conversation.machine.next_deadline(conversation.now) is None


def test_the_agent_thinks_again_while_the_player_waits_for_the_next_clause() -> None:
    conversation = Conversation(by_hand(), llm=[["This is the first sentence. ", "And then comes the second one."]])
    conversation.piece_every_ms = 400  # slower than it plays
    conversation.create()
    states = []
    for _ in range(800):
        conversation.wait(20)
        if not states or states[-1] is not conversation.agent:
            states.append(conversation.agent)
    assert states[:3] == [Agent.THINKING, Agent.SPEAKING, Agent.THINKING]
    assert states[-1] is Agent.IDLE


def test_a_second_response_begins_while_the_first_still_plays() -> None:
    conversation = Conversation(by_hand(), word_ms=1_000)
    conversation.create()
    conversation.wait(1_000)
    conversation.create()
    assert conversation.agent is Agent.SPEAKING
    conversation.wait(1_000)
    first, second = conversation.all(ResponseEnded)
    assert (first.status, second.heard) == ("completed", 0)
    assert conversation.agent is Agent.SPEAKING
    conversation.wait(4_400)
    assert conversation.agent is Agent.SPEAKING
    conversation.run_dry()
    assert conversation.agent is Agent.IDLE


def test_a_truncate_of_the_only_playing_item_makes_the_agent_idle() -> None:
    conversation = Conversation(by_hand(), word_ms=1_000)
    conversation.create()
    conversation.wait(1_500)
    item_id = conversation.all(OutputAudio)[0].item_id
    assert conversation.agent is Agent.SPEAKING
    assert conversation.truncate(item_id, samples_from_ms(700)) == []
    assert conversation.agent is Agent.IDLE


def test_a_truncate_while_the_response_still_runs_lets_it_run_unheard() -> None:
    conversation = Conversation(by_hand(), llm=["This is the first sentence. And then comes the second one."])
    conversation.piece_every_ms = 80
    conversation.create()
    conversation.wait(700)
    item_id = conversation.all(OutputAudio)[0].item_id
    conversation.truncate(item_id, samples_from_ms(200))
    assert conversation.agent is Agent.THINKING
    conversation.run_dry()
    ended = conversation.only(ResponseEnded)
    assert (ended.status, ended.heard) == ("completed", samples_from_ms(200))
    assert conversation.agent is Agent.IDLE


def test_a_truncate_for_an_unknown_item_is_no_error() -> None:
    conversation = Conversation()
    assert conversation.truncate("item_of_somebody_else", 5) == []


def test_the_delay_learned_from_one_reply_holds_for_the_next() -> None:
    conversation = Conversation(word_ms=1_000)
    assert conversation.machine.playout_delay == DELAY
    conversation.create()
    conversation.silence(2_000)
    conversation.speak(200)
    cut = conversation.only(PlayoutCut)
    conversation.truncate(cut.item_id, cut.heard - samples_from_ms(100))
    assert conversation.machine.playout_delay == DELAY + samples_from_ms(50)


# --- for those who watch -------------------------------------------------------------------------------------------


def test_what_plays_is_told_only_while_it_plays() -> None:
    it = player()
    it.push("one", SECOND, now=0)
    it.push("two", SECOND, now=0)
    assert it.playing(DELAY - 1) is None
    assert it.playing(DELAY) == Heard("one", 0, SECOND)
    assert it.playing(DELAY + SECOND - 1) == Heard("one", SECOND - 1, SECOND)
    assert it.playing(DELAY + SECOND) == Heard("two", 0, SECOND)
    assert it.playing(DELAY + 2 * SECOND) is None
    it.push("two", SECOND, now=5 * SECOND)
    assert it.playing(5 * SECOND) is None
    assert it.playing(5 * SECOND + DELAY + 7) == Heard("two", SECOND + 7, 2 * SECOND)


def test_a_machine_shows_what_waits_for_the_voice_and_what_plays() -> None:
    conversation = Conversation(by_hand(), llm=["One two three. Four five six. Seven eight nine. 😀"])
    machine = conversation.machine
    assert machine.speech_queue == []
    conversation.create()
    conversation.wait(300)
    assert machine.speech_queue == [(1, "Four five six."), (2, "Seven eight nine.")]
    assert machine.playing(conversation.now) is None
    conversation.wait(600)
    playing = machine.playing(conversation.now)
    assert playing is not None
    assert 0 < playing.heard < playing.sent
    conversation.run_dry()
    assert machine.speech_queue == []
    assert machine.playing(conversation.now) is None
