"""What a recording holds, and what becomes of it when the disk or the process fails."""

from __future__ import annotations

import json
import wave
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from gateway.recording.codec import UnknownRecord, input_from_json, to_json, told_from_json
from gateway.recording.disk import RecordingDisk
from gateway.recording.recorder import SessionRecorder
from gateway.recording.recording import RecordingError, read_recording
from gateway.turns.inputs import CommitRequested, Input, SettingsChanged, SynthesizedSpeech, TextDelta, Transcript
from gateway.turns.settings import Detection, TurnSettings
from protocol.backend_events import EngineFault, OutputAudio, PlayoutCut, ResponseStarted, TokenLogprob
from protocol.ids import CountingIds
from tests.recording.recorded import MemoryDisk, record, recording_of
from tests.simulation.conversation import Conversation

EXAMPLES: dict[str, Any] = {
    "str": "x",
    "int": 7,
    "Samples": 7,
    "float": 0.5,
    "bool": True,
    "bytes": bytes(960),
    "EngineFault": EngineFault("code", "message"),
    "TurnSettings": TurnSettings(judges=frozenset({"audio", "lexical"})),
}


def example(kind: type) -> Any:
    """Return an input of `kind` whose every field without a default has a value of its type."""
    return kind(
        **{
            field.name: EXAMPLES[str(field.type).split(" | ")[0]]
            for field in fields(kind)
            if str(field.default).startswith("<dataclasses._MISSING")
        }
    )


@pytest.mark.parametrize("kind", get_args(Input))
def test_every_input_comes_back_as_it_was(kind: type) -> None:
    message = example(kind)

    assert is_dataclass(message)
    assert input_from_json(json.loads(json.dumps(to_json(message)))) == message


def test_tokens_that_are_half_a_character_come_back() -> None:
    message = Transcript("item_1", "é", (TokenLogprob("\ufffd", -0.1, b"\xc3"), TokenLogprob("\ufffd", -0.2, b"\xa9")))

    assert input_from_json(json.loads(json.dumps(to_json(message)))) == message


def test_settings_without_turn_detection_come_back() -> None:
    for detection in (None, Detection(idle_timeout=5)):
        message = SettingsChanged(TurnSettings(detection))
        assert input_from_json(to_json(message)) == message


def test_audio_is_counted_and_not_kept() -> None:
    message = SynthesizedSpeech("resp_1", 0, b"\x01\x02" * 480)

    assert to_json(message)["pcm"] == 480
    assert input_from_json(to_json(message)) == SynthesizedSpeech("resp_1", 0, bytes(960))
    told = told_from_json(to_json(OutputAudio("resp_1", "item_1", b"\x01\x02" * 480)))
    assert told == OutputAudio("resp_1", "item_1", bytes(960))


@pytest.mark.parametrize("record", [{"type": "Whistle"}, {"type": "TextDelta", "text": "x"}, {}])
def test_what_another_version_wrote_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(UnknownRecord):
        input_from_json(record)


def test_something_that_is_no_part_of_the_core_is_a_bug() -> None:
    with pytest.raises(TypeError):
        to_json(object())


# --- files -----------------------------------------------------------------------------------------------------------


def turn(conversation: Conversation) -> None:
    conversation.speak(1_000)
    conversation.silence(2_000)


def test_a_process_that_dies_in_mid_line_leaves_a_recording_that_can_be_read(tmp_path: Path) -> None:
    conversation = Conversation()
    disk = record(conversation)
    turn(conversation)
    path = tmp_path / "killed.jsonl"
    path.write_text("\n".join(disk.lines)[:-20], encoding="utf-8")

    assert len(read_recording(path).steps) == len(disk.lines) - 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is no recording of this gateway"),
        ('{"at": 1}\n', "is no recording of this gateway"),
        ('{"format": "duplex-gateway recording", "version": 2}\n', "is of recording version 2"),
        ('{"format": "duplex-gateway recording", "version": 1}\n', "was recorded by another version"),
        ('{"format": "duplex-gateway recording", "version": 1, "settings": {"deadlines": 3}}\n', "another version"),
        ("{\n{}\n", "is damaged in line 1"),
        ("[]\n", "is no recording of this gateway"),
    ],
)
def test_a_file_that_cannot_be_replayed_is_told_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(RecordingError, match=sentence):
        read_recording(path)


def test_a_file_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be read: No such file"):
        read_recording(tmp_path / "nothing.jsonl")


def test_binary_data_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(b"\xff\xfe\x00RIFF")

    with pytest.raises(RecordingError, match="it is no text"):
        read_recording(path)


