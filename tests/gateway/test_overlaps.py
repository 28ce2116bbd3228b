"""The user's voice over the agent's: yield and stop by one definition, whether audio runs ahead of the clock or not."""

from __future__ import annotations

import pytest

from gateway.audible_output import GATE_WINDOW
from gateway.measured_turn import Outcome, TurnKind
from gateway.meter import ASSUMED_PLAYOUT_DELAY as DELAY
from gateway.meter import LONGEST_BACKCHANNEL
from gateway.overlaps import DECIDED_AFTER, LAST_WORD, LEAST_VOICE, UTTERANCE_GAP, Overlap, OverlapOutcome
from protocol.audio_time import Samples
from protocol.audio_time import samples_from_ms as ms
from protocol.backend_events import (
    EndReason,
    EndStatus,
    InputCommitted,
    OutputAudio,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from tests.gateway.test_meter import FRAME, LOUD, Talk, pcm

CUT = (EndStatus.CANCELLED, EndReason.TURN_DETECTED)
CANCELLED = (EndStatus.CANCELLED, EndReason.CLIENT_CANCELLED)


class Over(Talk):
    """A session whose agent speaks. `overlaps` are those that were told, with when."""

    def __init__(self, *, backchannels: bool = False) -> None:
        self.overlaps: list[tuple[Overlap, Samples]] = []
        super().__init__(
            on_overlap=lambda overlap, now: self.overlaps.append((overlap, now)), backchannels=backchannels
        )
        self.number = 1

    def agent_says(self, *stretches: tuple[int, int], words: str = "Hi.") -> None:
        """Send it all at once, as a cascade does."""
        self.saw(ResponseStarted(self.response_id))
        if words:
            self.saw(OutputTextDelta(self.response_id, "a", words))
        self.audio(0, pcm(*stretches))

    def agent_frame(self, value: int) -> None:
        """Send a frame of 64 ms as it is heard, while the user is silent or speaks, as a full-duplex model does."""
        self.audio(0, pcm((2 * FRAME, value)))

    def ends(
        self, status: EndStatus = EndStatus.COMPLETED, reason: EndReason | None = None, *, cut: bool = False
    ) -> None:
        self.saw(ResponseEnded(self.response_id, status, reason=reason))
        if cut:
            self.saw(PlayoutCut("a", 0))

    def quiet(self, length: Samples) -> None:
        self.hear(*[0.0] * (length // FRAME))

    @property
    def overlap(self) -> Overlap:
        (found,) = self.overlaps
        return found[0]


def frames(length: Samples) -> list[float]:
    return [0.9] * (length // FRAME)


def test_audio_that_was_sent_ahead_is_yielded_and_stopped_when_it_is_taken_back() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.ends()
    talk.quiet(ms(1_024))
    onset = talk.now
    talk.hear(*frames(ms(320)))
    talk.saw(PlayoutCut("a", 0))
    cut_at = talk.now
    talk.hear(*frames(ms(640)))
    talk.quiet(ms(1_024))
    found = talk.overlap
    assert (found.outcome, found.onset) == (OverlapOutcome.YIELDED, onset)
    assert found.yielded_after == found.stopped_after == cut_at - onset
    assert found.voiced == ms(960)


def test_audio_in_real_time_is_yielded_with_its_end_and_never_later_than_a_frame() -> None:
    talk = Over(backchannels=True)
    talk.agent_says((2 * FRAME, LOUD))
    for _ in range(10):
        talk.hear(0.0, 0.0)
        talk.agent_frame(LOUD)
    onset = talk.now
    for _ in range(4):
        talk.hear(0.9, 0.9)
        talk.agent_frame(LOUD)
    silent_from = talk.now
    talk.hear(0.9, 0.9)
    talk.agent_frame(100)
    talk.ends(*CUT, cut=True)
    talk.hear(*frames(ms(640)))
    talk.quiet(ms(1_024))
    found = talk.overlap
    assert found.outcome is OverlapOutcome.YIELDED
    assert silent_from - onset <= (found.yielded_after or 0) <= silent_from - onset + 2 * FRAME
    assert found.stopped_after == found.yielded_after


def test_a_model_without_marks_has_yielded_when_its_last_sound_left_however_late_that_is_known() -> None:
    talk = Over(backchannels=True)
    talk.agent_says((2 * FRAME, LOUD))
    for _ in range(4):
        talk.hear(0.0, 0.0)
        talk.agent_frame(LOUD)
    onset = talk.now
    for _ in range(5):
        talk.hear(0.9, 0.9)
        talk.agent_frame(LOUD)
    last_sent = talk.now
    for _ in range(12):
        talk.hear(0.9, 0.9)
        talk.agent_frame(0)
    talk.ends(*CUT, cut=True)
    talk.quiet(ms(1_024))
    assert talk.overlap.yielded_after == last_sent - onset
    heard_until = last_sent + DELAY + 2 * FRAME
    assert heard_until - GATE_WINDOW < onset + (talk.overlap.stopped_after or 0) <= heard_until


@pytest.mark.parametrize(
    ("voiced", "counts"), [(LEAST_VOICE - FRAME, False), (LEAST_VOICE, True), (LEAST_VOICE + FRAME, True)]
)
def test_a_click_overlaps_nothing(voiced: Samples, counts: bool) -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(640))
    talk.hear(*frames(voiced))
    talk.quiet(DECIDED_AFTER + FRAME)
    assert bool(talk.overlaps) == counts


def test_a_voice_that_the_agent_talks_on_over_has_neither_and_is_told_a_second_later() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(640))
    talk.hear(*frames(ms(320)))
    voice_end = talk.now
    talk.quiet(ms(2_048))
    ((found, told_at),) = talk.overlaps
    assert (found.outcome, found.yielded_after, found.stopped_after) == (OverlapOutcome.WENT_ON, None, None)
    assert DECIDED_AFTER <= told_at - voice_end <= DECIDED_AFTER + FRAME


@pytest.mark.parametrize(("goes_on", "outcome"), [(True, OverlapOutcome.WENT_ON), (False, OverlapOutcome.YIELDED)])
def test_who_only_says_that_they_hear_the_user_and_talks_on_has_not_given_way(
    goes_on: bool, outcome: OverlapOutcome
) -> None:
    """As a server may that tells of speech, on which its client empties the player, and minds nothing."""
    talk = Over()
    talk.agent_says((ms(640), LOUD))
    talk.quiet(ms(512))
    talk.hear(*frames(ms(192)))
    talk.saw(PlayoutCut("a", 0))
    talk.hear(0.9, 0.9)
    talk.agent_frame(LOUD)  # on its way already
    if not goes_on:
        talk.ends()
    for _ in range(20):
        talk.hear(0.0, 0.0)
        if goes_on:
            talk.agent_frame(LOUD)
    assert talk.overlap.outcome is outcome
    assert (talk.overlap.yielded_after is None) == (talk.overlap.stopped_after is None) == goes_on


@pytest.mark.parametrize("hangs_up", [False, True])
def test_nor_has_it_given_way_to_a_user_who_speaks_again_or_hangs_up_before_that_is_known(hangs_up: bool) -> None:
    talk = Over()
    talk.agent_says((ms(640), LOUD))
    talk.quiet(ms(512))
    talk.hear(*frames(ms(192)))
    talk.saw(PlayoutCut("a", 0))
    for voice in (0.9, 0.9, *[0.0] * 6, *[0.9] * (0 if hangs_up else 6)):
        talk.agent_frame(LOUD)
        talk.hear(voice, voice)
    talk.meter.close(talk.now)
    outcomes = [(overlap.outcome, overlap.yielded_after, overlap.stopped_after) for overlap, _ in talk.overlaps]
    assert outcomes == [(OverlapOutcome.WENT_ON, None, None)] * (1 if hangs_up else 2)


def test_who_speaks_again_after_the_agent_gave_way_finds_it_so() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(512))
    talk.hear(*frames(ms(192)))
    talk.saw(PlayoutCut("a", 0))
    talk.quiet(UTTERANCE_GAP + FRAME)
    talk.hear(*frames(ms(192)))
    talk.meter.close(talk.now)
    assert talk.overlap.outcome is OverlapOutcome.YIELDED


def test_the_agents_own_voice_in_the_microphone_overlaps_nothing() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(640))
    talk.hear(0.9)  # what is its echo is known a moment late
    talk.hear(*frames(ms(1_280)), echo=0.7)
    talk.quiet(ms(2_048))
    assert talk.overlaps == []


