"""The turn-taking machine: told what happened, it answers with one ordered list of what follows.

Pure and synchronous: time is an argument (`now`, gateway clock, in samples), ids are injected. Everything asynchronous
only carries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from gateway.turns.actions import Transcribe, TranscribeItem
from gateway.turns.end_of_turn import AGENT_WORDS
from gateway.turns.inputs import (
    AudioReceived,
    CancelRequested,
    ClearRequested,
    CommitRequested,
    ContextProvided,
    FunctionCallDelta,
    GenerationEnded,
    GenerationFailed,
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
    SynthesisEnded,
    SynthesisFailed,
    SynthesizedSpeech,
    TextDelta,
    Tick,
    ToolCallEnded,
    Transcript,
    TranscriptFailed,
)
from gateway.turns.live_transcript import LiveTranscript
from gateway.turns.observations import DropReason
from gateway.turns.out_of_band import OutOfBandResponses
from gateway.turns.overlap_watch import OverlapWatch
from gateway.turns.pauses import Pause, Pauses, is_judged
from gateway.turns.playout import Heard as HeardOfItem
from gateway.turns.playout import VirtualPlayer
from gateway.turns.response import Output, Phase, Response, ResponseInput
from gateway.turns.settings import MIN_COMMIT, QUEUED_TURNS, STALL_AFTER, TRANSCRIPT_TIMEOUT, Detection, TurnSettings
from gateway.turns.speculation import Speculation
from gateway.turns.speech_detector import Heard
from gateway.turns.stable_transcript import StableTranscript, has_words, tokens_of
from gateway.turns.states import Agent, AgentTrigger, User, next_agent
from gateway.turns.user_turn import ASR_TAIL, UserTurn
from protocol.audio_time import Samples
from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    EngineFault,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    PlayoutCut,
    RefusalKind,
    SpeechStarted,
    SpeechStopped,
)


@dataclass(slots=True)
class _Recognition:
    """A committed item whose words have not been told yet."""

    deadline: Samples
    duration: Samples
    live: StableTranscript | None
    pause: Pause | None = None
    """The pause whose words are the item's."""
    instead: Transcribe | None = None
    """What to recognise if those words do not come."""


