"""Reads a recording back: the machine's first settings, and what it was told and answered, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.recording.codec import UnknownRecord, input_from_json, value_from_json
from gateway.recording.recorder import FORMAT, VERSION
from gateway.turns.inputs import Input
from gateway.turns.settings import TurnSettings
from protocol.audio_time import Samples


class RecordingError(Exception):
    """A file that cannot be replayed. The text is one sentence."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the machine was told at `at` (gateway clock), the ids that it drew, and its answer as JSON."""

    at: Samples
    message: Input
    ids: tuple[str, ...]
    outputs: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """A session as it was recorded."""

    session_id: str
    settings: TurnSettings
    steps: tuple[Step, ...]


def read_recording(path: Path) -> Recording:
    """Return the recording in `path`, without an unfinished last line. Raises RecordingError."""
    try:
        with path.open(encoding="utf-8") as file:
            records = _records(file, path)
            head = next(records, None)
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise RecordingError(
                    f"{path} is no recording of this gateway: give a file from the folder of --record."
                )
            if head.get("version") != VERSION:
                raise RecordingError(
                    f"{path} is of recording version {head.get('version')}; this gateway reads {VERSION}."
                )
            if "backend" in head:
                raise RecordingError(
                    f"{path} cannot be replayed: the decisions in it are those of the model behind "
                    f"`{head['backend']}`, which only its own weights can take again."
                )
            settings: TurnSettings = value_from_json(TurnSettings, head["settings"])
            steps = tuple(_step(record) for record in records)
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}."
        ) from error
    except (UnknownRecord, KeyError, TypeError) as error:
        raise RecordingError(f"{path} was recorded by another version of the gateway ({error}).") from error
    return Recording(head["session_id"], settings, steps)


def _records(lines: Iterator[str], path: Path) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            if not line.endswith("\n"):
                return  # the process died in the middle of it
            raise RecordingError(f"{path} is damaged in line {number}.") from None
        yield record


def _step(record: Mapping[str, Any]) -> Step:
    return Step(record["at"], input_from_json(record["in"]), tuple(record.get("ids", ())), tuple(record.get("out", ())))
