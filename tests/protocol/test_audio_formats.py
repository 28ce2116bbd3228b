"""The wire's audio formats: settings, switches, the count of samples, deltas, retrieve, WAV headers of G.711."""

from __future__ import annotations

import base64
import itertools
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.g711 import G711Codec
from protocol.audio_deltas import AudioDeltas
from protocol.audio_format import AudioFormat, encoded
from protocol.backend_events import (
    EndReason,
    EndStatus,
    EngineFault,
    InputCommitted,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
)
from protocol.commands import AppendAudio
from protocol.input_pcm import InputPcm
from protocol.kept_audio import ITEM_LIMIT_BYTES
from protocol.outputs import DiscardAudio, ServerEvent
from protocol.wire_law import SessionLaw, violations
from tests.protocol.test_user_audio import wav

PCM = {"type": "audio/pcm", "rate": 24_000}
PCMU = {"type": "audio/pcmu"}
PCMA = {"type": "audio/pcma"}
TONE = (3_000 * np.sin(np.arange(48_000) / 9)).astype("<i2").tobytes()
CODES = bytes(np.random.default_rng(5).integers(0, 256, 4_000, np.uint8))

both = pytest.mark.parametrize("wire", [PCMU, PCMA], ids=["pcmu", "pcma"])


def hears(talk: Any, wire: dict[str, Any] | None) -> None:
    talk.update(audio={"input": {"format": wire}})


def speaks(talk: Any, wire: dict[str, Any] | None) -> None:
    talk.update(audio={"output": {"format": wire}})


def appended(talk: Any) -> bytes:
    return b"".join(command.pcm for command in talk.commands(AppendAudio))


def decoded(audio: bytes, wire: dict[str, Any]) -> bytes:
    return G711Codec().decoder(AudioFormat(wire["type"])).feed(audio)


def in_format(pcm: bytes, wire: dict[str, Any]) -> bytes:
    return encoded(pcm, AudioFormat(wire["type"]), G711Codec())


def audio_in(events: list[dict[str, Any]]) -> bytes:
    deltas = [event["delta"] for event in events if event["type"] == "response.output_audio.delta"]
    return b"".join(map(base64.b64decode, deltas))


def kept(item: dict[str, Any]) -> bytes:
    return base64.b64decode(item["content"][0]["audio"])


# --- settings ------------------------------------------------------------------------------------------------------


def test_both_directions_are_set_and_shown_by_themselves(talk: Any) -> None:
    shown = talk.update(audio={"input": {"format": PCMU}, "output": {"format": PCMA}})[0]["session"]["audio"]
    assert (shown["input"]["format"], shown["output"]["format"]) == (PCMU, PCMA)
    shown = talk.update(audio={"input": {"format": {"type": "audio/pcm"}}})[0]["session"]["audio"]
    assert (shown["input"]["format"], shown["output"]["format"]) == (PCM, PCMA)


@pytest.mark.parametrize(("given_format", "shown"), [(None, PCM), ({}, PCMU), ({"rate": 24_000}, PCM), (PCMA, PCMA)])
def test_null_is_the_default_and_absent_keys_change_nothing(
    talk: Any, given_format: dict[str, Any] | None, shown: dict[str, Any]
) -> None:
    talk.update(audio={"input": {"format": PCMU}, "output": {"format": PCMU}})
    change = {"input": {"format": given_format}, "output": {"format": given_format}}
    audio = talk.update(audio=change)[0]["session"]["audio"]
    assert audio["input"]["format"] == audio["output"]["format"] == shown


def test_a_format_nobody_knows_is_refused_with_those_that_are(talk: Any) -> None:
    session = {"type": "realtime", "audio": {"input": {"format": {"type": "g711_ulaw"}}}}
    error = talk.refused("session.update", session=session)
    assert error["param"] == "session.audio.input.format.type"
    assert error["message"] == (
        "Invalid value: 'g711_ulaw'. Supported values are: 'audio/pcm', 'audio/pcmu', and 'audio/pcma'."
    )


def test_an_update_that_is_refused_switches_nothing(talk: Any) -> None:
    talk.refused("session.update", session={"type": "realtime", "voice": 1, "audio": {"input": {"format": PCMU}}})
    talk.append(b"\x01\x02")
    assert appended(talk) == b"\x01\x02"


# --- the user's audio ----------------------------------------------------------------------------------------------


