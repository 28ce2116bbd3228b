"""What a client measures by itself of a stream is what the meter makes of the same stream, to a frame."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from clients import heard_replies
from clients import own_figures as own_rules
from clients.microphone import Utterance
from clients.observed_figures import Figures, figures_of
from clients.own_figures import own_figures
from clients.realtime_connection import StampedEvent
from clients.wav_audio import Clip
from gateway import audible_output, overlaps
from gateway.hearing import Hearing
from gateway.meter import LONGEST_BACKCHANNEL, Meter
from gateway.observing.observer import SessionObserver
from gateway.relay_border import RelayBorder
from models.engines.scripted import ScriptedVad
from models.interfaces import VAD_FRAME_SAMPLES
from protocol.audio_time import ms_from_samples, s_from_samples, samples_from_ms
from tests.gateway.fed_time import FedTime
from tests.gateway.observed import told
from tests.gateway.scripted_cascade import quiet, voice

STEP_MS = 20
FRAME_MS = ms_from_samples(VAD_FRAME_SAMPLES)
LONG = "One two three."


@dataclass
class Server:
    """What it says, and when (ms)."""

    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    turns: int = 0

    def says(self, at_ms: int, kind: str, **fields: Any) -> None:
        self.events.append((at_ms, {"type": kind, **fields}))

    def hears(self, onset_ms: int, end_ms: int, *, tells: bool = True) -> None:
        """Tell of a turn as a VAD does: its beginning after 200 ms, unless not `tells`, its end after 300."""
        self.turns += 1
        item_id = f"item_{self.turns}"
        start = {"item_id": item_id, "audio_start_ms": onset_ms}
        if tells:
            self.says(onset_ms + 200, "input_audio_buffer.speech_started", **start)
        end = {"item_id": item_id, "audio_end_ms": end_ms + 300}
        self.says(end_ms + 300, "input_audio_buffer.speech_stopped", **end)
        self.says(end_ms + 300, "input_audio_buffer.committed", item_id=item_id)

    def begins(self, at_ms: int, response_id: str, words: str = LONG) -> None:
        self.says(at_ms, "response.created", response={"id": response_id})
        if words:
            part = {"response_id": response_id, "item_id": f"{response_id}_item"}
            self.says(at_ms, "response.output_audio_transcript.delta", **part, delta=words)

    def sounds(self, at_ms: int, response_id: str, pcm: bytes) -> None:
        part = {"response_id": response_id, "item_id": f"{response_id}_item"}
        self.says(at_ms, "response.output_audio.delta", **part, delta=base64.b64encode(pcm).decode())

    def speaks(self, from_ms: int, until_ms: int, response_id: str) -> None:
        """Send speech at the pace of speech."""
        for at_ms in range(from_ms, until_ms, 80):
            self.sounds(at_ms, response_id, voice(80))

    def is_done(self, at_ms: int, response_id: str, status: str = "completed") -> None:
        details = {"status_details": {"reason": "turn_detected"}} if status == "cancelled" else {}
        self.says(at_ms, "response.done", response={"id": response_id, "status": status, **details})

    def replies(self, at_ms: int, response_id: str, duration_ms: int, words: str = LONG) -> None:
        """Send a whole reply at once."""
        self.begins(at_ms, response_id, words)
        self.sounds(at_ms, response_id, voice(duration_ms))
        self.is_done(at_ms, response_id)


def hiss() -> bytes:
    """Return a step of the user's voice: a noise, since every tone could be the echo of the agent's."""
    noise = np.random.default_rng(3).standard_normal(samples_from_ms(STEP_MS)) * 1_600
    return bytes(noise.astype("<i2").tobytes())


async def both(
    time: FedTime, server: Server, spoken: Sequence[tuple[int, int]], cut_ins: Sequence[tuple[int, int]], until_ms: int
) -> tuple[Figures, Figures]:
    """Let the meter and a client hear the same, and return the figures of each."""
    observer = SessionObserver("sess_1", time.now)
    meter = Meter(
        "sess_1", playout_delay=0, on_turn=observer.turn_closed, on_overlap=observer.overlapped, backchannels=True
    )
    border = RelayBorder(meter, Hearing(ScriptedVad()), time.now, playout_delay=0)
    observer.open()
    coming = sorted(server.events, key=lambda event: event[0])
    seen: list[StampedEvent] = []
    for now_ms in range(0, until_ms, STEP_MS):
        while coming and coming[0][0] <= now_ms:
            event = coming.pop(0)[1]
            seen.append(StampedEvent(s_from_samples(time.now()), event))
            audio, _ = border.saw(event, None)
            if audio.samples:
                border.accepted(audio.response_id, audio.samples)
        await time.advance(STEP_MS)
        loud = any(onset_ms <= now_ms < end_ms for onset_ms, end_ms in (*spoken, *cut_ins))
        await border.hear(base64.b64encode(hiss() if loud else quiet(STEP_MS)).decode())
    meter.close(time.now())
    own = own_figures(seen, utterances(spoken), utterances(cut_ins), 0.0)
    return figures_of(told(observer.ring)), own


def utterances(spoken: Sequence[tuple[int, int]]) -> list[Utterance]:
    nothing = Clip("", b"", 0, 0)
    return [Utterance(nothing, samples_from_ms(onset_ms), samples_from_ms(end_ms)) for onset_ms, end_ms in spoken]


def same(meter: Figures, own: Figures) -> bool:
    counts = [(figures.unanswered, figures.went_on, figures.ended) for figures in (meter, own)]
    pairs = [(getattr(meter, name), getattr(own, name)) for name in ("answer_ms", "yield_ms", "stop_ms")]
    return counts[0] == counts[1] and all(
        len(one) == len(other) and all(abs(a - b) <= FRAME_MS for a, b in zip(one, other, strict=True))
        for one, other in pairs
    )


TURN, CUT_IN = (600, 3_000), (5_100, 6_500)
WORD, WORD_AGAIN = (5_100, 5_500), (5_860, 6_500)


def gives_way(cancelled_at_ms: int, *, tells: bool) -> Server:
    """An agent that speaks at the pace of speech until 5.36 s, is cancelled, and answers what the user said.

    Not `tells`: it says nothing of the user's voice when that begins.
    """
    server = Server()
    server.hears(*TURN)
    server.begins(3_400, "resp_1")
    server.speaks(3_600, 5_360, "resp_1")
    server.hears(*CUT_IN, tells=tells)
    server.is_done(cancelled_at_ms, "resp_1", "cancelled")
    server.begins(6_900, "resp_2")
    server.speaks(7_200, 8_000, "resp_2")
    server.is_done(8_000, "resp_2")
    return server


def sent_whole(duration_ms: int) -> Server:
    """A reply that is with the client before the user cuts in, and the answer to what they said."""
    server = Server()
    server.hears(*TURN)
    server.replies(3_600, "resp_1", duration_ms)
    server.hears(*CUT_IN)
    server.replies(7_200, "resp_2", 600)
    return server


def goes_on(*, tells: bool) -> Server:
    """An agent that talks on over the user, whether or not it tells them that they were heard."""
    server = Server()
    server.hears(*TURN)
    server.begins(3_400, "resp_1")
    server.speaks(3_600, 9_000, "resp_1")
    server.hears(*CUT_IN, tells=tells)
    server.is_done(9_000, "resp_1")
    return server


def goes_on_twice(ends_at_ms: int) -> Server:
    """An agent that tells of both words that the user says over it, and talks on until `ends_at_ms`."""
    server = Server()
    server.hears(*TURN)
    server.begins(3_400, "resp_1")
    server.speaks(3_600, ends_at_ms, "resp_1")
    server.hears(*WORD)
    server.hears(*WORD_AGAIN)
    server.is_done(ends_at_ms, "resp_1", "cancelled" if ends_at_ms < 9_000 else "completed")
    return server


def told_of_the_second() -> Server:
    """An agent that is deaf to the first word and gives way to the second."""
    server = Server()
    server.hears(*TURN)
    server.begins(3_400, "resp_1")
    server.speaks(3_600, 6_080, "resp_1")
    server.hears(*WORD, tells=False)
    server.hears(*WORD_AGAIN)
    server.is_done(6_080, "resp_1", "cancelled")
    return server


def nodded_and_answered() -> Server:
    """A sound without words, and then the answer."""
    server = Server()
    server.hears(*TURN)
    server.replies(3_400, "nod", 300, words="")
    server.replies(4_900, "resp_1", 900)
    return server


def one_of_two_answered() -> Server:
    server = Server()
    server.hears(600, 3_000)
    server.hears(27_000, 30_000)
    server.replies(30_600, "resp_1", 900)
    return server


@pytest.mark.parametrize(
    ("server", "spoken", "cut_ins", "expected"),
    [
        (gives_way(5_360, tells=True), [TURN], [CUT_IN], Figures("", [600, 700], [200], [200])),
        (sent_whole(6_000), [TURN], [CUT_IN], Figures("", [600, 700], [200], [200])),
        (goes_on(tells=False), [TURN], [CUT_IN], Figures("", [600], unanswered=1, went_on=1)),
        (goes_on(tells=True), [TURN], [CUT_IN], Figures("", [600], unanswered=1, went_on=1)),
        (goes_on_twice(9_040), [TURN], [WORD, WORD_AGAIN], Figures("", [600], unanswered=2, went_on=2)),
        (goes_on_twice(5_980), [TURN], [WORD, WORD_AGAIN], Figures("", [600], [120], [140], unanswered=2, went_on=1)),
        (told_of_the_second(), [TURN], [WORD, WORD_AGAIN], Figures("", [600], [200], [200], unanswered=2, went_on=1)),
        (sent_whole(1_600), [TURN], [CUT_IN], Figures("", [600, 700], ended=1)),
        (gives_way(5_340, tells=False), [TURN], [CUT_IN], Figures("", [600, 700], [240], [260])),
        (gives_way(5_900, tells=False), [TURN], [CUT_IN], Figures("", [600, 700], [180], [260])),
        (nodded_and_answered(), [TURN], [], Figures("", [1_900])),
        (one_of_two_answered(), [(600, 3_000), (27_000, 30_000)], [], Figures("", [600], unanswered=1)),
    ],
    ids=[
        "cut", "whole", "went-on", "told-and-went-on", "twice", "then-gave-way", "second-told", "ended", "untold",
        "silent", "nod", "unanswered",
    ],
)  # fmt: skip
async def test_a_client_and_the_meter_have_the_same_figures_of_the_same_stream(
    time: FedTime,
    server: Server,
    spoken: list[tuple[int, int]],
    cut_ins: list[tuple[int, int]],
    expected: Figures,
) -> None:
    meter, own = await both(time, server, spoken, cut_ins, 32_000 if spoken[-1][1] > 9_000 else 11_000)
    assert same(own, expected), own
    assert same(meter, own), (meter, own)


def test_the_clients_rules_have_the_meters_numbers() -> None:
    assert heard_replies.AUDIBLE_DBFS == audible_output.AUDIBLE_DBFS
    assert heard_replies.WINDOW == audible_output.GATE_WINDOW
    for seconds, samples in (
        (heard_replies.WORD_GAP_S, audible_output.WORD_GAP),
        (heard_replies.LONGEST_BACKCHANNEL_S, LONGEST_BACKCHANNEL),
        (own_rules.LEAST_VOICE_S, overlaps.LEAST_VOICE),
        (own_rules.DECIDED_AFTER_S, overlaps.DECIDED_AFTER),
        (own_rules.LAST_WORD_S, overlaps.LAST_WORD),
    ):
        assert seconds == s_from_samples(samples)