class TurnMachine:
    """One session's turn-taking.

    Feed it with `receive`, perform what it returns in that order, and call it again by `next_deadline`.
    """

    def __init__(self, settings: TurnSettings, new_id: Callable[[str], str]) -> None:
        self.settings = settings
        self.agent = Agent.IDLE
        self._new_id = new_id
        self._user = UserTurn()
        self._player = VirtualPlayer(settings.playout_delay)
        self._overlaps = OverlapWatch(self._user, self._player)
        self._response: Response | None = None
        self._response_started_at: Samples = 0
        self._recognitions: dict[str, _Recognition] = {}
        self._waiting_turns: dict[str, set[str]] = {}
        self._out_of_band = OutOfBandResponses(new_id)
        self._live = LiveTranscript()
        self._pauses = Pauses()
        self._last_response: Response | None = None
        self._agent_text = ""
        self._speculation = Speculation(new_id)
        self._idle_since: Samples | None = None
        self._turns_with_words = 0
        self._turns_answered = 0

    # --- what the shell may ask ------------------------------------------------------------------------------------

    @property
    def user(self) -> User:
        """What the user does."""
        return self._user.state

    @property
    def active_response(self) -> str | None:
        """The id of the conversation's running response, or None."""
        return None if self._response is None else self._response.response_id

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
    def received(self) -> Samples:
        """Input samples so far: the input clock."""
        return self._user.clock.received

    @property
    def needed_from(self) -> Samples:
        """Input before this position will never be asked for again."""
        again = [recognition.instead.start for recognition in self._recognitions.values() if recognition.instead]
        return min(self._user.buffer_start, *again) if again else self._user.buffer_start

    @property
    def playout_delay(self) -> Samples:
        """The playout delay as learned so far."""
        return self._player.delay

    @property
    def speech_queue(self) -> list[tuple[int, str]]:
        """What the running response has ready for the synthesiser: each chunk's number and text."""
        return [] if self._response is None else self._response.speech_queue

    def playing(self, now: Samples) -> HeardOfItem | None:
        """Return the item that plays at `now` and how much of it has been heard; None in silence."""
        return self._player.playing(now)

    def next_deadline(self, now: Samples) -> Samples | None:
        """Return when the machine wants to be called even if nothing happens (gateway clock), or None."""
        due = [recognition.deadline for recognition in self._recognitions.values()] if self._recognitions else []
        detection = self.settings.detection
        due += self._overlaps.deadlines(now)
        if detection is not None and not self._overlaps.holds:
            stall = self._user.stall_deadline(self._pauses.next_needed(self.settings))
            due += [at for at in (stall, self._pauses.deadline) if at is not None]
        if self._response is not None and (at := self._response.deadline(now)) is not None:
            due.append(at)
        if self.agent is Agent.SPEAKING and (ends_at := self._player.ends_at) is not None:
            due.append(ends_at)
        if (at := self._out_of_band.deadline(now)) is not None:
            due.append(at)
        if (at := self._speculation.deadline) is not None:
            due.append(at)
        if (at := self._idle_deadline()) is not None:
            due.append(at)
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
            case (
                ContextProvided()
                | TextDelta()
                | FunctionCallDelta()
                | GenerationEnded()
                | GenerationFailed()
                | SynthesizedSpeech()
                | SynthesisEnded()
                | SynthesisFailed()
                | ToolCallEnded()
            ):
                self._work_done(message, now, out)
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
                self._recognitions[item_id] = _Recognition(now + self.settings.deadlines.transcript, duration, None)
                out.append(TranscribeItem(item_id))
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
            case _:
                assert_never(message)
        self._settle_playout(now)
        self._check_speculation(out)
        return out

    def _work_done(self, message: ResponseInput, now: Samples, out: list[Output]) -> None:
        """Hand on what was done for a response. The one spot where late work is dropped: nobody has its id any more."""
        response = self._response
        if response is not None and message.response_id in (response.response_id, response.generation_id):
            if isinstance(message, ContextProvided):
                self._context_provided(response, message, now, out)
            else:
                response.receive(message, now, out)
            self._follow_response(now, out)
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
        self.settings = settings
        self._pauses.reconsider(self._user.silence(now), settings)

    def _forget_speech(self, out: list[Output]) -> None:
        self._live.end()
        self._pauses.end(out)

    def _settle(self, now: Samples, out: list[Output]) -> None:
        """Let time pass up to `now`: deadlines, pacing, the end of playout."""
        if self._recognitions:
            for item_id, recognition in list(self._recognitions.items()):
                if now >= recognition.deadline:
                    self._not_transcribed(item_id, TRANSCRIPT_TIMEOUT, now, out)
        if self._response is not None:
            self._response.settle(now, out)
            self._follow_response(now, out)
        self._out_of_band.settle(now, out)
        self._speculation.settle(now, out)
        self._settle_playout(now)
        if (deadline := self._pauses.deadline) is not None and now >= deadline:
            self._pauses.give_up(self._user.silence(now), self.settings)
            self._pause_weighed(now, out)
        self._decide_overlap(now, out)
        if (deadline := self._idle_deadline()) is not None and now >= deadline:
            self._prompt_the_user(now, out)

    def _settle_playout(self, now: Samples) -> None:
        """While audio plays or waits to play the agent is speaking, and only then."""
        if self.agent is not Agent.SPEAKING:
            return
        self._player.settle(now)
        if not self._player.audible(now):
            trigger = AgentTrigger.PLAYOUT_END if self._response is None else AgentTrigger.PLAYOUT_GAP
            self._move_agent(trigger, now)

    def _move_agent(self, trigger: AgentTrigger, now: Samples) -> None:
        self.agent = next_agent(self.agent, trigger)
        if self.agent is Agent.SPEAKING:
            self._pauses.heard_answer()
        self._idle_since = now if self.agent is Agent.IDLE else None

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
            self._follow_pause(frame.until, now, out)
            recorded = self._user.clock.is_recorded(frame.until)
            needed = detection.silence_duration if recorded else self._pauses.needed(self.settings)
            if (end := self._user.silence_end(frame.until, needed)) is not None:
                self._speech_stopped(end, frame.until - self._user.voiced_until, needed, now, out)
                return
        self._look(frame.until, out)

    def _follow_pause(self, until: Samples, now: Samples, out: list[Output]) -> None:
        user = self._user
        if user.voiced_until == until:
            self._pauses.voiced(until, out, own=self.agent is not Agent.SPEAKING)
        elif user.state is User.PAUSED and not user.clock.is_recorded(until):
            silence, own = until - user.voiced_until, self.agent is not Agent.SPEAKING
            self._pauses.silent(user.voiced_until, until, silence, now, self.settings, out, own=own)

    def _pause_weighed(self, now: Samples, out: list[Output]) -> None:
        """More is known about the pause that lasts than before: end the turn, or tell why not."""
        user, silence, needed = self._user, self._user.silence(now), self._pauses.needed(self.settings)
        if silence >= needed:
            self._speech_stopped(min(user.clock.received, user.voiced_until + needed), silence, needed, now, out)
            return
        self._pauses.held(silence, self.settings, out)
        pause = self._pauses.current
        if pause is not None and (text := self._pauses.believable(self.settings)) is not None:
            self._pause_believable(pause.item_id, pause.number, text, now, out)

    def _pause_believable(self, item_id: str, pause: int, text: str, now: Samples, out: list[Output]) -> None:
        """The turn may well be over: `text` is all that was said, and the pause lasts."""
        self._speculate(item_id, text, now, out)

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
        if not self._overlaps.begins(detection, now, out, speaks_on=self._speaks_on):
            self._announce_speech(detection, now, out)

    def _decide_overlap(self, now: Samples, out: list[Output]) -> bool:
        """Judge the voice over the agent's that is held, if any; return whether it has become the user's turn."""
        detection = self.settings.detection
        if detection is None or not self._overlaps.decide(now, out, speaks_on=self._speaks_on):
            return False
        self._announce_speech(detection, now, out)
        return True

    @property
    def _speaks_on(self) -> bool:
        """Whether a reply has begun to be spoken and more of it may come."""
        return self._response is not None and self._response.audio_sent

    def _announce_speech(self, detection: Detection, now: Samples, out: list[Output]) -> None:
        live = self.agent is not Agent.SPEAKING and not self._user.clock.is_recorded(self._user.onset)
        self._pauses.begin(self._user.item_id, self._user.start, self._user.onset, live=live)
        out.append(SpeechStarted(self._user.item_id, self._user.start))
        self._idle_since = None
        if self.settings.live_transcript:
            self._live.begin(self._user.item_id, self._user.start, self._user.onset)
        if detection.interrupt_response and self._spoken_over():
            self._barge_in(now, out)

    def _spoken_over(self) -> bool:
        """Return whether the speech that just began can be meant for the response that runs or plays.

        A burst client's speech was recorded before a response that it could not have heard: no barge-in then.
        """
        clock, began = self._user.clock, self._response_started_at
        if not clock.is_burst:
            return True
        return not clock.outruns_since(began) and clock.gateway_time(self._user.onset) >= began

    def _barge_in(self, now: Samples, out: list[Output]) -> None:
        """The user takes over: the response ends here, and history keeps what the player had played.

        Turns that waited for their response are left to the next one: its context holds their words.
        """
        self._waiting_turns.clear()
        self._give_way(now, out)
        if self._response is not None:
            self._response.end(EndStatus.CANCELLED, now, out, reason=EndReason.TURN_DETECTED)
            self._response = None
        out.extend(PlayoutCut(cut.item_id, cut.heard) for cut in self._player.flush(now))
        if self.agent is not Agent.IDLE:
            self._move_agent(AgentTrigger.CUT, now)

    def _speech_stopped(self, end: Samples, silence: Samples, needed: Samples, now: Samples, out: list[Output]) -> None:
        """The VAD's turn ends at `end`: after `silence`, or because it has become too long."""
        detection, item_id, voiced_until = self.settings.detection, self._user.item_id, self._user.voiced_until
        assert detection is not None
        out.append(self._pauses.committed(item_id, voiced_until, silence, silence >= needed, detection))
        out.append(SpeechStopped(item_id, end))
        self._commit(item_id, self._user.start, end, now, out, spoken_until=voiced_until)
        if detection.create_response:
            self._respond_to_turn(item_id, now, out)
        self._tell_known_words(item_id, now, out)

    def _stalled(self, duration: Samples, now: Samples, out: list[Output]) -> None:
        user, detection = self._user, self.settings.detection
        if self._overlaps.holds:
            return  # nobody was told that they speak; the watch knows what silence is
        if detection is None or user.state is User.SILENT or duration < STALL_AFTER:
            return
        silence = user.clock.received - user.voiced_until + duration
        if is_judged(self.settings):
            self._pauses.silent(user.voiced_until, user.clock.received, silence, now, self.settings, out, own=False)
        needed = self._pauses.needed(self.settings)
        if (end := user.stall_end(duration, needed)) is not None:
            self._speech_stopped(end, silence, needed, now, out)

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
        recognition = _Recognition(deadline, end - start, self._live.end())
        self._recognitions[item_id] = recognition
        order = Transcribe(item_id, start, min(end, spoken_until + ASR_TAIL))
        recognition.pause = self._pauses.end(out, order)
        if recognition.pause is None:
            out.append(order)
        else:
            recognition.instead = order

    # --- the user's words ------------------------------------------------------------------------------------------

    def _pause_transcribed(self, words: PauseTranscript, now: Samples, out: list[Output]) -> None:
        """Take the words of a pause, which has become an item by now, or lasts, or is over: then they are late."""
        recognition = self._recognitions.get(words.item_id)
        if recognition is not None and recognition.pause is not None and recognition.pause.number == words.pause:
            recognition.pause.words = words
            self._tell_known_words(words.item_id, now, out)
        elif self._pauses.transcribed(words, self._user.silence(now), self.settings, self._last_words(), out):
            self._pause_weighed(now, out)

    def _last_words(self) -> str:
        """Return what the agent said last."""
        if self._last_response is not None and self._last_response.text:
            self._agent_text = self._last_response.text
        return self._agent_text[-AGENT_WORDS:]

    def _tell_known_words(self, item_id: str, now: Samples, out: list[Output]) -> None:
        """Tell the words of a new item if its last pause's are known; recognise it if they never will be."""
        recognition = self._recognitions.get(item_id)
        if recognition is None or recognition.pause is None or recognition.pause.words is None:
            return
        words = recognition.pause.words
        if words.text is not None:
            self._transcribed(Transcript(item_id, words.text, words.logprobs), now, out)
            return
        assert recognition.instead is not None
        out.append(recognition.instead)
        recognition.pause = recognition.instead = None

    def _partial(self, item_id: str, text: str | None, now: Samples, out: list[Output]) -> None:
        if self._overlaps.saw(item_id, text):
            self._decide_overlap(now, out)
            return
        if delta := self._live.saw(item_id, text):
            out.append(InputTranscriptDelta(item_id, delta))

    def _transcribed(self, transcript: Transcript, now: Samples, out: list[Output]) -> None:
        item_id, logprobs = transcript.item_id, transcript.logprobs
        recognition = self._recognitions.pop(item_id, None)
        if recognition is None:
            return
        live = recognition.live or StableTranscript()
        if delta := live.final(transcript.text):
            out.append(InputTranscriptDelta(item_id, delta, tokens_of(delta, logprobs)))
        out.append(InputTranscriptCompleted(item_id, live.told, recognition.duration, logprobs))
        if item_id == self._speculation.item_id:
            self._speculation.heard(item_id, live.told, out)
        if has_words(live.told):
            self._turns_with_words += 1
        else:
            self._waiting_turns.pop(item_id, None)  # a turn without words gets no response of its own
        self._out_of_band.transcript_arrived(item_id, self._turns_with_words, out)
        response = self._response
        if response is None or item_id not in response.awaiting:
            return
        unanswered = self._turns_with_words > self._turns_answered
        if response.automatic and not unanswered and response.awaiting == {item_id}:
            # The VAD heard something, the recogniser no words, and no earlier words wait: there is nothing to answer.
            self._end_response(EndStatus.COMPLETED, now, out)
        else:
            response.transcript_arrived(item_id, self._turns_with_words, out)

    def _not_transcribed(self, item_id: str, fault: EngineFault, now: Samples, out: list[Output]) -> None:
        if self._recognitions.pop(item_id, None) is None:
            return
        out.append(InputTranscriptFailed(item_id, fault))
        self._waiting_turns.pop(item_id, None)
        self._out_of_band.transcript_failed(item_id, fault, now, out)
        if self._response is not None and item_id in self._response.awaiting:
            self._end_response(EndStatus.FAILED, now, out, fault=fault)

    # --- the agent -------------------------------------------------------------------------------------------------

    def _respond_to_turn(self, item_id: str, now: Samples, out: list[Output]) -> None:
        """A turn that the VAD ended wants its answer, which waits for the words up to that turn."""
        self._give_way(now, out)
        if self._response is None:
            response_id = self._answer_turn(set(self._recognitions), now, out)
            self._speculation.committed(item_id, response_id)
        elif self._user.clock.is_burst:
            if len(self._waiting_turns) < QUEUED_TURNS:
                self._waiting_turns[item_id] = set(self._recognitions)
        else:
            # As OpenAI: with a response still running the automatic one fails, and no client event is to blame.
            out.append(CommandRefused(RefusalKind.RESPONSE_ACTIVE))

    def _answer_turn(self, awaiting: set[str], now: Samples, out: list[Output]) -> str:
        """Start a response to the user's turns and return its id."""
        response_id = self._new_id("resp")
        self._start_response(response_id, self.settings.audio_output, awaiting, now, out, automatic=True)
        return response_id

    def _response_requested(self, request: ResponseRequested, now: Samples, out: list[Output]) -> None:
        awaiting = set(self._recognitions) if request.needs_transcripts else set()
        if request.out_of_band:
            self._out_of_band.start(request, awaiting, self.settings.deadlines, self._turns_with_words, out)
            return
        self._give_way(now, out)
        if self._response is not None:
            out.append(CommandRefused(RefusalKind.RESPONSE_ACTIVE, request.client_event_id, request.response_id))
            return
        self._start_response(request.response_id, request.audio, awaiting, now, out, automatic=False)

    def _give_way(self, now: Samples, out: list[Output]) -> None:
        """End a response that is whole but for its tools' results: what comes now does not wait for them."""
        if self._response is not None and self._response.phase is Phase.AWAITING_TOOLS:
            self._response.complete(now, out)
            self._follow_response(now, out)

    def _start_response(
        self, response_id: str, audio: bool, awaiting: set[str], now: Samples, out: list[Output], *, automatic: bool
    ) -> None:
        self._last_words()
        self._response = Response(
            response_id=response_id,
            audio=audio,
            automatic=automatic,
            deadlines=self.settings.deadlines,
            player=self._player,
            new_id=self._new_id,
            awaiting=awaiting,
        )
        self._last_response = self._response
        self._response_started_at = now
        self._move_agent(AgentTrigger.RESPONSE_START, now)
        self._response.start(self._turns_with_words, out)

    def _cancel_requested(self, request: CancelRequested, now: Samples, out: list[Output]) -> None:
        active = self.active_response
        if request.response_id is not None and request.response_id in self._out_of_band:
            self._out_of_band.cancel(request.response_id, now, out)
            return
        if active is None or request.response_id not in (None, active):
            out.append(CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, request.client_event_id, request.response_id))
            return
        self._waiting_turns.clear()  # the client wants silence now, and its next response.create to be accepted
        self._end_response(EndStatus.CANCELLED, now, out, reason=EndReason.CLIENT_CANCELLED)

    def _end_response(
        self,
        status: EndStatus,
        now: Samples,
        out: list[Output],
        *,
        reason: EndReason | None = None,
        fault: EngineFault | None = None,
    ) -> None:
        assert self._response is not None
        self._response.end(status, now, out, reason=reason, fault=fault)
        self._follow_response(now, out)

    def _follow_response(self, now: Samples, out: list[Output]) -> None:
        """Keep the agent's state in step with its response; after its end, answer a burst client's next turn."""
        response = self._response
        assert response is not None
        if response.has_output:
            self._turns_answered = max(self._turns_answered, response.turns_covered)
        if response.audio_sent:
            self._overlaps.reply = response
        if response.audio_sent and self._player.audible(now) and self.agent is Agent.THINKING:
            self._move_agent(AgentTrigger.FIRST_AUDIO, now)
        if response.phase is not Phase.ENDED:
            return
        self._response = None
        self._move_agent(AgentTrigger.RESPONSE_END, now)
        if self._waiting_turns:
            awaiting = self._waiting_turns.pop(next(iter(self._waiting_turns)))
            self._answer_turn(awaiting & self._recognitions.keys(), now, out)

    # --- the answer before the end of the turn ---------------------------------------------------------------------

    def _speculate(self, item_id: str, text: str, now: Samples, out: list[Output]) -> None:
        """The utterance `item_id` has paused, may be over, and consists of `text`: let its answer be written already.

        Only where the commit will start the response that it is for, with nothing in its way and no words missing.
        """
        detection = self.settings.detection
        if not self.settings.speculation or detection is None or not detection.create_response:
            return
        user = self._user
        if self.agent is not Agent.IDLE or self._recognitions or user.clock.is_burst:
            return  # a burst client's turn is past already: there is no time to win
        words = self._live.foretell(text)
        self._speculation.begin(item_id, user.voiced_until, words, now, self.settings.deadlines, out)

    def _context_provided(self, response: Response, provided: ContextProvided, now: Samples, out: list[Output]) -> None:
        """Let the response adopt what was written before from the very same context, or ask for its own."""
        speculation = self._speculation
        if speculation.answering == response.response_id and response.phase is Phase.AWAITING_CONTEXT:
            if speculation.has_begun(provided.foreseen):
                response.adopt(provided, speculation.adopt(out), now, out)
                return
            speculation.drop(DropReason.CONTEXT_CHANGED, out)
        response.receive(provided, now, out)

    def _check_speculation(self, out: list[Output]) -> None:
        """Drop the speculative answer as soon as no response can adopt it any more."""
        item_id, answering = self._speculation.item_id, self._speculation.answering
        if item_id is None:
            return
        if answering:
            if answering != self.active_response:
                self._speculation.drop(DropReason.CANCELLED, out)
        elif self._user.item_id != item_id:
            self._speculation.drop(DropReason.CANCELLED, out)
        elif self._user.voiced_until != self._speculation.voiced_until:
            self._speculation.drop(DropReason.RESUMED, out)
        elif self.agent is not Agent.IDLE:
            self._speculation.drop(DropReason.SUPERSEDED, out)
        elif self._recognitions:
            self._speculation.drop(DropReason.CONTEXT_CHANGED, out)

    # --- the silence after the agent's words -----------------------------------------------------------------------

    def _idle_deadline(self) -> Samples | None:
        """Return when the agent is to speak up because nobody does (gateway clock), or None.

        The timeout runs from the end of the playout of the last response (Realtime GA: `idle_timeout_ms`), while the
        user is silent and none of their words are still on their way.
        """
        detection = self.settings.detection
        if detection is None or detection.idle_timeout is None or self._idle_since is None:
            return None
        if self._user.state is not User.SILENT or self._recognitions:
            return None
        return self._idle_since + detection.idle_timeout

    def _prompt_the_user(self, now: Samples, out: list[Output]) -> None:
        """Commit the silence as an item of its own and let the agent answer to it."""
        detection = self.settings.detection
        assert detection is not None
        assert detection.idle_timeout is not None
        self._idle_since = None
        end = self._user.clock.received
        start = max(end - detection.idle_timeout, self._user.buffer_start)
        item_id = self._new_id("item")
        out.append(InputTimedOut(item_id, start, end))
        self._commit(item_id, start, end, now, out, spoken_until=None)
        if detection.create_response:
            self._answer_turn(set(), now, out)