def test_an_echo_amid_the_users_voice_is_part_of_it() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(640))
    talk.hear(*frames(ms(320)))
    talk.hear(*frames(ms(320)), echo=0.7)
    talk.quiet(ms(2_048))
    assert talk.overlap.voiced == ms(640)


def test_a_voice_that_is_taken_for_an_echo_for_a_moment_is_the_users_from_its_beginning() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(640))
    onset = talk.now
    talk.hear(0.9, echo=1.0)
    talk.hear(0.9)
    talk.ends(*CUT, cut=True)
    talk.hear(*frames(ms(320)))
    talk.quiet(ms(2_048))
    assert (talk.overlap.outcome, talk.overlap.onset) == (OverlapOutcome.YIELDED, onset)
    assert talk.overlap.yielded_after == ms(64)


def test_who_speaks_over_the_agents_echo_begins_where_their_own_voice_does() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(640))
    talk.hear(*frames(ms(640)), echo=0.9)
    onset = talk.now
    talk.hear(*frames(ms(320)))
    talk.ends(*CUT, cut=True)
    talk.quiet(ms(2_048))
    assert (talk.overlap.outcome, talk.overlap.onset) == (OverlapOutcome.YIELDED, onset)
    assert talk.overlap.yielded_after == ms(320)


def test_an_agent_that_was_done_anyway_has_not_yielded() -> None:
    talk = Over()
    talk.agent_says((ms(960), LOUD))
    talk.ends()
    talk.quiet(ms(800))
    talk.hear(*frames(ms(960)))
    talk.quiet(LAST_WORD + FRAME)
    assert (talk.overlap.outcome, talk.overlap.yielded_at) == (OverlapOutcome.ENDED, None)


