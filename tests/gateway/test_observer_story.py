"""What observers are told of a session: each decision with its reason, texts but no audio, in the machine's order."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.observing.kinds import Kind
from gateway.observing.observer import SessionObserver
from gateway.observing.story import VAD_FRAMES, Story
from gateway.turns.actions import JudgeSound, JudgeWords, TranscribeItem, TranscribePartial, TranscribePause
from gateway.turns.inputs import (
    CommitRequested,
    GenerationEnded,
    Input,
    InputStalled,
    Judged,
    PartialTranscript,
    PauseTranscript,
    SettingsChanged,
    SpeechProbability,
    TextDelta,
    Tick,
)
from gateway.turns.observations import (
    DropReason,
    OverlapJudged,
    OverlapVerdict,
    PauseJudged,
    PauseVerdict,
    Speculated,
    SpeculationFate,
)
from gateway.turns.response import Output
from gateway.turns.settings import LONGEST_INPUT, TurnSettings
from models.engines.scripted import ScriptedChat, ScriptedRecognizer
from models.interfaces import ChatText, ChatToolCall, EngineError
from protocol.audio_time import samples_from_ms as ms
from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    InputCommitted,
    OutputTextDelta,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
)
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.observed import reading_at_once, told
from tests.gateway.scripted_cascade import open_session, quiet, scripted_engines, voice

README = Path(__file__).parents[2] / "gateway" / "README.md"


def types(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def bare(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in {"v", "seq", "at_ms", "audio_ms"}}


class Heard:
    """A story alone, without a session."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._story = Story(lambda kind, **fields: self.events.append({"type": kind, **fields}))

    def told(self, message: Input, *outputs: Output, at: int = 0) -> list[dict[str, Any]]:
        """Return what is told of one message (time in ms)."""
        self.events.clear()
        self._story.told(message, ms(at), outputs)
        return list(self.events)


# --- whole sessions ------------------------------------------------------------------------------------------------


async def test_a_turn_is_told_from_the_voice_to_the_ear(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)
    async with open_session(time, scripted_engines(time), observer=observer) as running:
        async with reading_at_once(running, time):
            await running.play(quiet(320), voice(960), quiet(5_000))
    events = told(observer.ring)
    frequent = {"vad", "heard", "llm.text"}
    assert [kind for kind in types(events) if kind not in frequent] == [
        "session.started", "session.settings",
        "speech.started", "speech.paused", "asr.asked", "asr.pause", "speculation", "llm.asked", "llm.ended",
        "end_of_turn.verdict", "speech.stopped", "turn.committed",
        "response.started", "transcript.delta", "transcript.final", "agent.state", "speculation",
        "tts.started", "tts.queued", "tts.audio", "agent.state", "audio.sent", "tts.done",
        "tts.started", "tts.audio", "tts.done", "response.ended",
        "waterfall", "agent.state", "session.ended",
    ]  # fmt: skip
    assert all({"v", "seq", "at_ms", "audio_ms", "type"} <= event.keys() for event in events)
    positions = [event["audio_ms"] for event in events]
    assert positions == sorted(positions)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["at_ms"] for event in events] == sorted(event["at_ms"] for event in events)
    assert observer.ring.ended.is_set()


async def test_no_event_holds_audio_and_each_one_stands_in_the_table_of_the_readme(time: FedTime) -> None:
    table = README.read_text(encoding="utf-8").split("## What an observer reads")[1].split("\n## ")[0]
    rows = set(re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)) - {"type"}
    assert rows == {kind.value for kind in Kind}
    for kind in Kind:
        (row,) = [line for line in table.splitlines() if line.startswith(f"| `{kind}` |")]
        assert row.count("|") == 4, row


async def test_the_vad_is_told_a_few_frames_at_a_time_and_with_every_edge(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)
    async with open_session(time, scripted_engines(time), observer=observer) as running:
        await running.play(quiet(960), voice(640), quiet(1_120))
    frames = told(observer.ring, "vad")
    values = [value for event in frames for value in event["probability"]]
    assert len(values) == (960 + 640 + 1_120) // 32
    assert sum(values) == 640 // 32
    assert len(frames) <= len(values) / VAD_FRAMES + 6
    starts = [event["start_ms"] for event in frames]
    lengths = [32 * len(event["probability"]) for event in frames]
    assert starts == [sum(lengths[:place]) for place in range(len(lengths))]
    assert all(len(event["level_dbfs"]) == len(event["probability"]) for event in frames)
    (started,) = told(observer.ring, "speech.started")
    assert (started["audio_start_ms"], started["audio_ms"]) == (660, 1_040)  # padding, two frames, 20 ms appends
    (before,) = [event for event in frames if event["seq"] == started["seq"] - 1]
    assert before["probability"][-2:] == [1.0, 1.0]


