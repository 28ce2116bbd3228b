"""Several calls of a full-duplex model at once: their results, and the request for patience."""

from __future__ import annotations

import pytest

from gateway.turns.duplex_calls import CALL_TIMEOUT, NO_TOOL_RESULT, RESULT_GRACE
from gateway.turns.duplex_segments import ModelFrame
from gateway.turns.duplex_turns import DuplexTurns
from gateway.turns.duplex_vocabulary import AnswerCall, DuplexOutput, DuplexSettings, ModelSpoke, SteerModel
from gateway.turns.settings import VAD_FRAME
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    EndReason,
    EndStatus,
    FunctionCallStarted,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
)

FRAME = samples_from_ms(80)
SILENCE = bytes(2 * FRAME)
VOICE = b"\x00\x10" * FRAME
CALL = ("get_weather", "{}")


class Calls:
    """A conversation in which nobody but the model does anything."""

    def __init__(self, settings: DuplexSettings | None = None) -> None:
        self.numbers = iter(range(1, 100))
        self.core = DuplexTurns(lambda kind: f"{kind}_{next(self.numbers)}", steered=True, settings=settings)
        self.told: list[DuplexOutput] = []
        self.now = 0
        self.voice = False
        """Whether the user speaks."""
        self._vad_until = 0

    def take(self, outputs: list[DuplexOutput] | None) -> list[DuplexOutput]:
        self.told += outputs or []
        return outputs or []

    def passes(self) -> None:
        """Let a frame's time pass, and the VAD hear it."""
        self.now += FRAME
        while self._vad_until + VAD_FRAME <= self.now:
            self._vad_until += VAD_FRAME
            self.take(self.core.heard(self._vad_until, float(self.voice), self.now))

    def frame(
        self, text: str = "", *, call: tuple[str, str] | None = None, bos: bool = False, eos: bool = False
    ) -> list[DuplexOutput]:
        self.passes()
        voiced = bool(text)
        frame = ModelFrame(FRAME, 0.1 if voiced else 0.0, text, bos, eos)
        return self.take(self.core.spoke(ModelSpoke(frame, VOICE if voiced else SILENCE, "", call), self.now))

    def frames(self, ms: int) -> list[DuplexOutput]:
        return [output for _ in range(ms // 80) for output in self.frame()]

    def says(self, *words: str) -> None:
        self.frame(bos=True)
        for word in words:
            self.frame(word)
        self.frame(eos=True)
        self.frame()

    def all(self, kind: type) -> list:
        return [output for output in self.told if isinstance(output, kind)]

    @property
    def calls(self) -> list[str]:
        return [call.call_id for call in self.all(FunctionCallStarted)]

    @property
    def results(self) -> list[str]:
        return [result.output for result in self.all(AnswerCall)]


def two_calls(settings: DuplexSettings | None = None) -> Calls:
    talk = Calls(settings)
    talk.frame(call=CALL)
    talk.frame(call=CALL)
    return talk


def test_results_are_read_in_the_order_of_their_calls() -> None:
    """The model is given them without their calls' names: it can tell them apart by their order alone."""
    talk = two_calls()
    first, second = talk.calls
    talk.take(talk.core.answered(second, "rain in Rome"))
    talk.frames(2_400)
    assert talk.results == []
    talk.take(talk.core.answered(first, "sun in Paris"))
    talk.take(talk.core.request("resp_asked", None))
    assert talk.results == ["sun in Paris", "rain in Rome"]


def test_a_result_behind_a_call_that_is_never_answered_is_read_after_its_error() -> None:
    talk = two_calls()
    first, second = talk.calls
    talk.take(talk.core.answered(second, "rain in Rome"))
    talk.take(talk.core.request("resp_asked", None))
    assert talk.results == []
    talk.frames(CALL_TIMEOUT // 24)
    assert talk.results == [NO_TOOL_RESULT, "rain in Rome"]
    talk.says("Rain ", "in Rome.")
    assert [ended.status for ended in talk.all(ResponseEnded)][-1] is EndStatus.COMPLETED
    assert talk.all(ResponseStarted)[-1].response_id == "resp_asked"
    talk.take(talk.core.answered(first, "sun in Paris"))
    talk.frames(RESULT_GRACE // 24 + 80)
    assert talk.results[-1] == "sun in Paris"


def test_a_result_may_be_asked_about_before_the_next_one_comes() -> None:
    talk = two_calls()
    first, second = talk.calls
    talk.take(talk.core.answered(first, "sun in Paris"))
    talk.take(talk.core.request("resp_one", None))
    assert talk.results == ["sun in Paris"]
    talk.says("Sun ", "in Paris.")
    talk.take(talk.core.answered(second, "rain in Rome"))
    talk.take(talk.core.request("resp_two", None))
    talk.says("Rain ", "in Rome.")
    assert [ended.response_id for ended in talk.all(ResponseEnded)][-2:] == ["resp_one", "resp_two"]


def test_patience_is_asked_for_once_for_all_calls_that_wait() -> None:
    talk = two_calls(DuplexSettings(on_hold="One moment."))
    assert talk.all(SteerModel) == [SteerModel("say", "One moment.")]
    for call_id in talk.calls:
        talk.take(talk.core.answered(call_id, "sun"))
    talk.take(talk.core.request("resp_asked", None))
    talk.says("One ", "moment.")
    talk.says("It is ", "sunny.")
    said = {started.response_id: "" for started in talk.all(ResponseStarted)}
    for delta in talk.all(OutputTextDelta):
        said[delta.response_id] += delta.delta
    assert said.pop("resp_asked") == "It is sunny."
    assert "One moment." in said.values()
    talk.frame(call=CALL)
    assert len(talk.all(SteerModel)) == 2


def test_a_call_that_comes_while_patience_is_to_be_asked_for_is_not_the_request_for_it() -> None:
    talk = Calls(DuplexSettings(on_hold="One moment."))
    talk.frame(call=CALL)
    talk.frame(call=CALL)
    talk.take(talk.core.answered(talk.calls[0], "sun"))
    talk.take(talk.core.answered(talk.calls[1], "rain"))
    talk.take(talk.core.request("resp_asked", None))
    talk.says("One ", "moment.")
    assert talk.core.is_awaited


def test_after_a_cancel_nobody_asks_for_patience() -> None:
    talk = Calls(DuplexSettings(on_hold="One moment."))
    talk.frame(call=CALL)
    talk.take(talk.core.answered(talk.calls[0], "sun"))
    talk.take(talk.core.request("resp_gone", None))
    talk.take(talk.core.cancel("resp_gone", None, talk.now))
    talk.take(talk.core.request("resp_asked", None))
    talk.says("It is ", "sunny.")
    assert talk.all(ResponseEnded)[-1].response_id == "resp_asked"


# --- a sound that leads into an answer --------------------------------------------------------------------------------


def hum(talk: Calls, frames: int, *, bos: bool = False) -> None:
    """A sound without words."""
    for at in range(frames):
        talk.passes()
        frame = ModelFrame(FRAME, 0.1, takes_floor=bos and at == 0)
        talk.take(talk.core.spoke(ModelSpoke(frame, VOICE), talk.now))


def test_a_request_during_a_nod_that_leads_into_the_answer_is_answered_by_it() -> None:
    talk = Calls()
    hum(talk, 3)
    (nod,) = talk.all(ResponseStarted)
    talk.take(talk.core.request("resp_asked", None))
    hum(talk, 1, bos=True)
    talk.frame("It is ")
    talk.frame("noon.")
    talk.frame(eos=True)
    talk.frames(6_000)
    ended = {end.response_id: end.status for end in talk.all(ResponseEnded)}
    assert ended == {nod.response_id: EndStatus.COMPLETED, "resp_asked": EndStatus.COMPLETED}
    words = [(delta.response_id, delta.delta) for delta in talk.all(OutputTextDelta)]
    assert words == [("resp_asked", "It is "), ("resp_asked", "noon.")]
    assert not talk.core.is_awaited


def test_an_answer_that_begins_as_a_sound_answers_the_turn_and_the_result() -> None:
    talk = Calls()
    talk.frame(call=CALL)
    talk.take(talk.core.answered(talk.calls[0], "sun"))
    talk.frames(RESULT_GRACE // 24 + 80)
    assert talk.results == ["sun"]
    hum(talk, 2)
    talk.frame("Sunny.")
    talk.frame(eos=True)
    talk.frames(160)
    assert talk.all(ResponseEnded)[-1].status is EndStatus.COMPLETED
    assert not talk.core.is_owed
    told = talk.take(talk.core.request("resp_next", None))
    assert told == [SteerModel("start")]  # the answer to the result is over: this one has to be asked of the model


def test_the_time_to_start_does_not_run_while_an_earlier_calls_result_is_waited_for() -> None:
    talk = two_calls(DuplexSettings(on_hold="One moment."))
    first, second = talk.calls
    talk.take(talk.core.answered(second, "rain in Rome"))
    talk.take(talk.core.request("resp_asked", None))
    talk.says("One ", "moment.")
    talk.frames(7_200)
    assert talk.core.is_awaited
    talk.take(talk.core.answered(first, "sun in Paris"))
    assert talk.results == ["sun in Paris", "rain in Rome"]
    talk.says("Sun ", "and rain.")
    assert (talk.all(ResponseEnded)[-1].response_id, talk.all(ResponseEnded)[-1].status) == (
        "resp_asked", EndStatus.COMPLETED)  # fmt: skip


@pytest.mark.parametrize("by_id", [True, False])
def test_a_cancel_during_a_nod_ends_what_was_asked_for(*, by_id: bool) -> None:
    talk = Calls()
    hum(talk, 3)
    talk.take(talk.core.request("resp_asked", None))
    talk.take(talk.core.cancel("resp_asked" if by_id else None, None, talk.now))
    assert not talk.core.is_awaited
    ended = {end.response_id: end.status for end in talk.all(ResponseEnded)}
    assert ended["resp_asked"] is EndStatus.CANCELLED
    assert talk.all(SteerModel) == [SteerModel("start"), SteerModel("stop")]
    talk.frames(8_000)
    assert EndStatus.FAILED not in {end.status for end in talk.all(ResponseEnded)}


def test_a_nod_can_be_cancelled_without_what_was_asked_for() -> None:
    talk = Calls()
    hum(talk, 3)
    (nod,) = talk.all(ResponseStarted)
    talk.take(talk.core.request("resp_asked", None))
    talk.take(talk.core.cancel(nod.response_id, None, talk.now))
    assert talk.core.is_awaited
    assert talk.all(SteerModel)[-1] == SteerModel("start")


def test_who_speaks_while_a_nod_becomes_the_answer_is_still_told_only_if_the_agent_gives_way() -> None:
    talk = Calls()
    hum(talk, 3)
    talk.take(talk.core.request("resp_asked", None))
    voiced_from = talk.now
    talk.voice = True
    hum(talk, 2, bos=True)
    talk.frame("It is ")
    talk.frame("noon.")
    assert talk.all(SpeechStarted) == []
    talk.frame("And ")
    talk.frame(eos=True)
    talk.frame()
    (cut,) = talk.all(PlayoutCut)
    assert cut.heard > 0
    (ended,) = [end for end in talk.all(ResponseEnded) if end.response_id == "resp_asked"]
    assert (ended.status, ended.reason) == (EndStatus.CANCELLED, EndReason.TURN_DETECTED)
    (started,) = talk.all(SpeechStarted)
    assert started.start >= voiced_from - samples_from_ms(300)
