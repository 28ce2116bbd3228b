import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

from models.engine_plan import AsrPlan, EnginePlan, TtsPlan
from models.engines.mlx_kokoro import MlxKokoro
from models.engines.mlx_tts import MlxSynthesizer
from models.inference_worker import Priority
from models.interfaces import EngineError, SpeechSynthesizer
from tests.mlx_engines.conftest import Load
from tests.models.conftest import clip, collect

LONG = " ".join(f"This is sentence number {number}." for number in range(16))
"""Longer than the 400 characters from which KittenTTS speaks sentence by sentence."""


async def voice(load: Load, model: Path, **plan: str) -> SpeechSynthesizer:
    return (await load(EnginePlan(tts=TtsPlan("mlx", str(model), **plan)))).tts


async def test_kokoro_speaks_with_word_times_in_pcm_at_24_khz(load: Load, kokoro: Path) -> None:
    engines = await load(EnginePlan(tts=TtsPlan("mlx", str(kokoro))))
    assert isinstance(engines.tts, MlxKokoro)
    assert engines.infos[-1].name == "voice on MLX, af_heart"
    computed: list[int] = []
    compute = engines.tts._compute

    def watched(*arguments: object) -> tuple[np.ndarray, np.ndarray | None]:
        samples, durations = compute(*arguments)
        computed.append(samples.size)
        assert samples.dtype == np.float32
        assert durations is not None
        assert durations.size == len(str(arguments[0])) + 2
        return samples, durations

    engines.tts._compute = watched
    text = "Hello there."
    pieces = [piece async for piece in engines.tts.synthesize(text)]
    samples = sum(len(piece.pcm) for piece in pieces) / 2
    assert len(computed) == 1
    assert 0.5 * computed[0] < samples <= computed[0]  # only silence is taken off its ends
    words = [word for piece in pieces for word in piece.words or ()]
    assert [word.text_end for word in words] == [5, 11]
    assert 0 < words[0].audio_end_samples < words[1].audio_end_samples < samples  # then the stop
    assert b"".join(piece.pcm for piece in pieces) == await collect(engines.tts.synthesize(text))


async def test_kokoro_speaks_a_language_by_one_of_its_voices(load: Load, kokoro: Path) -> None:
    tts = await voice(load, kokoro, language="fr")
    assert isinstance(tts, MlxKokoro)
    spoken: list[tuple[str, str]] = []
    compute = tts._compute

    def watched(symbols: str, name: str, *others: object) -> object:
        spoken.append((symbols, name))
        return compute(symbols, name, *others)

    tts._compute = watched
    assert tts.languages == {"fr"}
    assert await collect(tts.synthesize("Oui.", voice="marin"))
    assert await collect(tts.synthesize("Oui.", voice="af_heart", speed=1.5))
    assert spoken == [("wˈi.", "ff_siwis"), ("wˈi.", "af_heart")]


async def test_a_kokoro_of_no_set_language_speaks_that_of_the_text(load: Load, kokoro: Path) -> None:
    tts = await voice(load, kokoro)
    assert isinstance(tts, MlxKokoro)
    assert tts.languages is not None
    assert {"en", "fr", "es", "it", "pt"} <= tts.languages
    spoken: list[str] = []
    compute = tts._compute

    def watched(symbols: str, name: str, *others: object) -> object:
        spoken.append(name)
        return compute(symbols, name, *others)

    tts._compute = watched
    assert await collect(tts.synthesize("Oui.", voice="marin", language="fr"))
    assert await collect(tts.synthesize("Yes.", voice="cedar", language="en"))
    assert spoken == ["ff_siwis", "am_michael"]


async def test_a_long_text_of_kokoros_stops_between_two_parts(load: Load, kokoro: Path) -> None:
    tts = await voice(load, kokoro)
    assert isinstance(tts, MlxKokoro)
    computed: list[str] = []
    compute = tts._compute

    def watched(symbols: str, *others: object) -> object:
        computed.append(symbols)
        return compute(symbols, *others)

    tts._compute = watched
    speech = tts.synthesize("Well then, let us see, one, two, three, four, five, six, seven, eight, nine.", first=True)
    assert (await anext(speech)).pcm
    await speech.aclose()
    await tts._worker.run(lambda: None, priority=Priority.ASR_PARTIAL)
    assert len(computed) == 1
    assert len(computed[0]) <= 60


async def test_a_voice_or_a_language_that_kokoro_lacks_is_one_sentence(load: Load, kokoro: Path) -> None:
    with pytest.raises(EngineError, match="TTS_VOICE names the voice 'af_nobody'.*af_heart, am_michael, ff_siwis"):
        await voice(load, kokoro, voice="af_nobody")
    with pytest.raises(EngineError, match="Kokoro doesn't speak 'cy'"):
        await voice(load, kokoro, language="cy")


