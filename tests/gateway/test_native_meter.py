"""The meter on a full-duplex model whose truth is known: its figures mean what the cascade's mean."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.meter import ASSUMED_PLAYOUT_DELAY
from gateway.turns.duplex_vocabulary import DuplexSettings, SpeechStartedPolicy
from models.engines.scripted_duplex import DuplexReply, Spoken
from protocol.audio_time import ms_from_samples
from tests.gateway.fed_time import FedTime
from tests.gateway.native_session import NativeSession, native_session
from tests.gateway.observed import reading_at_once, told
from tests.gateway.scripted_cascade import quiet, voice

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all " * 3)
FRAME_MS = 80
DELAY_MS = ms_from_samples(ASSUMED_PLAYOUT_DELAY)


def turns(native: NativeSession, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in told(native.observer.ring, "waterfall") if not kinds or event["turn"] in kinds]


def overlaps(native: NativeSession) -> list[dict[str, Any]]:
    return told(native.observer.ring, "overlap.measured")


def close_to(value_ms: float, true_ms: float) -> bool:
    """Say whether a figure is right to a frame of the model and a chunk of the microphone."""
    return abs(value_ms - true_ms) <= FRAME_MS + 20


# --- answer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [240, 480, 960])
async def test_an_answer_is_measured_from_the_last_voice_to_the_first_sound(time: FedTime, after_ms: int) -> None:
    async with native_session(time, DuplexReply("Good morning."), answer_after_ms=after_ms) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(320), voice(960), quiet(3_000))
        (spoken,) = native.stream.truth
    (turn,) = turns(native)
    assert (turn["turn"], turn["outcome"], turn["barge_in"]) == ("speech", "heard", False)
    # The model's output starts with its input, a frame later than what it heard.
    assert close_to(turn["total_ms"], ms_from_samples(spoken.start) + FRAME_MS - 1_280 + DELAY_MS)
    assert list(turn["stages_ms"]) == ["floor", "llm_ttft", "tts_ttfa", "send", "playout"]
    assert sum(turn["stages_ms"].values()) == turn["total_ms"]


async def test_a_model_slower_than_real_time_is_heard_as_late_as_it_says_so(time: FedTime) -> None:
    """At factor 1.25 audio waits for the model: what the user waited is told, not what the model took."""
    async with native_session(time, DuplexReply("Good morning."), step_s=0.1) as native:
        async with reading_at_once(native.running, time) as socket:
            await native.play(quiet(320), voice(960), quiet(4_000))
            first = next(at for at, event in socket.frames if event["type"] == "response.output_audio.delta")
    (turn,) = turns(native)
    assert turn["outcome"] == "heard"
    assert abs(turn["total_ms"] - (ms_from_samples(first) - 1_280 + DELAY_MS)) <= FRAME_MS


async def test_a_response_that_begins_with_silence_is_answered_with_its_first_sound(
    time: FedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with native_session(time, DuplexReply("Good morning, everybody.")) as native:
        await native.play(quiet(320))  # the conversation is open
        utter, silent = native.stream._utter, iter([False] * 4)

        def late() -> tuple[str, bool]:
            text, sounds = utter()
            return text, sounds and next(silent, True)

        monkeypatch.setattr(native.stream, "_utter", late)
        async with reading_at_once(native.running, time):
            await native.play(voice(960), quiet(3_000))
        (spoken,) = native.stream.truth
    (turn,) = turns(native)
    floor_ms = ms_from_samples(spoken.start) + FRAME_MS - 1_280
    assert close_to(turn["total_ms"], floor_ms + 4 * FRAME_MS + DELAY_MS)
    assert turn["stages_ms"]["tts_ttfa"] == 4 * FRAME_MS


async def test_a_nod_answers_nothing_and_is_told_as_one(time: FedTime) -> None:
    async with native_session(time, DuplexReply("Good morning."), nod_after_ms=1_600) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(320), voice(4_000), quiet(3_000))
        kinds = [spoken.kind for spoken in native.stream.truth]
    assert kinds == ["nod", "turn"]
    nod, turn = turns(native)
    assert (nod["turn"], nod["outcome"]) == ("own", "backchannel")
    assert (turn["turn"], turn["outcome"]) == ("speech", "heard")
    assert turn["total_ms"] < 1_000
    assert overlaps(native) == []  # the user was first


async def test_a_nod_in_a_pause_of_the_users_is_not_taken_for_the_answer(time: FedTime) -> None:
    async with native_session(time, DuplexReply("Good morning."), nod_after_ms=1_600, answer_after_ms=960) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(320), voice(1_600), quiet(4_000))
        nod, spoken = native.stream.truth
    found = {turn["outcome"]: turn for turn in turns(native)}
    assert found.keys() == {"backchannel", "heard"}
    assert nod.start < spoken.start
    assert close_to(found["heard"]["total_ms"], ms_from_samples(spoken.start) + FRAME_MS - 1_920 + DELAY_MS)


async def test_what_the_model_says_unasked_is_its_own(time: FedTime) -> None:
    async with native_session(time, DuplexReply("Welcome!")) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(320))
            native.stream.start()
            await native.play(quiet(2_000))
    (turn,) = turns(native)
    assert (turn["turn"], turn["outcome"]) == ("own", "heard")


# --- yield and stop ------------------------------------------------------------------------------------------------


async def interrupted(
    time: FedTime, *, settings: DuplexSettings | None = None, yields_ms: int = 320, voice_ms: int = 1_280
) -> tuple[NativeSession, list[Spoken], int]:
    """Return a session in which the user cut in: what the agent has said, and when the user's voice began (ms)."""
    async with native_session(time, STORY, settings=settings, yield_after_ms=yields_ms) as native:
        async with reading_at_once(native.running, time):
            await native.play(quiet(320), voice(960), quiet(3_200))
            onset = ms_from_samples(time.now())
            await native.play(voice(voice_ms), quiet(2_000))
        truth = list(native.stream.truth)
    return native, truth, onset


