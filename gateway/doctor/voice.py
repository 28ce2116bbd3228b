"""The voice's examination: does it speak, in pieces, audibly, at the right rate; do its words come back?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np

from gateway.doctor.ears import transcribed
from gateway.doctor.endpoint import Endpoint, look
from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from gateway.doctor.sentences import SENTENCES, WITHOUT_SPACES, base_language, error_rate
from gateway.doctor.speech_bytes import Sample, speech_sample
from gateway.doctor.speech_diagnosis import PROBE_S, diagnosed
from gateway.settings import Settings
from models.engine_plan import AsrPlan, TtsPlan
from models.interfaces import AUDIO_RATE_HZ, EngineError, SpeechRecognizer, SpeechSynthesizer

AUDIBLE_DBFS = -45.0
"""The loudest 10 ms of speech reach this (the meter's gate: `gateway.meter.AUDIBLE_DBFS`)."""

SLOW_FIRST_AUDIO_MS = 1_000.0
"""From here on a first piece is worth a warning (chosen)."""

RATES = (0.8, 1.25)
"""How the length of the same sentence may differ between two requests (chosen: voices vary by a few percent; the rates
that servers confuse differ by 1.09 (22.05 kHz), 1.5 (16 kHz), 1.84 (44.1 kHz) and 2; the first is not told apart)."""

CHARACTERS_A_SECOND = (5.0, 30.0)
CHARACTERS_A_SECOND_WITHOUT_SPACES = (2.0, 14.0)
"""What a voice manages (chosen: read speech has 12 to 17 letters a second, Japanese and Chinese 4 to 7 characters)."""

ROUND_TRIP_GOOD, ROUND_TRIP_USABLE = 0.2, 0.5
"""Share of wrong words, or characters, after speaking and hearing (chosen)."""

_WINDOW = AUDIO_RATE_HZ // 100


@dataclass(slots=True)
class Spoken:
    """A sentence as a session gets it."""

    pcm: bytes = b""
    pieces: int = 0
    first_audio_ms: float = 0.0
    took_ms: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.pcm) / 2 / AUDIO_RATE_HZ


class Examined:
    """What the voice said: the round trip hears it."""

    def __init__(self) -> None:
        self.spoken: Spoken | None = None


async def examine_tts(
    tts: SpeechSynthesizer, plan: TtsPlan, endpoint: Endpoint | None, settings: Settings, examined: Examined
) -> AsyncIterator[Finding]:
    """Yield what is found about the voice; `endpoint` None: it runs in this process."""
    if endpoint is not None:
        seen = await look(endpoint, PROBE_S)
        for finding in seen.findings:
            yield finding
        if not seen.alive:
            return
    language = base_language(plan.language)
    try:
        spoken = await spoken_sentence(tts, SENTENCES[language], settings)
    except (EngineError, TimeoutError) as error:
        diagnosis = diagnosed(error, "tts", endpoint, settings.tts_timeout_s)
        if endpoint is not None and (closer := await _of_its_bytes(endpoint, plan, settings, language, None)):
            diagnosis = closer
        yield diagnosis.of("tts", "speaks")
        return
    wrong = None
    if endpoint is not None:
        wrong = await _of_its_bytes(endpoint, plan, settings, language, spoken)
    finding = (wrong or _heard(spoken, language, plan)).of("tts", "speaks", **_figures(spoken))
    yield finding
    if finding.verdict is not Verdict.FAIL:
        examined.spoken = spoken


async def spoken_sentence(tts: SpeechSynthesizer, text: str, settings: Settings) -> Spoken:
    """Return `text` as the session's first clause. Raises EngineError and TimeoutError."""
    spoken = Spoken()
    began_s = time.perf_counter()
    async with aclosing(tts.synthesize(text, voice=settings.voice, first=True)) as pieces:
        while True:
            try:
                async with asyncio.timeout(settings.tts_timeout_s):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                break
            spoken.took_ms = (time.perf_counter() - began_s) * 1000
            if piece.pcm:
                spoken.first_audio_ms = spoken.first_audio_ms or spoken.took_ms
                spoken.pieces += 1
            spoken.pcm += piece.pcm
    return spoken


def _figures(spoken: Spoken) -> dict[str, float]:
    return {
        "first_audio_ms": spoken.first_audio_ms,
        "took_ms": spoken.took_ms,
        "audio_ms": spoken.seconds * 1000,
        "pieces": float(spoken.pieces),
    }


def _heard(spoken: Spoken, language: str, plan: TtsPlan) -> Diagnosis:
    """Return what a listener would say, also if that is that all is well."""
    model = "TTS_MODEL" if plan.engine == "endpoint" else "--tts"
    if not spoken.pcm:
        return Diagnosis("it sends no audio", f"check TTS_VOICE, or take another {model}.")
    if len(spoken.pcm) % 2:
        return Diagnosis("it sends half a sample", "report it: an engine's adapter has to send whole samples.")
    level = loudest_dbfs(spoken.pcm)
    if level < AUDIBLE_DBFS:
        return Diagnosis(f"it sends silence ({level:.0f} dBFS at most)", f"check TTS_VOICE, or take another {model}.")
    pace = len(SENTENCES[language]) / spoken.seconds
    slowest, fastest = CHARACTERS_A_SECOND_WITHOUT_SPACES if language in WITHOUT_SPACES else CHARACTERS_A_SECOND
    said = f"{spoken.seconds:.1f} s in {spoken.took_ms:.0f} ms, the first after {spoken.first_audio_ms:.0f} ms"
    if plan.engine != "scripted" and not slowest <= pace <= fastest:
        return Diagnosis(
            f"it says a sentence of {len(SENTENCES[language])} letters in {spoken.seconds:.1f} s",
            "check its sample rate: PCM is taken for 24,000 Hz, mono, 16 bits.",
        )
    if spoken.first_audio_ms > SLOW_FIRST_AUDIO_MS:
        return Diagnosis(
            f"{said}: callers will wait",
            "let that server stream its audio, or take a faster voice (piper) or machine.",
            Verdict.WARN,
        )
    return Diagnosis(f"{said}, {spoken.pieces} pieces", "", Verdict.OK)


