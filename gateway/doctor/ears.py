"""The examination of the VAD and of the recogniser, on a voice that is packaged with us."""

from __future__ import annotations

import asyncio
import time
import wave
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import numpy as np

from gateway.doctor.endpoint import Endpoint, look
from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from gateway.doctor.sentences import DEFAULT_LANGUAGE, SENTENCES, base_language, error_rate
from gateway.doctor.speech_diagnosis import PROBE_S, diagnosed
from gateway.settings import Settings
from models.engine_plan import AsrPlan
from models.interfaces import AUDIO_RATE_HZ, VAD_FRAME_SAMPLES, EngineError, SpeechRecognizer, VoiceActivityDetector
from models.resampling import pcm24k_from_float

VOICE_FILE = Path(__file__).parent / "voice.wav"
"""`SENTENCES["en"]`, spoken by the packaged Piper voice (CC0 recordings), 16 kHz."""

HEARD_SHARE = 0.5
"""Frames of the voice that a VAD has to take for speech (chosen: a quarter of them is pauses and closures)."""

WORST_WORDS = 0.34
"""Share of wrong words up to which a recogniser is worth talking to (chosen: one in three)."""

_SPEECH = 0.5
_SILENCE_MS = 480
_BYTES_PER_MS = AUDIO_RATE_HZ * 2 // 1000


@cache
def packaged_voice() -> bytes:
    """Return the packaged voice at this border's rate."""
    with wave.open(str(VOICE_FILE)) as file:
        audio = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32_768
        return pcm24k_from_float(audio, file.getframerate())


async def examine_vad(vad: VoiceActivityDetector, limit_s: float = 10.0) -> AsyncIterator[Finding]:
    """Yield whether the VAD tells the packaged voice from silence."""
    voice, quiet = packaged_voice(), bytes(_SILENCE_MS * _BYTES_PER_MS)
    began_s = time.perf_counter()
    try:
        async with asyncio.timeout(limit_s):
            frames = await vad.open().feed(quiet + voice + quiet)
    except TimeoutError:
        yield Diagnosis(
            f"it needs more than {limit_s:g} s for {len(voice) // _BYTES_PER_MS / 1000:.1f} s of audio",
            "this machine is too slow or too busy for any voice agent.",
        ).of("vad", "hears")
        return
    frame_ms = (time.perf_counter() - began_s) * 1000 / max(1, len(frames))
    before = len(quiet) // 2 // VAD_FRAME_SAMPLES
    during = frames[before : before + len(voice) // 2 // VAD_FRAME_SAMPLES]
    share = sum(frame >= _SPEECH for frame in during) / max(1, len(during))
    if share < HEARD_SHARE or max(frames[: before - 1], default=0.0) >= _SPEECH:
        yield Diagnosis(
            f"it takes {share:.0%} of a voice for speech, and silence for {max(frames[: before - 1], default=0.0):.0%}",
            "set DUPLEX_GATEWAY_VAD=silero.",
        ).of("vad", "hears", voiced_share=share)
        return
    yield sound(
        "vad",
        "hears",
        f"a voice ({share:.0%} of its frames), no silence; {frame_ms:.2f} ms a frame",
        voiced_share=share,
        frame_ms=frame_ms,
    )


async def examine_asr(
    asr: SpeechRecognizer, plan: AsrPlan, endpoint: Endpoint | None, settings: Settings
) -> AsyncIterator[Finding]:
    """Yield whether the recogniser writes down the packaged voice; `endpoint` None: it runs in this process."""
    if endpoint is not None:
        seen = await look(endpoint, PROBE_S)
        for finding in seen.findings:
            yield finding
        if not seen.alive:
            return
    try:
        heard, took_ms = await transcribed(asr, packaged_voice(), settings.asr_timeout_s)
    except (EngineError, TimeoutError) as error:
        yield diagnosed(error, "asr", endpoint, settings.asr_timeout_s).of("asr", "hears")
        return
    yield _judged(heard, took_ms, plan, endpoint)


def _judged(heard: str, took_ms: float, plan: AsrPlan, endpoint: Endpoint | None) -> Finding:
    seconds = len(packaged_voice()) / _BYTES_PER_MS / 1000
    said = f"{seconds:.1f} s of speech in {took_ms:.0f} ms"
    if plan.engine == "scripted":
        return sound("asr", "hears", f"{said}: what its script says", took_ms=took_ms)
    if not heard:
        at = "" if endpoint is None else f" at {endpoint.server}"
        return Diagnosis(
            f"the transcript of a clear voice is empty{at}",
            "check that ASR_MODEL is a model for speech, and that the server takes WAV at 24 kHz."
            if endpoint is not None
            else "take another --asr; `duplex-gateway doctor --asr moonshine` must hear it.",
        ).of("asr", "hears", took_ms=took_ms)
    if plan.language and base_language(plan.language) != DEFAULT_LANGUAGE:
        return sound("asr", "hears", f"{said}; its words are not compared: the voice is English", took_ms=took_ms)
    wrong = error_rate(SENTENCES[DEFAULT_LANGUAGE], heard, DEFAULT_LANGUAGE)
    figures = {"took_ms": took_ms, "word_error_rate": wrong}
    if wrong > WORST_WORDS:
        return Diagnosis(
            f"{said}, but {wrong:.0%} of the words are wrong",
            "set ASR_LANGUAGE to the language you speak, or take another ASR_MODEL.",
            Verdict.WARN,
        ).of("asr", "hears", **figures)
    return sound("asr", "hears", f"{said}, {wrong:.0%} of the words wrong", **figures)


async def transcribed(
    asr: SpeechRecognizer, pcm: bytes, limit_s: float, language: str | None = None
) -> tuple[str, float]:
    """Return the words in `pcm` and the milliseconds that took. Raises EngineError and TimeoutError."""
    began_s = time.perf_counter()
    async with asyncio.timeout(limit_s):
        heard = await asr.transcribe(pcm, language=language)
    return (heard.text.strip() if heard is not None else ""), (time.perf_counter() - began_s) * 1000