@pytest.mark.parametrize("policy", SpeechStartedPolicy)
@pytest.mark.parametrize("yields_ms", [240, 480])
async def test_yield_and_stop_are_the_models_whenever_clients_are_told(
    time: FedTime, policy: SpeechStartedPolicy, yields_ms: int
) -> None:
    native, (story, *_), onset = await interrupted(
        time, settings=DuplexSettings(speech_started=policy), yields_ms=yields_ms
    )
    (overlap,) = overlaps(native)
    assert overlap["outcome"] == "yielded"
    true_ms = ms_from_samples(story.end) + FRAME_MS - onset
    assert close_to(overlap["onset_ms"], onset)
    assert close_to(overlap["yield_ms"], true_ms)
    assert close_to(overlap["stop_ms"], true_ms)
    assert overlap["yield_ms"] <= overlap["stop_ms"] + FRAME_MS
    assert overlap["voiced_ms"] == 1_280


async def test_a_nod_of_the_users_over_the_agent_is_neither_a_yield_nor_a_stop(time: FedTime) -> None:
    native, _, _ = await interrupted(time, yields_ms=800, voice_ms=240)
    (overlap,) = overlaps(native)
    assert (overlap["outcome"], overlap["yield_ms"], overlap["stop_ms"]) == ("went_on", None, None)
    (dropped,) = told(native.observer.ring, "voice.dropped")
    (held,) = told(native.observer.ring, "voice.held")
    assert dropped["item_id"] == held["item_id"]
    assert dropped["reason"] == "no more than a nod"


async def test_a_client_that_cancels_has_stopped_the_agent_and_the_agent_has_not_yielded(time: FedTime) -> None:
    async with native_session(time, STORY, yield_after_ms=5_000) as native:
        async with reading_at_once(native.running, time) as socket:
            await native.play(quiet(320), voice(960), quiet(3_200), voice(400))
            await native.send("response.cancel")
            item_id = socket.of("response.output_audio.delta")[-1]["item_id"]
            heard_ms = (
                sum(len(pcm) for _, pcm in socket.audio(socket.of("response.created")[0]["response"]["id"])) // 48
            )
            await native.send(
                "conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=heard_ms - 200
            )
            await native.play(voice(400), quiet(2_000))
    (overlap, *_) = overlaps(native)
    assert (overlap["outcome"], overlap["yield_ms"]) == ("stopped", None)
    assert 200 <= overlap["stop_ms"] <= 440


async def test_the_next_answer_says_that_its_turn_cut_the_agent_short(time: FedTime) -> None:
    native, _, _ = await interrupted(time)
    first, second = turns(native, "speech")
    assert (first["barge_in"], second["barge_in"]) == (False, True)
    assert second["outcome"] == "heard"


async def test_a_turn_with_a_tool_is_one_turn_to_the_first_sound_behind_the_result(time: FedTime) -> None:
    reply = DuplexReply("It is {result}.", call=("get_time", {}))
    async with native_session(time, reply) as native:
        async with reading_at_once(native.running, time) as socket:
            await native.play(quiet(320), voice(960), quiet(1_600))
            (call,) = socket.of("response.function_call_arguments.done")
            item = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
            await native.send("conversation.item.create", item=item)
            await native.send("response.create")
            await native.play(quiet(2_000))
    (turn,) = turns(native)
    assert (turn["turn"], turn["outcome"], len(turn["response_ids"])) == ("speech", "heard", 2)
    assert {"floor", "tool_call", "tools"} <= turn["stages_ms"].keys()
    assert sum(turn["stages_ms"].values()) == turn["total_ms"]
