"""Kokoro's real weights (int8, from packages) heard by real recognisers; most of it runs by `make long`."""

import re
import unicodedata
from collections.abc import AsyncIterator

import jiwer
import numpy as np
import pytest

from models.asr_loading import asr_weights, load_asr
from models.engine_plan import AsrPlan, TtsPlan
from models.engines.kokoro_phonemes import missing_extra
from models.engines.moonshine_asr import MoonshineRecognizer
from models.inference_worker import InferenceWorker
from models.interfaces import SpeechSynthesizer
from models.speech_worker import SpeechWorker
from models.tts_loading import load_tts, tts_weights
from models.weights import WeightsStore
from models.weights_manifest import MOONSHINE_TINY_EN
from tests.models.conftest import collect, plain_words
from tests.models.test_piper_tts import SENTENCES

pytestmark = pytest.mark.models

KOKORO = TtsPlan("kokoro")

QUIET = bytes(2 * 4_800)
"""0.2 s, as any recording has around its words: Moonshine adds "Thank you." to some that end at once."""

LANGUAGES = {
    "es": ("ef_dora", ("Mañana por la mañana tenemos una reunión en la oficina.", "Gracias, eso es todo por hoy.")),
    "fr": ("ff_siwis", ("Demain matin, nous avons une réunion au bureau.", "Je vous remercie de votre patience.")),
    "it": ("if_sara", ("Domani mattina abbiamo una riunione in ufficio.", "Vorrei prenotare un tavolo per domani.")),
    "pt": ("pf_dora", ("Amanhã de manhã temos uma reunião no escritório.", "O trem sai da estação muito cedo.")),
    "en": ("bf_emma", ("Would you like me to book a table for four people?", "The weather will be lovely tomorrow.")),
    "de": ("marin", ("Guten Tag, wie kann ich Ihnen helfen?", "Morgen früh haben wir eine Besprechung im Büro.")),
    "hi": ("hf_alpha", ("कल सुबह हमारी बैठक है।",)),
    "ja": ("jf_alpha", ("明日の朝、会議があります。", "ありがとうございます。")),
    "zh": ("zf_xiaobei", ("今天天气很好，我们去公园吧。", "谢谢你的帮助。")),
}
"""Language → voice and texts. German is read by a French voice, which is lent to it. Hindi's CER means little: Whisper
base writes it in Urdu's script."""

HEARD_WELL = {"de": 0.20, "es": 0.10, "fr": 0.15, "it": 0.10, "pt": 0.10, "en": 0.05}
"""Highest character error rate of the whole round trip, with Whisper base's own mistakes in it."""


@pytest.fixture
async def tts(store: WeightsStore) -> AsyncIterator[SpeechSynthesizer]:
    store.fetch(tts_weights(KOKORO))
    worker = SpeechWorker()
    tts, info = await load_tts(KOKORO, store, worker)
    assert info.name == "Kokoro-82M v1.0 int8, af_heart"
    yield tts
    await worker.aclose()


async def word_error_rate(tts: SpeechSynthesizer, store: WeightsStore, sentences: tuple[str, ...]) -> float:
    store.fetch([MOONSHINE_TINY_EN])
    asr = MoonshineRecognizer(store.path(MOONSHINE_TINY_EN), InferenceWorker("asr", 1))
    found = []
    for text in sentences:
        found.append(await asr.transcribe(QUIET + await collect(tts.synthesize(text, voice="marin")) + QUIET))
    await asr.aclose()
    heard = [plain_words(words.text if words else "") for words in found]
    rate = jiwer.wer([plain_words(text) for text in sentences], heard)
    print(f"Kokoro int8, English: round trip word error rate {rate:.3f} of {len(sentences)} sentences")
    return float(rate)


async def test_packaged_kokoro_speaks_english_that_is_understood_and_tells_its_words(
    tts: SpeechSynthesizer, store: WeightsStore
) -> None:
    assert await word_error_rate(tts, store, SENTENCES[:3]) <= 0.05
    text = SENTENCES[2]
    pieces = [piece async for piece in tts.synthesize(text, voice="cedar", first=True)]
    words = [word for piece in pieces for word in piece.words or ()]
    assert [text[: word.text_end].split()[-1] for word in words] == text.rstrip(".").split()
    pcm = b"".join(piece.pcm for piece in pieces)
    samples = np.abs(np.frombuffer(pcm, "<i2") / 32_768)
    assert samples.max() > 0.1
    assert np.flatnonzero(samples > 0.01)[0] < 0.15 * 24_000
    ends = [0, *(word.audio_end_samples for word in words)]
    said = [samples[start:end].mean() for start, end in zip(ends, ends[1:], strict=False)]
    assert min(said) > 0.1 * np.mean(said)  # no word's place is silence


@pytest.mark.long
async def test_all_sentences_are_understood(tts: SpeechSynthesizer, store: WeightsStore) -> None:
    assert await word_error_rate(tts, store, SENTENCES) <= 0.05


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES)
async def test_other_languages_are_understood(tts: SpeechSynthesizer, store: WeightsStore, language: str) -> None:
    voice, texts = LANGUAGES[language]
    if extra := missing_extra(voice[0]):
        pytest.skip(f"duplex-gateway[{extra}] is not installed")
    plan = AsrPlan("whisper", language=language)
    store.fetch(asr_weights(plan))
    worker = SpeechWorker()
    asr, _ = await load_asr(plan, store, worker)
    said = [await collect(tts.synthesize(text, voice=voice, language=language)) for text in texts]
    heard = [await asr.transcribe(pcm, language=language) for pcm in said]
    await worker.aclose()
    rate = jiwer.cer([letters(text) for text in texts], [letters(found.text) if found else "" for found in heard])
    print(f"Kokoro int8, {language}, {voice}: round trip character error rate {rate:.3f}")
    assert rate <= HEARD_WELL.get(language, 2.0)


def letters(text: str) -> str:
    """Return `text` as character error rates compare it."""
    return re.sub(r"[^\w ]", "", unicodedata.normalize("NFC", text.lower())).strip()
