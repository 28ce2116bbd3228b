"""Simulated sessions with a recorder on them, and their recordings as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.recording.recorder import SessionRecorder
from gateway.recording.recording import Recording, read_recording
from gateway.turns.inputs import Input
from gateway.turns.machine import TurnMachine
from gateway.turns.response import Output
from gateway.turns.settings import TurnSettings
from protocol.ids import CountingIds
from tests.simulation.conversation import Conversation


class MemoryDisk:
    """Keeps what is put, up to a limit. `recorder`: whoever writes to it."""

    recorder: SessionRecorder

    def __init__(self, room: int = 10**9) -> None:
        self.parts: list[str | bytes | None] = []
        self._room = room

    def put(self, _session_id: str, part: str | bytes | None) -> bool:
        if part is not None and len(self.parts) >= self._room:
            return False
        self.parts.append(part)
        return True

    @property
    def lines(self) -> list[str]:
        return [part for part in self.parts if isinstance(part, str)]

    @property
    def sound(self) -> bytes:
        return b"".join(part for part in self.parts if isinstance(part, bytes))


def record(conversation: Conversation, disk: MemoryDisk | None = None) -> MemoryDisk:
    """Have `conversation`, which has not begun, recorded from now on."""
    disk = disk or MemoryDisk()
    settings = conversation.machine.settings
    recorder = SessionRecorder(disk, "sess_1", CountingIds(), settings.playout_delay)
    disk.recorder = recorder
    recorder.begin(settings)
    machine = conversation.machine = TurnMachine(settings, recorder.new_id)
    receive: Callable[[Input, int], list[Output]] = machine.receive

    def receive_and_record(message: Input, now: int) -> list[Output]:
        outputs = receive(message, now)
        recorder.tap(message, now, outputs)
        return outputs

    machine.receive = receive_and_record
    return disk


def recording_of(disk: MemoryDisk, folder: Path) -> Recording:
    path = folder / "sess_1.jsonl"
    path.write_text("".join(f"{line}\n" for line in disk.lines), encoding="utf-8")
    return read_recording(path)


def recorded(folder: Path, settings: TurnSettings, act: Callable[[Conversation], None], **engines: Any) -> Recording:
    """Return the recording of a simulated session in which `act` happens."""
    conversation = Conversation(settings, **engines)
    disk = record(conversation)
    act(conversation)
    return recording_of(disk, folder)
