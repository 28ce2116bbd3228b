"""The user's side of a full-duplex conversation: items cut out of what they say, for the record.

The model hears everything, whatever is decided here. Items follow the VAD; a voice over the agent's becomes one once
the agent has given way or has ended, and none if it was but a nod. Words come from the model, half a second late, in
one endless text; of a short voice that the agent talked through they say whether it was a nod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.turns.duplex_observations import VoiceDropped, VoiceHeld
from gateway.turns.overlap_words import read_words
from gateway.turns.settings import MIN_COMMIT, Detection
from gateway.turns.speech_detector import Heard, SpeechDetector
from protocol.audio_time import Samples, samples_from_ms, samples_from_s
from protocol.backend_events import (
    BackendEvent,
    CommandRefused,
    EngineFault,
    InputCleared,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    RefusalKind,
    SpeechStarted,
    SpeechStopped,
)

WORDS_LATE: Samples = samples_from_ms(500)
"""So long after an item's end the model may still write words of it (chosen: six frames of 80 ms)."""

NOD: Samples = samples_from_s(1)
"""A voice over the agent's that is shorter than this and ends before the agent gives way is no turn (Full-Duplex-Bench
counts speech under a second as a backchannel), unless its words say more than a nod does."""

REACTION: Samples = samples_from_ms(80)
"""A model does not give way to a voice sooner than this after it began: it hears a frame of 80 ms at a time."""

LATE_ONSET: Samples = samples_from_ms(160)
"""The VAD may be sure of a voice so long after a model has heard it, as where it begins with a hiss (100 ms were seen;
chosen)."""

PAUSE: Samples = samples_from_ms(96)
"""A voice that has paused for so long may be over (chosen: three frames of the VAD, longer than the stops of most
consonants)."""

KEPT_VOICES = 16
"""Turns said over an agent that goes on and on; beyond these the oldest is dropped (chosen: minutes of overlap)."""

UNCLAIMED_CHARACTERS = 2_000
"""Words that the VAD heard nobody say wait for the next item; more than these drop their beginning (chosen)."""


UserOutput = BackendEvent | VoiceHeld | VoiceDropped


@dataclass(slots=True)
class _Item:
    item_id: str
    start: Samples
    told: bool
    onset: Samples = 0
    over: bool = False
    may_be_nod: bool = False
    """The agent has ended since, and this was short and had paused: if it does not go on, its words decide."""
    words: list[str] = field(default_factory=list)
    end: Samples = 0
    voiced_until: Samples = 0
    frames: int = 0
    echoes: int = 0
    """Voiced frames, and those of them that are the agent's own voice."""

    @property
    def is_echo(self) -> bool:
        """Whether the agent's own voice is most of it."""
        return self.over and not self.told and 2 * self.echoes > self.frames


