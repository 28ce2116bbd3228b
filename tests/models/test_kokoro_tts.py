import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from models.engine_plan import TtsPlan
from models.engines.espeak_phonemes import phonemize
from models.engines.kokoro_phonemes import _readers, kokoro_phonemes, missing_extra
from models.engines.kokoro_speaker import FIRST_PHONEMES, MAX_PHONEMES
from models.engines.kokoro_tts import KokoroSynthesizer
from models.interfaces import EngineError, EngineInfo, SpeechPiece
from models.speech_worker import SpeechWorker
from models.tts_loading import load_tts, tts_weights
from models.weights import WeightsStore
from models.weights_manifest import KOKORO_INT8, KOKORO_VOICES
from tests.models.conftest import collect
from tests.models.tiny_kokoro import FRAME_SAMPLES, FRAMES, VOICES, write_hub_layout, write_kokoro

TEXT = "The train leaves from platform nine, in about twenty minutes."


@asynccontextmanager
async def loaded(model: Path | str, **plan: Any) -> AsyncIterator[tuple[KokoroSynthesizer, EngineInfo]]:
    """Kokoro by a plan, from files."""
    worker = SpeechWorker()
    try:
        tts, info = await load_tts(TtsPlan("kokoro", str(model), **plan), WeightsStore(), worker)
        assert isinstance(tts, KokoroSynthesizer)
        yield tts, info
    finally:
        await worker.aclose()


def pitch_of(pcm: bytes) -> float:
    samples = np.frombuffer(pcm, "<i2").astype(float)
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(samples.size)))
    return float(np.argmax(spectrum) * 24_000 / samples.size)


async def pieces_of(tts: KokoroSynthesizer, text: str, **options: Any) -> list[SpeechPiece]:
    return [piece async for piece in tts.synthesize(text, **options)]


async def test_the_voice_of_a_name_speaks_and_names_that_mean_nothing_get_the_best(tmp_path: Path) -> None:
    async with loaded(write_kokoro(tmp_path).parent) as (tts, info):
        assert (info.role, info.name) == ("tts", "Kokoro-82M kokoro-v1.0, af_heart")
        for name, voice in (("cedar", "am_michael"), ("bf_emma", "bf_emma"), ("nobody", "af_heart"), ("", "af_heart")):
            assert pitch_of(await collect(tts.synthesize(TEXT, voice=name))) == pytest.approx(VOICES[voice], abs=2)


async def test_words_end_where_their_phonemes_do(tmp_path: Path) -> None:
    async with loaded(write_kokoro(tmp_path)) as (tts, _):
        pieces = await pieces_of(tts, TEXT)
    words = [word for piece in pieces for word in piece.words or ()]
    assert [TEXT[: word.text_end].split()[-1].rstrip(",.") for word in words] == TEXT.replace(",", "").rstrip(
        "."
    ).split()
    phonemes = kokoro_phonemes(TEXT, "a")
    expected = [(1 + end) * FRAMES * FRAME_SAMPLES for _, end in phonemes.words]
    assert [word.audio_end_samples for word in words] == pytest.approx(expected, abs=FRAME_SAMPLES)
    said = 0
    for piece in pieces:
        said += len(piece.pcm) // 2
        assert all(word.audio_end_samples <= said for word in piece.words or ())


async def test_an_export_that_tells_no_durations_has_no_words(tmp_path: Path) -> None:
    async with loaded(write_kokoro(tmp_path, durations="/other")) as (tts, _):
        pieces = await pieces_of(tts, TEXT)
    assert pieces
    assert all(piece.words is None for piece in pieces)


@pytest.mark.parametrize(
    "export",
    [
        {"durations": "duration", "told": True},
        {"speed_type": TensorProto.DOUBLE},
        {"speed_type": TensorProto.INT32},
    ],
)
async def test_exports_of_other_kinds_speak_too(tmp_path: Path, export: dict[str, Any]) -> None:
    async with loaded(write_kokoro(tmp_path, **export)) as (tts, _):
        assert any(piece.words for piece in await pieces_of(tts, TEXT))