def test_a_client_that_cancels_has_stopped_the_agent_at_the_end_of_what_it_had_or_where_it_says() -> None:
    for truncated in (False, True):
        talk = Over()
        talk.agent_says((ms(1_920), LOUD))
        talk.quiet(ms(960))
        onset = talk.now
        talk.hear(*frames(ms(320)))
        talk.ends(*CANCELLED)
        if truncated:
            talk.meter.truncated("a", ms(1_100), talk.now)
        talk.quiet(ms(2_048))
        found = talk.overlap
        assert (found.outcome, found.yielded_after) == (OverlapOutcome.STOPPED, None)
        heard_until = DELAY + (ms(1_100) if truncated else ms(1_920))
        assert found.stopped_after == heard_until - onset


def test_a_client_that_only_empties_its_player_has_stopped_the_agent() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.ends()
    talk.quiet(ms(960))
    onset = talk.now
    talk.hear(*frames(ms(320)))
    talk.meter.truncated("a", ms(960), talk.now)
    talk.quiet(ms(1_024))
    assert (talk.overlap.outcome, talk.overlap.stopped_after) == (OverlapOutcome.STOPPED, DELAY + ms(960) - onset)


def test_the_clients_word_moves_the_stop_of_an_agent_that_has_yielded() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(960))
    onset = talk.now
    talk.hear(*frames(ms(320)))
    talk.ends(*CUT, cut=True)
    cut_at = talk.now
    talk.meter.truncated("a", ms(900), cut_at + ms(30))
    talk.quiet(ms(1_024))
    assert talk.overlap.yielded_after == cut_at - onset
    assert talk.overlap.stopped_after == DELAY + ms(900) - onset


def test_another_items_truncation_says_nothing_of_this_one() -> None:
    talk = Over()
    talk.agent_says((ms(6_000), LOUD))
    talk.quiet(ms(960))
    talk.hear(*frames(ms(320)))
    talk.meter.truncated("b", ms(100), talk.now)
    talk.quiet(ms(2_048))
    assert talk.overlap.outcome is OverlapOutcome.WENT_ON


def test_each_utterance_over_the_agent_is_one_overlap() -> None:
    talk = Over()
    talk.agent_says((ms(9_000), LOUD))
    talk.quiet(ms(640))
    talk.hear(*frames(ms(320)))
    talk.quiet(UTTERANCE_GAP - FRAME)
    talk.hear(*frames(ms(320)))
    talk.quiet(UTTERANCE_GAP + 2 * FRAME)
    talk.hear(*frames(ms(320)))
    talk.meter.close(talk.now)
    assert [overlap.voiced for overlap, _ in talk.overlaps] == [ms(640), ms(320)]


def test_pauses_between_the_agents_words_are_part_of_its_speech_and_silence_is_not() -> None:
    talk = Over()
    talk.agent_says((ms(960), LOUD), (ms(400), 0), (ms(960), LOUD), (ms(3_000), 0))
    talk.quiet(ms(1_280))  # in the pause
    talk.hear(*frames(ms(320)))
    talk.quiet(ms(2_048))
    talk.hear(*frames(ms(320)))  # behind the last sound, though silence still plays
    talk.quiet(ms(2_048))
    assert len(talk.overlaps) == 1


