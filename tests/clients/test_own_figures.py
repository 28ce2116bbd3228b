"""What a client measures by itself of a server that has no meter of ours."""

from __future__ import annotations

import base64

from clients.heard_replies import audible_after_s
from clients.microphone import Utterance
from clients.own_figures import own_figures
from clients.realtime_connection import StampedEvent
from clients.wav_audio import RATE_HZ, Clip


def audio(at_s: float, response_id: str, *values: int, each_ms: int = 10) -> StampedEvent:
    """Audio of `each_ms` for each value."""
    pcm = b"".join(value.to_bytes(2, "little", signed=True) * 24 * each_ms for value in values)
    delta = base64.b64encode(pcm).decode()
    return StampedEvent(at_s, {"type": "response.output_audio.delta", "response_id": response_id, "delta": delta})


def speech(at_s: float, response_id: str, length_s: float) -> list[StampedEvent]:
    """Return speech at the pace of speech: 100 ms at a time, from `at_s` on."""
    return [audio(at_s + number / 10, response_id, 900, each_ms=100) for number in range(round(length_s * 10))]


def words(at_s: float, response_id: str) -> StampedEvent:
    kind = "response.output_audio_transcript.delta"
    return StampedEvent(at_s, {"type": kind, "response_id": response_id, "delta": "Hello."})


def started(at_s: float) -> StampedEvent:
    return StampedEvent(at_s, {"type": "input_audio_buffer.speech_started"})


def done(at_s: float, response_id: str, status: str = "completed") -> StampedEvent:
    return StampedEvent(at_s, {"type": "response.done", "response": {"id": response_id, "status": status}})


def said(begin_s: float, end_s: float) -> Utterance:
    return Utterance(Clip("c", b"", 0, 0), round(begin_s * RATE_HZ), round(end_s * RATE_HZ))


TURN = said(1.0, 2.0)
CUT_IN = said(4.0, 5.0)
ANSWER = [audio(5.5, "s", 900), done(5.6, "s")]


# --- answers -------------------------------------------------------------------------------------------------------


def test_audio_is_heard_from_its_first_audible_window() -> None:
    assert audible_after_s(audio(0, "r", 0, 100, 184, 185)) == 0.03
    assert audible_after_s(audio(0, "r", 0, 184)) is None


def test_a_client_measures_from_the_last_sample_of_speech_to_the_first_sound_of_the_answer() -> None:
    events = [audio(2.5, "r", 0, 900), done(3.0, "r")]
    found = own_figures(events, [said(11.0, 12.0)], [], -10.0)
    assert (found.source, found.answer_ms, found.unanswered) == ("client", [510.0], 0)
    assert own_figures([], [TURN], [], 0.0).unanswered == 1


def test_a_reply_to_a_pause_within_the_clip_that_the_rest_of_it_cut_is_none_of_the_answer() -> None:
    cut = [audio(1.4, "cut", 900, each_ms=3_000), started(1.6), done(1.7, "cut", "cancelled")]
    assert own_figures([*cut, audio(2.5, "r", 900)], [TURN], [], 0.0).answer_ms == [500.0]


def test_an_answer_that_began_while_the_clip_still_rang_is_one_and_a_nod_is_none() -> None:
    """The clip ends by its level, which breath and noise hold up; the server heard the last word before."""
    early = [*speech(1.8, "r", 0.4), done(2.2, "r")]
    found = own_figures(early, [TURN], [], 0.0)
    assert (found.answer_ms, found.unanswered) == ([0.0], 0)
    nodded = own_figures([audio(1.3, "nod", 900, 900), audio(2.5, "r", 900)], [TURN], [], 0.0)
    assert nodded.answer_ms == [500.0]


def test_a_short_sound_without_words_behind_the_turn_answers_nothing_where_replies_have_words() -> None:
    nod = [audio(2.2, "nod", 900, each_ms=300), done(2.3, "nod")]
    reply = [audio(3.5, "r", 900, each_ms=300), done(3.6, "r")]
    assert own_figures([*nod, words(3.4, "r"), *reply], [TURN], [], 0.0).answer_ms == [1_500.0]
    assert own_figures([*nod, *reply], [TURN], [], 0.0).answer_ms == [200.0]  # a server that writes none at all


def test_a_turn_without_an_answer_takes_none_of_the_next_turn() -> None:
    found = own_figures([audio(12.4, "r", 900)], [TURN, said(10.0, 12.0)], [], 0.0)
    assert (found.answer_ms, found.unanswered) == ([400.0], 1)


def test_a_reply_that_was_heard_and_then_cut_in_on_has_answered() -> None:
    reply = [*speech(2.6, "r", 1.7), started(4.2), done(4.3, "r", "cancelled")]
    found = own_figures([*reply, *ANSWER], [TURN], [CUT_IN], 0.0)
    assert (found.answer_ms, found.unanswered) == ([600.0, 500.0], 0)


