"""One client's session: carries frames between its socket, the protocol, the ear and the backend, in order.

It decides nothing: `protocol.session` knows what a session says, the backend how a conversation goes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import assert_never

from gateway.backends.interface import Backend
from gateway.event_log import EventLog
from gateway.hearing import Hearing
from gateway.mcp.allowed_hosts import AllowedHosts
from gateway.mcp.hub import CALL_DEADLINE_S, McpHub
from gateway.meter import ASSUMED_PLAYOUT_DELAY, Meter
from gateway.observing.observer import SessionObserver
from gateway.outbox import Outbox
from gateway.recording.recorder import SessionRecorder
from protocol.audio_time import Samples, s_from_samples, samples_from_ms
from protocol.client_events import APPEND, AppendInput, ClientEvent, event_object
from protocol.commands import AppendAudio, Command, CreateResponse, ItemTruncated
from protocol.errors import ProtocolError
from protocol.mcp_items import McpFailure, McpTool
from protocol.outputs import CallMcpTool, DiscardAudio, DiscardItemAudio, ListMcpTools, Output, ServerEvent, ToBackend
from protocol.session import SessionProtocol
from protocol.wire import Dialect, Wire

LARGE_FRAME_BYTES = 256 * 2**10
"""Frames above this are parsed off the event loop (design: limits)."""

MANY_FIELDS_BYTES = 16 * 2**10
"""Frames above this are checked off the event loop, unless they are appends: 256 KiB of the smallest fields take 130 ms
(measured 2026-11-29), 256 KiB of audio less than one."""


class Session:
    """The shell around one session. `now` is the gateway clock in samples."""

    def __init__(
        self,
        *,
        session_id: str,
        protocol: SessionProtocol,
        backend: Backend,
        hearing: Hearing,
        now: Callable[[], Samples],
        log: EventLog,
        recorder: SessionRecorder | None = None,
        dialect: Dialect = Dialect.GA,
        mcp_hosts: AllowedHosts | None = None,
        mcp_call_deadline_s: float = CALL_DEADLINE_S,
        observer: SessionObserver | None = None,
        playout_delay: Samples = ASSUMED_PLAYOUT_DELAY,
    ) -> None:
        """`mcp_hosts` None: MCP servers on this machine only. `observer` None: nobody can look."""
        self.session_id = session_id
        self.outbox = Outbox(audio_accepted=self._audio_accepted)
        self._observer = observer or SessionObserver(session_id, now)
        self.meter = Meter(
            session_id,
            playout_delay=playout_delay,
            explain=self._observer.explain,
            on_turn=self._observer.turn_closed,
            on_overlap=self._observer.overlapped,
            backchannels=backend.capabilities.backchannels,
        )
        self._protocol = protocol
        self._wire = Wire(dialect)
        self._backend = backend
        self._hearing = hearing
        self._now = now
        self._log = log
        self._recorder = recorder
        self._mcp = McpHub(
            mcp_hosts or AllowedHosts(),
            listed=self._mcp_tools_listed,
            called=self._mcp_call_ended,
            call_deadline_s=mcp_call_deadline_s,
        )

    async def run(self) -> None:
        """Greet the client and carry the backend's events to it until cancelled. Raises what a bug raises."""
        self._observer.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._backend.run())
                tasks.create_task(self._mcp.run())
                await self._perform(self._protocol.open())
                async with aclosing(self._backend.events()) as events:
                    async for event in events:
                        now = self._now()
                        self.meter.saw(event, now)
                        self._observer.saw(event, now)
                        self._log.record("backend", now, event)
                        if self._recorder is not None:
                            self._recorder.saw(event, now)
                        await self._perform(self._protocol.receive_backend(event))
                        self._hearing.saw(event, now)
        finally:
            self.meter.close(self._now())
            self._observer.close()
            self._log.close()
            if self._recorder is not None:
                self._recorder.close(self._now())

    async def receive_text(self, frame: str) -> None:
        """Take a client's frame. Frames are taken one after the other; the next waits until this one is dealt with."""
        await self._receive(frame, off_loop=len(frame) > LARGE_FRAME_BYTES)

    async def receive_binary(self, frame: bytes) -> None:
        """Take a binary frame, which the protocol does not know."""
        await self._receive(frame, off_loop=len(frame) > LARGE_FRAME_BYTES)

    async def _receive(self, frame: str | bytes, *, off_loop: bool) -> None:
        try:
            event = await asyncio.to_thread(self._read, frame) if off_loop else await self._read_small(frame)
        except ProtocolError as error:
            outputs = self._protocol.refuse(error)
        else:
            if off_loop and isinstance(event, AppendInput):
                outputs = await self._append_large(event)
            else:
                outputs = self._protocol.receive(event)
        await self._perform(outputs)
        # The backend's answer comes through `run`, whose turn this is: a client that sends a commit and an item in one
        # breath gets both answered, and both put into the conversation, in that order. And frames that came together
        # are taken from their queue without waiting: thousands of small ones would keep all other sessions from theirs.
        await asyncio.sleep(0)

    async def _read_small(self, frame: str | bytes) -> ClientEvent:
        if len(frame) <= MANY_FIELDS_BYTES:
            return self._read(frame)
        self._log.record_frame(self._now(), frame)
        raw = event_object(frame)
        if raw.get("type") == APPEND:
            return self._wire.check(raw, len(frame))
        return await asyncio.to_thread(self._wire.check, raw, len(frame))

    def _read(self, frame: str | bytes) -> ClientEvent:
        """Return the client event in `frame`, and log it: that parses it, too, so that both belong off the loop."""
        self._log.record_frame(self._now(), frame)
        return self._wire.read(frame)

    async def _append_large(self, append: AppendInput) -> list[Output]:
        """Do as the protocol's `receive`, but decode in a thread: minutes of G.711 take up to a second."""
        try:
            pcm = await asyncio.to_thread(self._protocol.decode, append)
        except ProtocolError as error:
            return self._protocol.refuse(error)
        return self._protocol.hear(pcm)

    def expire(self, error: ProtocolError) -> None:
        """Tell the client that its session has reached its longest duration."""
        for output in self._protocol.refuse(error):
            self._carry(output)

    async def _perform(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case ToBackend(command=AppendAudio() as append):
                    heard = await self._hearing.hear(append, self._now())
                    self.meter.heard_user(heard, self._now())
                    self._observer.heard_user(heard, self._now())
                    if self._recorder is not None:
                        self._recorder.user_audio(append.pcm, self._now())
                    self._backend.submit(heard)
                case _:
                    self._carry(output)

    def _carry(self, output: Output) -> None:
        match output:
            case ServerEvent():
                self._observer.server_event(output.payload, self._now())
                for payload in self._wire.write(output):
                    self._log.record("server", self._now(), payload)
                    frame = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
                    item_id = payload.get("item_id", "")
                    self.outbox.put(frame, audio_of=output.audio_of, item_id=item_id, samples=output.samples)
            case DiscardAudio(response_id=response_id):
                self._unsend(self.outbox.discard_audio(response_id))
            case DiscardItemAudio(item_id=item_id):
                self._unsend(self.outbox.discard_item_audio(item_id))
            case ToBackend(command=command):
                self._measure(command)
                self._observer.commanded(command, self._now())
                if isinstance(command, ItemTruncated):
                    self._hearing.truncated(command.item_id, self._now())
                    if self._recorder is not None:
                        self._recorder.cut(command.item_id, self._now())
                self._backend.submit(command)
            case ListMcpTools() | CallMcpTool():
                self._mcp.submit(output)
            case _:
                assert_never(output)

    def _measure(self, command: Command) -> None:
        match command:
            case CreateResponse(response_id=response_id, out_of_band=False):
                self.meter.asked(response_id, self._now())
            case ItemTruncated(item_id=item_id, audio_end=heard):
                self.meter.truncated(item_id, heard, self._now())
            case _:
                pass

    def _audio_accepted(self, response_id: str, samples: Samples) -> None:
        """Note that the socket took audio; once it is known when the answer is heard, look again then."""
        now = self._now()
        self._observer.sent(response_id, samples, now)
        heard = self.meter.sent(response_id, samples, now)
        if heard is not None:
            delay_s = s_from_samples(heard - now + samples_from_ms(1))
            asyncio.get_running_loop().call_later(delay_s, lambda: self.meter.settle(self._now()))

    def _mcp_tools_listed(self, item_id: str, result: tuple[McpTool, ...] | McpFailure) -> None:
        for output in self._protocol.mcp_tools_listed(item_id, result):
            self._carry(output)

    def _mcp_call_ended(self, item_id: str, outcome: str | McpFailure) -> None:
        for output in self._protocol.mcp_call_ended(item_id, outcome):
            self._carry(output)

    def _unsend(self, dropped: dict[str, Samples]) -> None:
        for item_id, samples in dropped.items():
            self._protocol.audio_unsent(item_id, samples)
            self._hearing.unsent(item_id, samples, self._now())
