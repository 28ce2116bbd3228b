"""What can be wrong with a recogniser's or a voice's endpoint: tables as in `endpoint_faults.py`."""

from __future__ import annotations

from typing import Any

from gateway.doctor.sentences import SENTENCES
from tests.gateway.endpoint_faults import (
    FAIL,
    OK,
    WARN,
    Diagnosis,
    Fault,
    Outcome,
    nobody_at,
    of_the_site,
    page,
    reset,
    with_tls,
)
from tests.models.chat_server import Exchange, Respond
from tests.models.openai_servers import (
    MODEL,
    answer,
    begin_audio,
    finish,
    hang,
    hearing,
    refusing,
    server,
    speaking,
    tone,
    wav,
)

SENTENCE = SENTENCES["en"]
HEARD = hearing(SENTENCE)


def asr(respond: Respond, **more: Any) -> Respond:
    return server(transcription=respond, **more)


def tts(respond: Respond, **more: Any) -> Respond:
    return server(speech=respond, **more)


async def broken_json(exchange: Exchange) -> None:
    await exchange.refuse(200, '{"text": "Please bring')


def bytes_of(data: bytes, content_type: str = "audio/pcm") -> Respond:
    """Return what sends these bytes whatever it is asked for."""

    async def respond(exchange: Exchange) -> None:
        await begin_audio(exchange, content_type)
        for start in range(0, len(data), 4_801):  # no piece holds whole samples
            await exchange.raw(data[start : start + 4_801])
        await finish(exchange)

    return respond


def audio_then(step: Respond) -> Respond:
    """Return what sends a second of audio, then does `step`."""

    async def respond(exchange: Exchange) -> None:
        await begin_audio(exchange)
        await exchange.raw(tone(1.0))
        await step(exchange)

    return respond


MP3 = b"ID3\x04\x00\x00\x00\x00\x00\x00" + b"\xff\xfb\x90\x64" + bytes(20_000)
SPEECH = tone(3.2)
AT_16_KHZ = tone(3.2, 16_000)

ASR_FAULTS = (
    Fault(
        "ASR: connection refused",
        asr(HEARD),
        Diagnosis("reachable", FAIL, "nothing listens at 127.0.0.1:9", "start the server there"),
        Outcome("failed", "asr_unreachable", "can't be reached"),
        url=nobody_at,
    ),
    Fault(
        "ASR: https to a server without TLS",
        asr(HEARD),
        Diagnosis("reachable", FAIL, "does not speak TLS", "in ASR_BASE_URL"),
        Outcome("failed", "asr_tls", "does not speak TLS"),
        url=with_tls,
    ),
    Fault(
        "ASR: wrong key",
        asr(HEARD, key="right"),
        Diagnosis("reachable", FAIL, "refuses the key (401)", "set ASR_API_KEY"),
        Outcome("failed", "asr_auth", "refused the API key"),
        settings={"asr_api_key": "wrong-key-1234"},
    ),
    Fault(
        "ASR: model that isn't there",
        asr(refusing(404, "model_not_found"), models=({"id": "whisper-1"},)),
        Diagnosis("model", WARN, f"does not list {MODEL}, but whisper-1", "set ASR_MODEL"),
        Outcome("failed", "asr_model_not_found"),
    ),
    Fault(
        "ASR: wrong path",
        asr(HEARD),
        Diagnosis("hears", FAIL, "answers 404 when asked for a transcription", "usually ends in /v1"),
        Outcome("failed", "asr_http_error", "check the base URL"),
        url=of_the_site,
    ),
    Fault(
        "ASR: web page instead of an API",
        page(),
        Diagnosis("reachable", FAIL, "answers with a web page", "usually ends in /v1"),
        Outcome("failed", "asr_bad_response"),
    ),
    Fault(
        "ASR: 429, too many requests",
        asr(refusing(429, "rate_limit_exceeded")),
        Diagnosis("hears", FAIL, "too many requests (429)", "raise the quota"),
        Outcome("failed", "asr_rate_limit", "429"),
    ),
    Fault(
        "ASR: 500, a failure of its own",
        asr(refusing(500, "server_error")),
        Diagnosis("hears", FAIL, "fails by itself (500)", "that server's log"),
        Outcome("failed", "asr_http_error", "500"),
    ),
    Fault(
        "ASR: broken JSON",
        asr(broken_json),
        Diagnosis("hears", FAIL, "sent something unreadable", "look into the log"),
        Outcome("failed", "asr_bad_response"),
    ),
    Fault(
        "ASR: empty transcript",
        asr(hearing("")),
        Diagnosis("hears", FAIL, "the transcript of a clear voice is empty", "a model for speech"),
        Outcome("completed"),
    ),
    Fault(
        "ASR: wrong words",
        asr(hearing("Bitte bringen Sie sieben Äpfel.")),
        Diagnosis("hears", WARN, "of the words are wrong", "set ASR_LANGUAGE"),
        Outcome("completed"),
    ),
    Fault(
        "ASR: no answer in time",
        asr(hang),
        Diagnosis("hears", FAIL, "no answer within 0.3 s", "faster machine"),
        Outcome("failed", "asr_timeout", "did not answer in time"),
        settings={"asr_timeout_s": 0.3},
    ),
)