@both
@given(sizes=st.lists(st.integers(1, 700), max_size=9))
def test_each_byte_of_g711_is_three_samples_whatever_the_chunks(wire: dict[str, Any], sizes: list[int]) -> None:
    received, out, at = InputPcm(G711Codec()), b"", 0
    received.switch(AudioFormat(wire["type"]))
    for size in [*sizes, len(CODES)]:
        out += received.append(CODES[at : at + size])
        at += size
        assert len(out) == 2 * 3 * min(at, len(CODES))
    assert out == decoded(CODES, wire)


@both
def test_appends_of_one_byte_and_of_odd_sizes_reach_the_engines_at_once(talk: Any, wire: dict[str, Any]) -> None:
    hears(talk, wire)
    for at, size in ((0, 1), (1, 1), (2, 161), (163, 7)):
        talk.append(CODES[at : at + size])
    assert [len(command.pcm) // 2 for command in talk.commands(AppendAudio)] == [3, 3, 483, 21]
    assert appended(talk) == decoded(CODES[:170], wire)


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations([PCM, PCMU, PCMA], 2)))
def test_nothing_of_one_format_leaks_into_the_next(talk: Any, before: dict[str, Any], after: dict[str, Any]) -> None:
    hears(talk, before)
    talk.append(CODES[:1_001])
    behind = len(appended(talk))
    hears(talk, after)
    talk.append(CODES[:1_000])
    assert appended(talk)[behind:] == (CODES[:1_000] if after == PCM else decoded(CODES[:1_000], after))


@pytest.mark.parametrize("wire", [PCM, PCMU])
def test_naming_the_format_that_holds_already_interrupts_nothing(talk: Any, wire: dict[str, Any]) -> None:
    hears(talk, wire)
    talk.append(CODES[:501])
    hears(talk, wire)
    talk.update(instructions="Be kind.")
    talk.append(CODES[501:1_000])
    assert appended(talk) == (CODES[:1_000] if wire == PCM else decoded(CODES[:1_000], wire))


@both
def test_a_clear_leaves_no_echo_and_a_commit_no_gap(talk: Any, wire: dict[str, Any]) -> None:
    hears(talk, wire)
    talk.append(CODES[:500])
    talk.send("input_audio_buffer.commit")
    talk.append(CODES[500:1_000])
    assert appended(talk) == decoded(CODES[:1_000], wire)
    talk.send("input_audio_buffer.clear")
    talk.append(CODES[:500])
    assert appended(talk) == decoded(CODES[:1_000], wire) + decoded(CODES[:500], wire)


def test_a_long_append_reaches_the_engines_in_pieces_of_ten_seconds_at_most(talk: Any) -> None:
    hears(talk, PCMU)
    audio = CODES * 100
    talk.append(audio)
    lengths = [len(command.pcm) for command in talk.commands(AppendAudio)]
    assert len(lengths) == 5  # 50 s
    assert max(lengths) <= 480_000
    assert max(lengths) - min(lengths) <= 10
    assert appended(talk) == decoded(audio, PCMU)


# --- WAV headers ---------------------------------------------------------------------------------------------------


def g711_wav(audio: bytes, coding: int, rate_hz: int = 8_000, channels: int = 1, *, extensible: bool = False) -> bytes:
    fmt = struct.pack("<HHIIHH", 0xFFFE if extensible else coding, channels, rate_hz, rate_hz, channels, 8)
    fmt += struct.pack("<HHIH", 22, 8, 4, coding) + bytes(14) if extensible else struct.pack("<H", 0)
    fact = struct.pack("<4sII", b"fact", 4, len(audio))
    body = b"WAVE" + struct.pack("<4sI", b"fmt ", len(fmt)) + fmt + fact + struct.pack("<4sI", b"data", len(audio))
    return struct.pack("<4sI", b"RIFF", len(body) + len(audio)) + body + audio


@pytest.mark.parametrize(("wire", "coding"), [(PCMU, 7), (PCMA, 6)])
@pytest.mark.parametrize("extensible", [False, True])
def test_a_wav_of_the_sessions_own_g711_is_unwrapped(
    talk: Any, wire: dict[str, Any], coding: int, extensible: bool
) -> None:
    hears(talk, wire)
    talk.append(g711_wav(CODES[:300], coding, extensible=extensible))
    talk.append(CODES[300:600])
    assert appended(talk) == decoded(CODES[:600], wire)


