"""G.711 in beta's words: `g711_ulaw` and `g711_alaw` name what GA calls audio/pcmu and audio/pcma."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from protocol.audio_format import AudioFormat
from protocol.backend_events import OutputAudio, OutputTextDelta, ResponseStarted
from protocol.commands import AppendAudio
from protocol.wire import Dialect


@pytest.fixture
def beta(new_talk: Callable[..., Any]) -> Any:
    talk = new_talk(dialect=Dialect.BETA)
    talk.open()
    return talk


@pytest.mark.parametrize("name", ["g711_ulaw", "g711_alaw", "pcm16"])
def test_a_format_is_taken_shown_and_spoken(beta: Any, name: str) -> None:
    (updated,) = beta.send("session.update", session={"input_audio_format": name, "output_audio_format": name})
    assert updated["session"]["input_audio_format"] == updated["session"]["output_audio_format"] == name
    beta.append(bytes(480))
    samples = sum(len(append.pcm) // 2 for append in beta.commands(AppendAudio))
    assert samples == (240 if name == "pcm16" else 3 * 480)
    beta.send("response.create")
    (created,) = beta.backend(ResponseStarted("resp_1"))
    assert created["response"]["output_audio_format"] == name
    events = beta.backend(OutputTextDelta("resp_1", "i", "Hi."), OutputAudio("resp_1", "i", bytes(9_600)))
    audio = [base64.b64decode(e["delta"]) for e in events if e["type"] == "response.audio.delta"]
    sent = sum(map(len, audio))
    assert sent == 9_600 if name == "pcm16" else 1_500 <= sent <= 1_600


def test_another_format_is_refused_in_betas_words(beta: Any) -> None:
    error = beta.refused("session.update", session={"input_audio_format": "mp3"})
    assert (error["code"], error["param"]) == ("invalid_value", "session.input_audio_format")
    assert "g711_ulaw" in error["message"]
    assert AudioFormat.PCM.value not in error["message"]
