"""The cascade's shell: it tells the machine what happened, performs what it decides, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import pytest

from gateway.backends.cascade import RECOGNITIONS_AT_A_TIME, CascadeBackend
from gateway.backends.engine_work import EngineWork
from gateway.turns import inputs
from gateway.turns.settings import Deadlines
from models.engines.scripted import SCRIPTED_LOGPROB, Hang, ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer
from models.interfaces import (
    ChatEnd,
    ChatEvent,
    ChatRequest,
    ChatText,
    ChatToolCall,
    EngineError,
    SpeechPiece,
    Transcription,
)
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    CommandRefused,
    ContextRequested,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCleared,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
    TokenLogprob,
    TokenUsage,
)
from protocol.commands import (
    AppendAudio,
    CancelResponse,
    ClearInput,
    Command,
    CommitInput,
    Configure,
    CreateResponse,
    ItemTruncated,
    ProvideContext,
    SpeechFrame,
    TurnDetection,
)
from protocol.ids import CountingIds
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.scripted_cascade import BY_HAND, CONTEXT, SERVER_VAD, quiet, running, scripted_engines, voice

ScriptedEvent = ChatEvent | EngineError | Hang


class DeafRecognizer:
    """Fails as a recogniser does, at once or only for final transcripts."""

    def __init__(self, *, partials: bool = True) -> None:
        self.looks = 0
        self._partials = partials

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        if partial_of is not None:
            self.looks += 1
            if not self._partials:
                return None
        raise EngineError("asr_failed", "The recogniser failed.")


class HoarseSynthesizer:
    """Fails after one piece."""

    async def synthesize(self, text: str, **_options: Any) -> AsyncGenerator[SpeechPiece, None]:
        yield SpeechPiece(bytes(480))
        raise EngineError("tts_failed", "The voice failed.")


def noting(told: list[inputs.Input]) -> Callable[[inputs.Input, int], list[Any]]:
    """Return a machine's `receive` that only notes what it is told."""

    def receive(message: inputs.Input, now: int) -> list[Any]:
        told.append(message)
        return []

    return receive


# --- commands in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (AppendAudio(bytes(200)), inputs.AudioReceived(100)),
        (CommitInput("e"), inputs.CommitRequested("e")),
        (ClearInput("e"), inputs.ClearRequested()),
        (CreateResponse("r", True, "e"), inputs.ResponseRequested("r", True, "e")),
        (CancelResponse("r", "e"), inputs.CancelRequested("r", "e")),
        (ItemTruncated("i", 240), inputs.HeardByClient("i", 240)),
        (ProvideContext("r", CONTEXT), inputs.ContextProvided("r")),
    ],
)
async def test_every_command_reaches_the_machine(
    time: FedTime, monkeypatch: pytest.MonkeyPatch, command: Command, message: inputs.Input
) -> None:
    async with running(time, scripted_engines(time)) as cascade:
        told: list[inputs.Input] = []
        machine = cascade.backend._machine
        monkeypatch.setattr(machine, "receive", noting(told))
        cascade.backend.submit(command)
        assert told == [message]


