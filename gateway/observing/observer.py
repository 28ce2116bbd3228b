"""Watches one session for whoever wants to look: nothing follows from it, and it waits for nobody."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gateway.duplex_marks import DuplexMarks
from gateway.measured_turn import Turn
from gateway.observing.conversation import WatchedConversation, tell_event
from gateway.observing.duplex_story import DuplexStory
from gateway.observing.kinds import Kind
from gateway.observing.ring import Ring
from gateway.observing.story import Limits, Story
from gateway.overlaps import Overlap
from gateway.turn_marks import TurnMarks
from gateway.turns.duplex_notices import DuplexNotice
from gateway.turns.duplex_vocabulary import DuplexOutput
from gateway.turns.inputs import AudioReceived, Input, SpeechProbability
from gateway.turns.playout import Heard
from gateway.turns.response import Output
from gateway.turns.states import Agent, User
from gateway.waterfall import Span, Stage
from protocol.audio_time import Samples, ms_from_samples, samples_from_bytes
from protocol.backend_events import BackendEvent, CommandRefused, InputCommitted, ResponseStarted
from protocol.commands import AppendAudio, Command, CommitInput, CreateResponse, ItemTruncated

HEARD_EVERY_S = 0.25
"""How often it is told what has been heard while the agent speaks (chosen: captions follow, events stay few)."""

SOUNDED_RESPONSES = 32
"""Responses of which it is known that their first audio was told (chosen: more than wait for a socket at a time)."""

Count = Callable[[Kind, Mapping[str, Any]], None]
"""Sees each event; for the metrics."""


class Machine(Protocol):
    """What can be seen of a turn-taking machine between two of its messages."""

    @property
    def user(self) -> User:
        """What the user does."""
        ...

    @property
    def agent(self) -> Agent:
        """What the agent does."""
        ...

    @property
    def active_response(self) -> str | None:
        """The conversation's running response."""
        ...

    @property
    def speech_queue(self) -> list[tuple[int, str]]:
        """What waits for the synthesiser."""
        ...

    def playing(self, now: Samples) -> Heard | None:
        """What plays at `now`."""
        ...