def test_a_reply_behind_what_still_plays_is_heard_when_the_player_comes_to_it() -> None:
    events = [audio(2.2, "preface", 100, each_ms=1_000), audio(2.4, "r", 900)]
    assert own_figures(events, [TURN], [], 0.0).answer_ms == [1_200.0]


# --- the user over the agent ---------------------------------------------------------------------------------------


def test_a_client_counts_yield_and_stop_to_the_speech_started_that_empties_its_player() -> None:
    reply = [*speech(2.6, "r", 1.7), started(4.2), done(4.4, "r", "cancelled")]
    found = own_figures([*reply, *ANSWER], [TURN], [CUT_IN], 0.0)
    assert (found.yield_ms, found.stop_ms, found.went_on, found.ended) == ([200.0], [200.0], 0, 0)


def test_a_reply_that_came_whole_is_yielded_when_the_player_is_emptied_of_the_rest() -> None:
    reply = [audio(2.6, "r", 900, each_ms=6_000), done(2.7, "r"), started(4.2)]
    found = own_figures([*reply, *ANSWER], [TURN], [CUT_IN], 0.0)
    assert (found.answer_ms, found.yield_ms, found.stop_ms, found.ended) == ([600.0, 500.0], [200.0], [200.0], 0)


def test_an_agent_that_is_cancelled_without_a_speech_started_is_heard_to_the_end_of_what_came() -> None:
    reply = [*speech(2.6, "r", 1.5), audio(4.1, "r", 900, each_ms=400), done(4.3, "r", "cancelled")]
    found = own_figures(reply, [TURN], [CUT_IN], 0.0)
    assert (found.yield_ms, found.stop_ms) == ([300.0], [500.0])


def test_an_agent_that_fell_silent_for_the_user_gave_way_with_its_last_sound() -> None:
    reply = [*speech(2.6, "r", 1.6), *[audio(4.2 + n / 10, "r", 0, each_ms=100) for n in range(5)]]
    found = own_figures([*reply, done(4.7, "r", "cancelled")], [TURN], [CUT_IN], 0.0)
    assert (found.yield_ms, found.stop_ms) == ([100.0], [200.0])


def test_an_end_that_is_told_just_behind_the_last_sound_is_when_the_agent_gave_way() -> None:
    """So it is with audio at the pace of speech, whether the network was a little early or late."""
    for late_s in (-0.02, 0.02):
        found = own_figures([*speech(2.6, "r", 1.6), done(4.2 + late_s, "r", "cancelled")], [TURN], [CUT_IN], 0.0)
        assert (found.yield_ms, found.stop_ms) == ([round(200 + 1_000 * late_s, 1)], [200.0])


def test_an_agent_that_talks_on_over_the_user_has_neither_yielded_nor_ended_nor_answered_them() -> None:
    for told in ([], [started(4.2)]):
        events = sorted([*speech(2.6, "r", 4.0), *told, done(6.6, "r")], key=lambda event: event.at_s)
        found = own_figures(events, [TURN], [CUT_IN], 0.0)
        assert (found.went_on, found.ended, found.yield_ms, found.stop_ms) == (1, 0, [], [])
        assert (found.answer_ms, found.unanswered) == ([600.0], 1)


def test_who_tells_of_the_users_voice_and_has_words_left_when_they_are_done_has_talked_on() -> None:
    events = sorted([*speech(2.6, "r", 3.2), started(4.2), done(5.8, "r")], key=lambda event: event.at_s)
    found = own_figures(events, [TURN], [CUT_IN], 0.0)
    assert (found.went_on, found.ended, found.yield_ms) == (1, 0, [])


def test_what_was_on_its_way_when_the_agent_gave_way_does_not_count_as_talking_on() -> None:
    reply = [*speech(2.6, "r", 1.7), started(4.2), audio(4.3, "r", 900), done(4.4, "r", "cancelled")]
    found = own_figures(reply, [TURN], [CUT_IN], 0.0)
    assert (found.yield_ms, found.went_on) == ([200.0], 0)


def test_an_agent_that_was_done_anyway_has_not_yielded() -> None:
    reply = [*speech(2.6, "r", 1.5), done(4.1, "r"), started(4.2)]
    found = own_figures([*reply, *ANSWER], [TURN], [CUT_IN], 0.0)
    assert (found.ended, found.yield_ms, found.went_on) == (1, [], 0)


def test_a_voice_while_nothing_is_heard_of_the_agent_is_over_nobody() -> None:
    reply = [*speech(2.6, "r", 1.0), done(3.6, "r"), started(4.2)]
    found = own_figures([*reply, *ANSWER], [TURN], [CUT_IN], 0.0)
    assert (found.ended, found.yield_ms, found.went_on, found.answer_ms) == (0, [], 0, [600.0, 500.0])
