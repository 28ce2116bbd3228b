"""A language model for whole conversations with stock clients: what it answers follows from what it reads, by rule.

The rules, the first that fits wins. *Words* are the last line of the last message; neighbouring user messages reach a
language model as one message of several lines. A system message counts as a user's unless it is the first, which holds
the instructions: Pipecat sends what is typed as one.

| the last message                                    | the answer                                                  |
|-----------------------------------------------------|-------------------------------------------------------------|
| a tool's result                                     | `I looked it up: ` and the result                           |
| words with `weather`, a tool with `weather` offered | a call of that tool; its first string argument is the place |
|                                                     | that follows `in`, else `Paris`                             |
| words with `story`                                  | `LONG_STORY`: a minute and a half of speech                 |
| any other words of a user                           | `You said: ` and the words                                  |
| no user's message yet                               | `Hello, how can I help you?`                                |

Tool calls come in two pieces of arguments and text word by word, as a model writes them. A request is answered with at
most `LONG_STORY`, so that nothing here grows without bound but the list of requests.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.endtoend.recording_chat_server import Body, Delta, RecordingChatServer, Script, Stop, text_of, words

GREETING = "Hello, how can I help you?"

LONG_STORY = " ".join(
    f"{opening} the {animal} walked along the river and met {count} travellers, who asked the way to the old town."
    for opening, animal, count in (
        ("Once upon a time", "fox", "two"),
        ("On the next morning", "badger", "three"),
        ("A little later", "heron", "four"),
        ("When the sun was high", "otter", "five"),
        ("In the afternoon", "hedgehog", "six"),
        ("As the shadows grew", "squirrel", "seven"),
        ("Before the evening bell", "raven", "eight"),
        ("At the fall of night", "owl", "nine"),
        ("Under a clear moon", "deer", "ten"),
        ("After a long sleep", "rabbit", "eleven"),
        ("With the first light", "swallow", "twelve"),
        ("Many years later", "fox", "twenty"),
        ("And in the end", "badger", "thirty"),
    )
)
"""About 90 s of speech: whatever interrupts it comes before its end."""

WORD_EVERY_S = 0.01
"""Pace of a text. A hundred words a second: ahead of any voice, yet a stream that is still open when it is cut."""

_PLACE = re.compile(r"\bin ([A-Z]\w+)")


def rule_based_chat() -> RecordingChatServer:
    """Return a chat server that answers every request by the rules. Use as a context manager."""
    server = RecordingChatServer()
    server.answer(answer)
    return server


def answer(body: Body) -> Script:
    """Return the answer to one request."""
    messages = body["messages"]
    spoken = messages[1:] if messages[0]["role"] == "system" else messages
    if not spoken:
        return words(GREETING)
    if spoken[-1]["role"] == "tool":
        return words(f"I looked it up: {text_of(spoken[-1])}", every_s=WORD_EVERY_S)
    said = next((text_of(message) for message in reversed(spoken) if message["role"] in ("user", "system")), "")
    line = said.strip().rpartition("\n")[2]
    if "weather" in line.lower() and (tool := _weather_tool(body)) is not None:
        return _call(tool, line)
    if "story" in line.lower():
        return words(LONG_STORY, every_s=WORD_EVERY_S)
    return words(f"You said: {line}" if line else GREETING, every_s=WORD_EVERY_S)


def _weather_tool(body: Body) -> dict[str, Any] | None:
    if body.get("tool_choice") == "none":
        return None
    functions = [tool["function"] for tool in body.get("tools") or ()]
    return next((function for function in functions if "weather" in function["name"].lower()), None)


def _call(function: dict[str, Any], line: str) -> Script:
    properties = function.get("parameters", {}).get("properties", {})
    place = match[1] if (match := _PLACE.search(line)) else "Paris"
    argument = next((name for name, schema in properties.items() if schema.get("type") == "string"), None)
    arguments = json.dumps({argument: place} if argument else {})
    head = {
        "index": 0,
        "id": "call_weather",
        "type": "function",
        "function": {"name": function["name"], "arguments": ""},
    }
    half = len(arguments) // 2
    pieces = [{"index": 0, "function": {"arguments": piece}} for piece in (arguments[:half], arguments[half:])]
    return [Delta({"tool_calls": [call]}) for call in (head, *pieces)] + [Stop("tool_calls")]