async def test_what_is_heard_is_told_a_few_times_a_second_with_its_words(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)
    async with open_session(time, scripted_engines(time), observer=observer) as running:
        async with reading_at_once(running, time) as socket:
            await running.play(voice(960), quiet(4_000))
        text = "".join(event["delta"] for event in socket.of("response.output_audio_transcript.delta"))
    marks = told(observer.ring, "heard")
    assert 5 <= len(marks) <= 10
    assert [mark["heard_ms"] for mark in marks] == sorted({mark["heard_ms"] for mark in marks})
    assert {later["at_ms"] - mark["at_ms"] for mark, later in zip(marks, marks[1:-1], strict=False)} == {250}
    for mark in marks:
        assert mark["heard_ms"] <= mark["sent_ms"]
        words = text[: mark["text_end"]].split()
        assert abs(len(words) - mark["heard_ms"] / 300) <= 1.5
    assert (marks[-1]["heard_ms"], marks[-1]["text_end"]) == (marks[-1]["sent_ms"], len(text))


async def test_a_barge_in_is_told_with_its_verdict_the_cut_and_what_is_never_said(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)
    long = "One two three four. Five six seven eight. Nine ten eleven twelve. Thirteen fourteen. " * 10
    engines = scripted_engines(time, chat=ScriptedChat([long], token_ms=0.1, sleep=time.sleep))
    async with open_session(time, engines, observer=observer) as running:
        async with reading_at_once(running, time):
            await running.play(voice(960), quiet(1_600), voice(640))
    (verdict,) = told(observer.ring, "overlap.verdict")
    assert bare(verdict) == {"type": "overlap.verdict", "verdict": "immediate", "reason": "at speech onset"}
    (cut,) = told(observer.ring, "playout.cut")
    assert 500 < cut["heard_ms"] < 1_400
    assert long.startswith(cut["heard_text"])
    assert 1 <= len(cut["heard_text"].split()) <= cut["heard_ms"] / 300
    (ended,) = told(observer.ring, "response.ended")
    assert (ended["status"], ended["reason"]) == ("cancelled", "turn_detected")
    queued = {event["chunk"]: event["text"] for event in told(observer.ring, "tts.queued")}
    started = {event["chunk"]: event["text"] for event in told(observer.ring, "tts.started")}
    done = {event["chunk"] for event in told(observer.ring, "tts.done")}
    (dropped,) = told(observer.ring, "tts.dropped")
    never_said = {entry["chunk"]: entry["text"] for entry in dropped["chunks"]}
    assert len(queued) > 3
    assert {chunk: queued[chunk] for chunk in started if chunk in queued} == {
        chunk: text for chunk, text in started.items() if chunk in queued
    }
    assert never_said.keys() == (queued.keys() | started.keys()) - done
    assert all("heard_ms" in event for event in told(observer.ring, "heard"))
    assert "heard" not in types(told(observer.ring))[types(told(observer.ring)).index("playout.cut") :]


async def test_a_tool_call_is_told_with_its_arguments_and_its_result(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)
    call = [ChatToolCall(0, "call_1", "look_up", '{"word":'), ChatToolCall(0, None, None, '"x"}')]
    chat = ScriptedChat([call, "It is x."], sleep=time.sleep)
    async with open_session(time, scripted_engines(time, chat=chat), observer=observer) as running:
        async with reading_at_once(running, time):
            await running.send("response.create")
            await time.advance(500)
            item = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
            await running.send("conversation.item.create", item=item)
            await running.send("response.create")
            await time.advance(3_000)
    called, arguments, result = told(observer.ring, "tool.call", "tool.arguments", "tool.result")
    assert (called["name"], called["call_id"], arguments["item_id"]) == ("look_up", "call_1", called["item_id"])
    assert arguments["arguments"] == '{"word":"x"}'
    assert bare(result) == {"type": "tool.result", "by": "client", "call_id": "call_1", "output": "42"}
    (account,) = told(observer.ring, "waterfall")
    assert {"tool_call", "tools"} <= account["stages_ms"].keys()


async def test_of_reasoning_only_the_length_is_told(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)
    reply: list[Any] = [ChatText("<think>What"), ChatText(" is this?"), ChatText("</think>"), ChatText("Hello.")]
    engines = scripted_engines(time, chat=ScriptedChat([reply], sleep=time.sleep))
    async with open_session(time, engines, observer=observer) as running:
        async with reading_at_once(running, time):
            await running.send("response.create")
            await time.advance(2_000)
    first, last = told(observer.ring, "llm.reasoning")
    assert (first["ended"], last["ended"]) == (False, True)
    assert 0 < first["characters"] < last["characters"] == len("<think>What is this?</think>")
    assert [event["text"] for event in told(observer.ring, "llm.text")] == ["Hello."]
    assert "What" not in json.dumps(told(observer.ring))