async def test_the_frames_of_an_append_follow_its_audio(time: FedTime, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(time, scripted_engines(time)) as cascade:
        told: list[inputs.Input] = []
        monkeypatch.setattr(cascade.backend._machine, "receive", noting(told))
        cascade.backend.submit(AppendAudio(bytes(3072), (SpeechFrame(768, 0.25), SpeechFrame(1536, 0.75))))
        assert told == [
            inputs.AudioReceived(1536),
            inputs.SpeechProbability(768, 0.25),
            inputs.SpeechProbability(1536, 0.75),
        ]


async def test_settings_reach_the_machine_and_keep_what_they_do_not_name(time: FedTime) -> None:
    deadlines = Deadlines(transcript=7)
    async with running(time, scripted_engines(time), deadlines=deadlines, playout_delay=99) as cascade:
        detection = TurnDetection("server_vad", 0.7, 240, 480, create_response=False, interrupt_response=False)
        cascade.backend.submit(Configure(detection, audio_output=False, live_transcript=True, language="de"))
        settings = cascade.backend._machine.settings
        assert settings.detection is not None
        assert (settings.detection.threshold, settings.detection.prefix_padding) == (0.7, 240)
        assert settings.detection.silence_duration == 480
        assert not settings.detection.create_response
        assert not settings.detection.interrupt_response
        assert not settings.audio_output
        assert settings.live_transcript
        assert settings.deadlines is deadlines
        assert settings.playout_delay == 99
        cascade.backend.submit(BY_HAND)
        assert cascade.backend._machine.settings.detection is None


async def test_commands_given_before_run_begins_are_obeyed_in_their_order(time: FedTime) -> None:
    backend = CascadeBackend(scripted_engines(time), new_id=CountingIds(), now=time.now)
    frames = tuple(SpeechFrame(768 * n, 1.0) for n in range(1, 6))
    for command in (SERVER_VAD, AppendAudio(voice(200), frames), CommitInput(), CreateResponse("r", True)):
        backend.submit(command)
    run = asyncio.ensure_future(backend.run())
    events = backend.events()
    seen = [type(await anext(events)).__name__ for _ in range(3)]
    assert seen == ["SpeechStarted", "InputCommitted", "ResponseStarted"]
    await time.advance(100)
    assert isinstance(await anext(events), InputTranscriptDelta)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await events.aclose()


# --- a whole turn --------------------------------------------------------------------------------------------------


async def test_a_spoken_turn_is_answered_and_every_promise_is_kept(time: FedTime) -> None:
    engines = scripted_engines(time)
    async with running(time, engines, session_key="sess_1") as cascade:
        await cascade.play(voice(960), quiet(600))
        await time.advance(2_000)
        assert [kind for kind in dict.fromkeys(cascade.kinds()) if kind != "OutputSpoken"] == [
            "SpeechStarted",
            "ContextForeseen",
            "SpeechStopped",
            "InputCommitted",
            "ResponseStarted",
            "InputTranscriptDelta",
            "InputTranscriptCompleted",
            "ContextRequested",
            "OutputTextDelta",
            "OutputAudio",
            "OutputItemEnded",
            "ResponseEnded",
        ]
        (completed,) = cascade.of(InputTranscriptCompleted)
        assert completed.transcript == "Hello there."
        assert "".join(delta.delta for delta in cascade.of(OutputTextDelta)) == "One two three. Four five six."
        assert sum(len(audio.pcm) for audio in cascade.of(OutputAudio)) // 2 == samples_from_ms(6 * 300)
        (ended,) = cascade.of(ResponseEnded)
        assert (ended.status, ended.usage) == (EndStatus.COMPLETED, TokenUsage(1, 0, 6))
        assert cascade.backend._work.running == 0
        assert cascade.backend._contexts == {}
    chat, tts = engines.chat, engines.tts
    assert isinstance(chat, ScriptedChat)
    assert isinstance(tts, ScriptedSynthesizer)
    assert [request.session_key for request in chat.requests] == ["sess_1"]
    assert [(call.text, call.first) for call in tts.calls] == [("One two three.", True), ("Four five six.", False)]


async def test_the_recogniser_gets_the_audio_of_the_turn_and_the_language(time: FedTime) -> None:
    asked: list[tuple[int, str | None]] = []

    class Recorder:
        async def transcribe(self, pcm: bytes, *, language: str | None = None, **_others: Any) -> Transcription:
            asked.append((len(pcm) // 2, language))
            return Transcription("Hi.")

    configure = Configure(TurnDetection(), language="en")
    async with running(time, scripted_engines(time, asr=Recorder()), configure) as cascade:
        await cascade.play(quiet(960), voice(960), quiet(600))
        (committed,) = cascade.of(InputCommitted)
        voiced_until, tail = samples_from_ms(1920), samples_from_ms(128)
        assert asked == [(voiced_until + tail - committed.start, "en")]


async def test_one_session_asks_the_recogniser_for_few_turns_at_a_time_and_gets_all_in_order(time: FedTime) -> None:
    class Busy:
        def __init__(self) -> None:
            self.running = self.most = 0

        async def transcribe(self, pcm: bytes, **_options: Any) -> Transcription:
            self.running += 1
            self.most = max(self.most, self.running)
            await time.sleep(0.1)
            self.running -= 1
            return Transcription("Hi.")

    recogniser = Busy()
    async with running(time, scripted_engines(time, asr=recogniser), BY_HAND) as cascade:
        for _ in range(3 * RECOGNITIONS_AT_A_TIME):
            await cascade.hear(voice(200))
            cascade.backend.submit(CommitInput())
        await time.advance(1_000)
        committed = [event.item_id for event in cascade.of(InputCommitted)]
        assert [event.item_id for event in cascade.of(InputTranscriptCompleted)] == committed
        assert len(committed) == 3 * RECOGNITIONS_AT_A_TIME
    assert recogniser.most == RECOGNITIONS_AT_A_TIME


async def test_a_reply_of_text_is_not_spoken(time: FedTime) -> None:
    engines = scripted_engines(time)
    async with running(time, engines) as cascade:
        await cascade.ask(audio=False)
        await time.advance(500)
        assert cascade.of(OutputAudio) == []
        assert [ended.status for ended in cascade.of(ResponseEnded)] == [EndStatus.COMPLETED]


async def test_function_calls_pass_with_their_pieces_in_order(time: FedTime) -> None:
    pieces: list[ScriptedEvent] = [
        ChatToolCall(0, "call_9", "look", '{"a"'),
        ChatToolCall(0, arguments=":1}"),
        ChatEnd("tool_calls"),
    ]
    async with running(time, scripted_engines(time, chat=ScriptedChat([pieces], sleep=time.sleep))) as cascade:
        await cascade.ask()
        await time.advance(500)
        (started,) = cascade.of(FunctionCallStarted)
        assert (started.call_id, started.name) == ("call_9", "look")
        assert "".join(delta.delta for delta in cascade.of(FunctionCallArgumentsDelta)) == '{"a":1}'
        assert [ended.status for ended in cascade.of(ResponseEnded)] == [EndStatus.COMPLETED]


async def test_interim_transcripts_are_told_while_the_user_speaks(time: FedTime) -> None:
    asr = ScriptedRecognizer(["One two three four five six."], delay_ms=40, sleep=time.sleep)
    configure = Configure(TurnDetection(), live_transcript=True)
    async with running(time, scripted_engines(time, asr=asr), configure) as cascade:
        await cascade.play(voice(2400))
        early = "".join(delta.delta for delta in cascade.of(InputTranscriptDelta))
        assert early
        assert "One two three four five six.".startswith(early)
        await cascade.play(quiet(600))
        await time.advance(100)
        told = "".join(delta.delta for delta in cascade.of(InputTranscriptDelta))
        assert told == cascade.of(InputTranscriptCompleted)[0].transcript == "One two three four five six."


async def test_an_interim_look_that_fails_or_is_superseded_loses_nothing(time: FedTime) -> None:
    configure = Configure(TurnDetection(create_response=False), live_transcript=True)
    for recogniser in (DeafRecognizer(), DeafRecognizer(partials=False)):
        async with running(time, scripted_engines(time, asr=recogniser), configure) as cascade:
            await cascade.play(voice(1200), quiet(600))
            assert recogniser.looks > 2
            assert cascade.of(InputTranscriptDelta) == []
            assert len(cascade.of(InputTranscriptFailed)) == 1


async def test_a_recogniser_that_says_none_for_a_final_is_taken_for_silence(time: FedTime) -> None:
    class Mute:
        async def transcribe(self, pcm: bytes, **_others: Any) -> None:
            return None

    async with running(time, scripted_engines(time, asr=Mute())) as cascade:
        await cascade.play(voice(960), quiet(600))
        assert [done.transcript for done in cascade.of(InputTranscriptCompleted)] == [""]


# --- engines that fail ---------------------------------------------------------------------------------------------


async def test_a_recogniser_that_fails_fails_the_transcript_and_its_response(time: FedTime) -> None:
    async with running(time, scripted_engines(time, asr=DeafRecognizer())) as cascade:
        await cascade.play(voice(960), quiet(600))
        fault = EngineFault("asr_failed", "The recogniser failed.")
        assert [failed.fault for failed in cascade.of(InputTranscriptFailed)] == [fault]
        assert [(end.status, end.fault) for end in cascade.of(ResponseEnded)] == [(EndStatus.FAILED, fault)]


async def test_a_language_model_that_fails_fails_the_response_and_the_next_one_works(time: FedTime) -> None:
    broken: list[ScriptedEvent] = [ChatText("Well"), EngineError("llm_failed", "The model failed.")]
    chat = ScriptedChat([broken, "Fine."], sleep=time.sleep)
    async with running(time, scripted_engines(time, chat=chat)) as cascade:
        await cascade.ask("resp_1")
        await time.advance(500)
        await cascade.ask("resp_2")
        await time.advance(2_000)
        first, second = cascade.of(ResponseEnded)
        assert (first.status, first.fault) == (EndStatus.FAILED, EngineFault("llm_failed", "The model failed."))
        assert second.status is EndStatus.COMPLETED


async def test_a_voice_that_fails_fails_the_response_and_stops_the_language_model(time: FedTime) -> None:
    chat = ScriptedChat(["One two three. " * 40], sleep=time.sleep)
    async with running(time, scripted_engines(time, chat=chat, tts=HoarseSynthesizer())) as cascade:
        await cascade.ask()
        await time.advance(300)
        (ended,) = cascade.of(ResponseEnded)
        assert (ended.status, ended.fault) == (EndStatus.FAILED, EngineFault("tts_failed", "The voice failed."))
        assert chat.closed_early == 1
        assert cascade.backend._work.running == 0


async def test_a_language_model_that_goes_silent_is_given_up_at_its_deadline_to_the_sample(time: FedTime) -> None:
    chat = ScriptedChat([[Hang()]], sleep=time.sleep, ttft_ms=0)
    deadlines = Deadlines(first_token=samples_from_ms(1_000))
    async with running(time, scripted_engines(time, chat=chat), deadlines=deadlines) as cascade:
        await cascade.ask()
        await time.advance(999)
        assert cascade.of(ResponseEnded) == []
        await time.advance(1)
        (ended,) = cascade.of(ResponseEnded)
        assert ended.fault is not None
        assert ended.fault.code == "llm_timeout"
        assert chat.closed_early == 1


# --- stopping ------------------------------------------------------------------------------------------------------


async def test_cancelling_a_response_closes_the_language_models_stream_and_the_voice(time: FedTime) -> None:
    chat = ScriptedChat(["One two three. " * 40], sleep=time.sleep)
    tts = ScriptedSynthesizer(sleep=time.sleep)
    async with running(time, scripted_engines(time, chat=chat, tts=tts)) as cascade:
        await cascade.ask()
        await time.advance(200)
        assert cascade.of(OutputAudio)
        cascade.backend.submit(CancelResponse())
        await settle()
        (ended,) = cascade.of(ResponseEnded)
        assert (ended.status, ended.reason) == (EndStatus.CANCELLED, EndReason.CLIENT_CANCELLED)
        assert chat.closed_early == 1
        assert tts.cancelled == tts.calls[-1:]
        assert cascade.backend._work.running == 0
        told = len(cascade.events)
        await time.advance(5_000)
        assert len(cascade.events) == told


async def test_a_transcript_is_not_stopped_with_the_response_that_waits_for_it(time: FedTime) -> None:
    asr = ScriptedRecognizer(["Hello."], delay_ms=400, sleep=time.sleep)
    async with running(time, scripted_engines(time, asr=asr)) as cascade:
        await cascade.play(voice(960), quiet(600))
        cascade.backend.submit(CancelResponse())
        await time.advance(500)
        assert [done.transcript for done in cascade.of(InputTranscriptCompleted)] == ["Hello."]
        assert asr.cancelled == 0


async def test_cancelling_run_stops_all_work_and_closes_every_stream(time: FedTime) -> None:
    chat = ScriptedChat(["One two three. " * 400], sleep=time.sleep)
    tts = ScriptedSynthesizer(sleep=time.sleep)
    asr = ScriptedRecognizer(["Hello."], delay_ms=10_000, sleep=time.sleep)
    engines = scripted_engines(time, asr=asr, chat=chat, tts=tts)
    async with running(time, engines, Configure(TurnDetection(interrupt_response=False))) as cascade:
        await cascade.ask()
        await cascade.play(voice(500), quiet(600))
        assert cascade.backend._work.running >= 1
    assert chat.closed_early == 1
    assert tts.cancelled == tts.calls[-1:]
    assert asr.cancelled == 1
    assert time.waiting == 0


async def test_what_stopped_engines_still_say_after_the_end_goes_nowhere(time: FedTime) -> None:
    class Stubborn:
        async def synthesize(self, text: str, **_options: Any) -> AsyncGenerator[SpeechPiece, None]:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield SpeechPiece(bytes(480))

    async with running(time, scripted_engines(time, tts=Stubborn())) as cascade:
        await cascade.ask()
        await time.advance(200)
    assert cascade.of(OutputAudio) == []
    cascade.backend.submit(CreateResponse("resp_late", True))
    assert cascade.of(ResponseStarted)[1:] == []


async def test_events_ends_when_its_consumer_is_cancelled(time: FedTime) -> None:
    backend = CascadeBackend(scripted_engines(time), new_id=CountingIds(), now=time.now)
    seen: list[Any] = []

    async def consume() -> None:
        async for event in backend.events():
            seen.append(event)

    consumer = asyncio.ensure_future(consume())
    await settle()
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert seen == []


# --- bugs ----------------------------------------------------------------------------------------------------------


def leaves(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [text for inner in error.exceptions for text in leaves(inner)]
    return [f"{type(error).__name__}: {error}"]


async def broken(time: FedTime, monkeypatch: pytest.MonkeyPatch, when: type) -> BaseException:
    """Run a cascade whose machine breaks at an input of the type `when`; return what run() raised."""
    configure = Configure(TurnDetection(create_response=False))
    backend = CascadeBackend(scripted_engines(time), new_id=CountingIds(), now=time.now)
    receive = backend._machine.receive

    def break_down(message: inputs.Input, now: int) -> Any:
        if isinstance(message, when):
            raise ZeroDivisionError("a bug")
        return receive(message, now)

    monkeypatch.setattr(backend._machine, "receive", break_down)
    run = asyncio.ensure_future(backend.run())
    backend.submit(configure)
    frames = tuple(SpeechFrame(768 * n, 1.0) for n in range(1, 16))
    backend.submit(AppendAudio(bytes(2 * 15 * 768), frames))
    await time.advance(2_000)
    backend.submit(CommitInput())
    assert run.done()
    error = run.exception()
    assert error is not None
    return error


async def test_a_bug_met_by_the_timer_ends_run_with_that_exception(
    time: FedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leaves(await broken(time, monkeypatch, inputs.InputStalled)) == ["ZeroDivisionError: a bug"]


async def test_a_bug_met_by_an_engines_result_ends_run_with_that_exception(
    time: FedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leaves(await broken(time, monkeypatch, inputs.Transcript)) == ["ZeroDivisionError: a bug"]


async def test_a_bug_met_by_an_early_command_ends_run_with_that_exception(
    time: FedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leaves(await broken(time, monkeypatch, inputs.SettingsChanged)) == ["ZeroDivisionError: a bug"]


async def test_whatever_an_engine_throws_ends_its_response_and_not_the_session(
    time: FedTime, caplog: pytest.LogCaptureFixture
) -> None:
    class Buggy(ScriptedChat):
        async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
            yield ChatText("One two three four. ")
            raise KeyError("adapter")

    async with running(time, scripted_engines(time, chat=Buggy([], sleep=time.sleep))) as cascade:
        cascade.backend.submit(CreateResponse("r", True))
        cascade.backend.submit(ProvideContext("r", CONTEXT))
        await time.advance(100)
        (ended,) = cascade.of(ResponseEnded)
        assert (ended.status, ended.fault and ended.fault.code) == (EndStatus.FAILED, "engine_error")
        assert "KeyError: 'adapter'" in caplog.text
        cascade.backend.submit(CreateResponse("r2", True))
        await time.advance(100)
        assert "r2" in {started.response_id for started in cascade.of(ResponseStarted)}


async def test_a_session_that_closes_leaves_an_engine_behind_that_is_deaf_to_cancellation(
    time: FedTime, caplog: pytest.LogCaptureFixture
) -> None:
    free = asyncio.Event()

    async def deaf() -> None:
        while not free.is_set():
            with suppress(asyncio.CancelledError):
                await free.wait()

    work = EngineWork(lambda bug: None)
    work.start("r", deaf())
    await settle()
    closing = asyncio.ensure_future(work.close())
    await settle()
    assert not closing.done()
    await time.advance(2_001)
    assert closing.done()
    assert "left behind" in caplog.text
    free.set()
    await settle()
    assert work.running == 0


@pytest.mark.parametrize("when", [inputs.TextDelta, inputs.SynthesizedSpeech])
async def test_a_bug_met_in_the_middle_of_a_stream_closes_the_stream(
    time: FedTime, monkeypatch: pytest.MonkeyPatch, when: type
) -> None:
    closed: list[str] = []

    class Chat(ScriptedChat):
        async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
            try:
                async for event in super().stream(request):
                    yield event
            finally:
                closed.append("chat")

    class Voice(ScriptedSynthesizer):
        async def synthesize(self, text: str, **options: Any) -> AsyncGenerator[SpeechPiece, None]:
            try:
                async for piece in super().synthesize(text, **options):
                    yield piece
            finally:
                closed.append("voice")

    engines = scripted_engines(time, chat=Chat(["One two three. " * 40], sleep=time.sleep), tts=Voice(sleep=time.sleep))
    backend = CascadeBackend(engines, new_id=CountingIds(), now=time.now)
    receive = backend._machine.receive
    closed_at_the_bug: list[str] = []

    def break_down(message: inputs.Input, now: int) -> Any:
        if isinstance(message, when):
            raise ZeroDivisionError("a bug")
        return receive(message, now)

    monkeypatch.setattr(backend._machine, "receive", break_down)
    run = asyncio.ensure_future(backend.run())
    run.add_done_callback(lambda _run: closed_at_the_bug.extend(closed))
    backend.submit(CreateResponse("r", True))
    backend.submit(ProvideContext("r", CONTEXT))
    await time.advance(500)
    assert leaves(run.exception() or Exception()) == ["ZeroDivisionError: a bug"]
    assert sorted(closed_at_the_bug) == (["chat"] if when is inputs.TextDelta else ["chat", "voice"])


# --- time ----------------------------------------------------------------------------------------------------------


async def test_input_that_stops_ends_the_turn_without_any_further_call(time: FedTime) -> None:
    async with running(time, scripted_engines(time)) as cascade:
        await cascade.play(voice(960))
        await time.advance(499)
        assert cascade.of(SpeechStopped) == []
        await time.advance(60)
        (stopped,) = cascade.of(SpeechStopped)
        assert stopped.end == samples_from_ms(960)  # no audio is invented


async def test_an_early_timer_only_looks_again(time: FedTime) -> None:
    async with running(time, scripted_engines(time)) as cascade:
        await cascade.play(voice(480))
        armed_at = cascade.backend._timer_at
        await cascade.play(voice(1_000))
        assert time.samples > armed_at  # the timer has fired in the middle of speech
        assert cascade.of(SpeechStopped) == []
        assert cascade.backend._timer_at > time.samples


async def test_a_nearer_deadline_replaces_the_armed_timer(time: FedTime) -> None:
    deadlines = Deadlines(first_token=samples_from_ms(10_000))
    chat = ScriptedChat([[Hang()]], sleep=time.sleep, ttft_ms=0)
    async with running(time, scripted_engines(time, chat=chat), deadlines=deadlines) as cascade:
        await cascade.ask()
        await time.advance(1)
        assert time.waiting == 1
        far = cascade.backend._timer_at
        await cascade.play(voice(200))
        assert cascade.backend._timer_at < far
        assert time.waiting == 1


async def test_a_session_in_which_nothing_is_due_has_no_timer(time: FedTime) -> None:
    async with running(time, scripted_engines(time)) as cascade:
        await cascade.play(quiet(200))
        assert time.waiting == 0
        await time.advance(60_000)
        assert cascade.events == []


# --- nothing is kept -----------------------------------------------------------------------------------------------


async def test_contexts_of_ended_refused_and_unknown_responses_are_dropped(time: FedTime) -> None:
    async with running(time, scripted_engines(time), answer_context=False) as cascade:
        await cascade.ask("resp_1")
        cascade.backend.submit(CreateResponse("resp_2", True))
        await settle()
        assert [refused.kind for refused in cascade.of(CommandRefused)] == [RefusalKind.RESPONSE_ACTIVE]
        cascade.backend.submit(ProvideContext("resp_2", CONTEXT))
        assert cascade.backend._contexts == {}
        cascade.backend.submit(ProvideContext("resp_1", CONTEXT))
        assert set(cascade.backend._contexts) == {"resp_1"}
        cascade.backend.submit(CancelResponse())
        assert cascade.backend._contexts == {}
        cascade.backend.submit(ProvideContext("resp_1", CONTEXT))
        assert cascade.backend._contexts == {}
        await settle()
        assert cascade.backend._work.running == 0


@pytest.mark.parametrize(("configure", "bound_s"), [(SERVER_VAD, 12), (BY_HAND, 302)])
async def test_the_users_audio_stays_bounded_over_an_hour(time: FedTime, configure: Configure, bound_s: int) -> None:
    async with running(time, scripted_engines(time), configure) as cascade:
        second, samples, most = quiet(1_000), samples_from_ms(1_000), 0
        for number in range(3_600):
            time.samples += samples
            frames = (SpeechFrame(number * samples + 768, 0.0),)
            cascade.backend.submit(AppendAudio(second, frames))
            most = max(most, len(cascade.backend._audio._pcm))
        assert most <= 2 * bound_s * samples
        assert cascade.backend._audio.end == 3_600 * samples
        assert cascade.events == []


@pytest.mark.parametrize("asked", [True, False])
async def test_log_probabilities_are_asked_for_when_the_client_reads_them(time: FedTime, asked: bool) -> None:
    configure = Configure(TurnDetection(), transcript_logprobs=asked)
    async with running(time, scripted_engines(time, texts=["Hello there."]), configure) as cascade:
        await cascade.play(voice(960), quiet(600))
        await time.advance(200)
        tokens = tuple(TokenLogprob(word, SCRIPTED_LOGPROB, word.encode()) for word in ("Hello", " there."))
        assert [event.logprobs for event in cascade.of(InputTranscriptDelta)] == [tokens if asked else None]
        assert [event.logprobs for event in cascade.of(InputTranscriptCompleted)] == [tokens if asked else None]


async def test_cleared_audio_is_not_transcribed(time: FedTime) -> None:
    asr = ScriptedRecognizer(sleep=time.sleep)
    async with running(time, scripted_engines(time, asr=asr), BY_HAND) as cascade:
        await cascade.play(voice(500))
        cascade.backend.submit(ClearInput("evt_1"))
        cascade.backend.submit(CommitInput("evt_2"))
        await settle()
        (refused,) = cascade.of(CommandRefused)
        assert (refused.kind, refused.client_event_id, refused.buffered) == (RefusalKind.INPUT_TOO_SHORT, "evt_2", 0)
        assert len(cascade.of(InputCleared)) == 1
        assert asr.finals == []


async def test_a_barge_in_keeps_the_order_of_the_machines_list(time: FedTime) -> None:
    chat = ScriptedChat(["One two three. " * 40], sleep=time.sleep)
    tts = ScriptedSynthesizer(sleep=time.sleep, timed=False)
    async with running(time, scripted_engines(time, chat=chat, tts=tts)) as cascade:
        await cascade.ask()
        await time.advance(1_000)
        cascade.events.clear()
        await cascade.play(voice(100))
        kinds = cascade.kinds()
        assert kinds[kinds.index("SpeechStarted") :] == ["SpeechStarted", "OutputSpoken", "ResponseEnded", "PlayoutCut"]
        (started,) = cascade.of(SpeechStarted)
        (ended,) = cascade.of(ResponseEnded)
        (cut,) = cascade.of(PlayoutCut)
        assert started.start == 0
        assert ended.heard == cut.heard > 0


async def test_the_voices_word_times_reach_the_session(time: FedTime) -> None:
    text = "Yes, one two three."
    for timed, ends in (True, [4, 8, 12, 19]), (False, []):
        tts = ScriptedSynthesizer(sleep=time.sleep, timed=timed)
        async with running(
            time, scripted_engines(time, chat=ScriptedChat([text], sleep=time.sleep), tts=tts)
        ) as cascade:
            await cascade.ask()
            await time.advance(3_000)
            marks = [(mark.text_end, mark.audio_end) for mark in cascade.of(OutputSpoken)]
            assert marks == [*((end, 7_200 * (at + 1)) for at, end in enumerate(ends)), (len(text), 4 * 7_200)]


async def test_a_client_that_says_what_was_heard_is_believed(time: FedTime) -> None:
    async with running(time, scripted_engines(time)) as cascade:
        await cascade.ask()
        await time.advance(600)
        item_id = cascade.of(OutputAudio)[0].item_id
        cascade.backend.submit(ItemTruncated(item_id, 240))
        await cascade.play(voice(100))
        assert cascade.of(PlayoutCut) == []  # it plays no more: there is nothing to cut
        assert cascade.of(ContextRequested)[0].response_id == "resp_x"
