"""One session of the Realtime API, without I/O: client events and backend events in, one ordered list of outputs out.

The shell performs the outputs of each call in their order, and calls in the order in which things happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never

from protocol import backend_events as backend
from protocol import client_events as client
from protocol import errors
from protocol.audio_format import G711, encoded
from protocol.audio_time import Samples, bytes_from_samples, samples_from_bytes, samples_from_s
from protocol.backend_events import BackendEvent, RefusalKind
from protocol.client_events import ClientEvent
from protocol.commands import (
    AppendAudio,
    CancelResponse,
    ClearInput,
    Command,
    CommitInput,
    ContextChanged,
    CreateResponse,
    ItemTruncated,
    ProvideContext,
    RecogniseItem,
    ToolResult,
    WithholdContext,
)
from protocol.conversation import Conversation
from protocol.duplex_limits import DuplexLimits, NewItem, Request, Update, check
from protocol.errors import ProtocolError
from protocol.ids import IdSource
from protocol.input_events import InputEvents
from protocol.input_pcm import InputPcm
from protocol.item_audio import LONGEST_PENDING_S, PendingAudio, given_audio
from protocol.items import FunctionCallOutput, Role, item_from_wire
from protocol.kept_audio import RecentInput
from protocol.mcp_calls import McpCalls
from protocol.mcp_items import McpApprovalResponse, McpFailure, McpTool
from protocol.mcp_listings import McpListings
from protocol.mcp_servers import ServerDefinitions
from protocol.outputs import DiscardItemAudio, Output, ToBackend
from protocol.response_events import RunningResponse
from protocol.response_parameters import ResponseParameters, overridden
from protocol.server_events import ServerEvents
from protocol.session_settings import SessionDefaults, SessionKind, SessionSettings
from protocol.truncation import ContextTooLong
from protocol.wire_rules import MAX_FRAME_BYTES, encoded_bytes

_LONGEST_APPEND_BYTES = bytes_from_samples(samples_from_s(10))
"""Most audio in one command (chosen): an append of 15 MiB holds 24 minutes of G.711."""


class SessionProtocol:
    """What one session says. Not thread-safe: one caller at a time."""

    def __init__(
        self,
        *,
        ids: IdSource,
        session_id: str,
        model: str,
        expires_at_s: int,
        defaults: SessionDefaults,
        g711: G711,
        kind: SessionKind = "realtime",
        initial: Mapping[str, Any] | None = None,
        limits: DuplexLimits | None = None,
    ) -> None:
        """Begin with `defaults`, and `initial` (the `session` of an update, checked by itself) merged over them.

        `limits`: those of a full-duplex model behind the session; None: whatever is asked for can be done.
        """
        self._ids = ids
        self._identity: dict[str, Any] = {"session_id": session_id, "model": model, "expires_at_s": expires_at_s}
        self._events = ServerEvents(ids)
        self._g711 = g711
        self._pcm = InputPcm(g711)
        self._recent_input = RecentInput()
        self._limits = limits
        self._begun = False  # a full-duplex model has read for good what it reads beforehand
        self._opening = ""  # instructions of a response that is to open its conversation
        self.settings = self._effective(SessionSettings.initial(defaults, kind).merged(initial or {}))
        self._pcm.switch(self.settings.input_format)
        self.conversation = Conversation(ids("conv"))
        self._input = InputEvents(self._events, self.conversation, self._recent_input)
        self._asked_for: dict[str, tuple[ResponseParameters, str | None]] = {}
        self._running: dict[str, RunningResponse] = {}
        self._pending_audio = PendingAudio()
        self._servers = ServerDefinitions()
        self._servers.remember(self.settings.tools)
        self._listings = McpListings(self._events, self.conversation)
        self._mcp_calls = McpCalls(self.conversation)
        self._awaiting_tools: dict[str, None] = {}  # in the order in which they asked

    # --- the client ----------------------------------------------------------------------------------------------

    def open(self) -> list[Output]:
        """Return what begins the session: session.created, before anything else, and the backend's first settings.

        MCP servers that stand in the settings from the start are listed as those of an update are.
        """
        begin: list[Output] = [self._session_event("session.created"), ToBackend(self.settings.to_configure())]
        return [*begin, *self._listings.begin(self.settings.tools)]

    def receive(self, event: ClientEvent) -> list[Output]:
        """Take a client event. What cannot be obeyed gives exactly one `error` and changes nothing."""
        try:
            return self._received(event)
        except ProtocolError as error:
            error.event_id = event.event_id
            return self.refuse(error)

    def refuse(self, error: ProtocolError) -> list[Output]:
        """Return the `error` event for a frame that could not be parsed."""
        return [self._events.error(error)]

    def _received(self, event: ClientEvent) -> list[Output]:
        if self.settings.kind == "transcription" and type(event) in _CONVERSATION_EVENTS:
            raise errors.not_in_a_transcription_session(_CONVERSATION_EVENTS[type(event)])
        match event:
            case client.AppendInput():
                return self.hear(self.decode(event))
            case client.SessionUpdate():
                return self._update(event)
            case client.CommitInputBuffer(event_id):
                self._pcm.drop_odd_byte()
                return _to_backend(CommitInput(event_id))
            case client.ClearInputBuffer(event_id):
                self._pcm.restart()
                return _to_backend(ClearInput(event_id))
            case client.ClearOutputBuffer():
                raise errors.output_buffer_not_here()
            case client.CreateItem():
                return self._create_item(event)
            case client.RetrieveItem(item_id):
                item = self.conversation.retrieve(item_id, self._on_the_wire)
                return [self._events("conversation.item.retrieved", item=item)]
            case client.TruncateItem():
                return self._truncate(event)
            case client.DeleteItem(item_id):
                self.conversation.delete(item_id)
                deleted = self._events("conversation.item.deleted", item_id=item_id)
                return [deleted, *([] if self._begun else self._context_changed())]
            case client.AskForResponse():
                return self._ask_for_response(event)
            case client.StopResponse(response_id, event_id):
                return _to_backend(CancelResponse(response_id, event_id))
            case _:
                assert_never(event)

    def decode(self, append: client.AppendInput) -> bytes:
        """Return the session's samples that an append completes, for `hear`. Raises ProtocolError.

        `receive` does both at once. Decoding touches nothing that the backend's events touch, so that the shell may
        decode a large append in a thread, between two other client events.
        """
        try:
            return self._pcm.append(append.audio)
        except ProtocolError as error:
            error.event_id = append.event_id
            raise

    def hear(self, pcm: bytes) -> list[Output]:
        """Take user audio that was decoded; long audio in several commands, none of them a mere rest."""
        count = -(-len(pcm) // _LONGEST_APPEND_BYTES)
        step = bytes_from_samples(-(-samples_from_bytes(len(pcm)) // count)) if count else 0
        pieces = [pcm[number * step : (number + 1) * step] for number in range(count)]
        for piece in pieces:
            self._recent_input.append(piece)
        return [ToBackend(AppendAudio(piece)) for piece in pieces]

    def _item_audio(self, audio: bytes, param: str) -> bytes:
        """Return the session's samples of a recording inside an item, which is in the session's input format."""
        audio_format = self.settings.input_format
        if audio_format.samples_in(len(audio)) > samples_from_s(LONGEST_PENDING_S):  # too long to decode in vain
            raise errors.too_much_item_audio(param, LONGEST_PENDING_S)
        recording = InputPcm(self._g711)
        recording.switch(audio_format)
        return recording.append(audio)

    def _on_the_wire(self, pcm: bytes, role: Role) -> bytes:
        """Return kept audio in the format in which its speaker's audio travels now."""
        settings = self.settings
        return encoded(pcm, settings.output_format if role == "assistant" else settings.input_format, self._g711)

    def _update(self, event: client.SessionUpdate) -> list[Output]:
        update = self._with_servers(event.session, "session")
        before = self.settings
        updated = self._effective(before.merged(update, voice_locked=self._voice_locked))
        if self._limits is not None:
            check(Update(update, before, updated), fixed=self._fixed)
        check_size(updated.to_wire(**self._identity), "session")
        self.settings = updated
        self._pcm.switch(updated.input_format)
        self._servers.remember(update.get("tools") or ())
        outputs: list[Output] = [self._session_event("session.updated"), ToBackend(self.settings.to_configure())]
        if (before.instructions, before.tools) != (updated.instructions, updated.tools):
            outputs += self._context_changed()
        return [*outputs, *self._listings.begin(update.get("tools") or ())]

    # --- a full-duplex model, which reads its context once ---------------------------------------------------------

    def _effective(self, asked: SessionSettings) -> SessionSettings:
        return asked if self._limits is None else self._limits.effective(asked)

    @property
    def _voice_locked(self) -> bool:
        own_voice = self._limits is not None and self._limits.voice
        return self.conversation.has_agent_audio and not own_voice

    @property
    def _fixed(self) -> bool:
        """Whether what the model reads beforehand cannot be changed any more."""
        return self._limits is not None and self._begun and not self._limits.restarts

    def _context_changed(self) -> list[Output]:
        """Tell a model that has read its context of a change, as long as it can take it up."""
        return [] if self._limits is None or self._fixed else _to_backend(ContextChanged())

    def _with_servers(self, raw: dict[str, Any], path: str) -> dict[str, Any]:
        """Return `raw` with its MCP servers' definitions complete. Raises ProtocolError."""
        if not raw.get("tools"):
            return raw
        tools = self._servers.completed(raw["tools"], f"{path}.tools")
        self._listings.check(tools, f"{path}.tools")
        return {**raw, "tools": tools}

    def _create_item(self, event: client.CreateItem) -> list[Output]:
        item = item_from_wire(event.item, self._ids)
        if self._limits is not None:
            check(NewItem(item, self.conversation), fixed=self._fixed)
        given = given_audio(item, event.item, "item", self._item_audio)
        if given is not None:
            self._pending_audio.check([given], "item.content")
        check_size(item.to_wire(), "item")
        if isinstance(item, McpApprovalResponse):
            self._mcp_calls.check(item)
        previous = self.conversation.add_from_client(item, event.previous_item_id, encoded_bytes(event.item))
        outputs: list[Output] = [
            self._events("conversation.item.added", previous_item_id=previous, item=item.to_wire()),
            self._events("conversation.item.done", previous_item_id=previous, item=item.to_wire()),
        ]
        if given is not None:
            self.conversation.audio.append(item.id, given.pcm)
            if given.wordless:
                self._pending_audio.add(item.id, given, private=False)
                self._input.expect(item.id)
                outputs.append(ToBackend(RecogniseItem(item.id, given.pcm)))
        if isinstance(item, FunctionCallOutput):
            outputs.append(ToBackend(ToolResult(item.call_id, item.output)))
        else:
            outputs += self._context_changed()
        if isinstance(item, McpApprovalResponse):
            outputs += self._mcp_calls.approval_given(item)
        return outputs

    def _truncate(self, event: client.TruncateItem) -> list[Output]:
        heard = self.conversation.truncate(event.item_id, event.content_index, event.audio_end_ms)
        truncated = self._events(
            "conversation.item.truncated",
            item_id=event.item_id,
            content_index=event.content_index,
            audio_end_ms=event.audio_end_ms,
        )
        return [ToBackend(ItemTruncated(event.item_id, heard)), truncated]

    def _ask_for_response(self, event: client.AskForResponse) -> list[Output]:
        raw = self._with_servers(event.response, "response")
        parameters = overridden(raw, self.settings, self.conversation, self._ids, self._item_audio)
        if self._limits is not None:
            parameters = self._within_limits(self._limits, raw, parameters)
        wordless = [given for given in parameters.input_audio if given.wordless]
        self._pending_audio.check(wordless, "response.input")
        self._servers.remember(raw.get("tools") or ())
        outputs = [*self._listings.begin(raw.get("tools") or ()), *(self._context_changed() if self._opening else ())]
        for given in wordless:
            recognition_id = self._ids("item")  # the item's own may be that of one in the conversation
            self._pending_audio.add(recognition_id, given, private=True)
            outputs.append(ToBackend(RecogniseItem(recognition_id, given.pcm)))
        response_id = self._ids("resp")
        self._asked_for[response_id] = (parameters, event.event_id)
        command = CreateResponse(
            response_id, parameters.speaks, event.event_id, parameters.out_of_band, parameters.needs_transcripts
        )
        return [*outputs, ToBackend(command)]

    def _within_limits(
        self, limits: DuplexLimits, raw: Mapping[str, Any], asked: ResponseParameters
    ) -> ResponseParameters:
        """Return the effective parameters of a response; its own instructions open the conversation with the model."""
        parameters = replace(asked, settings=limits.effective(asked.settings))
        check(Request(raw, parameters, self.settings), fixed=self._begun)
        own = parameters.settings.instructions != self.settings.instructions
        self._opening = parameters.settings.instructions if own else ""
        return parameters

    def _session_event(self, kind: str) -> Output:
        return self._events(kind, session=self.settings.to_wire(**self._identity))

    # --- the backend ---------------------------------------------------------------------------------------------

    def receive_backend(self, event: BackendEvent) -> list[Output]:
        """Take what the backend reports."""
        match event:
            case backend.SpeechStarted():
                return self._input.speech_started(event)
            case backend.SpeechStopped():
                return self._input.speech_stopped(event)
            case backend.InputTimedOut():
                return self._input.timed_out(event)
            case backend.InputCommitted():
                return self._input.committed(event)
            case backend.InputCleared():
                return self._input.cleared()
            case backend.InputTranscriptDelta() | backend.InputTranscriptCompleted() | backend.InputTranscriptFailed():
                return self._transcript(event)
            case backend.ResponseStarted(response_id):
                return self._response_started(response_id)
            case backend.ContextRequested(response_id):
                return self._context(response_id)
            case backend.ContextForeseen(speculation_id, words):
                return self._foreseen_context(speculation_id, words)
            case backend.PlayoutCut(item_id, heard):
                self.conversation.cut(item_id, heard)
                return [DiscardItemAudio(item_id)]
            case backend.CommandRefused():
                return self._refused(event)
            case backend.ContextSettled():
                self._begun, self._opening = True, ""
                return []
            case _:
                return self._response_event(event)

    def _transcript(
        self, event: backend.InputTranscriptDelta | backend.InputTranscriptCompleted | backend.InputTranscriptFailed
    ) -> list[Output]:
        private = self._pending_audio.is_private(event.item_id)
        match event:
            case backend.InputTranscriptDelta():
                return [] if private else self._input.transcript_delta(event, self.settings)
            case backend.InputTranscriptCompleted():
                self._pending_audio.answered(event.item_id, event.transcript)
                return [] if private else self._input.transcript_completed(event, self.settings)
            case backend.InputTranscriptFailed():
                self._pending_audio.answered(event.item_id, "")
                return [] if private else self._input.transcript_failed(event, self.settings)
            case _:
                assert_never(event)

    def audio_unsent(self, item_id: str, samples: Samples) -> None:
        """Take the shell's word that the last `samples` of an item's audio were dropped before they were sent."""
        self.conversation.unsend(item_id, samples)

    def _response_event(
        self,
        event: backend.OutputTextDelta
        | backend.OutputAudio
        | backend.OutputSpoken
        | backend.FunctionCallStarted
        | backend.FunctionCallArgumentsDelta
        | backend.OutputItemEnded
        | backend.ResponseEnded,
    ) -> list[Output]:
        response = self._running.get(event.response_id)
        if response is None:  # late work of a response that has ended
            return []
        match event:
            case backend.OutputTextDelta():
                return response.text_delta(event)
            case backend.OutputAudio():
                return response.audio(event)
            case backend.OutputSpoken():
                return response.spoken(event)
            case backend.FunctionCallStarted():
                return response.call_started(event)
            case backend.FunctionCallArgumentsDelta():
                return response.arguments_delta(event)
            case backend.OutputItemEnded():
                return response.item_ended(event)
            case backend.ResponseEnded():
                del self._running[event.response_id]
                self._awaiting_tools.pop(event.response_id, None)
                return response.ended(event)
            case _:
                assert_never(event)

    def _response_started(self, response_id: str) -> list[Output]:
        parameters, _ = self._asked_for.pop(response_id, (ResponseParameters(self.settings), None))
        response = RunningResponse(
            response_id, parameters, self._events, self.conversation, self._g711, self._mcp_calls
        )
        self._running[response_id] = response
        return response.started()

    def _context(self, response_id: str) -> list[Output]:
        """Answer with the context as of now; the parameters are those that the response was asked for with.

        A response with tools of its own waits until they are listed, since it is for them; others take what is there.
        """
        if response_id in self._running:
            parameters = self._running[response_id].parameters
        else:
            parameters, _ = self._asked_for.get(response_id, (ResponseParameters(self.settings), None))
        if parameters.own_tools and self._listings.pending(parameters.settings.tools):
            self._awaiting_tools[response_id] = None
            return []
        offer = self._listings.offer(parameters.settings.tools, parameters.settings.tool_choice)
        try:
            context = parameters.context(self.conversation, offer)
        except ContextTooLong as error:
            return _to_backend(WithholdContext(response_id, errors.context_too_long(error.tokens, error.limit_tokens)))
        if response_id in self._running:
            self._running[response_id].offer = offer
        return _to_backend(ProvideContext(response_id, context))

    def _foreseen_context(self, speculation_id: str, words: str) -> list[Output]:
        """Answer with the context of an automatic response to `words`, which the user may be about to have said.

        Nothing is noted: should the words become an item, the response that answers it asks for its own context.
        """
        settings = self.settings
        if self._opening:
            both = "\n\n".join(filter(None, (settings.instructions, self._opening)))
            settings = replace(settings, instructions=both)
        offer = self._listings.offer(settings.tools, settings.tool_choice)
        try:
            context = ResponseParameters(settings).foreseen_context(self.conversation, offer, words)
        except ContextTooLong as error:
            fault = errors.context_too_long(error.tokens, error.limit_tokens)
            return _to_backend(WithholdContext(speculation_id, fault))
        return _to_backend(ProvideContext(speculation_id, context))

    # --- MCP servers ---------------------------------------------------------------------------------------------

    def mcp_tools_listed(self, item_id: str, result: tuple[McpTool, ...] | McpFailure) -> list[Output]:
        """Take the answer to ListMcpTools."""
        outputs = self._listings.ended(item_id, result)
        waiting, self._awaiting_tools = self._awaiting_tools, {}
        for response_id in waiting:
            outputs += self._context(response_id)
        return outputs

    def mcp_call_ended(self, item_id: str, outcome: str | McpFailure) -> list[Output]:
        """Take the answer to CallMcpTool."""
        return self._mcp_calls.ended(item_id, outcome)

    def _refused(self, refusal: backend.CommandRefused) -> list[Output]:
        conversation = (key for key, response in self._running.items() if not response.parameters.out_of_band)
        active = next(conversation, None)
        if refusal.kind not in (RefusalKind.INPUT_TOO_SHORT, RefusalKind.NO_ACTIVE_RESPONSE):
            self._forget_request(refusal)
        return [self._events.error(errors.refused_by_backend(refusal, active))]

    def _forget_request(self, refusal: backend.CommandRefused) -> None:
        """Drop the parameters of a refused response.

        Backends name the response that they refused; else the client's event id tells it. A refusal without either is a
        decision of the gateway itself: every request stays.
        """
        by_event = [
            response_id
            for response_id, (_, event_id) in self._asked_for.items()
            if event_id is not None and event_id == refusal.client_event_id
        ]
        for response_id in (refusal.response_id, *by_event):
            if response_id in self._asked_for:
                del self._asked_for[response_id]
                self._opening = ""
                return


_CONVERSATION_EVENTS: dict[type[ClientEvent], str] = {
    client.CreateItem: "conversation.item.create",
    client.TruncateItem: "conversation.item.truncate",
    client.AskForResponse: "response.create",
    client.StopResponse: "response.cancel",
    client.ClearOutputBuffer: "output_audio_buffer.clear",
}
"""What only a conversation knows: a transcription session has no model that answers."""


def check_size(wire: dict[str, Any], param: str) -> None:
    """Raise ProtocolError if the event that shows `wire` would be larger than clients can read."""
    if encoded_bytes(wire) > MAX_FRAME_BYTES:
        raise errors.answer_too_large(param, MAX_FRAME_BYTES)


def _to_backend(command: Command) -> list[Output]:
    return [ToBackend(command)]