async def test_failures_refusals_and_errors_are_told_with_their_codes(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)

    class Deaf(ScriptedRecognizer):
        async def transcribe(self, pcm: bytes, **arguments: Any) -> Any:
            raise EngineError("asr_failed", "No.")

    async with open_session(time, scripted_engines(time, asr=Deaf()), observer=observer) as running:
        async with reading_at_once(running, time):
            await running.send("input_audio_buffer.commit")
            await running.play(voice(640), quiet(800))
            await running.send("no.such.event")
    (refused,) = told(observer.ring, "command.refused")
    assert refused["refusal"] == "input_too_short"
    (failed,) = told(observer.ring, "transcript.failed")
    (ended,) = told(observer.ring, "response.ended")
    assert failed["code"] == ended["code"] == "asr_failed"
    codes = [event["code"] for event in told(observer.ring, "error")]
    assert codes == ["input_audio_buffer_commit_empty", "invalid_value"] or len(codes) == 2


async def test_a_clients_truncate_is_told(time: FedTime) -> None:
    observer = SessionObserver("sess_1", time.now)
    async with open_session(time, scripted_engines(time), observer=observer) as running:
        async with reading_at_once(running, time) as socket:
            await running.send("response.create")
            await time.advance(1_000)
            item_id = socket.of("response.output_audio.delta")[0]["item_id"]
            await running.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=300)
            await settle()
    (truncated,) = told(observer.ring, "client.truncated")
    assert bare(truncated) == {"type": "client.truncated", "item_id": item_id, "heard_ms": 300}


# --- single decisions ----------------------------------------------------------------------------------------------


def test_a_judges_score_and_the_verdict_carry_their_evidence() -> None:
    heard = Heard()
    asked = heard.told(Tick(), TranscribePause("i", 2, 0, ms(900)), JudgeSound("i", 2, 0, ms(900)))
    assert [event["type"] for event in asked] == ["asr.asked", "end_of_turn.asked"]
    words = heard.told(PauseTranscript("i", 2, "So I"), JudgeWords("i", 2, "So I", "Hello."))
    assert [(event["type"], event["text"]) for event in words] == [("asr.pause", "So I"), ("end_of_turn.asked", "So I")]
    verdict = PauseJudged("i", 2, PauseVerdict.HOLD, "fusion", ms(288), 0.12345, 0.7)
    score, told_verdict = heard.told(Judged("i", 2, "probability", 0.12345, took=ms(31)), verdict)
    assert score == {
        "type": "end_of_turn.score", "item_id": "i", "pause": 2, "judge": "probability", "complete": 0.123,
        "wait": False, "took_ms": 31,
    }  # fmt: skip
    assert told_verdict == {
        "type": "end_of_turn.verdict", "item_id": "i", "pause": 2, "verdict": "hold", "by": "fusion",
        "silence_ms": 288, "complete": 0.123, "threshold": 0.7,
    }  # fmt: skip


def test_a_judged_overlap_is_told_once_and_not_as_an_unjudged_one() -> None:
    judged = OverlapJudged(ms(500), OverlapVerdict.INTERRUPTION, "stop word", ms(320), ms(256), -3.21, 0.0123, "Stop.")
    ended = ResponseEnded("r", EndStatus.CANCELLED, reason=EndReason.TURN_DETECTED)
    events = Heard().told(Tick(), judged, SpeechStarted("i", 0), ended)
    assert [event["type"] for event in events] == ["overlap.verdict", "speech.started", "response.ended"]
    assert events[0] == {
        "type": "overlap.verdict", "audio_onset_ms": 500, "verdict": "interruption", "reason": "stop word",
        "held_ms": 320, "voiced_ms": 256, "level_db": -3.21, "echo": 0.012, "words": "Stop.",
    }  # fmt: skip