def test_who_was_first_to_speak_is_not_interrupting() -> None:
    talk = Over(backchannels=True)
    talk.hear(*frames(ms(640)))
    talk.agent_says((ms(1_920), LOUD))
    talk.hear(*frames(ms(640)))
    talk.quiet(ms(2_048))
    assert talk.overlaps == []


def test_a_voice_over_a_backchannel_is_no_overlap() -> None:
    talk = Over(backchannels=True)
    talk.agent_says((ms(480), LOUD), words="")
    talk.quiet(ms(320))
    talk.hear(*frames(ms(320)))
    talk.ends()
    talk.hear(*frames(ms(640)))
    talk.quiet(ms(2_048))
    assert talk.overlaps == []
    assert [(turn.kind, turn.outcome) for turn in talk.meter.turns] == [(TurnKind.OWN, Outcome.BACKCHANNEL)]


# --- whose answer is it? -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "outcome"),
    [
        (LONGEST_BACKCHANNEL - ms(10), Outcome.BACKCHANNEL),
        (LONGEST_BACKCHANNEL, Outcome.HEARD),
        (LONGEST_BACKCHANNEL + ms(10), Outcome.HEARD),
    ],
)
def test_a_sound_without_words_is_an_answer_once_it_lasts(length: Samples, outcome: Outcome) -> None:
    talk = Over(backchannels=True)
    talk.user_speaks()
    talk.user_stops(answered=False)
    talk.number = 7
    talk.agent_says((length, LOUD), words="")
    assert talk.end().outcome is outcome


def test_the_turn_that_got_a_nod_waits_on_for_its_answer() -> None:
    talk = Over(backchannels=True)
    talk.number = 0
    talk.user_speaks()
    speech_end = talk.now
    talk.user_stops(answered=False)
    talk.agent_says((ms(320), LOUD), words="")
    talk.ends()
    talk.now += ms(500)
    talk.number = 2
    talk.agent_says((ms(960), LOUD))
    turn = talk.end()
    assert (turn.kind, turn.outcome, turn.item_id) == (TurnKind.SPEECH, Outcome.HEARD, "item_1")
    assert turn.heard is not None
    assert turn.begin == speech_end


def test_an_agent_that_begins_before_the_turn_is_known_to_be_over_has_answered_it() -> None:
    for lead in (ms(320), -ms(320)):
        talk = Over(backchannels=True)
        talk.number = 0
        talk.user_speaks()
        if lead > 0:  # its first sound comes before the user's last
            talk.agent_says((ms(960), LOUD))
            talk.hear(*frames(ms(640)))
        speech_end = talk.now
        if lead < 0:
            talk.agent_says((ms(320), 0), (ms(960), LOUD))
        talk.hear(0.1, 0.1)
        talk.saw(SpeechStopped("item_1", talk.received))
        talk.saw(InputCommitted("item_1", 0, talk.received))
        turn = talk.end()
        assert (turn.kind, turn.outcome, turn.item_id) == (TurnKind.SPEECH, Outcome.HEARD, "item_1")
        assert turn.waterfall is not None
        assert turn.heard is not None
        assert (turn.heard - turn.begin == 0) == (lead > 0)
        assert turn.begin == (turn.heard if lead > 0 else speech_end)


def test_what_was_said_before_the_user_began_is_no_answer() -> None:
    talk = Over(backchannels=True)
    talk.agent_says((ms(960), LOUD))
    talk.saw(SpeechStarted("item_1", 0))
    talk.hear(0.9, 0.9, 0.1, 0.1)
    talk.saw(SpeechStopped("item_1", talk.received))
    talk.saw(InputCommitted("item_1", 0, talk.received))
    talk.ends()
    talk.quiet(ms(2_048))
    assert [(turn.kind, turn.outcome) for turn in talk.meter.turns] == [(TurnKind.OWN, Outcome.HEARD)]


def test_audio_behind_the_first_sound_of_an_answer_still_counts_as_the_agents_voice() -> None:
    talk = Over()
    talk.agent_says((ms(320), LOUD))
    talk.quiet(ms(640))  # heard, its account is closed
    assert len(talk.meter.turns) == 1
    talk.saw(OutputAudio("resp_1", "a", pcm((ms(3_000), LOUD))))
    talk.meter.sent("resp_1", ms(3_000), talk.now)
    talk.quiet(ms(640))
    talk.hear(*frames(ms(320)))
    talk.ends(*CUT, cut=True)
    talk.quiet(ms(1_024))
    assert talk.overlap.outcome is OverlapOutcome.YIELDED