@pytest.mark.parametrize(
    ("wire", "audio", "expected", "found"),
    [
        (PCMU, g711_wav(b"a", 6), "raw G.711 µ-law, mono, 8000 Hz", "8000 Hz, 1 channels, 8 bits, coding 6"),
        (PCMA, g711_wav(b"a", 7), "raw G.711 A-law, mono, 8000 Hz", "coding 7"),
        (PCMA, g711_wav(b"a", 6, rate_hz=16_000), "raw G.711 A-law, mono, 8000 Hz", "16000 Hz"),
        (PCMU, g711_wav(b"ab", 7, channels=2), "raw G.711 µ-law, mono, 8000 Hz", "2 channels"),
        (PCMU, wav(b"ab", rate_hz=8_000), "raw G.711 µ-law, mono, 8000 Hz", "16 bits, coding 1"),
        (PCMU, g711_wav(b"a", 1, extensible=True), "raw G.711 µ-law, mono, 8000 Hz", "coding 1"),
        (PCMU, b"RIFF\0\0\0\0WAVE", "raw G.711 µ-law, mono, 8000 Hz", "nothing of audio data"),
        (PCM, g711_wav(b"a", 7), "raw PCM16, mono, 24000 Hz", "coding 7"),
        (PCM, g711_wav(b"a", 7, extensible=True), "raw PCM16, mono, 24000 Hz", "coding 7"),
    ],
)
def test_a_wav_of_another_format_is_refused_and_told_what_is_expected(
    talk: Any, wire: dict[str, Any], audio: bytes, expected: str, found: str
) -> None:
    hears(talk, wire)
    talk.append(CODES[:100])
    error = talk.refused("input_audio_buffer.append", audio=base64.b64encode(audio).decode())
    assert (error["code"], error["param"]) == ("invalid_value", "audio")
    assert f"{expected} is expected, but a WAV header says" in error["message"]
    assert found in error["message"]
    talk.append(CODES[100:200])
    assert appended(talk) == (CODES[:200] if wire == PCM else decoded(CODES[:200], wire))