@pytest.mark.parametrize(("asked", "given"), [(0.5, 0.5), (1.5, 1.5), (0.1, 0.25), (9.0, 1.5)])
async def test_speed_changes_the_length_within_the_apis_range(tmp_path: Path, asked: float, given: float) -> None:
    async with loaded(write_kokoro(tmp_path)) as (tts, _):
        normal = len(await collect(tts.synthesize(TEXT)))
        assert len(await collect(tts.synthesize(TEXT, speed=asked))) == pytest.approx(normal / given, rel=0.1)


async def test_the_first_part_of_a_reply_is_short_and_the_rest_follows_whole(tmp_path: Path) -> None:
    text = " ".join([TEXT] * 3)
    async with loaded(write_kokoro(tmp_path)) as (tts, _):
        whole = kokoro_phonemes(text, "a").symbols
        for first, longest in ((True, FIRST_PHONEMES), (False, MAX_PHONEMES)):
            parts = tts._parts(text, "a", first)
            assert len(parts) > 1
            assert len(parts[0].symbols) <= longest
            assert all(len(part.symbols) <= MAX_PHONEMES for part in parts)
            assert " ".join(part.symbols for part in parts) == whole
            assert sum(len(part.words) for part in parts) == len(text.split())
        pieces = await pieces_of(tts, text, first=True)
    assert all(0 < len(piece.pcm) <= 24_000 for piece in pieces)
    words = [word for piece in pieces for word in piece.words or ()]
    assert [word.text_end for word in words] == sorted({word.text_end for word in words})
    assert len(words) == len(text.split())
    assert [word.audio_end_samples for word in words] == sorted(word.audio_end_samples for word in words)


async def test_there_is_a_pause_between_two_sentences_of_a_text(tmp_path: Path) -> None:
    async with loaded(write_kokoro(tmp_path)) as (tts, _):
        pcm = await collect(tts.synthesize(" ".join([TEXT] * 3)))
    silent = np.frombuffer(pcm, "<i2").astype(int) == 0
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate(([0], silent, [0])))))[::2]
    assert runs.max() == pytest.approx(0.25 * 24_000, abs=10)


async def test_closing_the_synthesis_stops_the_inference(tmp_path: Path) -> None:
    async with loaded(write_kokoro(tmp_path)) as (tts, _):
        runs: list[Any] = []
        speak = tts._speak

        def noted(part: Any, voice: str, speed: float, run: Any) -> Any:
            runs.append(run)
            return speak(part, voice, speed, run)

        tts._speak = noted
        pieces = tts.synthesize(" ".join([TEXT] * 5))
        await anext(pieces)
        await pieces.aclose()
        assert len(runs) == 1
        runs[0].stop()
        with pytest.raises(Exception, match="[Tt]erminat"):
            speak(tts._parts(TEXT, "a", True)[0], "af_heart", 1.0, runs[0])


async def test_text_without_sound_gives_none_and_a_closed_voice_says_so(tmp_path: Path) -> None:
    async with loaded(write_kokoro(tmp_path)) as (tts, _):
        for text in ("", "  ", "...", "🎉", "—"):
            assert await collect(tts.synthesize(text)) == b"", text
        await tts.aclose()
        with pytest.raises(EngineError, match="shut down"):
            await collect(tts.synthesize("Hello."))


async def test_sessions_side_by_side_get_the_audio_they_get_alone(tmp_path: Path) -> None:
    texts = [TEXT, "Hello there.", "Bonjour."]
    async with loaded(write_kokoro(tmp_path)) as (tts, _):
        alone = [await collect(tts.synthesize(text)) for text in texts]
        assert await asyncio.gather(*(collect(tts.synthesize(text)) for text in texts)) == alone


# --- files ---------------------------------------------------------------------------------------------------------