class SessionObserver:
    """One session's events, in a ring. `told` is its tap on the machine; the session calls the rest.

    A backend without our machine is watched by its events (`saw`); `duplex_told` is the tap on a full-duplex one.
    """

    def __init__(
        self,
        session_id: str,
        now: Callable[[], Samples],
        *,
        about: Mapping[str, Any] | None = None,
        limits: Limits = lambda _user, _reply: {},
        count: Count = lambda _kind, _fields: None,
        count_audio: Callable[[Samples], None] = lambda _samples: None,
        opened: Callable[[SessionObserver], None] = lambda _self: None,
        closed: Callable[[SessionObserver], None] = lambda _self: None,
    ) -> None:
        """`about` is what the list of sessions says of this one; `limits` what can't be done in its languages.

        `opened` and `closed` are called once each.
        """
        self.session_id = session_id
        self.about = dict(about or {})
        self.ring = Ring()
        self._marks = TurnMarks()
        self._duplex_marks = DuplexMarks()
        self._now = now
        self._count = count
        self._count_audio = count_audio
        self._opened = opened
        self._closed = closed
        self._story = Story(self._tell, limits)
        self._machine: Machine | None = None
        self._watched: WatchedConversation | None = None
        self._duplex: DuplexStory | None = None
        self._committed_by_client = False
        self._asked: deque[str] = deque(maxlen=SOUNDED_RESPONSES)
        self._user = User.SILENT
        self._agent = Agent.IDLE
        self._at: Samples = 0
        self._received: Samples = 0
        self._sounded: deque[str] = deque(maxlen=SOUNDED_RESPONSES)
        self._playing = ""
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, machine: Machine) -> None:
        """Look at `machine` from now on, whose tap this is."""
        self._machine = machine

    def follow_duplex(self) -> None:
        """Look at a full-duplex conversation from now on, whose tap `duplex_told` is."""
        self._machine = self._watched = WatchedConversation()
        self._duplex = DuplexStory(self._tell)

    def explain(self, key: str) -> dict[Stage, Span]:
        """Return the backend's own spans of an item or a response, once."""
        return self._marks.take(key) or self._duplex_marks.take(key)

    @property
    def states(self) -> tuple[User, Agent]:
        """What the two sides do."""
        return self._user, self._agent

    def _tell(self, kind: Kind, /, **fields: Any) -> None:
        self.ring.append(kind, self._at, self._received, fields)
        self._count(kind, fields)

    # --- the session -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """The session begins."""
        self._at = self._now()
        if self._machine is None:
            self._machine = self._watched = WatchedConversation()
        self._opened(self)
        self._tell(Kind.SESSION_STARTED, session_id=self.session_id, **self.about)

    def close(self) -> None:
        """The session is over; nothing follows."""
        self._at = self._now()
        self._stop_marking()
        self._story.frames_heard()
        self._tell(Kind.SESSION_ENDED)
        self.ring.end()
        self._closed(self)

    def server_event(self, payload: Mapping[str, Any], now: Samples) -> None:
        """The session tells its client something (GA's words): errors and tools' results are told here, too."""
        match payload:
            case {"type": "error", "error": {"code": code, "message": message} as error}:
                self._at = now
                self._tell(
                    Kind.ERROR,
                    code=code,
                    message=message,
                    param=error.get("param"),
                    client_event_id=error.get("event_id"),
                )
            case {"type": "conversation.item.added", "item": {"type": "function_call_output"} as item}:
                self._at = now
                self._tell(Kind.TOOL_RESULT, by="client", call_id=item["call_id"], output=item["output"])
            case {"type": "response.output_item.done", "item": {"type": "mcp_call"} as item}:
                self._at = now
                failure = item.get("error")
                self._tell(
                    Kind.TOOL_RESULT,
                    by="gateway",
                    item_id=item["id"],
                    name=item["name"],
                    output=item["output"],
                    error=None if failure is None else failure.get("message"),
                )
            case _:
                pass

    def sent(self, response_id: str, samples: Samples, now: Samples) -> None:
        """The socket took audio of a response; the first of it is told."""
        self._count_audio(samples)
        if response_id not in self._sounded:
            self._sounded.append(response_id)
            self._at = now
            self._tell(Kind.AUDIO_SENT, response_id=response_id)

    def upstream(self, connected: bool, now: Samples, **fields: Any) -> None:
        """The session's remote server was lost, or is there again."""
        self._at = now
        self._tell(Kind.UPSTREAM_RESTORED if connected else Kind.UPSTREAM_LOST, **fields)

    def turn_closed(self, turn: Turn, now: Samples) -> None:
        """The account of a turn is closed."""
        account = turn.waterfall
        assert account is not None
        self._at = now
        self._tell(
            Kind.WATERFALL,
            turn=turn.kind,
            outcome=turn.outcome,
            barge_in=turn.barge_in,
            item_id=turn.item_id,
            response_ids=[answer.response_id for answer in turn.rounds],
            begin_ms=ms_from_samples(account.begin),
            total_ms=account.total_ms,
            slowest=account.slowest,
            stages_ms=account.stages_ms(),
            spans=[
                {
                    "stage": span.stage,
                    "start_ms": ms_from_samples(span.start),
                    "end_ms": ms_from_samples(span.end),
                }
                for span in account.spans
            ],
        )

    def overlapped(self, overlap: Overlap, now: Samples) -> None:
        """It is known what came of the user's voice over the agent's."""
        yielded, stopped = overlap.yielded_after, overlap.stopped_after
        self._at = now
        self._tell(
            Kind.OVERLAP_MEASURED,
            outcome=overlap.outcome,
            onset_ms=ms_from_samples(overlap.onset),
            voiced_ms=ms_from_samples(overlap.voiced),
            yield_ms=None if yielded is None else ms_from_samples(yielded),
            stop_ms=None if stopped is None else ms_from_samples(stopped),
            response_id=overlap.response_id,
            item_id=overlap.item_id,
        )

    # --- a backend without our machine -----------------------------------------------------------------------------

    def heard_user(self, append: AppendAudio, now: Samples) -> None:
        """The session took audio of the user, with the VAD frames that it completed."""
        if self._watched is None:
            return  # the machine is told of it
        self._at = now
        self._received += samples_from_bytes(len(append.pcm))
        for frame in append.frames:
            self._story.frame_heard(SpeechProbability(frame.until, frame.probability, frame.level_dbfs, frame.echo))

    def commanded(self, command: Command, now: Samples) -> None:
        """The session gives its backend a command."""
        if self._watched is None:
            return  # the machine is told of it
        match command:
            case CommitInput():
                self._committed_by_client = True
            case CreateResponse(response_id=response_id):
                self._asked.append(response_id)
            case ItemTruncated(item_id=item_id, audio_end=heard):
                self._at = now
                self._watched.truncated(item_id, heard, now)
                self._tell(Kind.CLIENT_TRUNCATED, item_id=item_id, heard_ms=ms_from_samples(heard))
                self._look(self._watched)
            case _:
                pass

    def saw(self, event: BackendEvent, now: Samples) -> None:
        """The session got an event of its backend."""
        if self._watched is not None and self._duplex is None:
            self._at = now
            self._saw(event, self._watched, now)

    def duplex_told(self, output: DuplexOutput | DuplexNotice, now: Samples) -> None:
        """See what a full-duplex conversation says, before it is performed."""
        watched, duplex = self._watched, self._duplex
        assert watched is not None
        assert duplex is not None
        self._at = now
        self._duplex_marks.told(output, now)
        if not duplex.told(output):
            self._saw(output, watched, now)

    def _saw(self, event: object, watched: WatchedConversation, now: Samples) -> None:
        watched.saw(event, now)
        reason = None
        if isinstance(event, InputCommitted):
            reason = "client" if self._committed_by_client else "silence"
            self._committed_by_client = False
        elif isinstance(event, CommandRefused):
            self._committed_by_client = False
        elif isinstance(event, ResponseStarted):
            reason = "client" if event.response_id in self._asked else "model"
        tell_event(self._tell, self._story.replies, event, reason)
        self._look(watched)

    def _look(self, machine: Machine) -> None:
        if machine.user is not self._user:
            self._user = machine.user
            self._story.frames_heard()
        if machine.agent is not self._agent:
            self._agent_moved(machine.agent)

    # --- the machine -----------------------------------------------------------------------------------------------

    def told(self, message: Input, now: Samples, outputs: Sequence[Output]) -> None:
        """See a message to the machine and what followed."""
        self._at = now
        if isinstance(message, AudioReceived):
            self._received += message.samples
        self._marks.told(message, now, outputs)
        self._story.told(message, now, outputs)
        machine = self._machine
        if machine is None:
            return
        if machine.user is not self._user:
            self._user_moved(machine.user, now)
        if not isinstance(message, AudioReceived | SpeechProbability) and (response_id := machine.active_response):
            self._story.replies.queued(response_id, machine.speech_queue)
        if machine.agent is not self._agent:
            self._agent_moved(machine.agent)

    def _user_moved(self, user: User, now: Samples) -> None:
        before, self._user = self._user, user
        self._marks.user_moved(user, now)
        if user is User.PAUSED:
            self._story.frames_heard()
            self._tell(Kind.SPEECH_PAUSED)
        elif before is User.PAUSED and user is User.SPEAKING:
            self._story.frames_heard()
            self._tell(Kind.SPEECH_RESUMED)

    def _agent_moved(self, agent: Agent) -> None:
        before, self._agent = self._agent, agent
        self._tell(Kind.AGENT_STATE, state=agent, before=before)
        if agent is Agent.SPEAKING:
            self._mark_later()
        elif before is Agent.SPEAKING:
            self._stop_marking()
            if agent is Agent.IDLE and self._playing:
                self._story.replies.all_heard(self._playing)
            self._playing = ""

    # --- what is heard ---------------------------------------------------------------------------------------------

    def _mark_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEARD_EVERY_S, self._mark)

    def _stop_marking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _mark(self) -> None:
        self._timer = None
        machine = self._machine
        assert machine is not None
        self._at = self._now()
        playing = machine.playing(self._at)
        if playing is not None:
            self._playing = playing.item_id
            self._story.replies.heard(playing.item_id, playing.heard, playing.sent)
        self._mark_later()
        if self._watched is not None:
            self._watched.settle(self._at)
            self._look(self._watched)