# --- the agent's audio ---------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9_000), min_size=1, max_size=6), st.sampled_from(AudioFormat))
def test_the_samples_of_an_items_deltas_add_up_to_its_audio(sizes: list[int], audio_format: AudioFormat) -> None:
    deltas, fed, told = AudioDeltas(audio_format, G711Codec()), b"", []
    for size in sizes:
        pcm = TONE[: 2 * size]
        fed += pcm
        told += deltas.feed(pcm)
        behind = len(fed) // 2 - sum(samples for _, samples in told)
        assert 0 <= behind <= 66
        assert behind == 0 or size <= 66  # a longer piece always brings a delta, which counts all of it
    told += deltas.flush()
    assert sum(samples for _, samples in told) == len(fed) // 2
    assert b"".join(audio for audio, _ in told) == encoded(fed, audio_format, G711Codec())
    assert all(0 < len(audio) <= audio_format.rate_hz * audio_format.bytes_per_sample // 5 for audio, _ in told)
    assert all(len(audio) % audio_format.bytes_per_sample == 0 and samples >= 0 for audio, samples in told)


@both
def test_a_reply_in_g711_is_whole_before_its_audio_is_done(talk: Any, wire: dict[str, Any]) -> None:
    speaks(talk, wire)
    pieces = [TONE[:9_998], TONE[:14], TONE[: 2 * 8_001]]
    talk.backend(ResponseStarted("r"), *(OutputAudio("r", "a", piece) for piece in pieces))
    early = talk.sent("response.output_audio.delta")
    ending = talk.backend(OutputItemEnded("r", "a"), ResponseEnded("r", EndStatus.COMPLETED))
    assert [event["type"] for event in ending][:2] == ["response.output_audio.delta", "response.output_audio.done"]
    assert audio_in([*early, ending[0]]) == in_format(b"".join(pieces), wire)
    assert ending[-2]["response"]["audio"]["output"]["format"] == wire
    assert ending[-2]["response"]["usage"]["output_token_details"]["audio_tokens"] == 11  # 13 007 samples of 24 kHz


@both
def test_items_of_one_reply_are_streams_of_their_own(talk: Any, wire: dict[str, Any]) -> None:
    speaks(talk, wire)
    talk.backend(ResponseStarted("r"))
    for item_id in ("a", "b"):
        talk.backend(OutputAudio("r", item_id, TONE[:3_000]), OutputItemEnded("r", item_id))
    for item_id in ("a", "b"):
        mine = [event for event in talk.sent("response.output_audio.delta") if event["item_id"] == item_id]
        assert audio_in(mine) == in_format(TONE[:3_000], wire)


@pytest.mark.parametrize(
    ("end", "whole"),
    [
        (ResponseEnded("r", EndStatus.CANCELLED, reason=EndReason.TURN_DETECTED), False),
        (ResponseEnded("r", EndStatus.INCOMPLETE, reason=EndReason.MAX_OUTPUT_TOKENS), True),
        (ResponseEnded("r", EndStatus.FAILED, fault=EngineFault("tts_failed", "The voice failed.")), True),
    ],
)
def test_only_a_cancelled_reply_keeps_its_tail(talk: Any, end: ResponseEnded, whole: bool) -> None:
    speaks(talk, PCMU)
    talk.backend(ResponseStarted("r"), OutputAudio("r", "a", TONE[:9_600]))
    kinds = [event["type"] for event in talk.backend(end)]
    assert ("response.output_audio.delta" in kinds) is whole
    assert kinds.count("response.output_audio.done") == 1
    assert len(audio_in(talk.sent("response.output_audio.delta"))) == (1_600 if whole else 1_600 - 22)
    discards = [output for output in talk.outputs if isinstance(output, DiscardAudio)]
    assert len(discards) == (0 if whole else 1)


def test_a_response_keeps_the_format_that_it_started_with(talk: Any) -> None:
    talk.backend(ResponseStarted("r"), OutputAudio("r", "a", TONE[:4_800]))
    speaks(talk, PCMU)
    talk.backend(OutputAudio("r", "a", TONE[4_800:9_600]), OutputItemEnded("r", "a"))
    done = talk.backend(ResponseEnded("r", EndStatus.COMPLETED))[0]
    assert audio_in(talk.sent("response.output_audio.delta")) == TONE[:9_600]
    assert done["response"]["audio"]["output"]["format"] == PCM
    talk.agent_says("r2", "b", ("Next.", 2_400))
    assert len(audio_in(talk.sent("response.output_audio.delta"))) == 9_600 + 800


def test_one_response_may_speak_in_a_format_of_its_own(talk: Any) -> None:
    speaks(talk, PCMA)
    talk.send("response.create", response={"audio": {"output": {"format": PCMU}}})
    (created,) = talk.backend(ResponseStarted(next(iter(talk.session._asked_for))))
    assert created["response"]["audio"]["output"]["format"] == PCMU
    response_id = created["response"]["id"]
    talk.backend(OutputAudio(response_id, "a", TONE[:4_800]), OutputItemEnded(response_id, "a"))
    assert audio_in(talk.sent("response.output_audio.delta")) == in_format(TONE[:4_800], PCMU)
    talk.backend(ResponseEnded(response_id, EndStatus.COMPLETED), ResponseStarted("r2"))
    assert talk.sent("response.created")[-1]["response"]["audio"]["output"]["format"] == PCMA


@pytest.mark.parametrize("given_format", [None, {}])
def test_a_response_without_a_format_of_its_own_has_the_sessions(talk: Any, given_format: Any) -> None:
    speaks(talk, PCMU)
    talk.send("response.create", response={"audio": {"output": {"format": given_format, "voice": "ash"}}})
    (created,) = talk.backend(ResponseStarted(next(iter(talk.session._asked_for))))
    assert created["response"]["audio"]["output"] == {"format": PCMU, "voice": "ash"}


def test_a_bad_format_in_a_response_is_refused(talk: Any) -> None:
    error = talk.refused("response.create", response={"audio": {"output": {"format": {"type": "audio/mp3"}}}})
    assert (error["code"], error["param"]) == ("invalid_value", "response.audio.output.format.type")


# --- what was sent and heard ---------------------------------------------------------------------------------------


def test_truncates_and_heard_words_count_in_the_sessions_samples(talk: Any) -> None:
    speaks(talk, PCMU)
    talk.agent_says("r", "a", ("One two. ", 24_000), ("Three four.", 24_001))
    assert len(audio_in(talk.sent("response.output_audio.delta"))) == 16_001  # 2000.125 ms
    error = talk.refused("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=2_033)
    assert error["message"] == "Audio content of 2000ms is already shorter than 2033ms"
    talk.send("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=1_000)
    assert talk.retrieved("a")["content"][0]["transcript"] == "One two."
    assert len(kept(talk.retrieved("a"))) == 8_000
    talk.send("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=2_001)
    assert talk.retrieved("a")["content"][0]["transcript"] == "One two. Three four."


def test_a_reply_cut_between_two_chunks_keeps_all_words_of_the_first(talk: Any) -> None:
    """The encoder's look-ahead, 2.75 ms that were not sent, costs no word."""
    speaks(talk, PCMU)
    talk.backend(
        ResponseStarted("r"),
        OutputTextDelta("r", "a", "One two. Three four."),
        OutputAudio("r", "a", TONE[:48_000]),
        OutputSpoken("r", "a", 8, 24_000),
        ResponseEnded("r", EndStatus.CANCELLED, reason=EndReason.TURN_DETECTED),
        PlayoutCut("a", 24_000),
    )
    assert talk.session.conversation.get("a").speech.heard_text() == "One two."


def test_audio_that_was_dropped_before_it_was_sent_is_subtracted_exactly(talk: Any) -> None:
    speaks(talk, PCMA)
    talk.agent_says("r", "a", ("One two three four.", 24_000))
    deltas = [out for out in talk.outputs if isinstance(out, ServerEvent) and out.audio_of == "r"]
    assert sum(delta.samples for delta in deltas) == 24_000
    dropped = sum(delta.samples for delta in deltas[2:])
    talk.session.audio_unsent("a", dropped)
    assert talk.session.conversation.get("a").speech.audio_sent == 9_600
    assert len(kept(talk.retrieved("a"))) == 3_200
    talk.session.audio_unsent("a", sum(delta.samples for delta in deltas[:2]))
    assert talk.session.conversation.get("a").speech.audio_sent == 0


# --- retrieve ------------------------------------------------------------------------------------------------------


def test_an_item_is_retrieved_in_the_format_of_its_side_as_it_is_now(talk: Any) -> None:
    talk.append(TONE[:9_600])
    talk.backend(InputCommitted("u", 0, 4_800))
    talk.agent_says("r", "a", ("Hello.", 4_800))
    assert kept(talk.retrieved("u")) == TONE[:9_600]
    talk.update(audio={"input": {"format": PCMU}, "output": {"format": PCMA}})
    assert kept(talk.retrieved("u")) == in_format(TONE[:9_600], PCMU)
    assert kept(talk.retrieved("a")) == in_format(bytes(9_600), PCMA)
    assert len(kept(talk.retrieved("a"))) == 1_600


@both
def test_what_was_said_in_g711_is_retrieved_as_such(talk: Any, wire: dict[str, Any]) -> None:
    hears(talk, wire)
    sent = in_format(TONE[:24_000], wire)
    talk.append(sent)
    talk.backend(InputCommitted("u", 66, 12_000))
    back = kept(talk.retrieved("u"))
    assert len(back) == -(-(12_000 - 66) // 3)
    once, twice = (np.frombuffer(decoded(audio, wire), "<i2").astype(float)[600:11_000] for audio in (sent, back))
    assert np.sqrt(((once - twice) ** 2).mean()) < 0.05 * once.std()


def test_the_longest_item_in_any_format_fits_into_a_frame(talk: Any) -> None:
    talk.backend(ResponseStarted("r"), OutputAudio("r", "a", bytes(ITEM_LIMIT_BYTES)))
    for wire, length in ((PCM, ITEM_LIMIT_BYTES), (PCMU, ITEM_LIMIT_BYTES // 6)):
        speaks(talk, wire)
        item = talk.retrieved("a")
        assert len(kept(item)) == length
        assert len(json.dumps(item)) < 2**20


# --- the law -------------------------------------------------------------------------------------------------------


def test_the_law_knows_how_long_a_sample_is_in_each_response() -> None:
    delta = {
        "type": "response.output_audio.delta",
        "event_id": "e",
        "response_id": "r",
        "item_id": "a",
        "output_index": 0,
        "content_index": 0,
        "delta": base64.b64encode(b"abc").decode(),
    }
    assert violations(delta) == ["delta does not hold whole samples"]
    assert violations(delta, audio_format=AudioFormat.PCMU) == []
    law = SessionLaw()
    response = {"object": "realtime.response", "id": "r", "status": "in_progress", "status_details": None}
    response |= {"output": [], "conversation_id": "conv", "usage": None, "metadata": None}
    response |= {"audio": {"output": {"format": PCMA, "voice": "ash"}}}
    assert law.violations({"type": "response.created", "event_id": "e", "response": response}) == []
    assert law.violations(delta) == []
    assert law.violations({**delta, "response_id": "another"}) == ["delta does not hold whole samples"]