async def test_each_published_layout_is_found(tmp_path: Path) -> None:
    flat = write_kokoro(tmp_path / "flat")
    write_kokoro(tmp_path / "flat", name="kokoro-v1.0.int8.onnx")
    hub = write_hub_layout(tmp_path / "hub")
    for named, stem in (
        (flat, "kokoro-v1.0"),
        (flat.parent, "kokoro-v1.0"),
        (flat.parent / "kokoro-v1.0.int8.onnx", "kokoro-v1.0.int8"),
        (hub, "model"),
        (hub / "onnx" / "model.onnx", "model"),
    ):
        async with loaded(named) as (tts, info):
            assert info.name == f"Kokoro-82M {stem}, af_heart"
            assert pitch_of(await collect(tts.synthesize(TEXT))) == pytest.approx(VOICES["af_heart"], abs=2)


async def test_a_repository_of_the_hub_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def snapshot_download(repository: str, *, allow_patterns: list[str], local_files_only: bool = False) -> str:
        asked.append((repository, local_files_only))
        assert "onnx/model.onnx" in allow_patterns
        if local_files_only and len(asked) == 1:
            raise FileNotFoundError("not there yet")
        if repository == "no/body":
            raise ConnectionError("the hub is away")
        return str(tmp_path)

    hub = ModuleType("huggingface_hub")
    hub.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    write_hub_layout(tmp_path)
    for _ in range(2):
        async with loaded("some/Kokoro") as (_, info):
            assert info.source == "some/Kokoro"
    assert asked == [("some/Kokoro", True), ("some/Kokoro", False), ("some/Kokoro", True)]
    with pytest.raises(EngineError, match="no/body can't be fetched from the model hub .ConnectionError.*--tts kokoro"):
        async with loaded("no/body"):
            pass
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(EngineError, match="needs the package huggingface_hub"):
        async with loaded("some/Kokoro"):
            pass


@pytest.mark.parametrize("damage", ["no model", "no voices", "not ONNX", "another model", "damaged voices"])
async def test_files_that_are_no_kokoro_are_one_sentence(tmp_path: Path, damage: str) -> None:
    model = write_kokoro(tmp_path, **({"tokens": "words"} if damage == "another model" else {}))
    match damage:
        case "no model":
            model.unlink()
        case "no voices":
            (tmp_path / "voices-v1.0.bin").unlink()
        case "not ONNX":
            model.write_bytes(b"none")
        case "damaged voices":
            (tmp_path / "voices-v1.0.bin").write_bytes(b"none")
    with pytest.raises(EngineError, match=r"(TTS_MODEL names .* has not|can't be used as a part of Kokoro)") as caught:
        async with loaded(tmp_path):
            pass
    assert "\n" not in caught.value.message


def test_packaged_weights_are_needed_only_where_no_model_is_named() -> None:
    assert tts_weights(TtsPlan("kokoro")) == (KOKORO_INT8, KOKORO_VOICES)
    assert tts_weights(TtsPlan("kokoro", "some/where")) == ()


# --- languages -----------------------------------------------------------------------------------------------------


async def test_a_language_of_the_settings_chooses_voices_and_their_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(text: str, letter: str) -> Any:
        read.append(letter)
        return kokoro_phonemes(text, letter)

    monkeypatch.setattr("models.engines.kokoro_speaker.kokoro_phonemes", noted)
    async with loaded(write_kokoro(tmp_path), language="fr-CA") as (tts, _):
        assert pitch_of(await collect(tts.synthesize("Bonjour à tous.", voice="cedar"))) == pytest.approx(230, abs=2)
        await collect(tts.synthesize("Bonjour.", voice="af_heart"))
    assert set(read) == {"f"}
    read.clear()
    async with loaded(tmp_path, voice="bf_emma") as (tts, _):
        await collect(tts.synthesize("Hello."))
    assert set(read) == {"b"}


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"language": "pl"}, "Kokoro doesn't speak 'pl': set TTS_LANGUAGE to one of en-US.*or TTS_BASE_URL"),
        ({"voice": "bob"}, "TTS_VOICE names the voice 'bob'"),
        ({"language": "ja"}, r"Kokoro reads ja with the help.*pip install 'duplex-gateway\[japanese\]'"),
        ({"voice": "jf_alpha"}, r"Kokoro reads ja"),
        ({"voices": (("marin", "jf_alpha"),)}, r"Kokoro reads ja"),
    ],
)
async def test_what_cannot_be_spoken_is_said_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    write_kokoro(tmp_path)
    with pytest.raises(EngineError, match=sentence):
        async with loaded(tmp_path, **plan):
            pass
    async with loaded(tmp_path) as (tts, _):  # and a client that names it gets another
        assert pitch_of(await collect(tts.synthesize(TEXT, voice="jf_alpha"))) == pytest.approx(200, abs=2)