async def test_another_model_is_heard_segment_by_segment(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten)
    assert isinstance(tts, MlxSynthesizer)
    generate, made = tts._model.generate, []

    def watched(text: str, **options: object) -> object:
        made.append(options)
        for result in generate(text, **options):
            made.append(result.audio.size)
            yield result

    tts._model.generate = watched
    pieces = [piece async for piece in tts.synthesize(LONG, voice="bella", speed=1.25)]
    options, *sizes = made
    assert options == {"voice": "bella", "speed": 1.25}  # of all that may be told, what it takes
    assert len(sizes) > 10
    assert len(pieces) > 5
    samples = np.frombuffer(b"".join(piece.pcm for piece in pieces), "<i2")
    assert 0 < samples.size <= sum(sizes)
    assert np.abs(samples).max() > 300
    assert all(piece.words is None and len(piece.pcm) % 2 == 0 for piece in pieces)


async def test_the_first_segment_leaves_before_the_second_is_made(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten)
    assert isinstance(tts, MlxSynthesizer)
    generate, go_on = tts._model.generate, threading.Event()

    def held(text: str, **options: object) -> object:
        results = generate(text, **options)
        yield next(results)
        yield next(results)
        assert go_on.wait(10)
        yield from results

    tts._model.generate = held
    speech = tts.synthesize(LONG)
    first = await anext(speech)
    assert first.pcm
    go_on.set()
    assert len([piece async for piece in speech]) > 5


async def test_a_text_that_nobody_waits_for_stops_at_its_next_segment(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten)
    assert isinstance(tts, MlxSynthesizer)
    generate, made, closed = tts._model.generate, [], []
    loop, reached, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def held(text: str, **options: object) -> object:
        try:
            for result in generate(text, **options):
                made.append(result.audio.size)
                if len(made) == 3:
                    loop.call_soon_threadsafe(reached.set)
                    go_on.wait(10)
                yield result
        finally:
            closed.append(threading.current_thread().name)

    tts._model.generate = held
    speech = tts.synthesize(LONG)
    assert (await anext(speech)).pcm
    await reached.wait()
    await speech.aclose()  # doesn't wait for the model
    go_on.set()
    await tts._worker.run(lambda: None, priority=Priority.ASR_PARTIAL)
    assert len(made) == 3
    assert closed == ["mlx-0"]  # the model's own generator ends in the thread of its arrays
    tts._model.generate = generate
    assert await collect(tts.synthesize("Hello there."))


async def test_two_sessions_get_the_audio_that_each_gets_alone(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten)
    alone = [await collect(tts.synthesize(text)) for text in (LONG, "Good morning to you.")]
    together = await asyncio.gather(*(collect(tts.synthesize(text)) for text in (LONG, "Good morning to you.")))
    assert together == alone


async def test_a_reader_that_dawdles_holds_up_nobody(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten)
    slow = tts.synthesize(LONG)
    first = await anext(slow)
    other = await asyncio.wait_for(collect(tts.synthesize("Good morning to you.")), 30)
    assert other
    rest = [piece async for piece in slow]
    assert b"".join(piece.pcm for piece in [first, *rest]) == await collect(tts.synthesize(LONG))


async def test_a_transcription_goes_before_the_next_text(load: Load, kitten: Path, parakeet: Path) -> None:
    plan = EnginePlan(asr=AsrPlan("mlx", str(parakeet)), tts=TtsPlan("mlx", str(kitten)))
    engines = await load(plan)
    done: list[str] = []

    async def speak(name: str) -> None:
        await collect(engines.tts.synthesize(LONG))
        done.append(name)

    async def hear() -> None:
        await engines.asr.transcribe(clip("cards_001"))
        done.append("heard")

    assert isinstance(engines.tts, MlxSynthesizer)
    generate = engines.tts._model.generate
    loop, reached, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def held(text: str, **options: object) -> object:
        loop.call_soon_threadsafe(reached.set)
        go_on.wait(10)
        yield from generate(text, **options)

    engines.tts._model.generate = held
    first = asyncio.create_task(speak("first"))
    await reached.wait()
    second = asyncio.create_task(speak("second"))
    heard = asyncio.create_task(hear())
    for _ in range(5):  # until both wait in the worker's queue
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, second, heard)
    assert done == ["first", "heard", "second"]
    assert {thread.name for thread in threading.enumerate() if thread.name.startswith("mlx")} == {"mlx-0"}


async def test_text_without_sound_gives_none(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten)
    for text in ("", "  ", "...", "🎉", "—"):
        assert await collect(tts.synthesize(text)) == b"", text


async def test_a_model_that_fails_fails_the_text_and_not_the_next(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten, voices=(("ghost", "no-such-voice"),))
    with pytest.raises(EngineError, match="failed on this text") as caught:
        await collect(tts.synthesize("Hello.", voice="ghost"))
    assert caught.value.code == "tts_failed"
    assert await collect(tts.synthesize("Hello there.", voice="marin"))


async def test_a_closed_synthesizer_says_so(load: Load, kitten: Path) -> None:
    tts = await voice(load, kitten)
    await tts.aclose()
    with pytest.raises(EngineError, match="shut down") as caught:
        await collect(tts.synthesize("Hello."))
    assert caught.value.code == "tts_failed"
