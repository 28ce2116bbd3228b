from __future__ import annotations

import asyncio
import base64
import threading
from typing import Any

import pytest

from gateway import relay_border
from gateway.g711 import G711Codec
from gateway.hearing import Hearing
from gateway.measured_turn import Outcome, TurnKind
from gateway.meter import Meter
from gateway.relay_border import RelayBorder
from gateway.session import LARGE_FRAME_BYTES
from models.engines.scripted import ScriptedVad
from protocol.audio_format import AudioFormat, encoded
from protocol.audio_time import samples_from_ms
from protocol.backend_events import PlayoutCut
from protocol.input_pcm import decoded_base64
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import quiet, voice

DELAY = samples_from_ms(150)


class Border:
    """A border on fed time, with a socket that takes all audio at once."""

    def __init__(self, time: FedTime) -> None:
        self.meter = Meter("sess_1", playout_delay=DELAY)
        self.border = RelayBorder(self.meter, Hearing(ScriptedVad()), time.now, playout_delay=DELAY)

    def says(self, kind: str, **fields: Any) -> list[Any]:
        """Have the server say something; return what it is in neutral words."""
        audio, said = self.border.saw({"type": kind, **fields}, None)
        if audio.samples:
            self.border.accepted(audio.response_id, audio.samples)
        return said

    def speaks(self, audio: bytes) -> None:
        delta = base64.b64encode(audio).decode()
        self.says("response.output_audio.delta", response_id="resp_1", item_id="item_a", delta=delta)


@pytest.fixture
async def border(time: FedTime) -> Border:
    return Border(time)


def begun(border: Border, **response: Any) -> None:
    border.says("response.created", response={"id": "resp_1", **response})


START = {"item_id": "item_u", "audio_start_ms": 0}


async def test_a_voice_over_what_still_plays_empties_the_player(border: Border, time: FedTime) -> None:
    begun(border)
    border.speaks(voice(2_000))
    border.says("response.done", response={"id": "resp_1", "status": "completed"})
    await time.advance(1_150)
    cut = border.says("input_audio_buffer.speech_started", **START)[-1]
    assert cut == PlayoutCut("item_a", samples_from_ms(1_000))
    assert len(border.says("input_audio_buffer.speech_started", **START)) == 1  # nothing plays any more


@pytest.mark.parametrize(("after_ms", "cuts"), [(2_149, True), (2_150, False), (2_151, False)])
async def test_it_does_so_up_to_the_last_sample(border: Border, time: FedTime, after_ms: int, cuts: bool) -> None:
    begun(border)
    border.speaks(voice(2_000))
    await time.advance(after_ms)
    assert (len(border.says("input_audio_buffer.speech_started", **START)) == 2) is cuts


async def test_where_a_voice_does_not_interrupt_the_player_plays_on(border: Border, time: FedTime) -> None:
    detection = {"type": "server_vad", "interrupt_response": False}
    border.border.settings({"audio": {"input": {"turn_detection": detection}}})
    begun(border)
    border.speaks(voice(2_000))
    await time.advance(500)
    assert len(border.says("input_audio_buffer.speech_started", **START)) == 1


@pytest.mark.parametrize("form", list(AudioFormat))
async def test_a_turn_is_measured_in_any_format(border: Border, time: FedTime, form: AudioFormat) -> None:
    wire = {"format": form.to_wire()}
    border.border.settings({"audio": {"input": wire, "output": wire}})
    said = encoded(voice(800) + quiet(600), form, G711Codec())
    for at in range(0, len(said), 960):
        await time.advance(20 if form is AudioFormat.PCM else 120)
        await border.border.hear(base64.b64encode(said[at : at + 960]).decode())
    assert border.border.received == samples_from_ms(1_400)
    border.says("input_audio_buffer.speech_started", **START)
    border.says("input_audio_buffer.speech_stopped", item_id="item_u", audio_end_ms=1_400)
    border.says("input_audio_buffer.committed", item_id="item_u")
    begun(border)
    border.speaks(encoded(voice(400), form, G711Codec()))
    border.says("response.done", response={"id": "resp_1", "status": "completed"})
    await time.advance(300)
    border.meter.settle(time.now())
    (turn,) = border.meter.turns
    assert (turn.kind, turn.outcome, turn.barge_in) == (TurnKind.SPEECH, Outcome.HEARD, False)
    assert turn.heard is not None
    # 600 ms of silence, less the frame in which the voice ended, and the playout delay.
    assert samples_from_ms(700) <= turn.heard - turn.begin <= samples_from_ms(800)


MULAW = {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}
PCM = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}}


def of_length(characters: int) -> str:
    """Return base64 of so many characters."""
    return base64.b64encode(bytes(characters // 4 * 3)).decode()


@pytest.mark.parametrize(("more", "aside"), [(-4, False), (0, False), (4, True)])
async def test_a_large_append_is_decoded_beside_the_loop(
    border: Border, monkeypatch: pytest.MonkeyPatch, more: int, aside: bool
) -> None:
    threads = []

    def seen(audio: str, param: str) -> bytes:
        threads.append(threading.get_ident())
        return decoded_base64(audio, param)

    monkeypatch.setattr(relay_border, "decoded_base64", seen)
    border.border.settings(MULAW)
    await border.border.hear(of_length(LARGE_FRAME_BYTES + more))
    assert (threads != [threading.get_ident()]) is aside


async def test_a_format_that_changes_while_audio_is_decoded_is_that_of_the_next_append(border: Border) -> None:
    border.border.settings(MULAW)
    large = asyncio.create_task(border.border.hear(of_length(2 * LARGE_FRAME_BYTES)))
    await asyncio.sleep(0)
    border.border.settings(PCM)
    await large
    telephone = LARGE_FRAME_BYTES // 2 * 3 * 3  # 8 kHz, one byte a sample
    assert border.border.received == telephone
    await border.border.hear(base64.b64encode(bytes(960)).decode())
    assert border.border.received == telephone + 480


async def test_audio_that_is_none_adds_nothing(border: Border) -> None:
    for audio in ("%%%", None, 5, "UklGRgAAAABXQVZFZm10IA=="):
        await border.border.hear(audio)
    assert border.border.received == 0


async def test_a_response_beside_the_conversation_makes_no_turn(border: Border, time: FedTime) -> None:
    begun(border, conversation_id=None)
    border.speaks(voice(400))
    border.says("response.done", response={"id": "resp_1", "status": "completed"})
    await time.advance(1_000)
    border.meter.close(time.now())
    assert list(border.meter.turns) == []