async def test_the_packaged_piper_voice_takes_no_other_name_and_language() -> None:
    for plan, sentence in (
        (TtsPlan("piper", voice="af_heart"), "TTS_VOICE names the voice 'af_heart', which the packaged Piper voice"),
        (TtsPlan("piper", language="fr"), "speaks English, not 'fr': choose --tts kokoro"),
    ):
        with pytest.raises(EngineError, match=sentence):
            await load_tts(plan, WeightsStore(), SpeechWorker())


def test_phonemes_are_in_the_alphabet_that_kokoro_learned() -> None:
    assert kokoro_phonemes("Choose my cheap joy, oh now.", "a").symbols == "ʧˈuz mI ʧˈip ʤˈY, ˈO nˈW."
    assert kokoro_phonemes("May I have a button, an eye, I?", "a").symbols == "mˈA ˌI hæv ɐ bˈʌtn, ɐn ˈI, ˈI?"
    assert kokoro_phonemes("Oh, where?", "b").symbols == "ˈQ, wˈɛː?"
    assert kokoro_phonemes("Muchas gracias.", "e").symbols == "mˈuʧas ɣɾˈaθjas."
    assert kokoro_phonemes("Ciao, pizza!", "i").symbols == "ʧˈao, pˈiʦːa!"
    assert "͡" not in kokoro_phonemes("Não, amanhã de manhã.", "p").symbols
    assert kokoro_phonemes("नमस्ते।", "h").symbols.endswith(".")


@pytest.mark.parametrize("letter", "abefhip")
def test_words_keep_their_places_in_that_alphabet(letter: str) -> None:
    text = "Jo: um dois tres, a la maison e basta button naughty courtier."
    plain = phonemize(text, language="en-us")
    found = kokoro_phonemes(text, letter)
    assert found.words[-1][1] == len(found.symbols.rstrip("."))
    assert [end for _, end in found.words] == sorted({end for _, end in found.words})
    assert {end for end, _ in plain.words} >= {end for end, _ in found.words} or letter != "a"
    for _, end in found.words[:-1]:
        assert found.symbols[end : end + 1] in (" ", ",", ":", "") or found.symbols[end - 1] != " "


needs: Callable[[str], pytest.MarkDecorator] = lambda letter: pytest.mark.skipif(  # noqa: E731 - a mark by its letter
    bool(missing_extra(letter)), reason=f"duplex-gateway[{missing_extra(letter)}] is not installed"
)


@needs("j")
@pytest.mark.filterwarnings("ignore:open_text is deprecated:DeprecationWarning")  # misaki's own
def test_japanese_is_read_by_misaki_and_latin_words_in_it_as_english() -> None:
    assert kokoro_phonemes("こんにちは。", "j").symbols.startswith("koɲɲiʨiβa")
    assert "həlˈO" in kokoro_phonemes("私はhelloと言います", "j").symbols


@needs("z")
def test_chinese_is_read_by_misaki_and_latin_words_in_it_as_english() -> None:
    found = kokoro_phonemes("你好，hello world。", "z")
    assert found.words == ()
    assert "→" in kokoro_phonemes("今天", "z").symbols
    assert "həlˈO wˈɜɹld" in found.symbols


def test_readers_of_an_extra_are_asked_in_pieces_of_their_own_script(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setitem(_readers, "z", lambda text: heard.append(text) or "x")
    assert kokoro_phonemes("你好hello。", "z").symbols == "x həlˈO x"
    assert heard == ["你好", "。"]
