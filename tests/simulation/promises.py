"""What any backend promises (protocol/backend_events.py), checked event by event while a test runs."""

from __future__ import annotations

from collections import Counter

from gateway.turns.actions import (
    Generate,
    JudgeSound,
    JudgeWords,
    StopGenerating,
    StopResponse,
    StopTranscribing,
    Synthesize,
    Transcribe,
    TranscribeItem,
    TranscribePartial,
    TranscribePause,
)
from gateway.turns.end_of_turn import AGENT_WORDS, SOUND_LONGEST
from gateway.turns.observations import PauseJudged, PauseVerdict, Speculated, SpeculationFate
from gateway.turns.response import Output
from protocol.audio_time import Samples, samples_from_bytes
from protocol.backend_events import (
    CommandRefused,
    ContextForeseen,
    ContextRequested,
    EndReason,
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)


class Promises:
    """Raises AssertionError at the first output that breaks a promise."""

    def __init__(self) -> None:
        self.open_response: str | None = None
        self.open_beside: set[str] = set()
        self.responses: set[str] = set()
        self.speaking: SpeechStarted | None = None
        self.committed_until: Samples = 0
        self.stopped: SpeechStopped | None = None
        self.timed_out: InputTimedOut | None = None
        self.unannounced = ""
        self.finds_turns = True
        self.given: set[str] = set()
        self.commits: dict[str, InputCommitted] = {}
        self.transcribed: set[str] = set()
        self.deltas: dict[str, str] = {}
        self.sent: Counter[str] = Counter()
        self.text: dict[str, str] = {}
        self.marks: dict[str, tuple[int, Samples]] = {}
        self.items_of: dict[str, str] = {}
        self.ended_items: set[str] = set()
        self.asked_to_transcribe: set[str] = set()
        self.recognising_pause: tuple[str, int] | None = None
        self.pauses: dict[str, TranscribePause] = {}
        self.generating: set[str] = set()
        self.chunks: Counter[str] = Counter()
        self.speculating: str | None = None
        self.speculations: Counter[str] = Counter()
        self.adopted: set[str] = set()

    def vad_switched_off(self) -> None:
        """The client takes turn detection over: running speech will be committed under the id that was announced."""
        if self.speaking is not None:
            self.unannounced = self.speaking.item_id
        self.speaking = None
        self.finds_turns = False

    def vad_switched_on(self) -> None:
        """The client gives turn detection back: what the VAD did not hear begin is forgotten."""
        self.unannounced = ""
        self.finds_turns = True

    def item_audio(self, item_id: str) -> None:
        """The client gave the audio of an item."""
        self.given.add(item_id)

    def pause_answered(self, item_id: str, pause: int) -> None:
        """The recogniser answers about a pause."""
        if self.recognising_pause == (item_id, pause):
            self.recognising_pause = None

    def is_open(self, response_id: str) -> bool:
        return response_id == self.open_response or response_id in self.open_beside

    def see(self, output: Output) -> None:
        """Check the next output of the session's one ordered stream."""
        match output:
            case SpeechStarted(start=start):
                assert self.speaking is None, "speech started twice"
                assert start >= self.committed_until, "the new turn reaches into a committed one"
                self.speaking = output
            case SpeechStopped(item_id=item_id, end=end):
                assert self.speaking is not None, "speech stopped that never started"
                assert item_id == self.speaking.item_id, "speech stopped under another item"
                assert self.speaking.start <= end, "speech stopped before it started"
                self.stopped = output
            case InputTimedOut():
                assert self.speaking is None, "the user speaks"
                assert self.open_response is None, "the agent is at work"
                self.timed_out = output
            case InputCommitted(item_id=item_id, start=start, end=end):
                if self.timed_out is not None:
                    silence = (self.timed_out.item_id, self.timed_out.start, self.timed_out.end)
                    assert (item_id, start, end) == silence, "another silence is committed than was told"
                if self.unannounced:
                    assert item_id == self.unannounced, "not the item of the interim transcript or of speech_started"
                assert self.committed_until <= start <= end, "commits overlap or run backwards"
                assert item_id not in self.commits, "one item committed twice"
                if self.speaking is not None:
                    assert (item_id, start) == (self.speaking.item_id, self.speaking.start), "not the announced item"
                if self.stopped is not None:
                    assert (item_id, end) == (self.stopped.item_id, self.stopped.end), "stop and commit disagree"
                self.commits[item_id] = output
                self.committed_until = end
                self.speaking = self.stopped = self.timed_out = None
                self.unannounced = ""
            case InputCleared():
                self.speaking = None
                self.unannounced = ""
            case InputTranscriptDelta(item_id=item_id, delta=delta):
                announced = self.speaking is not None and self.speaking.item_id == item_id
                known = announced or item_id == self.unannounced or item_id in self.commits or item_id in self.given
                assert known, "a transcript of nothing"
                assert item_id not in self.transcribed, "a delta after the transcript's end"
                assert delta, "an empty delta"
                self.deltas[item_id] = self.deltas.get(item_id, "") + delta
            case InputTranscriptCompleted(item_id=item_id, transcript=transcript, duration=duration):
                self._transcript_ends(item_id)
                assert transcript == self.deltas.get(item_id, ""), "the deltas do not add up"
                if item_id not in self.given:
                    commit = self.commits[item_id]
                    assert duration == commit.end - commit.start, "wrong duration"
            case InputTranscriptFailed(item_id=item_id):
                self._transcript_ends(item_id)
            case ResponseStarted(response_id=response_id, out_of_band=out_of_band):
                assert response_id not in self.responses, "one response started twice"
                self.responses.add(response_id)
                if out_of_band:
                    self.open_beside.add(response_id)
                else:
                    assert self.open_response is None, "two responses of the conversation at once"
                    self.open_response = response_id
            case ResponseEnded(response_id=response_id, status=status, heard=heard, reason=reason, fault=fault):
                assert self.is_open(response_id), "a response ended that is not open"
                sent = sum(n for item, n in self.sent.items() if self.items_of[item] == response_id)
                assert 0 <= heard <= sent, "heard more than was sent"
                assert (fault is not None) == (status is EndStatus.FAILED)
                assert (reason is not None) == (status in (EndStatus.CANCELLED, EndStatus.INCOMPLETE))
                if status is EndStatus.CANCELLED:
                    assert reason in (EndReason.TURN_DETECTED, EndReason.CLIENT_CANCELLED)
                    beside = response_id in self.open_beside
                    assert not beside or reason is EndReason.CLIENT_CANCELLED, "speech interrupted another response"
                if status in (EndStatus.COMPLETED, EndStatus.INCOMPLETE):
                    items = {item for item, owner in self.items_of.items() if owner == response_id}
                    assert items <= self.ended_items, "a whole response with an item left open"
                if response_id == self.open_response:
                    self.open_response = None
                self.open_beside.discard(response_id)
            case PlayoutCut(item_id=item_id, heard=heard):
                assert 0 <= heard <= self.sent[item_id], "heard more than was sent"
            case ContextRequested(response_id=response_id):
                assert self.is_open(response_id)
            case Generate(response_id=response_id):
                assert self.is_open(response_id) or response_id == self.speculating, "nobody wants it"
                assert response_id not in self.generating, "generated twice"
                assert response_id not in self.adopted, "it has what it adopted"
                self.generating.add(response_id)
            case ContextForeseen(speculation_id=speculation_id):
                assert speculation_id == self.speculating, "a context for no speculation"
            case Speculated():
                self._speculated(output)
            case OutputTextDelta(response_id=response_id, item_id=item_id, delta=delta):
                self._output(response_id, item_id)
                assert delta, "an empty delta"
                self.text[item_id] = self.text.get(item_id, "") + delta
            case OutputAudio(response_id=response_id, item_id=item_id, pcm=pcm):
                self._output(response_id, item_id)
                assert pcm, "an empty piece of audio"
                assert len(pcm) % 2 == 0, "half a sample"
                self.sent[item_id] += samples_from_bytes(len(pcm))
            case OutputSpoken(response_id=response_id, item_id=item_id, text_end=text_end, audio_end=audio_end):
                self._output(response_id, item_id)
                before = self.marks.get(item_id, (0, 0))
                assert before[0] <= text_end <= len(self.text[item_id]), "a mark runs backwards or past the text"
                assert before[1] <= audio_end, "a mark runs backwards"
                self.marks[item_id] = (text_end, audio_end)
            case FunctionCallStarted(response_id=response_id, item_id=item_id):
                assert item_id not in self.items_of, "one call started twice"
                self._output(response_id, item_id)
            case FunctionCallArgumentsDelta(response_id=response_id, item_id=item_id):
                assert item_id in self.items_of, "arguments of no call"
                self._output(response_id, item_id)
            case OutputItemEnded(response_id=response_id, item_id=item_id):
                assert item_id in self.items_of, "an item ended that never began"
                self._output(response_id, item_id)
                self.ended_items.add(item_id)
            case Transcribe(item_id=item_id, start=start, end=end):
                assert item_id not in self.asked_to_transcribe, "one item recognised twice"
                self.asked_to_transcribe.add(item_id)
                commit = self.commits[item_id]
                assert commit.start == start, "another stretch is recognised than was committed"
                assert start < end <= commit.end, "another stretch is recognised than was committed"
            case TranscribePause(item_id=item_id, pause=pause, start=start, end=end):
                assert self.speaking is not None, "a pause of nobody"
                assert (item_id, start) == (self.speaking.item_id, self.speaking.start), "another's pause"
                running = self.recognising_pause
                assert running is None or running[0] in self.commits, "two pauses recognised at a time"
                before = self.pauses.get(item_id)
                assert before is None or (before.pause < pause and before.end < end), "pauses run backwards"
                assert start < end, "a pause after nothing"
                self.recognising_pause = item_id, pause
                self.pauses[item_id] = output
            case StopTranscribing(item_id=item_id, pause=pause):
                assert self.recognising_pause == (item_id, pause), "nothing to stop"
                self.recognising_pause = None
            case TranscribeItem(item_id=item_id):
                assert item_id in self.given, "nobody gave this audio"
            case TranscribePartial(item_id=item_id, start=start, end=end):
                if self.speaking is not None:
                    assert (item_id, start) == (self.speaking.item_id, self.speaking.start), "a look at something else"
                elif not self.finds_turns:  # else it is one at an overlap of which nobody was told
                    assert self.unannounced in ("", item_id), "a look at something else"
                    self.unannounced = item_id
                assert self.committed_until <= start < end, "a look at nothing"
            case JudgeSound(item_id=item_id, start=start, end=end):
                assert self.speaking is not None, "a judge is asked about nobody"
                assert item_id == self.speaking.item_id, "a judge is asked about another utterance"
                assert self.speaking.start <= start < end, "a judge is asked about nothing"
                assert end - start <= SOUND_LONGEST, "a judge is asked about too much"
            case JudgeWords(item_id=item_id, pause=pause, text=text, agent_text=agent_text):
                asked = self.pauses[item_id]
                assert pause == asked.pause, "words of another pause"
                assert self.speaking is not None, "a judge is asked about nobody"
                assert item_id == self.speaking.item_id, "a judge is asked about another utterance"
                assert any(map(str.isalnum, text)), "a judge is asked about no words"
                assert len(agent_text) <= AGENT_WORDS
            case PauseJudged(verdict=verdict, complete=complete, threshold=threshold):
                assert self.speaking is not None, "a pause of nobody"
                assert complete is None or 0 <= complete <= 1
                assert threshold is None or 0 <= threshold <= 1
                assert verdict is not PauseVerdict.HOLD or complete is not None, "held for no reason"
            case Synthesize(response_id=response_id, chunk=chunk, text=text, first=first):
                assert self.is_open(response_id)
                assert chunk == self.chunks[response_id], "chunks out of order"
                assert first == (chunk == 0)
                assert any(map(str.isalnum, text)), "nothing to say"
                self.chunks[response_id] += 1
            case StopGenerating(response_id=response_id):
                assert response_id in self.generating, "stopped before it began"
            case StopResponse(response_id=response_id):
                assert response_id in self.responses
                assert not self.is_open(response_id), "stopped before its end was told"
            case CommandRefused():
                pass

    def _speculated(self, seen: Speculated) -> None:
        match seen.fate:
            case SpeculationFate.STARTED:
                assert self.speculating is None, "two speculations at a time"
                assert self.speaking is not None, "nobody speaks"
                assert seen.item_id == self.speaking.item_id, "an answer to nobody"
                assert self.open_response is None, "an answer is being given"
                self.speculations[seen.item_id] += 1
                assert self.speculations[seen.item_id] <= 3, "too many starts in a turn"
                self.speculating = seen.speculation_id
                return
            case SpeculationFate.ADOPTED:
                assert seen.item_id in self.transcribed, "adopted before the words are final"
                assert seen.response_id == self.open_response, "adopted by another response"
                assert seen.response_id not in self.generating, "adopted beside its own"
                self.adopted.add(seen.response_id)
            case SpeculationFate.DROPPED:
                assert seen.reason is not None
        assert seen.speculation_id == self.speculating, "the fate of what does not run"
        self.speculating = None

    def _transcript_ends(self, item_id: str) -> None:
        assert item_id in self.commits or item_id in self.given, "a transcript of nothing"
        assert item_id not in self.transcribed, "two transcripts of one item"
        self.transcribed.add(item_id)

    def _output(self, response_id: str, item_id: str) -> None:
        assert self.is_open(response_id), "output of a response that is not open"
        assert self.items_of.setdefault(item_id, response_id) == response_id, "an item of another response"
        assert item_id not in self.ended_items, "an item goes on after its end"
