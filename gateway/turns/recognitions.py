"""The committed items whose words are awaited, and how the words of a last pause become those of its item."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.turns.actions import Transcribe, TranscribeItem
from gateway.turns.inputs import PauseTranscript, Transcript
from gateway.turns.pauses import Pause
from gateway.turns.response import Output
from gateway.turns.stable_transcript import StableTranscript, tokens_of
from protocol.audio_time import Samples
from protocol.backend_events import EngineFault, InputTranscriptCompleted, InputTranscriptDelta, InputTranscriptFailed


@dataclass(slots=True)
class _Recognition:
    """A committed item whose words have not been told yet."""

    deadline: Samples
    duration: Samples
    live: StableTranscript | None = None
    pause: Pause | None = None
    """The pause whose words are the item's."""
    instead: Transcribe | None = None
    """What to recognise if those words do not come."""


class Recognitions:
    """One session's. Deadlines are on the gateway clock."""

    def __init__(self) -> None:
        self._running: dict[str, _Recognition] = {}

    @property
    def item_ids(self) -> set[str]:
        """The items whose words are awaited: a new set, the caller's own."""
        return set(self._running)

    def __bool__(self) -> bool:
        """Whether any words are awaited."""
        return bool(self._running)

    def deadlines(self) -> list[Samples]:
        """Return until when the words of each item are awaited."""
        return [recognition.deadline for recognition in self._running.values()]

    def overdue(self, now: Samples) -> list[str]:
        """Return the items whose words have not come in time."""
        return [item_id for item_id, recognition in self._running.items() if now >= recognition.deadline]

    def needed_from(self, buffer_start: Samples) -> Samples:
        """Return the first position whose audio may still be asked for, the input buffer's start included."""
        again = [recognition.instead.start for recognition in self._running.values() if recognition.instead]
        return min([buffer_start, *again])

    # --- their beginning -------------------------------------------------------------------------------------------

    def begin(
        self,
        order: Transcribe,
        pause: Pause | None,
        live: StableTranscript | None,
        duration: Samples,
        deadline: Samples,
        out: list[Output],
    ) -> None:
        """Await the words of a new item: those of its last `pause`, or what `order` asks for if it has none.

        `live`: the words that were told while the user spoke. `duration`: of the item's audio.
        """
        recognition = _Recognition(deadline, duration, live, pause)
        self._running[order.item_id] = recognition
        if pause is None:
            out.append(order)
        else:
            recognition.instead = order

    def begin_given(self, item_id: str, duration: Samples, deadline: Samples, out: list[Output]) -> None:
        """Await the words of an item whose audio the client has put into the conversation itself."""
        self._running[item_id] = _Recognition(deadline, duration)
        out.append(TranscribeItem(item_id))

    # --- the words -------------------------------------------------------------------------------------------------

    def pause_transcribed(self, words: PauseTranscript) -> bool:
        """Take the words of a pause; return whether an item awaits just these."""
        recognition = self._running.get(words.item_id)
        if recognition is None or recognition.pause is None or recognition.pause.number != words.pause:
            return False
        recognition.pause.words = words
        return True

    def known_words(self, item_id: str, out: list[Output]) -> Transcript | None:
        """Return the item's words if its last pause's are known, else None; recognise it if they never will be."""
        recognition = self._running.get(item_id)
        if recognition is None or recognition.pause is None or recognition.pause.words is None:
            return None
        words = recognition.pause.words
        if words.text is not None:
            return Transcript(item_id, words.text, words.logprobs, words.language)
        assert recognition.instead is not None
        out.append(recognition.instead)
        recognition.pause = recognition.instead = None
        return None

    def transcribed(self, transcript: Transcript, out: list[Output]) -> str | None:
        """Tell an item's words and return them; None if nobody awaits them any more."""
        item_id, logprobs = transcript.item_id, transcript.logprobs
        recognition = self._running.pop(item_id, None)
        if recognition is None:
            return None
        live = recognition.live or StableTranscript()
        if delta := live.final(transcript.text):
            out.append(InputTranscriptDelta(item_id, delta, tokens_of(delta, logprobs)))
        out.append(InputTranscriptCompleted(item_id, live.told, recognition.duration, logprobs))
        return live.told

    def failed(self, item_id: str, fault: EngineFault, out: list[Output]) -> bool:
        """Tell that an item's words will never be known; return False if nobody awaits them any more."""
        if self._running.pop(item_id, None) is None:
            return False
        out.append(InputTranscriptFailed(item_id, fault))
        return True
