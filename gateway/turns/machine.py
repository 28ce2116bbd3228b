"""The turn-taking machine: told what happened, it answers with one ordered list of what follows.

Pure and synchronous: time is an argument (`now`, gateway clock, in samples), ids are injected. Everything asynchronous
only carries.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.turns.actions import Transcribe
from gateway.turns.agent_turn import AgentTurn
from gateway.turns.idle_prompt import IdlePrompt
from gateway.turns.inputs import (
    AudioReceived,
    CancelRequested,
    ClearRequested,
    CommitRequested,
    ContextProvided,
    HeardByClient,
    Input,
    InputStalled,
    ItemAudioGiven,
    Judged,
    PartialTranscript,
    PauseTranscript,
    ResponseRequested,
    SettingsChanged,
    SpeechProbability,
    Tick,
    Transcript,
    TranscriptFailed,
)
from gateway.turns.live_transcript import LiveTranscript
from gateway.turns.observations import DropReason, LanguagesKnown
from gateway.turns.out_of_band import OutOfBandResponses
from gateway.turns.overlap_watch import OverlapWatch
from gateway.turns.pauses import Pauses
from gateway.turns.playout import Heard as HeardOfItem
from gateway.turns.playout import VirtualPlayer
from gateway.turns.recognitions import Recognitions
from gateway.turns.response import Output, ResponseInput
from gateway.turns.settings import MIN_COMMIT, TRANSCRIPT_TIMEOUT, Detection, TurnSettings
from gateway.turns.speculation import Speculation
from gateway.turns.speculation_watch import SpeculationWatch
from gateway.turns.speech_detector import Heard
from gateway.turns.spoken_languages import SpokenLanguages
from gateway.turns.stable_transcript import has_words
from gateway.turns.states import Agent, User
from gateway.turns.turn_ends import TurnEnd, TurnEnds
from gateway.turns.user_turn import ASR_TAIL, UserTurn
from protocol.audio_time import Samples
from protocol.backend_events import (
    CommandRefused,
    EngineFault,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    RefusalKind,
    SpeechStarted,
    SpeechStopped,
)


class TurnMachine:
    """One session's turn-taking.

    Feed it with `receive`, perform what it returns in that order, and call it again by `next_deadline`.
    """

    def __init__(self, settings: TurnSettings, new_id: Callable[[str], str]) -> None:
        self.settings = settings
        self._new_id = new_id
        self._user = UserTurn()
        self._player = VirtualPlayer(settings.playout_delay)
        self._live = LiveTranscript()
        self._pauses = Pauses()
        self._turn_ends = TurnEnds(self._user, self._pauses)
        self._recognitions = Recognitions()
        self._languages = SpokenLanguages(settings)
        self._told_languages = ("", "")
        self._overlaps = OverlapWatch(self._user, self._player, self._languages)
        self._idle = IdlePrompt(self._user, self._recognitions)
        self._agent = AgentTurn(
            settings,
            new_id,
            self._player,
            self._recognitions,
            self._pauses,
            self._overlaps,
            self._idle,
            self._languages,
        )
        self._out_of_band = OutOfBandResponses(new_id, self._languages)
        self._speculation = Speculation(new_id)
        self._foresight = SpeculationWatch(self._speculation, self._user, self._agent, self._recognitions)

    # --- what the shell may ask ------------------------------------------------------------------------------------

    @property
    def user(self) -> User:
        """What the user does."""
        return self._user.state

    @property
    def agent(self) -> Agent:
        """What the agent does."""
        return self._agent.state

    @property
    def active_response(self) -> str | None:
        """The id of the conversation's running response, or None."""
        return self._agent.response_id

    def runs(self, response_id: str) -> bool:
        """Return whether a response of that id runs, in the conversation or beside it, or a speculation."""
        known = response_id == self.active_response or response_id in self._out_of_band
        return known or response_id == self.speculation

    @property
    def speculation(self) -> str | None:
        """The id of the answer that is being written before its turn is over, or None."""
        return self._speculation.speculation_id

    @property
    def holds_overlap(self) -> bool:
        """Whether the user's voice over the agent's is held until it is judged: nobody was told of it."""
        return self._overlaps.holds

    @property
    def user_language(self) -> str:
        """What the user speaks, as a primary subtag (BCP 47); "" if nobody knows."""
        return self._languages.user

    @property
    def received(self) -> Samples:
        """Input samples so far: the input clock."""
        return self._user.clock.received

    @property
    def needed_from(self) -> Samples:
        """Input before this position will never be asked for again."""
        return self._recognitions.needed_from(self._user.buffer_start)

    @property
    def playout_delay(self) -> Samples:
        """The playout delay as learned so far."""
        return self._player.delay

    @property
    def speech_queue(self) -> list[tuple[int, str]]:
        """What the running response has ready for the synthesiser: each chunk's number and text."""
        return [] if self._agent.response is None else self._agent.response.speech_queue

    def playing(self, now: Samples) -> HeardOfItem | None:
        """Return the item that plays at `now` and how much of it has been heard; None in silence."""
        return self._player.playing(now)

    def next_deadline(self, now: Samples) -> Samples | None:
        """Return when the machine wants to be called even if nothing happens (gateway clock), or None."""
        detection = self.settings.detection
        due = [*self._recognitions.deadlines(), *self._overlaps.deadlines(now)]
        others = [
            self._agent.deadline(now),
            self._out_of_band.deadline(now),
            self._speculation.deadline,
            self._idle.deadline(detection),
        ]
        if detection is not None and not self._overlaps.holds:
            others += [self._user.stall_deadline(self._pauses.next_needed(self.settings)), self._pauses.deadline]
        due += [at for at in others if at is not None]
        return min(due) if due else None

    def silent_for(self, now: Samples) -> Samples:
        """Return how long input has been due (gateway clock): the duration for InputStalled."""
        return self._user.clock.silent_for(now)

    # --- the one way in --------------------------------------------------------------------------------------------

    def receive(self, message: Input, now: Samples) -> list[Output]:
        """Return what follows from `message` at time `now`, in order: events for the session, actions for the shell."""
        out: list[Output] = []
        self._settle(now, out)
        match message:
            case SpeechProbability():
                self._hear(message, now, out)
            case AudioReceived(samples=samples):
                self._user.append(samples, now, self.settings.detection)
            case PartialTranscript(item_id=item_id, text=text):
                self._partial(item_id, text, now, out)
            case Transcript():
                self._transcribed(message, now, out)
            case TranscriptFailed(item_id=item_id, fault=fault):
                self._not_transcribed(item_id, fault, now, out)
            case InputStalled(duration=duration):
                self._stalled(duration, now, out)
            case CommitRequested(client_event_id=client_event_id):
                self._commit_by_hand(client_event_id, now, out)
            case ClearRequested():
                self._overlaps.drop()
                self._forget_speech(out)
                self._user.drop()
                out.append(InputCleared())
            case ResponseRequested():
                self._response_requested(message, now, out)
            case ItemAudioGiven(item_id=item_id, duration=duration):
                deadline = now + self.settings.deadlines.transcript
                self._recognitions.begin_given(item_id, duration, deadline, out)
            case CancelRequested():
                self._cancel_requested(message, now, out)
            case HeardByClient(item_id=item_id, heard=heard):
                self._player.correct(item_id, heard, now)
            case SettingsChanged(settings=settings):
                self._change_settings(settings, now, out)
                self._speculation.drop(DropReason.CONTEXT_CHANGED, out)
            case PauseTranscript():
                self._pause_transcribed(message, now, out)
            case Judged():
                if self._pauses.judged(message, self._user.silence(now), self.settings):
                    self._pause_weighed(now, out)
            case Tick():
                pass
            case _:  # what is left is a ResponseInput, says the type checker
                self._work_done(message, now, out)
        self._agent.settle_playout(now)
        self._foresight.check(out)
        self._tell_languages(out)
        return out

    def _tell_languages(self, out: list[Output]) -> None:
        """Tell of the languages where they are not what was told before."""
        known = (self._languages.user, self._languages.reply)
        if known != self._told_languages:
            self._told_languages = known
            out.append(LanguagesKnown(*known, self._languages.detected))

    def _work_done(self, message: ResponseInput, now: Samples, out: list[Output]) -> None:
        """Hand on what was done for a response. The one spot where late work is dropped: nobody has its id any more."""
        response = self._agent.response
        if response is not None and message.response_id in (response.response_id, response.generation_id):
            if isinstance(message, ContextProvided):
                self._foresight.context_provided(response, message, now, out)
            else:
                response.receive(message, now, out)
            self._agent.follow_response(now, out)
        elif message.response_id == self.speculation:
            self._speculation.receive(message, now, self.settings.deadlines, out)
        else:
            self._out_of_band.receive(message, now, out)

    def _change_settings(self, settings: TurnSettings, now: Samples, out: list[Output]) -> None:
        before, after = self.settings.detection, settings.detection
        if before is not None and after is None and self._overlaps.holds:
            self._overlaps.drop()
            self._user.forget_speech()
        elif before is not None and after is None:
            self._pauses.end(out)
            self._user.leave_to_hand()
        elif before is None and after is not None:
            self._forget_speech(out)
            self._user.forget_speech()
        self.settings = self._agent.settings = settings
        self._languages.change(settings)
        self._pauses.reconsider(self._user.silence(now), settings)

    def _forget_speech(self, out: list[Output]) -> None:
        self._live.end()
        self._pauses.end(out)

    def _settle(self, now: Samples, out: list[Output]) -> None:
        """Let time pass up to `now`: deadlines, pacing, the end of playout."""
        for item_id in self._recognitions.overdue(now):
            self._not_transcribed(item_id, TRANSCRIPT_TIMEOUT, now, out)
        self._agent.settle(now, out)
        self._out_of_band.settle(now, out)
        self._speculation.settle(now, out)
        self._agent.settle_playout(now)
        if (deadline := self._pauses.deadline) is not None and now >= deadline:
            self._pauses.give_up(self._user.silence(now), self.settings)
            self._pause_weighed(now, out)
        self._decide_overlap(now, out)
        if (deadline := self._idle.deadline(self.settings.detection)) is not None and now >= deadline:
            self._prompt_the_user(now, out)

    # --- the user --------------------------------------------------------------------------------------------------

    def _hear(self, frame: SpeechProbability, now: Samples, out: list[Output]) -> None:
        detection = self.settings.detection
        probability = frame.probability if detection is None else self._overlaps.hear(frame, detection, out)
        change = self._user.hear(frame.until, probability, detection)
        if detection is None:
            self._hear_by_hand(frame.until, out)
            return
        if change is Heard.ONSET:
            self._speech_started(detection, now, out)
        if self._overlaps.holds and not self._decide_overlap(now, out):
            if (look := self._overlaps.look()) is not None:
                out.append(look)
            return
        if change is not Heard.ONSET:
            silent = self.agent is not Agent.SPEAKING
            end = self._turn_ends.at_frame(frame.until, now, self.settings, out, agent_silent=silent)
            if end is not None:
                self._speech_stopped(end, now, out)
                return
        self._look(frame.until, out)

    def _pause_weighed(self, now: Samples, out: list[Output]) -> None:
        """More is known about the pause that lasts than before: end the turn, or tell why not."""
        if (end := self._turn_ends.when_weighed(now, self.settings, out)) is not None:
            self._speech_stopped(end, now, out)
            return
        pause = self._pauses.current
        if pause is not None and (text := self._pauses.believable(self.settings)) is not None:
            self._foresight.begin(pause.item_id, self._live.foretell(text), now, self.settings, out)

    def _hear_by_hand(self, until: Samples, out: list[Output]) -> None:
        """Follow an utterance whose beginning nobody announces, if somebody reads along."""
        user = self._user
        if not self.settings.live_transcript:
            return
        if not user.item_id and user.holds_speech():
            user.begin_unannounced(self._new_id("item"), until)
            self._live.begin(user.item_id, user.start, until)
        self._look(until, out)

    def _look(self, until: Samples, out: list[Output]) -> None:
        look = self._live.look(until)
        if look is not None:
            out.append(look)

    def _speech_started(self, detection: Detection, now: Samples, out: list[Output]) -> None:
        self._user.begin(self._new_id("item"), detection)
        if not self._overlaps.begins(detection, now, out, speaks_on=self._agent.speaks_on):
            self._announce_speech(detection, now, out)

    def _decide_overlap(self, now: Samples, out: list[Output]) -> bool:
        """Judge the voice over the agent's that is held, if any; return whether it has become the user's turn."""
        detection = self.settings.detection
        if detection is None or not self._overlaps.decide(now, out, speaks_on=self._agent.speaks_on):
            return False
        self._announce_speech(detection, now, out)
        return True

    def _announce_speech(self, detection: Detection, now: Samples, out: list[Output]) -> None:
        live = self.agent is not Agent.SPEAKING and not self._user.clock.is_recorded(self._user.onset)
        self._pauses.begin(self._user.item_id, self._user.start, self._user.onset, live=live)
        out.append(SpeechStarted(self._user.item_id, self._user.start))
        self._idle.user_spoke()
        if self.settings.live_transcript:
            self._live.begin(self._user.item_id, self._user.start, self._user.onset)
        if detection.interrupt_response and self._agent.spoken_over(self._user):
            self._agent.barge_in(now, out)
        self._pauses.prepare(self._agent.last_words(), self.settings, out)

    def _speech_stopped(self, end: TurnEnd, now: Samples, out: list[Output]) -> None:
        """The turn is over, as the VAD and the judges see it."""
        detection, item_id, voiced_until = self.settings.detection, self._user.item_id, self._user.voiced_until
        assert detection is not None
        enough = end.silence >= end.needed
        out.append(self._pauses.committed(item_id, voiced_until, end.silence, enough, detection))
        out.append(SpeechStopped(item_id, end.position))
        self._commit(item_id, self._user.start, end.position, now, out, spoken_until=voiced_until)
        if detection.create_response:
            response_id = self._agent.answer_or_queue(item_id, now, out, burst=self._user.clock.is_burst)
            if response_id is not None:
                self._speculation.committed(item_id, response_id)
        self._tell_known_words(item_id, now, out)

    def _stalled(self, duration: Samples, now: Samples, out: list[Output]) -> None:
        if self.settings.detection is None or self._overlaps.holds:
            return  # of a held overlap nobody was told; the watch knows what silence is
        if (end := self._turn_ends.at_stall(duration, now, self.settings, out)) is not None:
            self._speech_stopped(end, now, out)

    def _commit_by_hand(self, client_event_id: str | None, now: Samples, out: list[Output]) -> None:
        user = self._user
        start = user.start if user.item_id and self.settings.detection is not None else user.buffer_start
        buffered = user.clock.received - start
        if buffered < MIN_COMMIT:
            out.append(CommandRefused(RefusalKind.INPUT_TOO_SHORT, client_event_id, buffered=buffered))
            return
        spoken_until = user.clock.received if user.item_id or user.holds_speech() else None
        item_id = user.item_id or self._new_id("item")
        self._overlaps.drop()
        self._commit(item_id, start, user.clock.received, now, out, spoken_until=spoken_until)
        self._tell_known_words(item_id, now, out)

    def _commit(
        self,
        item_id: str,
        start: Samples,
        end: Samples,
        now: Samples,
        out: list[Output],
        *,
        spoken_until: Samples | None,
    ) -> None:
        """Make [start, end) the item `item_id` and have it recognised, unless there is no speech in it at all."""
        self._user.take(end)
        out.append(InputCommitted(item_id, start, end))
        if spoken_until is None:
            # A recogniser invents words on silence and noise, so it never sees them.
            out.append(InputTranscriptCompleted(item_id, "", end - start))
            return
        deadline = now + self.settings.deadlines.transcript
        order = Transcribe(item_id, start, min(end, spoken_until + ASR_TAIL))
        live, pause = self._live.end(), self._pauses.end(out, order)
        self._recognitions.begin(order, pause, live, end - start, deadline, out)

    # --- the user's words ------------------------------------------------------------------------------------------

    def _pause_transcribed(self, words: PauseTranscript, now: Samples, out: list[Output]) -> None:
        """Take the words of a pause, which has become an item by now, or lasts, or is over: then they are late."""
        self._languages.heard(words.language, words.text or "")
        if self._recognitions.pause_transcribed(words):
            self._tell_known_words(words.item_id, now, out)
        elif self._pauses.transcribed(words, self._user.silence(now), self.settings, self._agent.last_words(), out):
            self._pause_weighed(now, out)

    def _tell_known_words(self, item_id: str, now: Samples, out: list[Output]) -> None:
        """Tell the words of a new item if its last pause's are known; recognise it if they never will be."""
        if (words := self._recognitions.known_words(item_id, out)) is not None:
            self._transcribed(words, now, out)

    def _partial(self, item_id: str, text: str | None, now: Samples, out: list[Output]) -> None:
        if self._overlaps.saw(item_id, text):
            self._decide_overlap(now, out)
            return
        if delta := self._live.saw(item_id, text):
            out.append(InputTranscriptDelta(item_id, delta))

    def _transcribed(self, transcript: Transcript, now: Samples, out: list[Output]) -> None:
        item_id = transcript.item_id
        self._languages.heard(transcript.language, transcript.text)
        words = self._recognitions.transcribed(transcript, out)
        if words is None:
            return
        if item_id == self._speculation.item_id:
            self._speculation.heard(item_id, words, out)
        self._agent.understood(item_id, words=has_words(words))
        self._out_of_band.transcript_arrived(item_id, self._agent.turns_with_words, out)
        self._agent.transcript_arrived(item_id, now, out)

    def _not_transcribed(self, item_id: str, fault: EngineFault, now: Samples, out: list[Output]) -> None:
        if self._recognitions.failed(item_id, fault, out):
            self._out_of_band.transcript_failed(item_id, fault, now, out)
            self._agent.transcript_failed(item_id, fault, now, out)

    # --- the agent -------------------------------------------------------------------------------------------------

    def _response_requested(self, request: ResponseRequested, now: Samples, out: list[Output]) -> None:
        awaiting = self._recognitions.item_ids if request.needs_transcripts else set()
        if request.out_of_band:
            self._out_of_band.start(request, awaiting, self.settings.deadlines, self._agent.turns_with_words, out)
        else:
            self._agent.requested(request, awaiting, now, out)

    def _cancel_requested(self, request: CancelRequested, now: Samples, out: list[Output]) -> None:
        if request.response_id is not None and request.response_id in self._out_of_band:
            self._out_of_band.cancel(request.response_id, now, out)
        else:
            self._agent.cancel(request, now, out)

    def _prompt_the_user(self, now: Samples, out: list[Output]) -> None:
        """Commit the silence as an item of its own and let the agent answer to it."""
        detection = self.settings.detection
        assert detection is not None
        start, end = self._idle.take_silence(detection)
        item_id = self._new_id("item")
        out.append(InputTimedOut(item_id, start, end))
        self._commit(item_id, start, end, now, out, spoken_until=None)
        if detection.create_response:
            self._agent.answer(set(), now, out)