@pytest.mark.parametrize("fate", SpeculationFate)
def test_a_speculations_fate_is_told(fate: SpeculationFate) -> None:
    (event,) = Heard().told(Tick(), Speculated("spec", "i", fate, "r", DropReason.RESUMED))
    assert event == {
        "type": "speculation", "speculation_id": "spec", "item_id": "i", "fate": fate, "response_id": "r",
        "reason": "resumed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("message", "before", "length_ms", "reason"),
    [
        (SpeechProbability(0, 0.0), (), 900, "silence"),
        (SpeechProbability(0, 1.0), (), LONGEST_INPUT // 24, "length"),
        (CommitRequested(), (), 900, "client"),
        (InputStalled(ms(500)), (), 900, "input_stalled"),
        (Tick(), (PauseJudged("i", 0, PauseVerdict.COMMIT, "limit", ms(4_000)),), 900, "limit"),
        (Judged("i", 0, "audio", 1.0), (PauseJudged("i", 0, PauseVerdict.COMMIT, "fusion", ms(300)),), 900, "fusion"),
    ],
)
def test_a_commit_says_who_decided_it(message: Input, before: tuple[Output, ...], length_ms: int, reason: str) -> None:
    events = Heard().told(message, *before, InputCommitted("i", 0, ms(length_ms)))
    assert [event["reason"] for event in events if event["type"] == "turn.committed"] == [reason]


def test_interim_words_and_items_are_told_with_what_they_were_asked_of() -> None:
    heard = Heard()
    (partial,) = heard.told(PartialTranscript("i", "Hel"))
    assert partial == {"type": "asr.partial", "item_id": "i", "text": "Hel"}
    asked = heard.told(Tick(), TranscribePartial("i", ms(100), ms(300)), TranscribeItem("j"))
    assert asked == [
        {"type": "asr.asked", "what": "partial", "item_id": "i", "audio_start_ms": 100, "audio_end_ms": 300},
        {"type": "asr.asked", "what": "item", "item_id": "j"},
    ]


def test_settings_are_told_when_they_change_and_only_then() -> None:
    heard = Heard()
    (settings,) = heard.told(SettingsChanged(TurnSettings()))
    assert settings["turn_detection"]["silence_duration_ms"] == 500
    assert heard.told(SettingsChanged(TurnSettings())) == []
    assert heard.told(SettingsChanged(TurnSettings(detection=None)))[0]["turn_detection"] is None


def test_what_comes_late_for_a_response_that_is_over_is_not_told() -> None:
    heard = Heard()
    heard.told(Tick(), ResponseStarted("r"), ResponseEnded("r", EndStatus.COMPLETED))
    assert heard.told(TextDelta("r", "<think>late")) == []


def test_reasoning_that_began_in_a_speculation_ends_in_its_response() -> None:
    heard = Heard()
    heard.told(Tick(), Speculated("spec", "i", SpeculationFate.STARTED))
    (began,) = heard.told(TextDelta("spec", "<think>Hm"))
    heard.told(Tick(), ResponseStarted("r"), Speculated("spec", "i", SpeculationFate.ADOPTED, "r"))
    (ended,) = heard.told(TextDelta("spec", "</think>Hello."))
    assert [(event["response_id"], event["ended"]) for event in (began, ended)] == [("spec", False), ("r", True)]
    assert ended["characters"] == len("<think>Hm</think>")
    (done,) = heard.told(GenerationEnded("spec", "stop"))
    assert (done["type"], done["response_id"]) == ("llm.ended", "r")
    heard.told(Tick(), ResponseEnded("r", EndStatus.COMPLETED))
    heard.told(
        Tick(), Speculated("gone", "i", SpeculationFate.STARTED), Speculated("gone", "i", SpeculationFate.DROPPED)
    )
    assert heard.told(TextDelta("gone", "<think>late")) == heard.told(TextDelta("spec", "<think>late")) == []


def test_a_refusal_is_told_with_its_detail() -> None:
    (event,) = Heard().told(Tick(), CommandRefused(RefusalKind.RESPONSE_ACTIVE, None, "r", detail="d"))
    assert event == {
        "type": "command.refused", "refusal": "response_active", "response_id": "r", "client_event_id": None,
        "detail": "d",
    }  # fmt: skip


def test_echo_is_told_where_there_is_some() -> None:
    heard = Heard()
    frames = [SpeechProbability(768 * n, 0.5, -30.0, echo=0.25 if n == 2 else 0.0) for n in range(1, VAD_FRAMES + 1)]
    events = [event for frame in frames for event in heard.told(frame)]
    assert events == [
        {"type": "vad", "start_ms": 0, "frame_ms": 32, "probability": [0.5] * 5, "level_dbfs": [-30.0] * 5,
         "echo": [0.0, 0.25, 0.0, 0.0, 0.0]}
    ]  # fmt: skip


def test_words_of_a_part_that_nobody_knows_are_none() -> None:
    heard = Heard()
    assert heard._story.replies.text_heard("unknown", ms(1_000)) == ""
    heard.told(Tick(), ResponseStarted("r"), OutputTextDelta("r", "i", "Hello."))
    assert heard._story.replies.text_heard("i", 0) == ""
