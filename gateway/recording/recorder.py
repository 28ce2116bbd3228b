"""Records one session at its owner's wish: all that the turn-taking machine was told and decided, and how it sounded.

A recording holds words and voices. It is off unless the operator names a folder for it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from gateway.recording.codec import to_json
from gateway.recording.disk import RecordingDisk
from gateway.recording.stereo import StereoMix
from gateway.turns.inputs import Input
from gateway.turns.response import Output
from gateway.turns.settings import TurnSettings
from protocol.audio_time import Samples
from protocol.backend_events import BackendEvent, OutputAudio, PlayoutCut, ResponseEnded, ResponseStarted
from protocol.ids import IdSource

logger = logging.getLogger(__name__)

FORMAT = "duplex-gateway recording"
VERSION = 1


class SessionRecorder:
    """The recorder of one session. All methods return at once; `close` ends it."""

    def __init__(self, disk: RecordingDisk, session_id: str, ids: IdSource, playout_delay: Samples) -> None:
        """Make a recorder that `begin` starts. The machine is to draw its ids from `new_id`."""
        self._disk = disk
        self._session_id = session_id
        self._ids = ids
        self._drawn: list[str] = []
        self._mix = StereoMix(playout_delay)
        self._running = True
        self._beside: set[str] = set()

    def begin(self, settings: TurnSettings) -> None:
        """Begin with the machine's first `settings`."""
        head = {"format": FORMAT, "version": VERSION, "session_id": self._session_id, "settings": to_json(settings)}
        self._put_line(head)

    def begin_unreplayable(self, backend: str) -> None:
        """Begin the recording of a session whose decisions are not our core's: it can be read and heard, no more."""
        self._put_line({"format": FORMAT, "version": VERSION, "session_id": self._session_id, "backend": backend})

    def told(self, output: object, now: Samples) -> None:
        """Record what such a backend said at `now` (gateway clock)."""
        if self._running:
            self._put_line({"at": now, "out": [to_json(output)]})

    def new_id(self, prefix: str) -> str:
        """Return a new id and remember it: a replay draws the same ones."""
        drawn = self._ids(prefix)
        if self._running:
            self._drawn.append(drawn)
        return drawn

    def tap(self, message: Input, now: Samples, outputs: Sequence[Output]) -> None:
        """Record what the machine was told at `now` (gateway clock), and what it answered."""
        if not self._running:
            return
        record: dict[str, Any] = {"at": now, "in": to_json(message)}
        if self._drawn:
            record["ids"], self._drawn = self._drawn, []
        if outputs:
            record["out"] = [to_json(output) for output in outputs]
        self._put_line(record)

    def user_audio(self, pcm: bytes, now: Samples) -> None:
        """Record PCM16 from the client that arrived by `now`."""
        if self._running:
            self._mix.user_audio(pcm, now)
            self._sound(now)

    def saw(self, event: BackendEvent, now: Samples) -> None:
        """Record what the user hears of the agent.

        Responses beside the conversation are left out, as the virtual player leaves them out: when a client plays them
        is its own affair.
        """
        match event:
            case ResponseStarted(response_id=response_id, out_of_band=True):
                self._beside.add(response_id)
            case ResponseEnded(response_id=response_id):
                self._beside.discard(response_id)
            case OutputAudio(item_id=item_id, pcm=pcm) if event.response_id not in self._beside and self._running:
                self._mix.agent_audio(item_id, pcm, now)
                self._sound(now)
            case PlayoutCut(item_id=item_id):
                self.cut(item_id, now)
            case _:
                pass

    def cut(self, item_id: str, now: Samples) -> None:
        """Record that no more of `item_id` is played from `now` on."""
        if self._running:
            self._mix.cut(item_id, now)

    def close(self, now: Samples) -> None:
        """Write the rest, if the recording goes on, and close its files."""
        for part in self._mix.rest(now) if self._running else ():
            self._put(part)
        self._running = False
        self._disk.put(self._session_id, None)

    def _sound(self, now: Samples) -> None:
        for part in self._mix.take(now):
            self._put(part)

    def _put_line(self, record: dict[str, Any]) -> None:
        self._put(json.dumps(record, ensure_ascii=False, separators=(",", ":")))

    def _put(self, part: str | bytes) -> None:
        if self._running and not self._disk.put(self._session_id, part):
            self._running = False
            logger.warning("session %s: the disk is too slow, its recording ends here", self._session_id)
