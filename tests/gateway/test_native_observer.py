"""What observers are told of a full-duplex session, in its order, and of a backend that has nothing but its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.observing.observer import SessionObserver
from gateway.turns.duplex_calls import NO_TOOL_RESULT
from gateway.turns.duplex_vocabulary import DuplexSettings
from gateway.turns.states import Agent
from models.engines.scripted_duplex import DuplexReply
from protocol.audio_time import samples_from_ms as ms
from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    InputCommitted,
    OutputAudio,
    OutputTextDelta,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import AppendAudio, CommitInput, CreateResponse, ItemTruncated, SpeechFrame
from tests.gateway.fed_time import FedTime
from tests.gateway.native_session import native_session
from tests.gateway.observed import reading_at_once, told
from tests.gateway.scripted_cascade import quiet, voice

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all " * 3)


def types(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_a_full_duplex_turn_is_told_from_the_voice_to_the_ear(time: FedTime) -> None:
    async with native_session(
        time, DuplexReply("Good morning."), heard=("hello there",), answer_after_ms=640
    ) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(400), voice(960), quiet(4_000))
    events = told(native.observer.ring)
    frequent = {"vad", "heard", "llm.text", "transcript.delta"}
    assert [kind for kind in types(events) if kind not in frequent] == [
        "session.started", "model.opening", "model.opened", "speech.started", "speech.stopped", "turn.committed",
        "transcript.final", "response.started", "agent.state", "floor.taken", "agent.state", "audio.sent",
        "waterfall", "floor.yielded", "response.ended", "agent.state", "model.pace", "session.ended",
    ]  # fmt: skip
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    positions, times = ([event[name] for event in events] for name in ("audio_ms", "at_ms"))
    assert positions == sorted(positions)
    assert times == sorted(times)
    (taken,), (yielded,) = told(native.observer.ring, "floor.taken"), told(native.observer.ring, "floor.yielded")
    assert (taken["by"], yielded["by"], yielded["spoken"]) == ("floor", "floor", True)
    assert yielded["output_ms"] - taken["output_ms"] >= 480
    states = [event["state"] for event in told(native.observer.ring, "agent.state")]
    assert states == ["thinking", "speaking", "idle"]
    assert "".join(event["delta"] for event in told(native.observer.ring, "transcript.delta")).strip() == "hello there"
    marks = told(native.observer.ring, "heard")
    assert [mark["heard_ms"] for mark in marks] == sorted(mark["heard_ms"] for mark in marks)
    assert 2 <= len(marks) <= 6
    starts = [event["start_ms"] for event in told(native.observer.ring, "vad")]
    assert starts == sorted(set(starts))


async def test_a_barge_in_is_told_as_held_voice_then_turn_then_cut(time: FedTime) -> None:
    async with native_session(time, STORY, DuplexReply("Yes?")) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(400), voice(960), quiet(3_000), voice(1_200), quiet(2_000))
    ring = native.observer.ring
    (held,), (cut,) = told(ring, "voice.held"), told(ring, "playout.cut")
    order = types(told(ring, "voice.held", "speech.started", "floor.yielded", "response.ended", "playout.cut"))
    assert order[:7] == [
        "speech.started", "voice.held", "floor.yielded", "speech.started", "response.ended", "playout.cut",
        "floor.yielded",
    ]  # fmt: skip
    assert held["item_id"] == told(ring, "speech.started")[1]["item_id"]
    assert 0 < cut["heard_ms"] < 4_000
    assert told(ring, "voice.dropped") == []
    assert native.observer.states[1] is Agent.IDLE


async def test_tools_steering_and_their_limits_are_told(time: FedTime) -> None:
    reply = DuplexReply("It is {result}.", call=("get_time", {}))
    async with native_session(time, reply, reply, settings=DuplexSettings(on_hold="One moment.")) as native:
        async with reading_at_once(native.running, time) as socket:
            await native.play(quiet(400), voice(960), quiet(1_600))
            (call,) = socket.of("response.function_call_arguments.done")
            item = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
            await native.send("conversation.item.create", item=item)
            await native.play(quiet(3_000), voice(960), quiet(13_000))
    ring = native.observer.ring
    assert [event["name"] for event in told(ring, "tool.call")] == ["get_time", "get_time"]
    assert [event["output"] for event in told(ring, "tool.result")] == ["noon"]
    assert [(event["characters"], event["timed_out"]) for event in told(ring, "tool.read")] == [
        (4, False),
        (len(NO_TOOL_RESULT), True),
    ]
    assert {(event["command"], event["text"]) for event in told(ring, "model.steered")} == {("say", "One moment.")}


async def test_the_models_pace_is_told_with_what_it_never_heard(time: FedTime) -> None:
    async with native_session(time, step_s=0.104) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(20_000))
    ring = native.observer.ring
    (behind,) = told(ring, "model.behind")
    paces = told(ring, "model.pace")
    assert len(paces) >= 2
    assert {pace["real_time_factor"] for pace in paces} == {1.3} == {behind["real_time_factor"]}
    assert all(pace["step_p50_ms"] == pace["step_p95_ms"] == 104 for pace in paces)
    assert max(pace["backlog_ms"] for pace in paces) <= 480
    assert paces[-1]["silence_ms"] > 0
    assert sum(pace["unheard_ms"] for pace in paces) == paces[-1]["silence_ms"] + paces[-1]["too_old_ms"]


async def test_a_model_that_fails_is_told_and_then_begun_anew(time: FedTime) -> None:
    async with native_session(time, fails_at_ms=800) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(2_000))
    kinds = types(told(native.observer.ring, "model.opening", "model.opened", "model.failed"))
    assert kinds[:5] == ["model.opening", "model.opened", "model.failed", "model.opening", "model.opened"]


# --- a backend that is known by its events only --------------------------------------------------------------------


class Watching:
    """An observer that no machine and no tap tells anything."""

    def __init__(self, time: FedTime) -> None:
        self.time = time
        self.observer = SessionObserver("sess_1", time.now)
        self.observer.open()

    def saw(self, *events: Any) -> None:
        for event in events:
            self.observer.saw(event, self.time.now())

    def commanded(self, command: Any) -> None:
        self.observer.commanded(command, self.time.now())


async def test_a_backend_of_another_make_is_watched_by_its_events(time: FedTime) -> None:
    watching = Watching(time)
    frames = tuple(SpeechFrame(768 * number, 0.9, -20.0) for number in range(1, 6))
    watching.observer.heard_user(AppendAudio(bytes(2 * 768 * 5), frames), time.now())
    watching.saw(SpeechStarted("i", 0), SpeechStopped("i", ms(400)), InputCommitted("i", 0, ms(400)))
    watching.saw(ResponseStarted("r"), OutputTextDelta("r", "a", "Hello."), OutputAudio("r", "a", bytes(2 * ms(900))))
    await time.advance(600)
    assert watching.observer.states[1] is Agent.SPEAKING
    watching.saw(ResponseEnded("r", EndStatus.COMPLETED, ms(450)))
    await time.advance(1_000)
    assert watching.observer.states[1] is Agent.IDLE
    assert types(told(watching.observer.ring)) == [
        "session.started", "vad", "speech.started", "speech.stopped", "turn.committed", "response.started",
        "agent.state", "llm.text", "agent.state", "heard", "heard", "response.ended", "heard", "heard", "agent.state",
        "heard",
    ]  # fmt: skip
    (vad,) = told(watching.observer.ring, "vad")
    assert (vad["audio_ms"], vad["probability"]) == (160, [0.9] * 5)
    assert [event["reason"] for event in told(watching.observer.ring, "turn.committed", "response.started")] == [
        "silence", "model",
    ]  # fmt: skip


async def test_what_the_client_does_is_told_as_its_own(time: FedTime) -> None:
    watching = Watching(time)
    watching.commanded(CommitInput("e1"))
    watching.saw(CommandRefused(RefusalKind.INPUT_TOO_SHORT, "e1"), InputCommitted("i", 0, ms(400)))
    watching.commanded(CommitInput())
    watching.saw(InputCommitted("j", 0, ms(400)))
    watching.commanded(CreateResponse("r", audio=True))
    watching.saw(ResponseStarted("r"), OutputAudio("r", "a", bytes(2 * ms(900))))
    await time.advance(400)
    watching.commanded(ItemTruncated("a", ms(200)))
    reasons = [event["reason"] for event in told(watching.observer.ring, "turn.committed", "response.started")]
    assert reasons == ["silence", "client", "client"]
    (truncated,) = told(watching.observer.ring, "client.truncated")
    assert (truncated["item_id"], truncated["heard_ms"]) == ("a", 200)
    assert watching.observer.states[1] is Agent.THINKING


async def test_a_cut_and_what_is_said_beside_the_conversation_are_told_apart(time: FedTime) -> None:
    watching = Watching(time)
    watching.saw(ResponseStarted("x", out_of_band=True), OutputAudio("x", "b", bytes(2 * ms(900))))
    assert watching.observer.states[1] is Agent.IDLE
    watching.saw(ResponseStarted("r"), OutputAudio("r", "a", bytes(2 * ms(900))))
    await time.advance(300)
    watching.saw(ResponseEnded("r", EndStatus.CANCELLED, ms(150), EndReason.TURN_DETECTED), PlayoutCut("a", ms(150)))
    assert watching.observer.states[1] is Agent.IDLE
    (cut,) = told(watching.observer.ring, "playout.cut")
    assert cut["heard_ms"] == 150
