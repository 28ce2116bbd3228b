import asyncio
import logging
import threading
from pathlib import Path

import pytest

from models.engine_plan import AsrPlan, EnginePlan
from models.engines.mlx_asr import MlxRecognizer
from models.engines.mlx_languages import told_language
from models.inference_worker import Priority
from models.interfaces import EngineError, SpeechRecognizer
from tests.mlx_engines.conftest import Load
from tests.models.conftest import clip

FRAME_S = 0.08
"""What one step of the tiny Parakeet's encoder covers, as of the real one's."""


async def ears(load: Load, model: Path, language: str = "") -> MlxRecognizer:
    engines = await load(EnginePlan(asr=AsrPlan("mlx", str(model), language=language)))
    assert isinstance(engines.asr, MlxRecognizer)
    return engines.asr


async def text(asr: SpeechRecognizer, pcm: bytes, language: str | None = None) -> str:
    heard = await asr.transcribe(pcm, language=language)
    assert heard is not None
    return heard.text


async def test_a_checkpoint_of_nvidias_layout_is_loaded_from_a_folder_of_any_name(load: Load, parakeet: Path) -> None:
    engines = await load(EnginePlan(asr=AsrPlan("mlx", str(parakeet))))
    assert [(info.name, info.source) for info in engines.infos if info.role == "asr"] == [
        ("ears on MLX", "folder ears")
    ]


async def test_real_speech_becomes_the_same_text_each_time(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    pcm = clip("goforward")
    said = await text(asr, pcm)
    frames = len(pcm) / 48_000 / FRAME_S
    letters = said.replace(" ", "")
    assert frames / 4 < len(letters) < 10 * frames  # a step is 1 to 4 frames long, or one of ten in a frame
    assert set(said) <= set("abcdefghijklmnopqrstuvwxyz., ")
    assert said == said.strip() == await text(asr, pcm)
    assert said != await text(asr, clip("something"))


async def test_silence_is_no_text_and_a_moment_of_sound_no_error(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    assert await text(asr, bytes(48_000)) == ""
    assert await text(asr, b"") == ""
    for samples in (1, 100, 4_000):
        await text(asr, clip("goforward")[24_000 : 24_000 + 2 * samples])


async def test_audio_longer_than_the_model_reads_is_read_in_pieces(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    long = clip("librivox_0870") * 5
    assert len(long) / 48_000 > 31
    assert len(await text(asr, long)) > 3 * len(await text(asr, clip("librivox_0870")))


async def test_all_work_is_done_in_one_thread_that_ends_with_the_engines(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    generate, threads = asr._model.generate, set()

    def watched(*arguments: object, **options: object) -> object:
        threads.add(threading.current_thread().name)
        return generate(*arguments, **options)

    asr._model.generate = watched
    await asyncio.gather(*(text(asr, clip("cards_001")) for _ in range(3)))
    assert threads == {"mlx-0"}
    assert "mlx-0" in {thread.name for thread in threading.enumerate()}
    await asr.aclose()
    assert "mlx-0" not in {thread.name for thread in threading.enumerate()}


async def test_sessions_side_by_side_get_what_each_gets_alone(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    clips = [clip(name) for name in ("goforward", "something", "cards_001")]
    alone = [await text(asr, pcm) for pcm in clips]
    assert await asyncio.gather(*(text(asr, pcm) for pcm in clips)) == alone


async def test_a_final_one_goes_first_and_a_waiting_partial_gives_way(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    done: list[str] = []

    async def look(name: str, **options: str) -> bool:
        heard = await asr.transcribe(clip("cards_001"), **options)
        done.append(name)
        return heard is not None

    first = asyncio.create_task(look("running", partial_of="other"))
    await asyncio.sleep(0)
    partials = [asyncio.create_task(look(f"partial {index}", partial_of="item")) for index in range(4)]
    final = asyncio.create_task(look("final"))
    assert await asyncio.gather(first, *partials, final) == [True, False, False, False, True, True]
    assert done.index("final") < done.index("partial 3")


async def test_a_cancelled_recognition_stops_at_its_next_step(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    step, steps, reached, go_on = asr._model._compiled_tdt_step, 0, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def counted(*arguments: object) -> object:
        nonlocal steps
        steps += 1
        if steps == 5:
            loop.call_soon_threadsafe(reached.set)
            go_on.wait(10)
        return step(*arguments)

    asr._model._compiled_tdt_step = counted
    task = asyncio.create_task(asr.transcribe(clip("goforward")))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await asr._queue._worker.run(lambda: None, priority=Priority.ASR_PARTIAL)
    assert steps == 5
    assert await text(asr, clip("goforward"))  # nothing of it is left behind
    assert steps > 10


async def test_a_model_that_is_told_the_language_is_told_what_it_knows(load: Load, sense_voice: Path) -> None:
    asr = await ears(load, sense_voice, language="ja-JP")
    generate, told = asr._model.generate, []

    def watched(audio: object, **options: object) -> object:
        told.append(options.get("language"))
        return generate(audio, **options)

    asr._model.generate = watched
    for language in ("en-GB", "zh", "cmn-Hans", None):
        heard = await asr.transcribe(clip("goforward"), language=language)
        assert heard is not None
        assert heard.language == told[-1]
    assert told == ["en", "zh", "zh", "ja"]


async def test_an_unknown_language_counts_as_none_and_is_logged_once(
    load: Load, sense_voice: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asr = await ears(load, sense_voice)
    generate, told = asr._model.generate, []

    def watched(audio: object, **options: object) -> object:
        told.append(options.get("language"))
        return generate(audio, **options)

    asr._model.generate = watched
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert await asr.transcribe(clip("goforward"), language="cy") is not None
    assert told == [None, None]
    assert [record.message for record in caplog.records if "'cy'" in record.message] == [
        "the speech recogniser five-languages doesn't know the language 'cy': it knows en, ja, ko, yue, zh only; "
        "choose another with --asr"
    ]


@pytest.mark.parametrize(
    ("detected", "code"),
    [("fr", "fr"), ("French", "fr"), (["Japanese", None], "ja"), ("Klingon", ""), (None, ""), ([], "")],
)
def test_what_a_model_heard_is_told_as_a_code(detected: object, code: str) -> None:
    assert told_language(detected) == code


async def test_a_closed_recogniser_says_so(load: Load, parakeet: Path) -> None:
    asr = await ears(load, parakeet)
    await asr.aclose()
    with pytest.raises(EngineError, match="shut down") as caught:
        await asr.transcribe(clip("cards_001"))
    assert caught.value.code == "asr_failed"
