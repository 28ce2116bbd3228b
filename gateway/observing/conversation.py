"""What any backend's events mean to an observer, and what both sides do by them."""

from __future__ import annotations

from collections.abc import Callable

from gateway.observing.kinds import Kind
from gateway.observing.reply import Replies
from gateway.turns.playout import Heard, VirtualPlayer
from gateway.turns.settings import DEFAULT_PLAYOUT_DELAY
from gateway.turns.states import Agent, User
from protocol import backend_events as events
from protocol.audio_time import Samples, ms_from_samples, samples_from_bytes

Tell = Callable[..., None]
"""Takes an event's kind and its fields."""


def tell_event(tell: Tell, replies: Replies, event: object, reason: str | None = None) -> None:
    """Tell of a backend's event, if it is one; `reason`: why a turn was committed, or a response began."""
    match event:
        case events.OutputAudio(response_id=response_id, item_id=item_id, pcm=pcm):
            replies.audio_made(response_id, item_id, len(pcm))
        case events.OutputTextDelta():
            replies.text_shown(event)
        case events.OutputSpoken():
            replies.marked(event)
        case events.SpeechStarted(item_id=item_id, start=start):
            tell(Kind.SPEECH_STARTED, item_id=item_id, audio_start_ms=ms_from_samples(start))
        case events.SpeechStopped(item_id=item_id, end=end):
            tell(Kind.SPEECH_STOPPED, item_id=item_id, audio_end_ms=ms_from_samples(end))
        case events.InputCommitted(item_id=item_id, start=start, end=end):
            tell(
                Kind.TURN_COMMITTED,
                item_id=item_id,
                audio_start_ms=ms_from_samples(start),
                audio_end_ms=ms_from_samples(end),
                reason=reason,
            )
        case events.InputTimedOut(item_id=item_id, start=start, end=end):
            tell(
                Kind.INPUT_TIMED_OUT,
                item_id=item_id,
                audio_start_ms=ms_from_samples(start),
                audio_end_ms=ms_from_samples(end),
            )
        case events.InputCleared():
            tell(Kind.INPUT_CLEARED)
        case events.InputTranscriptDelta(item_id=item_id, delta=delta):
            tell(Kind.TRANSCRIPT_DELTA, item_id=item_id, delta=delta)
        case events.InputTranscriptCompleted(item_id=item_id, transcript=text, duration=duration):
            tell(Kind.TRANSCRIPT_FINAL, item_id=item_id, text=text, duration_ms=ms_from_samples(duration))
        case events.InputTranscriptFailed(item_id=item_id, fault=fault):
            tell(Kind.TRANSCRIPT_FAILED, item_id=item_id, code=fault.code, message=fault.message)
        case events.ResponseStarted(response_id=response_id, out_of_band=out_of_band):
            tell(Kind.RESPONSE_STARTED, response_id=response_id, out_of_band=out_of_band, reason=reason)
            replies.started(response_id, out_of_band)
        case events.ResponseEnded():
            replies.ended(event)
        case events.PlayoutCut(item_id=item_id, heard=heard):
            replies.cut(item_id, heard)
        case events.CommandRefused():
            tell(
                Kind.COMMAND_REFUSED,
                refusal=event.kind,
                response_id=event.response_id,
                client_event_id=event.client_event_id,
                detail=event.detail,
            )
        case events.FunctionCallStarted():
            replies.call_started(event)
        case events.FunctionCallArgumentsDelta():
            replies.arguments_written(event)
        case events.OutputItemEnded():
            replies.item_ended(event)
        case _:
            pass


class WatchedConversation:
    """What the two sides do, as far as a backend's events tell: for backends that have no machine of ours."""

    speech_queue: list[tuple[int, str]] = []

    def __init__(self) -> None:
        self.user = User.SILENT
        self.agent = Agent.IDLE
        self.active_response: str | None = None
        self._player = VirtualPlayer(DEFAULT_PLAYOUT_DELAY)
        self._beside: set[str] = set()

    def saw(self, event: object, now: Samples) -> None:
        """Take an event at `now` (gateway clock)."""
        match event:
            case events.SpeechStarted():
                self.user = User.SPEAKING
            case events.SpeechStopped() | events.InputCleared():
                self.user = User.SILENT
            case events.ResponseStarted(response_id=response_id, out_of_band=True):
                self._beside.add(response_id)
            case events.ResponseStarted(response_id=response_id):
                self.active_response = response_id
            case events.OutputAudio(response_id=response_id, item_id=item_id, pcm=pcm):
                if response_id not in self._beside:
                    self._player.push(item_id, samples_from_bytes(len(pcm)), now)
            case events.ResponseEnded(response_id=response_id):
                self._beside.discard(response_id)
                if response_id == self.active_response:
                    self.active_response = None
            case events.PlayoutCut():
                self._player.flush(now)
            case _:
                pass
        self.settle(now)

    def truncated(self, item_id: str, heard: Samples, now: Samples) -> None:
        """The client's player stopped an item."""
        self._player.correct(item_id, heard, now)
        self.settle(now)

    def settle(self, now: Samples) -> None:
        """Let time pass up to `now`."""
        self._player.settle(now)
        if self._player.audible(now):
            self.agent = Agent.SPEAKING
        else:
            self.agent = Agent.IDLE if self.active_response is None else Agent.THINKING

    def playing(self, now: Samples) -> Heard | None:
        """Return what plays at `now`."""
        return self._player.playing(now)
