"""A beta client that relies on all that openai-realtime-api-beta relies on, and says so where that one dies (§5.8).

It keeps a conversation from the events alone: items by id, their content grown delta by delta. An event that comes too
early, for an item that it doesn't know, or without a key that it reads, raises BetaClientError.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from protocol.beta.wire_law import BetaSessionLaw

Event = dict[str, Any]
Tool = Callable[[dict[str, Any]], object]

DEADLINE_S = 30
RATE_HZ = 24_000
SUBPROTOCOLS: Any = ["realtime", "openai-insecure-api-key.k", "openai-beta.realtime-v1"]
"""What it offers without a header of its own, as browsers must; the server has to choose `realtime`."""


class BetaClientError(AssertionError):
    """Something that the reference client doesn't survive."""


class BetaConversation:
    """The conversation as the events tell it."""

    def __init__(self) -> None:
        self.items: dict[str, Event] = {}
        self.order: list[str] = []
        self.responses: dict[str, Event] = {}
        self.audio: dict[str, bytes] = {}
        self.speech: dict[str, dict[str, int]] = {}
        self._transcripts: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Apply one event. Raises BetaClientError."""
        handler = _HANDLERS.get(event["type"])
        if handler is not None:
            handler(self, event)

    def item(self, event: Event) -> Event:
        """Return the item that an event speaks of, which has to be known."""
        item_id = _read(event, "item_id")
        if item_id not in self.items:
            raise BetaClientError(f"{event['type']}: there is no item {item_id}")
        return self.items[item_id]

    def item_created(self, event: Event) -> None:
        item = copy.deepcopy(_read(event, "item"))
        item_id = _read(item, "id")
        if item_id in self.items:
            raise BetaClientError(f"item {item_id} is created twice")
        if item["type"] == "message" and not isinstance(item.get("content"), list):
            raise BetaClientError("a created message needs a content array, empty or not")
        if item["type"] == "function_call" and item.get("arguments") != "":
            raise BetaClientError("a created function call needs empty arguments, to which deltas are added")
        self.items[item_id] = item
        self.audio[item_id] = b""
        previous = event["previous_item_id"]
        self.order.insert(self.order.index(previous) + 1 if previous else 0, item_id)
        if item_id in self._transcripts:
            item["content"][0]["transcript"] = self._transcripts.pop(item_id)

    def item_deleted(self, event: Event) -> None:
        self.item(event)
        self.order.remove(event["item_id"])
        del self.items[event["item_id"]]

    def item_truncated(self, event: Event) -> None:
        part = self.item(event)["content"][_read(event, "content_index")]
        part["transcript"] = ""
        end_bytes = _read(event, "audio_end_ms") * RATE_HZ // 1000 * 2
        self.audio[event["item_id"]] = self.audio[event["item_id"]][:end_bytes]

    def transcribed(self, event: Event) -> None:
        if event["item_id"] not in self.items:  # may come first
            self._transcripts[event["item_id"]] = event["transcript"]
            return
        self.item(event)["content"][_read(event, "content_index")]["transcript"] = _read(event, "transcript")

    def speech_started(self, event: Event) -> None:
        self.speech[_read(event, "item_id")] = {"start_ms": _read(event, "audio_start_ms")}

    def speech_stopped(self, event: Event) -> None:
        self.speech[_read(event, "item_id")]["end_ms"] = _read(event, "audio_end_ms")

    def response_created(self, event: Event) -> None:
        response = copy.deepcopy(_read(event, "response"))
        if response.get("output") != []:
            raise BetaClientError("a created response needs an empty output array")
        self.responses[_read(response, "id")] = response

    def output_item_added(self, event: Event) -> None:
        response = self.responses.get(_read(event, "response_id"))
        if response is None:
            raise BetaClientError("response.output_item.added before response.created")
        response["output"].append(_read(event, "item")["id"])

    def output_item_done(self, event: Event) -> None:
        item = _read(event, "item")
        if item["id"] not in self.items:
            raise BetaClientError(f"response.output_item.done: there is no item {item['id']}")
        self.items[item["id"]]["status"] = _read(item, "status")

    def content_part_added(self, event: Event) -> None:
        self.item(event)["content"].append(copy.deepcopy(_read(event, "part")))

    def transcript_delta(self, event: Event) -> None:
        self._grow(self.item(event)["content"][_read(event, "content_index")], "transcript", event)

    def text_delta(self, event: Event) -> None:
        self._grow(self.item(event)["content"][_read(event, "content_index")], "text", event)

    def arguments_delta(self, event: Event) -> None:
        self._grow(self.item(event), "arguments", event)

    def audio_delta(self, event: Event) -> None:
        self.item(event)
        pcm = base64.b64decode(_read(event, "delta"), validate=True)
        if len(pcm) % 2:
            raise BetaClientError("a delta of audio holds half a sample")
        self.audio[event["item_id"]] += pcm

    def _grow(self, place: Event, key: str, event: Event) -> None:
        if not isinstance(place.get(key), str):
            raise BetaClientError(f"{event['type']}: {key} does not start as a string")
        place[key] += _read(event, "delta")


_HANDLERS: dict[str, Callable[[BetaConversation, Event], None]] = {
    "conversation.item.created": BetaConversation.item_created,
    "conversation.item.deleted": BetaConversation.item_deleted,
    "conversation.item.truncated": BetaConversation.item_truncated,
    "conversation.item.input_audio_transcription.completed": BetaConversation.transcribed,
    "input_audio_buffer.speech_started": BetaConversation.speech_started,
    "input_audio_buffer.speech_stopped": BetaConversation.speech_stopped,
    "response.created": BetaConversation.response_created,
    "response.output_item.added": BetaConversation.output_item_added,
    "response.output_item.done": BetaConversation.output_item_done,
    "response.content_part.added": BetaConversation.content_part_added,
    "response.audio_transcript.delta": BetaConversation.transcript_delta,
    "response.text.delta": BetaConversation.text_delta,
    "response.audio.delta": BetaConversation.audio_delta,
    "response.function_call_arguments.delta": BetaConversation.arguments_delta,
}


class StrictBetaClient:
    """One connection. `events` holds all that came, each checked against the beta law."""

    def __init__(self, connection: ClientConnection) -> None:
        self.conversation = BetaConversation()
        self.events: list[Event] = []
        self._law = BetaSessionLaw()
        self._connection = connection
        self._tools: dict[str, Tool] = {}
        self._definitions: list[Event] = []
        self._turn_detection: Event | None = None
        self._appended = False
        self._sent = 0

    # --- what it says ------------------------------------------------------------------------------------------------

    def send(self, kind: str, **fields: Any) -> str:
        self._sent += 1
        event_id = f"evt_{self._sent}"
        self._connection.send(json.dumps({"event_id": event_id, "type": kind, **fields}))
        return event_id

    def update_session(self, **changes: Any) -> None:
        """Send the whole session, as the reference client does with every change."""
        self._turn_detection = changes.get("turn_detection", self._turn_detection)
        session = {
            "modalities": ["text", "audio"],
            "instructions": "",
            "voice": "verse",
            "input_audio_format": "pcm16",
            "output_audio_format": "pcm16",
            "input_audio_transcription": None,
            "turn_detection": self._turn_detection,
            "tools": self._definitions,
            "tool_choice": "auto",
            "temperature": 0.8,
            "max_response_output_tokens": 4096,
        }
        self.send("session.update", session={**session, **changes})

    def add_tool(self, definition: Event, tool: Tool) -> None:
        self._tools[definition["name"]] = tool
        self._definitions.append({**definition, "type": "function"})
        self.update_session()

    def say(self, text: str) -> None:
        """Send the user's words and ask for an answer, in one breath."""
        content = [{"type": "input_text", "text": text}]
        self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        self.create_response()

    def append(self, pcm: bytes) -> None:
        self._appended = True
        for start in range(0, len(pcm), 4_800):
            self.send("input_audio_buffer.append", audio=base64.b64encode(pcm[start : start + 4_800]).decode())

    def create_response(self) -> None:
        if self._turn_detection is None and self._appended:
            self.send("input_audio_buffer.commit")
            self._appended = False
        self.send("response.create")

    def cancel_response(self, item_id: str, heard_samples: int) -> None:
        """Stop the response and say how much of its item was heard, in one breath."""
        content = self.conversation.items[item_id]["content"]
        spoken = [index for index, part in enumerate(content) if part["type"] == "audio"]
        if not spoken:
            raise BetaClientError(f"item {item_id} has no audio to cancel")
        self.send("response.cancel")
        heard_ms = heard_samples * 1000 // RATE_HZ
        self.send("conversation.item.truncate", item_id=item_id, content_index=spoken[0], audio_end_ms=heard_ms)

    # --- what it hears -----------------------------------------------------------------------------------------------

    def next(self) -> Event:
        event: Event = json.loads(self._connection.recv(timeout=DEADLINE_S))
        for key in ("event_id", "type"):
            if not event.get(key):
                raise BetaClientError(f"an event without {key}: {event}")
        assert self._law.violations(event) == [], event
        self.events.append(event)
        self.conversation.take(event)
        if event["type"] == "response.output_item.done":
            self._run_tool(self.conversation.items[event["item"]["id"]])
        return event

    def until(self, kind: str, *, errors: bool = False) -> list[Event]:
        """Receive up to an event of that type; return what came. An `error` on the way fails unless allowed."""
        begin = len(self.events)
        try:
            while (event := self.next())["type"] != kind:
                assert errors or event["type"] != "error", event
        except TimeoutError as error:
            raise BetaClientError(f"no {kind}, but {[event['type'] for event in self.events[begin:]]}") from error
        return self.events[begin:]

    def _run_tool(self, item: Event) -> None:
        """Run a function that was called, send its result, ask for what the model makes of it."""
        if item["type"] != "function_call" or item["status"] != "completed":
            return
        result = self._tools[item["name"]](json.loads(item["arguments"]))
        output = {"type": "function_call_output", "call_id": item["call_id"], "output": json.dumps(result)}
        self.send("conversation.item.create", item=output)
        self.create_response()


@contextmanager
def strict_beta_client(url: str) -> Iterator[StrictBetaClient]:
    """Connect to a socket URL, wait for the session, configure it."""
    with connect(url, subprotocols=SUBPROTOCOLS, max_size=None, compression=None) as connection:
        if connection.subprotocol != "realtime":
            raise BetaClientError(f"the server chose the subprotocol {connection.subprotocol}")
        client = StrictBetaClient(connection)
        client.update_session()  # at once, before session.created has come
        client.until("session.updated")
        yield client


def _read(place: Event, key: str) -> Any:
    if place.get(key) is None:
        raise BetaClientError(f"{key} is missing in {place}")
    return place[key]