class DuplexUser:
    """One session's. `heard_until`: how much input the VAD has seen."""

    def __init__(self, new_id: Callable[[str], str]) -> None:
        self.heard_until: Samples = 0
        self._new_id = new_id
        self._detector = SpeechDetector()
        self._item: _Item | None = None
        self._agent_speaks = False
        self._doubtful: _Item | None = None  # too short for a turn, if its words don't say that it is one
        self._kept: deque[_Item] = deque()  # turns over the agent's voice, to be told once that has ended
        self._written: deque[_Item] = deque()  # committed, some of their words may be missing
        self._unclaimed = ""
        self._committed_until: Samples = 0
        self._echo_until: Samples = -WORDS_LATE  # the agent's own voice, which is nobody's

    @property
    def speaks(self) -> bool:
        """Whether a voice is going on."""
        return self._item is not None

    @property
    def speaks_over(self) -> bool:
        """Whether a voice is going on that began over the agent's."""
        return self._item is not None and self._item.over and not self._item.may_be_nod

    def hear(
        self,
        until: Samples,
        probability: float,
        detection: Detection | None,
        out: list[UserOutput],
        *,
        echo: bool,
        hold: bool,
    ) -> None:
        """Take a VAD frame. `hold`: a voice that begins now is not told yet.

        `echo`: it is mostly the agent's own voice, with which no user's begins; amid a user's it is part of that.
        """
        self.heard_until = until
        if detection is None:
            return
        if self._item is None and echo:
            self._echo_until = until
            probability = 0.0
        if self._detector.feed(until, probability, detection.threshold) is Heard.ONSET:
            self._decide(out)
            start = max(self._detector.onset - detection.prefix_padding, self._committed_until, 0)
            self._item = _Item(
                self._new_id("item"), start, told=False, onset=self._detector.onset, over=self._agent_speaks
            )
            if self._unclaimed:  # the model was sure of a voice before the VAD was
                self._item.words.append(self._unclaimed)
                self._unclaimed = ""
            if hold:
                out.append(VoiceHeld(self._item.item_id, start))
            else:
                self.tell(out)
        item = self._item
        if item is not None and probability >= detection.threshold:
            item.frames += 1
            item.echoes += echo
            if item.may_be_nod:
                item.may_be_nod, item.over = False, self._agent_speaks
                if not (item.over and hold):
                    self.tell(out)
        if item is not None and until - self._detector.voiced_until >= detection.silence_duration:
            self._stop(self._detector.voiced_until + detection.silence_duration, out)

    def tell(self, out: list[UserOutput]) -> None:
        """Tell the client of the voice that is going on, and before it of the turns that were kept."""
        self.tell_kept(out)
        item = self._item
        if item is None or item.told:
            return
        self._tell_start(item, out)

    @staticmethod
    def _tell_start(item: _Item, out: list[UserOutput]) -> None:
        item.told = True
        out.append(SpeechStarted(item.item_id, item.start))
        if item.words:
            out.append(InputTranscriptDelta(item.item_id, "".join(item.words)))

    def agent_begins(self, out: list[UserOutput], behind: Samples = 0) -> None:
        """The agent takes the floor: a user who has paused is done. `behind`: how much it has not heard yet."""
        reached = self.heard_until - behind
        if self._doubtful is not None and self._doubtful.end <= reached:
            self._decide(out)
        voiced_until = self._detector.voiced_until
        if self._item is not None and self._item.told and voiced_until < self.heard_until and voiced_until <= reached:
            self._stop(self.heard_until, out)
        self._agent_speaks = True
        self.settle(out, behind)

    def agent_falls_silent(self, quiet: Samples, behind: Samples, *, finished: bool) -> None:
        """The agent, last heard `quiet` ago, is over: a voice that goes on counts as over it only if it may be why.

        One that began too late for that is a turn of its own; a short one that has paused may have been a nod. What the
        agent said is `finished` where its last sentence is: in mid-sentence it has been cut.
        """
        item, last_heard = self._item, self.heard_until - behind - quiet
        if item is None or not item.over or item.told:
            return
        voiced_until = self._detector.voiced_until
        if item.onset >= last_heard + (-REACTION if finished else LATE_ONSET):
            item.over = False
        elif (
            finished
            and self.heard_until - voiced_until >= PAUSE
            and voiced_until - item.onset < NOD
            and not _says_more(item)
        ):
            item.may_be_nod = True

    def drop_echo(self, out: list[UserOutput]) -> None:
        """Drop a voice that goes on and is the agent's own."""
        item = self._item
        if item is not None and item.is_echo:
            self._item, item.end = None, self.heard_until
            self._detector.reset()
            self._drop(item, out, echo=True)

    def agent_ends(self, out: list[UserOutput]) -> None:
        """What the agent was saying is over: a voice that goes on is over nothing any more, or was its echo."""
        self.drop_echo(out)
        self._agent_speaks = False
        if self._item is not None:
            self._item.over = self._item.may_be_nod

    def tell_held(self, out: list[UserOutput]) -> None:
        """Tell the client of all that was held back while the agent spoke, but for what may be a nod."""
        if self._item is not None and not self._item.may_be_nod:
            self.tell(out)
        else:
            self.tell_kept(out)

    def tell_kept(self, out: list[UserOutput]) -> None:
        """Tell the client of the turns that were said over the agent's voice, which has ended."""
        while self._kept:
            item = self._kept.popleft()
            self._tell_start(item, out)
            out.append(SpeechStopped(item.item_id, item.end))
            out.append(InputCommitted(item.item_id, item.start, item.end))
            self._written.append(item)

    def _stop(self, end: Samples, out: list[UserOutput]) -> None:
        item, self._item = self._item, None
        voiced_until = self._detector.voiced_until
        self._detector.reset()
        assert item is not None
        item.voiced_until = min(voiced_until, end)
        if not item.told and item.over:  # it was said into the agent's speech, which went on
            item.end = end
            if item.is_echo:
                self._drop(item, out, echo=True)
            elif voiced_until - item.onset < NOD:
                self._doubtful = item
            else:
                self._keep(item, out)
            return
        if not item.told:  # the agent was silenced meanwhile, by the client
            self._tell_start(item, out)
        out.append(SpeechStopped(item.item_id, end))
        self._commit(item, end, out)

    def _keep(self, item: _Item, out: list[UserOutput]) -> None:
        self._committed_until = item.end
        self._kept.append(item)
        if len(self._kept) > KEPT_VOICES:
            self._drop(self._kept.popleft(), out)

    def _decide(self, out: list[UserOutput]) -> None:
        """Drop a short voice over the agent's, unless its words ask the agent to stop or say something else."""
        item, self._doubtful = self._doubtful, None
        if item is None:
            return
        if not _says_more(item):
            self._drop(item, out)
            return
        self._keep(item, out)
        if not self._agent_speaks:
            self.tell_kept(out)

    @staticmethod
    def _drop(item: _Item, out: list[UserOutput], *, echo: bool = False) -> None:
        out.append(VoiceDropped(item.item_id, item.start, item.end, "".join(item.words).strip(), echo))

    def _commit(self, item: _Item, end: Samples, out: list[UserOutput]) -> None:
        item.end = self._committed_until = end
        item.voiced_until = item.voiced_until or end
        out.append(InputCommitted(item.item_id, item.start, end))
        if self._unclaimed:
            item.words.append(self._unclaimed)
            out.append(InputTranscriptDelta(item.item_id, self._unclaimed))
            self._unclaimed = ""
        self._written.append(item)

    # --- words -----------------------------------------------------------------------------------------------------

    def wrote(self, text: str, out: list[UserOutput], behind: Samples = 0) -> None:
        """The model has written more of what it hears, all but the last `behind` of what the VAD has.

        It belongs to the item that was going on there, or to the last one before.
        """
        reached = self.heard_until - behind
        newest = (self._item, self._doubtful, *reversed(self._kept), *reversed(self._written))
        item = next((item for item in newest if item and item.start <= reached), None)
        if item is None and self.heard_until - self._echo_until < WORDS_LATE:
            return  # the model hears itself
        if item is None:
            self._unclaimed = (self._unclaimed + text)[-UNCLAIMED_CHARACTERS:]
            return
        item.words.append(text)
        if item.told:
            out.append(InputTranscriptDelta(item.item_id, text))

    def settle(self, out: list[UserOutput], behind: Samples = 0) -> None:
        """Complete the transcripts to which nothing can be added any more.

        `behind`: how much of what the VAD has heard still waits for the model.
        """
        known_until = self.heard_until - behind - WORDS_LATE
        if self._doubtful is not None and self._doubtful.end <= known_until:
            self._decide(out)
        while self._written:  # an agent that speaks is done with listening to what it answers
            item = self._written[0]
            if (item.voiced_until if self._agent_speaks else item.end) > known_until:
                break
            self._complete(self._written.popleft(), out)

    def complete(self, out: list[UserOutput], fault: EngineFault | None = None) -> None:
        """Complete all transcripts of committed items; where none was begun and the model has failed, say so."""
        self._decide(out)
        while self._written:
            self._complete(self._written.popleft(), out, fault)

    @staticmethod
    def _complete(item: _Item, out: list[UserOutput], fault: EngineFault | None = None) -> None:
        words = "".join(item.words)
        if fault is None or words:
            out.append(InputTranscriptCompleted(item.item_id, words, item.end - item.start))
        else:
            out.append(InputTranscriptFailed(item.item_id, fault))

    # --- the client ------------------------------------------------------------------------------------------------

    def commit(self, client_event_id: str | None, detection: Detection | None, out: list[UserOutput]) -> None:
        """The client ends the user's turn by hand."""
        item, until = self._item, self.heard_until
        start = self._committed_until if item is None else item.start
        if until - start < MIN_COMMIT:
            buffered = max(0, until - start)
            out.append(CommandRefused(RefusalKind.INPUT_TOO_SHORT, client_event_id, buffered=buffered))
            return
        self.tell(out)
        if item is not None:
            self._stop(until, out)
        else:
            self._commit(_Item(self._new_id("item"), start, told=True), until, out)

    def clear(self, out: list[UserOutput]) -> None:
        """The client drops what is not committed; the model has heard it all the same."""
        self._item, self._doubtful, self._unclaimed = None, None, ""
        self._kept.clear()
        self._detector.reset()
        self._committed_until = self.heard_until
        out.append(InputCleared())


def _says_more(item: _Item) -> bool:
    """Whether its words are known to say more than a nod does."""
    said = read_words("".join(item.words))
    return said.stop or bool(said.content)
