"""A relayed session's border: the same ear, meter and virtual player that stand before our own backends.

What the two sides send each other is decoded for it here; nothing of it changes what they get.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.g711 import G711Codec
from gateway.hearing import Hearing
from gateway.meter import SPEECH_THRESHOLD, Meter
from gateway.session import LARGE_FRAME_BYTES
from protocol.audio_format import AudioFormat, G711Decoder
from protocol.audio_time import Samples, s_from_samples, samples_from_bytes, samples_from_ms
from protocol.backend_events import BackendEvent, PlayoutCut, SpeechStarted
from protocol.commands import AppendAudio
from protocol.errors import ProtocolError
from protocol.input_pcm import InputPcm, decoded_base64
from protocol.relay.neutral_events import AUDIO_DELTA, NeutralEvents

Payload = dict[str, Any]

APPENDED_AT_ONCE = 30 * 24_000
"""The ear is given long audio in pieces of this many samples (chosen: as our own sessions are, half a minute)."""


@dataclass(frozen=True, slots=True)
class SentOut:
    """The audio of a delta: whose it is and how long it is; "" and 0 for any other event."""

    response_id: str = ""
    item_id: str = ""
    samples: Samples = 0


class RelayBorder:
    """Measures one session by its client's appends and its server's events (GA)."""

    def __init__(
        self,
        meter: Meter,
        hearing: Hearing,
        now: Callable[[], Samples],
        *,
        playout_delay: Samples,
        heard: Callable[[AppendAudio, Samples], None] = lambda _append, _now: None,
    ) -> None:
        """`heard` is told of the user's audio with its VAD frames, as the meter is."""
        self.meter = meter
        self.received: Samples = 0
        """Input so far: the session's input clock."""
        self.voiced = 0
        """VAD frames with speech that no commit has taken up yet."""
        self._hearing = hearing
        self._now = now
        self._playout_delay = playout_delay
        self._heard = heard
        self._input = InputPcm(G711Codec())
        self._input_format = AudioFormat.PCM
        self._output_format = AudioFormat.PCM
        self._decoders: dict[str, G711Decoder] = {}
        self._interrupts = True
        self._player_end: Samples = 0
        self._last_item, self._last_samples = "", 0
        self._neutral = NeutralEvents()

    # --- the user --------------------------------------------------------------------------------------------------

    async def hear(self, audio: object) -> None:
        """Take the `audio` of an append, one after the other. What is no audio adds nothing: the server refuses it."""
        if not isinstance(audio, str):
            return
        self._input.switch(self._input_format)
        try:
            large = len(audio) > LARGE_FRAME_BYTES
            pcm = await asyncio.to_thread(self._appended, audio) if large else self._appended(audio)
        except ProtocolError:
            return
        step = 2 * APPENDED_AT_ONCE
        for start in range(0, len(pcm), step):
            heard = await self._hearing.hear(AppendAudio(pcm[start : start + step]), self._now())
            self.received += samples_from_bytes(len(heard.pcm))
            self.voiced += sum(frame.probability >= SPEECH_THRESHOLD for frame in heard.frames)
            self.meter.heard_user(heard, self._now())
            self._heard(heard, self._now())

    def _appended(self, audio: str) -> bytes:
        return self._input.append(decoded_base64(audio, "audio"))

    def truncated(self, item_id: str, audio_end_ms: int) -> None:
        """Note that the client's player stopped an item."""
        self._player_end = min(self._player_end, self._now())
        self.meter.truncated(item_id, samples_from_ms(audio_end_ms), self._now())
        self._hearing.truncated(item_id, self._now())

    # --- the server ------------------------------------------------------------------------------------------------

    def settings(self, session: Payload) -> None:
        """Follow the session's audio formats, and whether the user's voice interrupts."""
        match session:
            case {"audio": {"input": {"format": {"type": str(kind)}}}} if (known := _format(kind)) is not None:
                self._input_format = known  # which `hear` follows: it may be decoding at the moment
        match session:
            case {"audio": {"output": {"format": {"type": str(kind)}}}} if (known := _format(kind)) is not None:
                if known is not self._output_format:
                    self._output_format = known
                    self._decoders.clear()
        match session:
            case {"audio": {"input": {"turn_detection": detection}}}:
                self._interrupts = isinstance(detection, dict) and detection.get("interrupt_response") is not False

    def saw(self, event: Payload, asked_at: Samples | None) -> tuple[SentOut, list[BackendEvent]]:
        """Measure a server's event; return its audio, and what it said in neutral words.

        `asked_at`: when the client asked for the response that begins with it, None where it didn't.
        """
        now = self._now()
        kind = event.get("type")
        if kind in ("input_audio_buffer.committed", "input_audio_buffer.cleared", "input_audio_buffer.speech_stopped"):
            self.voiced = 0
        pcm = self._decoded(event) if kind == AUDIO_DELTA else b""
        neutral = self._neutral(event, pcm, self.received)
        if neutral is None:
            return SentOut(), []
        if asked_at is not None and kind == "response.created":
            self.meter.asked(event["response"]["id"], asked_at)
        said: list[BackendEvent] = [neutral]
        if isinstance(neutral, SpeechStarted) and self._interrupts and now < self._player_end:
            # Clients flush their player now, whether or not the response has long been sent whole.
            unheard = self._player_end - now
            said.append(PlayoutCut(self._last_item, max(0, self._last_samples - unheard)))
            self._player_end = now
        for one in said:
            self.meter.saw(one, now)
            self._hearing.saw(one, now)
        if kind != AUDIO_DELTA:
            return SentOut(), said
        samples = samples_from_bytes(len(pcm))
        self._last_samples = samples + (self._last_samples if event["item_id"] == self._last_item else 0)
        self._last_item = event["item_id"]
        return SentOut(event["response_id"], event["item_id"], samples), said

    def _decoded(self, event: Payload) -> bytes:
        """Return a delta's audio in the session's samples; none where it can't be read."""
        delta, item_id = event.get("delta"), event.get("item_id")
        if not isinstance(delta, str) or not isinstance(item_id, str):
            return b""
        try:
            audio = base64.b64decode(delta)
        except (binascii.Error, ValueError):
            return b""
        if self._output_format is AudioFormat.PCM:
            return audio[: len(audio) - len(audio) % 2]
        if item_id not in self._decoders:
            self._decoders = {item_id: G711Codec().decoder(self._output_format)}  # items follow one another
        return self._decoders[item_id].feed(audio)

    def accepted(self, response_id: str, samples: Samples) -> None:
        """Note that the socket took audio; once it is known when the answer is heard, look again then."""
        now = self._now()
        self._player_end = max(now + self._playout_delay, self._player_end) + samples
        heard = self.meter.sent(response_id, samples, now)
        if heard is not None:
            delay_s = s_from_samples(heard - now + samples_from_ms(1))
            asyncio.get_running_loop().call_later(delay_s, lambda: self.meter.settle(self._now()))


def _format(kind: str) -> AudioFormat | None:
    return next((known for known in AudioFormat if known.value == kind), None)