def loudest_dbfs(pcm: bytes) -> float:
    """Return the level of the loudest 10 ms of `pcm`."""
    samples = np.frombuffer(pcm[: len(pcm) // 2 * 2], "<i2").astype(np.float32) / 32_768
    whole = samples[: max(_WINDOW, len(samples) // _WINDOW * _WINDOW)]
    power = float(np.mean(whole.reshape(-1, min(_WINDOW, len(whole))) ** 2, axis=1).max()) if len(whole) else 0.0
    return 10 * float(np.log10(max(power, 1e-10)))


async def _of_its_bytes(
    endpoint: Endpoint, plan: TtsPlan, settings: Settings, language: str, spoken: Spoken | None
) -> Diagnosis | None:
    """Return what the endpoint's bytes show that its adapter can't: another format, another rate."""
    voice = plan.voice or dict(plan.voices).get(settings.voice, settings.voice)
    text = SENTENCES[language]
    pcm = await speech_sample(endpoint, text, voice, "pcm", settings.tts_timeout_s)
    if (wrong := _of_the_format(pcm, endpoint)) is not None:
        return wrong
    if spoken is None or not spoken.seconds or loudest_dbfs(spoken.pcm) < AUDIBLE_DBFS:
        return None
    wav = await speech_sample(endpoint, text, voice, "wav", settings.tts_timeout_s)
    if wav.kind != "wav" or not wav.seconds or not pcm.body:
        return None  # it makes no WAV: there is nothing to compare with
    ratio = wav.seconds / (len(pcm.body) / 2 / AUDIO_RATE_HZ)
    adapted = wav.seconds / spoken.seconds
    if RATES[0] <= adapted <= RATES[1] or RATES[0] <= ratio <= RATES[1]:
        return None
    return Diagnosis(
        f"its PCM has {wav.rate_hz} Hz, not the 24,000 Hz that the API promises: it sounds {ratio:.1f} times too fast",
        "have that server send 24,000 Hz, mono, 16 bits for response_format pcm.",
    )


def _of_the_format(pcm: Sample, endpoint: Endpoint) -> Diagnosis | None:
    if pcm.kind in ("mp3", "ogg", "flac", "wav"):
        return Diagnosis(
            f"{endpoint.server} sends {pcm.kind.upper()} when it is asked for PCM",
            "update that server, or switch it to raw PCM (response_format pcm).",
        )
    if pcm.kind in ("json", "page"):
        what = "JSON" if pcm.kind == "json" else "a web page"
        return Diagnosis(
            f"{endpoint.server} answers {what} instead of audio", f"check {endpoint.prefix}_MODEL and its log."
        )
    if pcm.broken:
        return Diagnosis(f"{endpoint.server} breaks off its audio", "look into that server's log.")
    if pcm.kind == "pcm" and len(pcm.body) % 2:
        return Diagnosis(
            f"{endpoint.server} sends an odd number of bytes",
            "update that server: 16-bit PCM has two bytes a sample; the last one is dropped.",
            Verdict.WARN,
        )
    return None


async def examine_round_trip(
    asr: SpeechRecognizer, asr_plan: AsrPlan, tts_plan: TtsPlan, spoken: Spoken, settings: Settings
) -> AsyncIterator[Finding]:
    """Yield whether the recogniser hears what the voice said."""
    role, check = "speech", "round trip"
    language = base_language(tts_plan.language)
    if "scripted" in (asr_plan.engine, tts_plan.engine):
        yield sound(role, check, "not asked: one side is scripted")
        return
    try:
        heard, took_ms = await transcribed(asr, spoken.pcm, settings.asr_timeout_s, language)
    except (EngineError, TimeoutError):
        yield Diagnosis(
            "the recogniser fails on the agent's voice", "see what it says of itself above.", Verdict.WARN
        ).of(role, check)
        return
    wrong = error_rate(SENTENCES[language], heard, language)
    figures = {"error_rate": wrong, "took_ms": took_ms}
    unit = "characters" if language in WITHOUT_SPACES else "words"
    if wrong <= ROUND_TRIP_GOOD:
        yield sound(role, check, f"{wrong:.0%} of the {unit} wrong", **figures)
        return
    yield Diagnosis(
        f"{wrong:.0%} of the {unit} come back wrong",
        "check TTS_LANGUAGE, TTS_VOICE and ASR_LANGUAGE: do both sides speak one language?",
        Verdict.WARN if wrong <= ROUND_TRIP_USABLE else Verdict.FAIL,
    ).of(role, check, **figures)
