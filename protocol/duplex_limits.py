"""What a full-duplex model behind a session cannot do, and what the client is told of it: two tables.

Such a model hears, decides and speaks by itself. A setting that it cannot honour is accepted and the effective value
shown; what would change the meaning of the conversation is refused with an error, so that nobody waits for it in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from protocol import errors
from protocol.conversation import Conversation
from protocol.items import FunctionCallOutput, HeardPart, ImagePart, Item, Message
from protocol.response_parameters import ResponseParameters
from protocol.session_settings import SessionSettings

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class DuplexLimits:
    """What the model can do. It reads instructions, tools and what was said before once, when a conversation begins.

    `voice`: the only one it has, "" if the client's word stands. `hears_words`: it writes down what the user says.
    `restarts`: a change of what it has read begins its conversation anew, with what was said so far, instead of being
    refused.
    """

    voice: str = ""
    instructions: bool = True
    tools: bool = True
    hears_words: bool = True
    restarts: bool = False

    def effective(self, asked: SessionSettings) -> SessionSettings:
        """Return `asked` with the values that hold in place of those that such a model cannot honour."""
        return replace(asked, **{name: value(self, asked) for name, value in _EFFECTIVE.items()})


def _turn_detection(_limits: DuplexLimits, asked: SessionSettings) -> Mapping[str, Any] | None:
    """Return what finds the user's turns; when the agent speaks and gives way is the model's own decision."""
    if asked.turn_detection is None:
        return None
    kept = {key: value for key, value in asked.turn_detection.items() if key != "idle_timeout_ms"}
    if "eagerness" in kept:
        kept["eagerness"] = "auto"
    return {**kept, "create_response": True, "interrupt_response": True}


def _tools(limits: DuplexLimits, asked: SessionSettings) -> tuple[dict[str, Any], ...]:
    return tuple(tool for tool in asked.tools if tool["type"] == "function") if limits.tools else ()


_EFFECTIVE: dict[str, Callable[[DuplexLimits, SessionSettings], Any]] = {
    "voice": lambda limits, asked: limits.voice or asked.voice,
    "instructions": lambda limits, asked: asked.instructions if limits.instructions else "",
    "tools": _tools,
    "transcription": lambda limits, asked: asked.transcription if limits.hears_words else None,
    "turn_detection": _turn_detection,
    "speed": lambda _limits, _asked: 1.0,
    "tool_choice": lambda _limits, _asked: "auto",
    "parallel_tool_calls": lambda _limits, _asked: None,
    "max_output_tokens": lambda _limits, _asked: "inf",
    "truncation": lambda _limits, _asked: "auto",
    "temperature": lambda _limits, _asked: None,
    "reasoning": lambda _limits, _asked: None,
    "noise_reduction": lambda _limits, _asked: None,
    "include": lambda _limits, _asked: (),
}
"""Settings by name, and what holds. All others (formats, modality, language, prompt …) are honoured or merely shown."""


# --- what is refused -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Update:
    """An update of the session: `raw` as the client wrote it, and the effective settings before and after it."""

    raw: Mapping[str, Any]
    before: SessionSettings
    after: SessionSettings


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item that the client adds to the conversation."""

    item: Item
    conversation: Conversation


@dataclass(frozen=True, slots=True)
class Request:
    """A response that the client asks for: `raw` as it wrote it, its effective parameters, the session's settings."""

    raw: Mapping[str, Any]
    parameters: ResponseParameters
    session: SessionSettings


@dataclass(frozen=True, slots=True)
class _Rule:
    """Subjects of one kind for which `breaks` are refused; `fixed`: only once the model has read its context for good.

    `why` completes "Unsupported value: …".
    """

    subject: type
    param: str
    why: str
    breaks: Callable[[Any], bool]
    fixed: bool = False


def check(subject: Update | NewItem | Request, *, fixed: bool) -> None:
    """Raise ProtocolError if such a model cannot do what `subject` wants.

    `fixed`: the conversation has begun, so that what the model was to read beforehand cannot be changed any more.
    """
    for rule in _RULES:
        if isinstance(subject, rule.subject) and (fixed or not rule.fixed) and rule.breaks(subject):
            raise errors.beyond_the_model(rule.param, rule.why)


def _names_a_server(tools: object) -> bool:
    return isinstance(tools, list) and any(tool.get("type") == "mcp" for tool in tools)


def _has(item: Item, kind: type) -> bool:
    return isinstance(item, Message) and any(isinstance(part, kind) for part in item.parts)


def _wordless_audio(item: Item) -> bool:
    parts = item.parts if isinstance(item, Message) else ()
    return any(isinstance(part, HeardPart) and part.transcript is None for part in parts)


def _answered_already(new: NewItem) -> bool:
    wanted = new.item
    return isinstance(wanted, FunctionCallOutput) and any(
        isinstance(item, FunctionCallOutput) and item.call_id == wanted.call_id for item in new.conversation.items
    )


_BEGUN = "this model reads it when the conversation begins, and the conversation has begun."

_RULES: tuple[_Rule, ...] = (
    _Rule(
        Update,
        "session.tools",
        "this model calls functions, but no MCP servers.",
        lambda update: _names_a_server(update.raw.get("tools")),
    ),
    _Rule(
        Update,
        "session.instructions",
        _BEGUN,
        lambda update: update.after.instructions != update.before.instructions,
        fixed=True,
    ),
    _Rule(Update, "session.tools", _BEGUN, lambda update: update.after.tools != update.before.tools, fixed=True),
    _Rule(
        NewItem,
        "item.content",
        "this model hears live audio only: send audio with input_audio_buffer.append.",
        lambda new: _wordless_audio(new.item),
    ),
    _Rule(NewItem, "item.content", "this model sees no images.", lambda new: _has(new.item, ImagePart)),
    _Rule(NewItem, "item.call_id", "this call has been answered already.", _answered_already),
    _Rule(
        NewItem,
        "item",
        "this model takes no text while it converses: messages and calls can be added before the conversation has "
        "begun, results of its calls at any time.",
        lambda new: not isinstance(new.item, FunctionCallOutput),
        fixed=True,
    ),
    _Rule(
        Request,
        "response.conversation",
        "this model has one conversation and makes no responses beside it.",
        lambda request: request.parameters.out_of_band,
    ),
    _Rule(
        Request,
        "response.input",
        "this model answers what it has heard, not another input.",
        lambda request: request.raw.get("input") is not None,
    ),
    _Rule(
        Request,
        "response.tools",
        "this model has the session's tools in all its responses.",
        lambda request: (
            request.parameters.settings.tools != request.session.tools or _names_a_server(request.raw.get("tools"))
        ),
    ),
    _Rule(
        Request,
        "response.instructions",
        _BEGUN,
        lambda request: request.parameters.settings.instructions != request.session.instructions,
        fixed=True,
    ),
)
