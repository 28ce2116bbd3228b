"""What one response is made with: the session's settings, with the overrides of its `response.create` over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from protocol import errors
from protocol.commands import ResponseContext
from protocol.conversation import Conversation
from protocol.history import chat_messages, chat_tool_choice, chat_tools
from protocol.ids import IdSource
from protocol.item_audio import DecodeAudio, GivenAudio, given_audio
from protocol.items import HeardPart, Item, Message, item_from_wire
from protocol.mcp_listings import Offer
from protocol.session_settings import SessionSettings, voice_name
from protocol.truncation import superfluous, text_tokens


@dataclass(frozen=True, slots=True)
class ResponseParameters:
    """The parameters of one response. `input` None: the conversation is its context; else these items are.

    `input_audio`: the audio that came inside those. `out_of_band`: the response stands beside the conversation; neither
    its input nor its output enters it. `own_tools`: it was asked for with tools of its own.
    """

    settings: SessionSettings
    metadata: dict[str, str] | None = None
    input: tuple[Item, ...] | None = None
    input_audio: tuple[GivenAudio, ...] = ()
    out_of_band: bool = False
    own_tools: bool = False

    @property
    def speaks(self) -> bool:
        """Whether the response is spoken; else it is text."""
        return self.settings.output_modality == "audio"

    @property
    def needs_transcripts(self) -> bool:
        """Whether the context holds, or may hold, speech that is not recognised yet."""
        if self.input is None:
            return True
        parts = [part for item in self.input if isinstance(item, Message) for part in item.parts]
        return any(isinstance(part, HeardPart) and part.transcript is None for part in parts)

    def to_wire(self) -> dict[str, Any]:
        """Return the parameters as the `response` object shows them."""
        wire: dict[str, Any] = {
            "output_modalities": [self.settings.output_modality],
            "max_output_tokens": self.settings.max_output_tokens,
            "audio": {"output": {"format": self.settings.output_format.to_wire(), "voice": self.settings.voice}},
            "metadata": self.metadata,
        }
        if self.settings.temperature is not None:  # only a beta client can have set it
            wire["temperature"] = self.settings.temperature
        return wire

    def context(self, conversation: Conversation, offer: Offer) -> ResponseContext:
        """Return what the language model is told, as of now, and that it may call what is on `offer`.

        Raises ContextTooLong. What leaves the context by `truncation` is forgotten for good; a response's own input is
        the client's business and never cut.
        """
        if self.input is not None:
            return self._context(self.input, offer)
        items = conversation.remembered
        leaving = self._leaving(items, offer)
        conversation.forget(items[:leaving])
        return self._context(items[leaving:], offer)

    def foreseen_context(self, conversation: Conversation, offer: Offer, words: str) -> ResponseContext:
        """Return what `context` would if the conversation went on with a user who says `words`. Nothing changes.

        Raises ContextTooLong.
        """
        items = (*conversation.remembered, Message("", "user", [HeardPart(words)]))
        return self._context(items[self._leaving(items, offer) :], offer)

    def _context(self, items: Sequence[Item], offer: Offer) -> ResponseContext:
        settings = self.settings
        limit = settings.max_output_tokens
        return ResponseContext(
            messages=chat_messages(settings.instructions, items),
            tools=chat_tools(offer.tools),
            tool_choice=chat_tool_choice(offer.tool_choice, offer.tools),
            parallel_tool_calls=settings.parallel_tool_calls,
            max_output_tokens=limit if isinstance(limit, int) else None,
            temperature=settings.temperature,
            reasoning_effort=(settings.reasoning or {}).get("effort"),
            voice=settings.voice,
            speed=settings.speed,
            server_tools=frozenset(offer.server_tools),
        )

    def _leaving(self, items: Sequence[Item], offer: Offer) -> int:
        """Return how many of the oldest `items` have no room beside instructions and tools."""
        settings = self.settings
        around = text_tokens(settings.instructions) + text_tokens(json.dumps(offer.tools))
        room = max(0, settings.defaults.context_tokens - around)
        return superfluous(items, settings.truncation, room)


def overridden(
    raw: dict[str, Any], settings: SessionSettings, conversation: Conversation, ids: IdSource, decode: DecodeAudio
) -> ResponseParameters:
    """Return the parameters that `raw` (the `response` of a response.create) asks for over `settings`.

    `decode` makes audio inside items the session's.
    Here null keeps the session's value: there is nothing to clear in one response. Raises ProtocolError.
    """
    wanted = raw.get("conversation")
    if wanted not in (None, "auto", "none", conversation.id):
        raise errors.invalid_value("response.conversation", wanted, ("auto", "none"))
    out_of_band = wanted == "none"
    kept = {key: value for key, value in raw.items() if value is not None}
    audio = {"audio": {"output": _audio_output(kept)}}
    voice_locked = conversation.has_agent_audio and not out_of_band  # the lock is the conversation's
    effective = settings.merged({**_session_part(kept), **audio}, voice_locked=voice_locked)
    parameters = ResponseParameters(effective, kept.get("metadata"), out_of_band=out_of_band, own_tools="tools" in kept)
    if "input" not in kept:
        return parameters
    items, input_audio = _input(kept["input"], conversation, ids, decode)
    return replace(parameters, input=items, input_audio=input_audio)


_SESSION_KEYS = (
    "instructions",
    "output_modalities",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "temperature",
    "parallel_tool_calls",
    "reasoning",
    "prompt",
)


def _session_part(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: raw[key] for key in _SESSION_KEYS if key in raw}


def _audio_output(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the voice and the format that the response asks for; empty and null ones ask for nothing."""
    given = (raw.get("audio") or {}).get("output") or {}
    asked = {"voice": voice_name(given.get("voice")), "format": given.get("format")}
    return {key: value for key, value in asked.items() if value}


def _input(
    raw: list[dict[str, Any]], conversation: Conversation, ids: IdSource, decode: DecodeAudio
) -> tuple[tuple[Item, ...], tuple[GivenAudio, ...]]:
    """Return the context that replaces the conversation's, and the audio that came with it.

    It may mix new items and references to existing ones.
    """
    items: list[Item] = []
    audio: list[GivenAudio] = []
    for index, entry in enumerate(raw):
        path = f"response.input[{index}]"
        if entry["type"] != "item_reference":
            item = item_from_wire(entry, ids, path)
            items.append(item)
            given = given_audio(item, entry, path, decode)
            if given is not None:
                audio.append(given)
            continue
        referred = conversation.get(entry["id"])
        if referred is None:
            raise errors.unknown_item_reference(entry["id"], f"{path}.id")
        items.append(referred)
    return tuple(items), tuple(audio)
