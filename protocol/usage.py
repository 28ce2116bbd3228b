"""The token counts of server events. Text tokens are what the language model counted; audio tokens follow OpenAI's
published rates, so that figures can be compared: user audio 1 token per 100 ms, agent audio 1 token per 50 ms.
"""

from __future__ import annotations

from typing import Any

from protocol.audio_time import Samples, s_from_samples, samples_from_ms
from protocol.backend_events import TokenUsage

_INPUT_TOKEN = samples_from_ms(100)
_OUTPUT_TOKEN = samples_from_ms(50)
_CHARACTERS_PER_TOKEN = 4
"""Recognisers count no tokens; OpenAI's rule of thumb for English stands in."""


def response_usage(tokens: TokenUsage, user_audio: Samples, agent_audio: Samples) -> dict[str, Any]:
    """Return the `usage` of a response whose context held `user_audio` and which sent `agent_audio`.

    Every key is an integer, always: agents-js refuses null, Pipecat a missing key.
    """
    input_audio, output_audio = _rounded_up(user_audio, _INPUT_TOKEN), _rounded_up(agent_audio, _OUTPUT_TOKEN)
    input_tokens = tokens.input_text_tokens + input_audio
    output_tokens = tokens.output_text_tokens + output_audio
    return {
        "total_tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "input_token_details": {
            "text_tokens": tokens.input_text_tokens,
            "audio_tokens": input_audio,
            "image_tokens": 0,
            "cached_tokens": tokens.cached_text_tokens,
            "cached_tokens_details": {
                "text_tokens": tokens.cached_text_tokens,
                "audio_tokens": 0,
                "image_tokens": 0,
            },
        },
        "output_token_details": {"text_tokens": tokens.output_text_tokens, "audio_tokens": output_audio},
    }


def transcription_usage(model: str, transcript: str, duration: Samples) -> dict[str, Any]:
    """Return the `usage` of a transcription: whisper-1 is counted in seconds, all others in tokens."""
    if model == "whisper-1":
        return {"type": "duration", "seconds": s_from_samples(duration)}
    input_tokens = _rounded_up(duration, _INPUT_TOKEN)
    output_tokens = _rounded_up(len(transcript), _CHARACTERS_PER_TOKEN)
    return {
        "type": "tokens",
        "total_tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "input_token_details": {"text_tokens": 0, "audio_tokens": input_tokens},
        "output_tokens": output_tokens,
    }


def _rounded_up(amount: int, unit: int) -> int:
    return -(-amount // unit)