TTS_FAULTS = (
    Fault(
        "TTS: connection refused",
        tts(speaking()),
        Diagnosis("reachable", FAIL, "nothing listens at 127.0.0.1:9", "start the server there"),
        Outcome("failed", "tts_unreachable", "can't be reached"),
        url=nobody_at,
    ),
    Fault(
        "TTS: wrong key",
        tts(speaking(), key="right"),
        Diagnosis("reachable", FAIL, "refuses the key (401)", "set TTS_API_KEY"),
        Outcome("failed", "tts_auth", "refused the API key"),
        settings={"tts_api_key": "wrong-key-1234"},
    ),
    Fault(
        "TTS: model that isn't there",
        tts(refusing(404, "model_not_found"), models=({"id": "tts-1"},)),
        Diagnosis("model", WARN, f"does not list {MODEL}, but tts-1", "set TTS_MODEL"),
        Outcome("failed", "tts_model_not_found"),
    ),
    Fault(
        "TTS: voice that isn't there",
        tts(refusing(400, "invalid_request_error", "Voice 'marin' not found. Available voices: af_heart")),
        Diagnosis("speaks", FAIL, "answers 400 when asked for speech", "TTS_VOICE to a voice it knows"),
        Outcome("failed", "tts_voice", "set TTS_VOICE"),
    ),
    Fault(
        "TTS: wrong path",
        tts(speaking()),
        Diagnosis("speaks", FAIL, "answers 404 when asked for speech", "usually ends in /v1"),
        Outcome("failed", "tts_http_error", "check the base URL"),
        url=of_the_site,
    ),
    Fault(
        "TTS: 500, a failure of its own",
        tts(refusing(500, "server_error")),
        Diagnosis("speaks", FAIL, "fails by itself (500)", "that server's log"),
        Outcome("failed", "tts_http_error", "500"),
    ),
    Fault(
        "TTS: error object with status 200",
        tts(answer({"error": {"message": "out of memory"}})),
        Diagnosis("speaks", FAIL, "answers JSON instead of audio", "check TTS_MODEL"),
        Outcome("failed", "tts_bad_response"),
    ),
    Fault(
        "TTS: MP3 instead of PCM",
        tts(bytes_of(MP3, "audio/mpeg")),
        Diagnosis("speaks", FAIL, "sends MP3 when it is asked for PCM", "raw PCM"),
        Outcome("failed", "tts_bad_response", "PCM or WAV"),
    ),
    Fault(
        "TTS: WAV instead of PCM",
        tts(bytes_of(wav(AT_16_KHZ, 16_000), "audio/wav")),
        Diagnosis("speaks", OK, "3.2 s in"),
        Outcome("completed"),
    ),
    Fault(
        "TTS: another sample rate, not told",
        tts(speaking(AT_16_KHZ, 16_000)),
        Diagnosis("speaks", FAIL, "its PCM has 16000 Hz", "24,000 Hz"),
        Outcome("completed"),
    ),
    Fault(
        "TTS: odd number of bytes",
        tts(bytes_of(SPEECH + b"\x01")),
        Diagnosis("speaks", WARN, "an odd number of bytes", "two bytes a sample"),
        Outcome("completed"),
    ),
    Fault(
        "TTS: silence",
        tts(bytes_of(bytes(len(SPEECH)))),
        Diagnosis("speaks", FAIL, "it sends silence", "check TTS_VOICE"),
        Outcome("completed"),
    ),
    Fault(
        "TTS: no audio",
        tts(bytes_of(b"")),
        Diagnosis("speaks", FAIL, "sent no audio", "look into the log"),
        Outcome("failed", "tts_bad_response", "no audio"),
    ),
    Fault(
        "TTS: dies in mid-stream",
        tts(audio_then(reset)),
        Diagnosis("speaks", FAIL, "breaks off its audio", "that server's log"),
        Outcome("failed", "tts_stream_broken", "broke off"),
    ),
    Fault(
        "TTS: stalls in mid-stream",
        tts(audio_then(hang)),
        Diagnosis("speaks", FAIL, "no answer within 0.3 s", "faster machine"),
        Outcome("failed", "tts_timeout", "did not answer in time"),
        settings={"tts_timeout_s": 0.3},
    ),
)
