"""The rules of the language model that the client matrix talks to."""

from __future__ import annotations

import json
from typing import Any

from tests.endtoend.recording_chat_server import Delta, Say, Script, Stop
from tests.simulation.rule_based_chat import GREETING, LONG_STORY, answer

TOOL: Any = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}},
}


def asked(*texts: str, role: str = "user", **body: Any) -> Script:
    messages = [{"role": "system", "content": "Be brief."}, *({"role": role, "content": text} for text in texts)]
    return answer({"messages": messages, **body})


def text(script: Script) -> str:
    return "".join(step.text for step in script if isinstance(step, Say))


def test_words_are_repeated() -> None:
    assert text(asked("Go forward ten meters.")) == "You said: Go forward ten meters."


def test_of_several_lines_the_last_one_counts() -> None:
    assert text(asked("Tell me a long story.\nTen of clubs.")) == "You said: Ten of clubs."


def test_a_story_is_long() -> None:
    assert text(asked("Tell me a long story.")) == LONG_STORY
    assert len(LONG_STORY.split()) > 200


def test_weather_calls_the_tool_in_pieces_that_add_up() -> None:
    script = asked("What is the weather in Oslo?", tools=[TOOL])
    calls = [step.delta["tool_calls"][0]["function"] for step in script if isinstance(step, Delta)]
    assert calls[0]["name"] == "get_weather"
    assert json.loads("".join(call["arguments"] for call in calls)) == {"city": "Oslo"}
    assert script[-1] == Stop("tool_calls")


def test_weather_without_a_tool_or_with_none_allowed_is_small_talk() -> None:
    assert text(asked("The weather in Oslo")) == "You said: The weather in Oslo"
    assert text(asked("The weather in Oslo", tools=[TOOL], tool_choice="none")) == "You said: The weather in Oslo"


def test_a_tools_result_is_spoken() -> None:
    script = asked("It is sunny.", role="tool", tools=[TOOL])
    assert text(script) == "I looked it up: It is sunny."


def test_without_words_it_greets() -> None:
    assert text(asked()) == GREETING
    assert text(asked("")) == GREETING
