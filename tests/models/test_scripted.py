import asyncio

import numpy as np
import pytest

from models.engines.scripted import (
    BENCH_REPLY,
    SCRIPTED_LOGPROB,
    Hang,
    ScriptedChat,
    ScriptedJudge,
    ScriptedRecognizer,
    ScriptedSynthesizer,
    ScriptedVad,
    soft_tone,
)
from models.interfaces import (
    VAD_FRAME_SAMPLES,
    ChatEnd,
    ChatEvent,
    ChatRequest,
    ChatText,
    ChatToolCall,
    EngineError,
    Judgement,
    Transcription,
    Utterance,
    WordTime,
)
from tests.models.conftest import collect


class Clock:
    """Time that passes only when someone sleeps."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    async def sleep(self, delay_s: float) -> None:
        self.now_ms += delay_s * 1000


def user(text: str) -> ChatRequest:
    return ChatRequest(({"role": "system", "content": "Be kind."}, {"role": "user", "content": text}))


async def events_of(chat: ScriptedChat, request: ChatRequest) -> list[ChatEvent]:
    return [event async for event in chat.stream(request)]


async def test_the_vad_is_an_energy_gate_on_frames_for_any_chunking() -> None:
    loud = soft_tone(0, 2 * VAD_FRAME_SAMPLES)
    pcm = bytes(2 * VAD_FRAME_SAMPLES) + loud + bytes(2 * VAD_FRAME_SAMPLES)
    for chunk in (2, 960, 5_000):
        stream = ScriptedVad().open()
        found = []
        for start in range(0, len(pcm), chunk):
            found += await stream.feed(pcm[start : start + chunk])
        assert found == [0.0, 1.0, 1.0, 0.0]


async def test_the_recogniser_hears_its_script_after_its_delay() -> None:
    clock = Clock()
    asr = ScriptedRecognizer(["one two three four", "last"], delay_ms=50, sleep=clock.sleep)
    assert await asr.transcribe(bytes(48_000), partial_of="item") == Transcription("one two")
    heard = [await asr.transcribe(b"") for _ in range(3)]
    assert heard == [Transcription(text) for text in ("one two three four", "last", "last")]
    assert clock.now_ms == 200
    assert asr.finals == ["one two three four", "last", "last"]
    assert asr.partials == ["one two"]
    counting = ScriptedRecognizer(lambda pcm: f"{len(pcm)} bytes", sleep=clock.sleep)
    assert await counting.transcribe(b"ab") == Transcription("2 bytes")


@pytest.mark.parametrize(("text", "tokens"), [("one two", ["one", " two"]), ("one", ["one"]), ("", [])])
async def test_the_recogniser_is_equally_sure_of_each_word(text: str, tokens: list[str]) -> None:
    heard = await ScriptedRecognizer([text], sleep=Clock().sleep).transcribe(b"", logprobs=True)
    assert heard is not None
    assert heard.logprobs is not None
    assert [token.token for token in heard.logprobs] == tokens
    assert b"".join(token.utf8 for token in heard.logprobs).decode() == heard.text == text
    assert {token.logprob for token in heard.logprobs} <= {SCRIPTED_LOGPROB}


async def test_the_default_chat_tells_a_first_user_what_it_heard() -> None:
    events = await events_of(ScriptedChat(sleep=Clock().sleep), user("Is anybody there?"))
    text = "".join(event.text for event in events if isinstance(event, ChatText))
    assert text.startswith("I heard: Is anybody there.")
    assert isinstance(events[-1], ChatEnd)


async def test_chat_tokens_come_at_the_pace_of_the_script() -> None:
    clock, times = Clock(), []
    chat = ScriptedChat([BENCH_REPLY], ttft_ms=50, token_ms=5, sleep=clock.sleep)
    async for event in chat.stream(user("Go.")):
        if isinstance(event, ChatText):
            times.append(clock.now_ms)
    assert len(times) == 40
    assert times[0] == 50
    assert times[-1] == pytest.approx(50 + 39 * 5)
    assert chat.completed == 1


async def test_chat_scripts_call_tools_fail_and_hang() -> None:
    call = ChatToolCall(0, "call_1", "look_up", "{}")
    failure = EngineError("llm_unreachable", "gone")
    chat = ScriptedChat([[call], [ChatText("Well"), failure], [ChatText("Hm"), Hang()]], sleep=Clock().sleep)
    assert await events_of(chat, user("a")) == [call, ChatEnd("tool_calls", 3, 0, 1)]
    failing = chat.stream(user("b"))
    assert await anext(failing) == ChatText("Well")
    with pytest.raises(EngineError, match="gone"):
        await anext(failing)
    hanging = chat.stream(user("c"))
    assert await anext(hanging) == ChatText("Hm")
    waiting = asyncio.create_task(anext(hanging))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert chat.closed_early == 2
    assert [request.messages[-1]["content"] for request in chat.requests] == ["a", "b", "c"]


async def test_the_synthesizer_speaks_each_word_for_its_time_at_its_pace() -> None:
    clock = Clock()
    tts = ScriptedSynthesizer(sleep=clock.sleep)
    audio = await collect(tts.synthesize("one two three four", first=True))
    assert len(audio) == 2 * int(4 * 0.3 * 24_000)
    assert clock.now_ms == pytest.approx(30 + 1000 / 20)
    assert np.abs(np.frombuffer(audio, "<i2")).max() > 1_000
    assert audio == soft_tone(0, len(audio) // 2)
    assert len(await collect(tts.synthesize("one two", speed=1.5))) == 2 * int(0.4 * 24_000)
    assert [(call.text, call.first, call.completed) for call in tts.calls] == [
        ("one two three four", True, True),
        ("one two", False, True),
    ]


@pytest.mark.parametrize("timed", [True, False])
async def test_the_synthesizer_tells_when_each_word_ends_if_it_is_to(timed: bool) -> None:
    tts = ScriptedSynthesizer(sleep=Clock().sleep, timed=timed)
    pieces = [piece async for piece in tts.synthesize("one, two  three")]
    assert [len(piece.pcm) // 2 for piece in pieces] == [4_800] * 4 + [2_400]
    times = [None if piece.words is None else [*piece.words] for piece in pieces]
    expected = [[], [WordTime(4, 7_200)], [WordTime(8, 14_400)], [], [WordTime(15, 21_600)]]
    assert times == (expected if timed else [None] * 5)


async def test_a_cut_synthesis_says_how_much_was_taken() -> None:
    tts = ScriptedSynthesizer(sleep=Clock().sleep)
    stream = tts.synthesize("one two three four")
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    assert [(call.yielded_ms, call.audio_ms) for call in tts.cancelled] == [(400.0, 1200.0)]


async def test_the_judge_judges_by_the_last_word_or_as_its_script_says() -> None:
    clock = Clock()
    judge = ScriptedJudge({"whether": 0.1, "second": Judgement(0.0, wait=True), "": 0.9}, sleep=clock.sleep)
    texts = ["I wonder whether", "Hold on a SECOND.", "Good morning", ""]
    said = [await judge.judge(Utterance(text=text)) for text in texts]
    assert said == [Judgement(0.1), Judgement(0.0, wait=True), Judgement(0.9), Judgement(0.9)]
    assert [asked.text for asked in judge.asked] == texts
    assert clock.now_ms == 40
    assert await ScriptedJudge({}, sleep=clock.sleep).judge(Utterance(text="Well")) == Judgement(None)
    listener = ScriptedJudge(lambda utterance: len(utterance.pcm) / 10, name="audio", listens=True, sleep=clock.sleep)
    assert (listener.name, listener.listens) == ("audio", True)
    assert await listener.judge(Utterance(pcm=b"ab")) == Judgement(0.2)
    with pytest.raises(EngineError):
        await ScriptedJudge({"": EngineError("judge_failed", "It broke.")}, sleep=clock.sleep).judge(Utterance())
