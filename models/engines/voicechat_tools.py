"""How VoiceChat is told of tools, how it calls them and how it reads their results: text and token conventions.

The model writes one token a frame into a channel of its own: a mark, the call as JSON, another mark. Results go in the
same way. The conventions are those of the model's card. Nothing here needs the model.
"""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from models.duplex_interface import DuplexCall, DuplexPrompt

logger = logging.getLogger(__name__)

CALL_STARTS, CALL_ENDS, RESULT_ENDS = 20, 21, 22
"""Token ids of the function channel's marks."""

LONGEST_CALL = 512
"""Steps of a call, silent ones included: a longer one is no JSON that ends (NVIDIA's own limit)."""

CALL_PAUSES = 24
"""After so many silent steps in a row a call that has begun has ended without its mark (chosen: three frames' worth of
steps; while a call is open each frame costs nine steps and nothing else is answered)."""

TOOLS_OFFERED = (
    "You may call these tools when the user asks for what they do. Call one only with arguments that the user gave; "
    "speak about its result once you have it."
)


_TYPED = str.maketrans(
    {
        "<": "(", ">": ")", "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "“": '"', "”": '"', "„": '"', "«": '"',
        "»": '"', "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-", "•": "-", "⁄": "/", "ß": "ss",
        "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d", "€": "EUR",
        "£": "GBP", "×": "x", "\u200b": None, "\ufeff": None,
    }
)  # fmt: skip
"""Of what Unicode has no decomposition for, the signs of everyday texts."""


def prompt_text(prompt: DuplexPrompt) -> str:
    """Return all that the model reads before the conversation, in ASCII: others' words must not look like its marks."""
    parts = [plain_text(prompt.instructions)]
    if prompt.tools:
        functions = [tool.get("function", tool) for tool in prompt.tools]
        offered = [
            {name: function.get(name, "") for name in ("name", "description", "parameters")} for function in functions
        ]
        parts.append(f"{TOOLS_OFFERED}\n<AVAILABLE_TOOLS>{_json(offered)}</AVAILABLE_TOOLS>")
        parts.append('To call a tool write <TOOLCALL>[{"name": "...", "arguments": {...}}]</TOOLCALL>.')
    if prompt.history:
        lines = "\n".join(f"{role}: {plain_text(text)}" for role, text in prompt.history)
        parts.append(f"This was said before:\n{lines}")
    return "\n\n".join(part for part in parts if part)


def result_text(output: str) -> str:
    """Return a tool's result as the model reads it: as the JSON that it is, or as a string."""
    try:
        result = _json(json.loads(output))
    except (ValueError, RecursionError):
        result = _json(output)
    return f"<TOOL_RESPONSE>[{result}]</TOOL_RESPONSE>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e")


def plain_text(text: str) -> str:
    """Return `text` without what the tokenizer would take for marks, and in ASCII, which the model is trained on.

    Typographers' marks become typists', letters lose their accents; what then still isn't ASCII becomes "?".
    """
    letters = unicodedata.normalize("NFKD", text).translate(_TYPED)
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return bare.encode("ascii", "replace").decode("ascii").strip()


class CallReader:
    """Reads calls out of the function channel. `decode`: token ids to text. `pads`: ids that say nothing."""

    def __init__(self, decode: Callable[[Sequence[int]], str], pads: frozenset[int]) -> None:
        self._decode = decode
        self._pads = pads
        self._tokens: list[int] | None = None
        self._steps = 0
        self._paused = 0

    @property
    def reading(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._tokens is not None

    def take(self, token: int) -> list[DuplexCall]:
        """Take the next token and return the calls that it completes; what is no call is logged and dropped.

        A call whose end mark is missing ends when the model has written nothing for a while, or at its longest: what
        came is often whole.
        """
        if self._tokens is None:
            if token == CALL_STARTS:
                self._tokens, self._steps, self._paused = [], 0, 0
            return []
        self._steps += 1
        self._paused = self._paused + 1 if token in self._pads else 0
        if token == CALL_STARTS:
            self._tokens = []
        elif token not in self._pads and token != CALL_ENDS:
            self._tokens.append(token)
        given_up = self._steps > LONGEST_CALL or (self._tokens and self._paused >= CALL_PAUSES)
        if token != CALL_ENDS and not given_up:
            return []
        tokens, self._tokens = self._tokens, None
        return calls_in(self._decode(tokens))


def calls_in(text: str) -> list[DuplexCall]:
    """Return the calls that the model wrote as JSON, with or without tags around them."""
    start, end = text.find("["), text.rfind("]")
    brace, last = text.find("{"), text.rfind("}")
    if start < 0 or (0 <= brace < start):
        start, end = brace, last
    try:
        found = json.loads(text[start : end + 1]) if start >= 0 else None
    except (ValueError, RecursionError):
        found = None
    calls = []
    for call in found if isinstance(found, list) else [found]:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            logger.warning("the full-duplex model wrote a call that is none: dropped")
            continue
        arguments = call.get("arguments", {})
        calls.append(DuplexCall(call["name"], arguments if isinstance(arguments, str) else json.dumps(arguments)))
    return calls
