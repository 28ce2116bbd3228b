"""The audio inside items that clients write (Realtime GA: `input_audio` content): kept, and recognised if wordless."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from protocol import errors
from protocol.audio_time import samples_from_bytes, samples_from_s
from protocol.input_pcm import decoded_base64
from protocol.items import HeardPart, Item, Message

LONGEST_PENDING_S = 300
"""Audio of items that may wait for its transcript in one session, in seconds (chosen: as much as one turn may hold)."""

MOST_PENDING = 64
"""Recordings of items that may wait for their transcripts in one session (chosen): each costs the recogniser a call,
however short it is."""

DecodeAudio = Callable[[bytes, str], bytes]
"""Makes a recording, found at the path given, the session's PCM16. Raises ProtocolError for what it will not read."""


@dataclass(frozen=True, slots=True)
class GivenAudio:
    """The audio of one item: PCM16, mono, 24 kHz. `wordless`: it came without a transcript and is to be recognised."""

    message: Message
    pcm: bytes
    wordless: bool


def given_audio(item: Item, raw: dict[str, Any], path: str, decode: DecodeAudio) -> GivenAudio | None:
    """Return the audio that the client wrote into `item` (its wire form is `raw`, at `path`), or None if there is none.

    Notes the audio's duration in the item. Raises ProtocolError for audio that cannot be read, and for two recordings
    to be recognised in one item.
    """
    if not isinstance(item, Message):
        return None
    found: GivenAudio | None = None
    for index, (part, entry) in enumerate(zip(item.parts, raw["content"], strict=True)):
        if not isinstance(part, HeardPart) or entry.get("audio") is None:
            continue
        param = f"{path}.content[{index}].audio"
        pcm = decode(decoded_base64(entry["audio"], param), param)
        part.duration = samples_from_bytes(len(pcm))
        wordless = part.transcript is None
        if found is not None and found.wordless and wordless:
            raise errors.several_audio_parts(param)
        if found is None or wordless:
            found = GivenAudio(item, pcm, wordless)
    return found


class PendingAudio:
    """The items whose audio the recogniser has not answered for yet, by the id that it knows them by.

    Items of a response's own input are not the conversation's, and their transcripts are told to nobody.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, GivenAudio] = {}
        self._private: set[str] = set()

    def check(self, given: Iterable[GivenAudio], param: str) -> None:
        """Raise ProtocolError if these and what waits would be over MOST_PENDING or over LONGEST_PENDING_S in all."""
        waiting = [audio for audio in (*self._waiting.values(), *given) if audio.wordless]
        if len(waiting) > MOST_PENDING:
            raise errors.too_many_audio_items(param, MOST_PENDING)
        if samples_from_bytes(sum(len(audio.pcm) for audio in waiting)) > samples_from_s(LONGEST_PENDING_S):
            raise errors.too_much_item_audio(param, LONGEST_PENDING_S)

    def add(self, recognition_id: str, given: GivenAudio, *, private: bool) -> None:
        """Take one more item. `private`: it is part of a response's own input."""
        self._waiting[recognition_id] = given
        if private:
            self._private.add(recognition_id)

    def is_private(self, recognition_id: str) -> bool:
        """Return whether nobody is to be told this transcript."""
        return recognition_id in self._private

    def answered(self, recognition_id: str, transcript: str) -> None:
        """Take the recogniser's answer, "" if it failed; nothing if no item of that id waits."""
        given = self._waiting.pop(recognition_id, None)
        self._private.discard(recognition_id)
        for part in given.message.parts if given is not None else ():
            if isinstance(part, HeardPart) and part.transcript is None:
                part.transcript = transcript
