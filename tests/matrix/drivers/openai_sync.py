"""openai-python, synchronous, GA. Nothing is configured before the first spoken turn: the default session it is."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dialogue
from openai import OpenAI
from openai.resources.realtime.realtime import RealtimeConnection


class Conversation:
    """A connection and all that it received."""

    def __init__(self, connection: RealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Any] = []

    def until(self, kind: str) -> Any:
        """Receive up to the event of that type."""
        while True:
            event = self.connection.recv()
            self.events.append(event)
            if event.type == "error":
                raise RuntimeError(event.error.message)
            if event.type == kind:
                return event

    def ask(self, text: str) -> None:
        """Type a message and ask for its answer."""
        content: Any = [{"type": "input_text", "text": text}]
        self.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        self.connection.response.create()

    def response(self) -> dict[str, Any]:
        """Receive a response to its end; return what a user got of it."""
        begin = len(self.events)
        done = self.until("response.done")
        events = self.events[begin:]
        audio = b"".join(base64.b64decode(e.delta) for e in events if e.type == "response.output_audio.delta")
        said = "".join(e.delta for e in events if e.type == "response.output_audio_transcript.delta")
        return {"response": done.response, "reply": said, "audio_ms": len(audio) // dialogue.BYTES_PER_MS}

    @contextmanager
    def speaking(self, clip: str) -> Iterator[None]:
        """Keep a microphone open in a thread of its own: the clip at the pace of speech, then silence."""
        heard_out = threading.Event()

        def speak() -> None:
            began_s = time.monotonic()
            for number, chunk in enumerate(dialogue.microphone(clip), 1):
                self.connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())
                if heard_out.wait(max(0.0, began_s + number * dialogue.CHUNK_MS / 1000 - time.monotonic())):
                    return

        microphone = threading.Thread(target=speak)
        microphone.start()
        try:
            yield
        finally:
            heard_out.set()
            microphone.join()


def main() -> None:
    client = OpenAI(api_key=dialogue.GATEWAY_KEY, base_url=dialogue.GATEWAY_URL)
    with client.realtime.connect(model=dialogue.MODEL) as connection:
        talk = Conversation(connection)
        created = talk.until("session.created")
        dialogue.report("connected", model=created.session.model)
        spoken_turn(talk)
        tool(talk)
        barge_in(talk)
        cancel(talk)
        truncate(talk)
        leave(talk)


def spoken_turn(talk: Conversation) -> None:
    with talk.speaking(dialogue.SPOKEN_TURN):
        turn = talk.response()
    dialogue.report("spoken_turn", heard=None, reply=turn["reply"], audio_ms=turn["audio_ms"])


def tool(talk: Conversation) -> None:
    tools: Any = [dialogue.WEATHER_TOOL]
    talk.connection.session.update(session={"type": "realtime", "tools": tools})
    talk.until("session.updated")
    talk.ask(dialogue.WEATHER_QUESTION)
    called = talk.until("response.function_call_arguments.done")
    talk.until("response.done")
    output: Any = {"type": "function_call_output", "call_id": called.call_id, "output": dialogue.WEATHER}
    talk.connection.conversation.item.create(item=output)
    talk.connection.response.create()
    turn = talk.response()
    dialogue.report("tool", name=called.name, arguments=json.loads(called.arguments), reply=turn["reply"])


def barge_in(talk: Conversation) -> None:
    talk.ask(dialogue.STORY_REQUEST)
    first = talk.until("response.output_audio.delta")
    with talk.speaking(dialogue.BARGE_IN):
        talk.until("input_audio_buffer.speech_started")
        cut = talk.response()["response"]
        talk.connection.conversation.item.truncate(
            item_id=first.item_id, content_index=0, audio_end_ms=dialogue.TRUNCATE_AT_MS
        )
        talk.until("conversation.item.truncated")
        turn = talk.response()
    cancelled = cut.status == "cancelled" and cut.status_details.reason == "turn_detected"
    dialogue.report("barge_in", cancelled=cancelled, reply=turn["reply"])


def cancel(talk: Conversation) -> None:
    talk.ask(dialogue.STORY_REQUEST)
    talk.until("response.output_audio.delta")
    talk.connection.response.cancel()
    cut = talk.response()["response"]
    dialogue.report("cancel", status=cut.status, reason=cut.status_details.reason)


def truncate(talk: Conversation) -> None:
    talk.ask(dialogue.SMALL_TALK)
    item_id = talk.response()["response"].output[0].id
    talk.connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=dialogue.TRUNCATE_AT_MS)
    truncated = talk.until("conversation.item.truncated")
    talk.connection.conversation.item.retrieve(item_id=item_id)
    item = talk.until("conversation.item.retrieved").item
    kept_ms = len(base64.b64decode(item.content[0].audio)) // dialogue.BYTES_PER_MS
    dialogue.report("truncate", ok=truncated.audio_end_ms == kept_ms == dialogue.TRUNCATE_AT_MS)


def leave(talk: Conversation) -> None:
    talk.ask(dialogue.STORY_REQUEST)
    talk.until("response.output_audio.delta")
    raw = talk.connection._connection.socket
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as a lost network: no goodbye
    raw.close()
    dialogue.report("left")


main()
