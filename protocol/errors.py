"""The one place where an error's type, code and words are chosen (Realtime: the `error` event).

Codes and messages are OpenAI's where they were seen on the wire; clients match some of them: Pipecat by code, LiveKit
by the prefix "Cancellation failed". Where OpenAI's code is not known, the choice is ours and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.audio_format import AudioFormat
from protocol.audio_time import SAMPLES_PER_MS, Samples
from protocol.backend_events import CommandRefused, EngineFault, RefusalKind

_SHOWN_CHARACTERS = 80
"""Of a client's own string an error repeats at most this much."""


class ProtocolError(Exception):
    """A client event that cannot be obeyed. It becomes one `error` event; the session goes on.

    `event_id` is that of the client event, or None where it had none or could not be read.
    """

    def __init__(
        self,
        code: str,
        message: str,
        param: str | None = None,
        *,
        error_type: str = "invalid_request_error",
        event_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.type = error_type
        self.code = code
        self.message = message
        self.param = param
        self.event_id = event_id

    def to_wire(self) -> dict[str, Any]:
        """Return the `error` object of the `error` event."""
        return {
            "type": self.type,
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "event_id": self.event_id,
        }


def shortened(value: object) -> str:
    """Return a client's own words as an error repeats them."""
    text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _quoted(values: Iterable[object]) -> str:
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 2:
        return "".join(quoted)
    joint = ", and " if len(quoted) > 2 else " and "
    return ", ".join(quoted[:-1]) + joint + quoted[-1]


# --- frames that are no events -------------------------------------------------------------------------------------


def malformed_json(reason: str) -> ProtocolError:
    """A frame is not JSON. The code is ours (OpenAI's is not known)."""
    return ProtocolError("invalid_json", f"The event could not be parsed as JSON: {shortened(reason)}.")


def nested_too_deeply(limit: int) -> ProtocolError:
    """A frame nests deeper than we follow. The code is ours."""
    return ProtocolError("invalid_json", f"The event is nested too deeply. At most {limit} levels are accepted.")


def not_text() -> ProtocolError:
    """A frame is binary; Realtime events are text frames. The code is ours."""
    return ProtocolError("invalid_event", "Binary frames are not accepted. Send each event as a JSON text frame.")


def not_an_object(value: object) -> ProtocolError:
    """A frame is JSON, but no object. The code is ours."""
    return ProtocolError("invalid_event", f"An event must be a JSON object, but got {described(value)} instead.")


def missing_event_type() -> ProtocolError:
    """An event has no `type` (OpenAI's documented example: no `param` either)."""
    return ProtocolError("invalid_event", "The 'type' field is missing.")


def event_too_large(limit_bytes: int) -> ProtocolError:
    """An event is over the size limit. The code is ours, in the pattern of OpenAI's `string_above_max_length`."""
    mebibytes = limit_bytes // (1024 * 1024)
    return ProtocolError("event_too_large", f"The event is too large. An event may hold at most {mebibytes} MiB.")


def answer_too_large(param: str, limit_bytes: int) -> ProtocolError:
    """What the client sent would make a server event larger than clients can read. The code is ours."""
    return ProtocolError(
        "event_too_large",
        f"Invalid '{param}': too large. The event that shows it may hold at most {limit_bytes} bytes.",
        param,
    )


def conversation_full(items: int, mebibytes: int) -> ProtocolError:
    """The client has put more into the conversation than we keep. The code is ours."""
    return ProtocolError(
        "conversation_full",
        f"The conversation is full: at most {items} items and {mebibytes} MiB can be created. "
        "Delete items with conversation.item.delete first.",
    )


# --- fields --------------------------------------------------------------------------------------------------------


def described(value: object) -> str:
    """Return what kind of JSON value this is, in OpenAI's words."""
    if isinstance(value, bool):
        return "a boolean"
    for kind, words in ((str, "a string"), (int, "an integer"), (float, "a decimal number"), (dict, "an object")):
        if isinstance(value, kind):
            return words
    return "null" if value is None else "an array"


def missing_parameter(param: str) -> ProtocolError:
    """A required field is absent."""
    return ProtocolError("missing_required_parameter", f"Missing required parameter: '{param}'.", param)


def unknown_parameter(param: str) -> ProtocolError:
    """A field that the API does not know."""
    shown = shortened(param)
    return ProtocolError("unknown_parameter", f"Unknown parameter: '{shown}'.", shown)


def invalid_type(param: str, expected: str, value: object) -> ProtocolError:
    """A field holds another kind of JSON value than `expected` (words such as "an integer")."""
    return ProtocolError(
        "invalid_type", f"Invalid type for '{param}': expected {expected}, but got {described(value)} instead.", param
    )


def invalid_value(param: str, value: object, supported: Iterable[object]) -> ProtocolError:
    """A field holds a value outside its closed set."""
    return ProtocolError(
        "invalid_value", f"Invalid value: '{shortened(value)}'. Supported values are: {_quoted(supported)}.", param
    )


def refused_value(param: str, message: str) -> ProtocolError:
    """A field holds a value of the right type that cannot be accepted; `message` says what would be."""
    return ProtocolError("invalid_value", message, param)


def out_of_range(param: str, value: float, minimum: float | None, maximum: float | None) -> ProtocolError:
    """A number lies outside [minimum, maximum] (None: no limit on that side)."""
    kind = "integer" if isinstance(value, int) else "decimal"
    if minimum is not None and value < minimum:
        code, words, bound = "below_min_value", "below minimum", f">= {minimum}"
    else:
        code, words, bound = "above_max_value", "above maximum", f"<= {maximum}"
    return ProtocolError(
        f"{kind}_{code}",
        f"Invalid '{param}': {kind} {words} value. Expected a value {bound}, but got {shortened(value)} instead.",
        param,
    )


def string_too_long(param: str, length: int, maximum: int) -> ProtocolError:
    """A string is longer than the API allows."""
    return ProtocolError(
        "string_above_max_length",
        f"Invalid '{param}': string too long. Expected a string with maximum length {maximum}, "
        f"but got a string with length {length} instead.",
        param,
    )


def unlike_pattern(param: str, pattern: str) -> ProtocolError:
    """A string is not of the form that the API wants (OpenAI's words, seen live for `item.id`: livekit/agents#1717)."""
    return ProtocolError(
        "invalid_value",
        f"Invalid '{param}': string does not match pattern. Expected a string that matches the pattern '{pattern}'.",
        param,
    )


def bad_base64(param: str) -> ProtocolError:
    """Audio that is not standard base64."""
    return ProtocolError("invalid_value", f"Invalid '{param}': expected standard base64 with padding.", param)


def wav_of_another_format(expected: AudioFormat, found: str) -> ProtocolError:
    """Audio whose WAV header tells of another format than the session's. The code is ours."""
    return ProtocolError(
        "invalid_value",
        f"Invalid 'audio': raw {expected.words}, mono, {expected.rate_hz} Hz is expected, "
        f"but a WAV header says {found}.",
        "audio",
    )


# --- the session ---------------------------------------------------------------------------------------------------


def cannot_update_voice() -> ProtocolError:
    """Another voice after the agent has spoken."""
    return ProtocolError("cannot_update_voice", "Cannot update a conversation's voice if assistant audio is present.")


def other_kind_of_session(given: str, actual: str) -> ProtocolError:
    """An update for the other kind of session: its kind is chosen at the handshake (LiveKit's STT matches the code)."""
    return ProtocolError(
        "invalid_model",
        f"Passing a {given} session update event to a {actual} session is not allowed.",
        "session.type",
    )


def not_in_a_transcription_session(kind: str) -> ProtocolError:
    """An event that needs a model that answers, in a session that only transcribes. The code is ours."""
    return ProtocolError(
        "invalid_value", f"Invalid value: '{kind}'. This event is not supported in transcription sessions.", "type"
    )


def output_buffer_not_here() -> ProtocolError:
    """`output_audio_buffer.clear` is for WebRTC and SIP; on a WebSocket the client owns its player. Our code."""
    return ProtocolError(
        "invalid_value",
        "output_audio_buffer.clear is for WebRTC and SIP connections only. On a WebSocket, clear your own player, "
        "send response.cancel to stop the response and conversation.item.truncate to tell what was heard.",
        "type",
    )


# --- items ---------------------------------------------------------------------------------------------------------


def unknown_item_to_retrieve(item_id: str) -> ProtocolError:
    """`conversation.item.retrieve` names no item of the conversation (Pipecat matches the code)."""
    return _no_such_item("item_retrieve_invalid_item_id", "retrieving", item_id)


def unknown_item_to_delete(item_id: str) -> ProtocolError:
    """`conversation.item.delete` names no item of the conversation."""
    return _no_such_item("item_delete_invalid_item_id", "deleting", item_id)


def unknown_item_to_truncate(item_id: str) -> ProtocolError:
    """`conversation.item.truncate` names no item of the conversation."""
    return _no_such_item("item_truncate_invalid_item_id", "truncating", item_id)


def _no_such_item(code: str, doing: str, item_id: str) -> ProtocolError:
    return ProtocolError(code, f"Error {doing} item: the item with id '{shortened(item_id)}' does not exist.")


def not_assistant_audio(item_id: str) -> ProtocolError:
    """`conversation.item.truncate` names an item without assistant audio. The code is that of an unknown item."""
    return ProtocolError(
        "item_truncate_invalid_item_id",
        f"Error truncating item: the item with id '{shortened(item_id)}' is not an assistant message with audio.",
    )


def no_such_content(content_index: int) -> ProtocolError:
    """`conversation.item.truncate` names a content part that the item does not have."""
    return ProtocolError(
        "invalid_value",
        f"Invalid 'content_index': the item has no audio content at index {shortened(content_index)}.",
        "content_index",
    )


def truncated_past_the_end(have_ms: int, asked_ms: int) -> ProtocolError:
    """`conversation.item.truncate` asks for more audio than was sent (words seen live, code believed)."""
    return ProtocolError(
        "invalid_value", f"Audio content of {have_ms}ms is already shorter than {shortened(asked_ms)}ms", "audio_end_ms"
    )


def several_audio_parts(param: str) -> ProtocolError:
    """An item with more than one recording to be recognised. The code is ours."""
    return ProtocolError(
        "invalid_value", f"Invalid '{param}': an item may hold one audio part without a transcript.", param
    )


def too_much_item_audio(param: str, limit_s: int) -> ProtocolError:
    """More audio in items than the recogniser is given at a time. The code is ours."""
    return ProtocolError(
        "invalid_value",
        f"Invalid '{param}': the audio of items that wait for their transcript may add up to {limit_s} seconds.",
        param,
    )


def too_many_audio_items(param: str, maximum: int) -> ProtocolError:
    """More recordings in items than the recogniser is given at a time. The code is ours."""
    return ProtocolError(
        "invalid_value",
        f"Invalid '{param}': at most {maximum} items with audio may wait for their transcripts at a time.",
        param,
    )


def unknown_previous_item(item_id: str) -> ProtocolError:
    """`conversation.item.create` is to follow an item that does not exist. The code follows OpenAI's pattern."""
    return ProtocolError(
        "item_create_invalid_previous_item_id",
        f"Error adding item: the previous item with id '{shortened(item_id)}' does not exist.",
        "previous_item_id",
    )


def duplicate_item(item_id: str) -> ProtocolError:
    """`conversation.item.create` reuses an id. The code follows OpenAI's pattern."""
    return ProtocolError(
        "item_create_duplicate_item_id",
        f"Error adding item: an item with id '{shortened(item_id)}' already exists.",
        "item.id",
    )


def unknown_call(call_id: str) -> ProtocolError:
    """A tool result for a call that never happened; language model servers refuse such orphans."""
    return ProtocolError(
        "invalid_tool_call_id", f"Tool call ID '{shortened(call_id)}' not found in conversation.", "item.call_id"
    )


def duplicate_call(call_id: str) -> ProtocolError:
    """A second function call with the same `call_id`. The code is ours."""
    return ProtocolError(
        "invalid_value", f"Error adding item: a call with id '{shortened(call_id)}' already exists.", "item.call_id"
    )


def unknown_item_reference(item_id: str, param: str) -> ProtocolError:
    """`response.create` refers to an item that does not exist. The code is ours."""
    return ProtocolError("item_not_found", f"The item with id '{shortened(item_id)}' does not exist.", param)


# --- a full-duplex model ---------------------------------------------------------------------------------------------


def beyond_the_model(param: str | None, why: str) -> ProtocolError:
    """What a full-duplex model cannot do; the code is that of OpenAI's other APIs for models that lack something."""
    subject = f"'{param}'" if param else "response.create"
    return ProtocolError("unsupported_value", f"Unsupported value: {subject} is not supported here: {why}", param)


# --- MCP -----------------------------------------------------------------------------------------------------------


def hosted_connector(param: str) -> ProtocolError:
    """A connector or a tunnel of OpenAI's, which exist there only. Our words, in OpenAI's pattern."""
    return ProtocolError(
        "invalid_value",
        f"Invalid '{param}': connectors and tunnels are hosted by OpenAI and do not exist here. "
        "Give the 'server_url' of a remote MCP server instead.",
        param,
    )


def duplicate_server_label(label: str, param: str) -> ProtocolError:
    """Two MCP servers of one label in the same `tools` (refused by OpenAI too; our words)."""
    return ProtocolError(
        "invalid_value", f"Invalid '{param}': the server label '{shortened(label)}' is used more than once.", param
    )


def too_many_servers(maximum: int, param: str) -> ProtocolError:
    """More MCP servers than a session may have. Code and words follow OpenAI's pattern for arrays."""
    return ProtocolError(
        "array_above_max_length",
        f"Invalid '{param}': too many MCP servers. Expected at most {maximum}.",
        param,
    )


def too_many_lists(maximum: int, param: str) -> ProtocolError:
    """A session has had its MCP servers listed too often. The code is ours."""
    return ProtocolError(
        "invalid_value",
        f"Invalid '{param}': a session lists the tools of MCP servers at most {maximum} times.",
        param,
    )


def unusable_server_url(param: str) -> ProtocolError:
    """An MCP server's URL that is none. It is not repeated: URLs may hold keys."""
    return ProtocolError("invalid_value", f"Invalid '{param}': expected an http or https URL.", param)


def two_authorizations(param: str) -> ProtocolError:
    """Both `authorization` and an Authorization header (refused by OpenAI too; our words)."""
    return ProtocolError(
        "invalid_value",
        f"Invalid '{param}': give either 'authorization' or a header 'Authorization', not both.",
        param,
    )


def unusable_headers(param: str) -> ProtocolError:
    """A header that HTTP does not allow. It is not repeated: it may be a key."""
    return ProtocolError("invalid_value", f"Invalid '{param}': names and values must be valid HTTP headers.", param)


def tools_not_listed(label: str, reason: str) -> ProtocolError:
    """A server's tools could not be listed. OpenAI's words, type and code of the same failure in its Responses API.

    It follows `mcp_list_tools.failed`, which cannot say why. It has no `event_id`: the client's event was accepted.
    """
    return ProtocolError(
        "http_error",
        f"Error retrieving tool list from MCP server: '{shortened(label)}'. {reason}",
        "tools",
        error_type="external_connector_error",
    )


def unknown_approval_request(item_id: str) -> ProtocolError:
    """An approval for a request that was never made. The code is ours, in OpenAI's pattern."""
    return ProtocolError(
        "item_create_invalid_approval_request_id",
        f"Error adding item: the approval request with id '{shortened(item_id)}' does not exist.",
        "item.approval_request_id",
    )


def approval_already_given(item_id: str) -> ProtocolError:
    """A second answer to an approval request. The code is ours, in OpenAI's pattern."""
    return ProtocolError(
        "item_create_duplicate_approval_response",
        f"Error adding item: the approval request with id '{shortened(item_id)}' has been answered already.",
        "item.approval_request_id",
    )


# --- what the backend refuses --------------------------------------------------------------------------------------


def refused_by_backend(refusal: CommandRefused, active_response_id: str | None) -> ProtocolError:
    """Return the error for a command that the backend refused; `active_response_id` is the response that runs."""
    error = _REFUSALS[refusal.kind](refusal, active_response_id)
    error.event_id = refusal.client_event_id
    return error


def context_too_long(tokens: int, limit_tokens: int) -> EngineFault:
    """The conversation does not fit and `truncation` is `disabled`: a response fails of it.

    The words are ours, the code is OpenAI's for the like in its other APIs.
    """
    return EngineFault(
        "context_length_exceeded",
        f"The conversation has about {tokens} tokens, but only {limit_tokens} fit and truncation is disabled.",
    )


def session_expired(limit_min: int = 60) -> ProtocolError:
    """Return the error that precedes the close of a session at its longest duration (protocol: close code 1001)."""
    minutes = f"{limit_min} minutes" if limit_min > 1 else "1 minute"
    return ProtocolError("session_expired", f"Your session hit the maximum duration of {minutes}.")


def _input_too_short(refusal: CommandRefused, _active: str | None) -> ProtocolError:
    return ProtocolError(
        "input_audio_buffer_commit_empty",
        "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, "
        f"but buffer only has {_exact_ms(refusal.buffered)}ms of audio.",
    )


def _exact_ms(duration: Samples) -> str:
    return f"{duration / SAMPLES_PER_MS:.2f}"


def _response_active(_refusal: CommandRefused, active: str | None) -> ProtocolError:
    which = f": {active}" if active else ""
    return ProtocolError(
        "conversation_already_has_active_response",
        f"Conversation already has an active response in progress{which}. "
        "Wait until the response is finished before creating a new one.",
    )


def _too_many_responses(_refusal: CommandRefused, _active: str | None) -> ProtocolError:
    return ProtocolError(
        "rate_limit_exceeded", "Too many out-of-band responses are in progress. Wait until one of them is finished."
    )


def _no_active_response(_refusal: CommandRefused, _active: str | None) -> ProtocolError:
    return ProtocolError("response_cancel_not_active", "Cancellation failed: no active response found")


def _unsupported(refusal: CommandRefused, _active: str | None) -> ProtocolError:
    return ProtocolError("unsupported_value", refusal.detail or "This model does not support the requested operation.")


_REFUSALS = {
    RefusalKind.INPUT_TOO_SHORT: _input_too_short,
    RefusalKind.RESPONSE_ACTIVE: _response_active,
    RefusalKind.TOO_MANY_RESPONSES: _too_many_responses,  # the code is ours
    RefusalKind.NO_ACTIVE_RESPONSE: _no_active_response,
    RefusalKind.UNSUPPORTED: _unsupported,
}