def test_a_full_disk_queue_ends_the_recording_and_never_the_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conversation = Conversation()
    disk = record(conversation, MemoryDisk(room=20))
    turn(conversation)

    assert conversation.ends()
    assert len(disk.parts) == 20
    assert caplog.text.count("its recording ends here") == 1
    assert len(recording_of(disk, tmp_path).steps) == 19


def test_the_disk_writes_both_files_of_a_session_and_closes_them(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path / "recordings")
    disk.start()
    recorder = SessionRecorder(disk, "sess_7", CountingIds(), 3_600)
    recorder.begin(TurnSettings())
    recorder.tap(TextDelta("resp_1", "hello"), 10, [])
    recorder.user_audio(b"\x01\x00" * 24_000, 24_000)
    recorder.close(48_000)
    disk.close()

    assert read_recording(tmp_path / "recordings" / "sess_7.jsonl").steps[0].message == TextDelta("resp_1", "hello")
    with wave.open(str(tmp_path / "recordings" / "sess_7.wav")) as sound:
        assert (sound.getnchannels(), sound.getframerate(), sound.getnframes()) == (2, 24_000, 48_000)
    for path in (tmp_path / "recordings", *(tmp_path / "recordings").iterdir()):
        assert path.stat().st_mode & 0o077 == 0, "others must not read what was said"


def test_a_disk_that_fails_ends_all_recordings_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = RecordingDisk(tmp_path)
    disk.start()
    disk.put("no/such/folder", "line")
    disk.put("sess_1", "line")
    disk.close()

    assert caplog.text.count("recordings cannot be written") == 1
    assert not list(tmp_path.iterdir())


def test_half_a_character_in_a_clients_word_is_replaced_and_ends_nobodys_recording(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    disk.start()
    for session_id in ("sess_1", "sess_2"):
        recorder = SessionRecorder(disk, session_id, CountingIds(), 3_600)
        recorder.begin(TurnSettings())
        recorder.tap(CommitRequested("event_\ud800"), 10, [])
        recorder.close(24_000)
    disk.close()

    for session_id in ("sess_1", "sess_2"):
        assert read_recording(tmp_path / f"{session_id}.jsonl").steps[0].message == CommitRequested("event_?")


def test_a_full_queue_still_takes_the_end_of_a_session_which_closes_its_files(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path, queue_parts=2)

    assert [disk.put("sess_1", part) for part in ("head", "line", "line", None)] == [True, True, False, True]


def test_a_recording_that_met_a_full_queue_still_tells_its_end() -> None:
    conversation = Conversation()
    disk = record(conversation, MemoryDisk(room=20))
    turn(conversation)
    disk.recorder.close(24_000)

    assert len(disk.lines) == 20
    assert disk.parts[20:] == [None]


def test_sound_beyond_what_a_wav_file_can_hold_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.recording.disk.MOST_SOUND_BYTES", 4_000)
    disk = RecordingDisk(tmp_path)
    disk.start()
    for _ in range(3):
        disk.put("sess_1", bytes(1_600))
    disk.put("sess_1", "line")
    disk.put("sess_1", None)
    disk.close()

    with wave.open(str(tmp_path / "sess_1.wav")) as sound:
        assert sound.getnframes() == 800
    assert (tmp_path / "sess_1.jsonl").read_text("utf-8") == "line\n"


def test_a_bug_in_the_thread_that_writes_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = RecordingDisk(tmp_path)
    disk.start()
    disk.put("sess_1", 3)  # a bug of ours
    disk.put("sess_2", "line")
    disk.close()

    assert caplog.text.count("recordings cannot be written") == 1


def test_what_is_said_beside_the_conversation_is_not_in_its_sound() -> None:
    disk = MemoryDisk()
    recorder = SessionRecorder(disk, "sess_1", CountingIds(), 0)
    for response_id, out_of_band in (("resp_1", True), ("resp_2", False)):
        recorder.saw(ResponseStarted(response_id, out_of_band), 0)
    recorder.saw(OutputAudio("resp_1", "item_1", b"\x01\x00" * 2_400), 0)
    recorder.saw(OutputAudio("resp_2", "item_2", b"\x02\x00" * 2_400), 0)
    recorder.saw(PlayoutCut("item_2", 1_200), 1_200)
    recorder.close(4_800)

    agent = [disk.sound[at] for at in range(2, len(disk.sound), 4)]
    assert agent == [2] * 1_200 + [0] * 3_600
