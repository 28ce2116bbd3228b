"""Drops a reasoning model's inner monologue from its streamed reply, wherever its marks are split."""

from __future__ import annotations

import re

TAG_NAMES = ("think", "thinking", "reasoning", "thought", "seed:think")
"""Tags that open models put around reasoning (Qwen3, DeepSeek-R1, GLM, Phi: `think`; EXAONE: `thought`; Seed-OSS:
`seed:think`; the others by fine-tunes and prompts)."""

_BLOCKS = {
    **{f"<{name}>": f"</{name}>" for name in TAG_NAMES},
    "[THINK]": "[/THINK]",  # Magistral
    "◁think▷": "◁/think▷",  # Kimi
    "<|START_THINKING|>": "<|END_THINKING|>",  # Command A
}
_HEADERS = ("<|start|>", "<|channel|>")
"""What opens the header of a message of gpt-oss: `<|start|>assistant<|channel|>analysis<|message|>…<|end|>`."""

_HIDDEN_CHANNELS = ("analysis", "commentary")
_TOKENS = (
    "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>",
    "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<end_of_turn>",
)  # fmt: skip
"""Special tokens that servers let through; a voice would name them."""

_LONGEST_HEADER = 64
"""Characters of a header that are looked at for its channel (chosen: the longest are ~50)."""


def _any_of(*marks: str) -> str:
    """Return a pattern of `marks`: tags in any case, the others as they are."""
    return "|".join(rf"(?ai:{re.escape(mark)})" if mark[0] == "<" else re.escape(mark) for mark in marks)


_MARKS = (*_BLOCKS, *_BLOCKS.values(), *_HEADERS, *_TOKENS)
_MARK = re.compile(_any_of(*_MARKS))
_CLOSING = {opening.lower(): re.compile(_any_of(closing)) for opening, closing in _BLOCKS.items()}
_HEADER_END = re.compile(_any_of("<|message|>"))
_MESSAGE_END = re.compile(_any_of("<|end|>", "<|return|>", "<|call|>") + f"|(?={_any_of(*_HEADERS)})")
_PARTIAL_MARKS = frozenset(
    mark[:length].lower() if mark[0] == "<" else mark[:length] for mark in _MARKS for length in range(1, len(mark))
)
_FIRST_SIGNS = "<[◁"
_LONGEST_MARK = max(map(len, _MARKS))


class ReasoningFilter:
    """One reply's filter: feed it the pieces as they come; what it returns, joined, depends on the whole text only.

    A block ends at the first closing mark of its own kind: a `<think>` mentioned inside a block does not nest, because
    counting it would hide the answer too. An unclosed block hides everything to the end. A closing mark without a block
    is dropped, the text around it stays. White space at the start of the reply goes if a block follows or precedes it.
    """

    def __init__(self) -> None:
        """Begin a reply."""
        self._held = ""  # a possible beginning of a mark, or the end of hidden text that may hold one
        self._closing: re.Pattern[str] | None = None  # what ends the open block
        self._header = ""  # what was read of the header of a message
        self._at_start = True  # nothing but white space and blocks so far
        self._leading_space = ""  # held until it is known whether a block follows
        self._after_mark = False

    @property
    def hiding(self) -> bool:
        """Tell whether a block is open."""
        return self._closing is not None

    def feed(self, text: str) -> str:
        """Return what is certain to be said of the text so far and was not returned yet."""
        text = self._held + text
        self._held = ""
        shown: list[str] = []
        at = 0
        while at < len(text):
            if self._closing is not None:
                at = self._skip(self._closing, text, at)
                continue
            mark = _MARK.search(text, at)
            if mark is None:
                end = _end_of_certain_text(text, at)
                shown.append(self._show(text[at:end]))
                self._held = text[end:]
                break
            shown.append(self._show(text[at : mark.start()]))
            if self._at_start:
                self._leading_space = ""
            self._open(mark[0].lower())
            at = mark.end()
            self._after_mark = True
        return "".join(shown)

    def _open(self, mark: str) -> None:
        if mark in _HEADERS:
            self._closing, self._header = _HEADER_END, ""
        else:
            self._closing = _CLOSING.get(mark)

    def _skip(self, closing: re.Pattern[str], text: str, at: int) -> int:
        """Pass over hidden text; return where to go on."""
        found = closing.search(text, at)
        end = max(at, len(text) - _LONGEST_MARK + 1) if found is None else found.start()
        self._header = (self._header + text[at:end])[:_LONGEST_HEADER]
        if found is None:
            self._held = text[end:]
            return len(text)
        hidden = closing is _HEADER_END and any(channel in self._header for channel in _HIDDEN_CHANNELS)
        self._closing = _MESSAGE_END if hidden else None
        return found.end()

    def finish(self) -> str:
        """Return the rest: the reply is complete, so what looked like the beginning of a mark was none."""
        rest = "" if self.hiding else self._show(self._held)
        rest = self._leading_space + rest
        self._held = self._leading_space = ""
        return rest

    def _show(self, text: str) -> str:
        if not self._at_start:
            return text
        said = text.lstrip()
        space = "" if self._after_mark else text[: len(text) - len(said)]
        self._leading_space += space
        if not said:
            return ""
        self._at_start = False
        said, self._leading_space = self._leading_space + said, ""
        return said


def _end_of_certain_text(text: str, start: int) -> int:
    """Return where in `text` a mark may be beginning, looking no further back than `start`; its length if nowhere."""
    start = max(start, len(text) - _LONGEST_MARK + 1)
    at = max(text.rfind(sign, start) for sign in _FIRST_SIGNS)
    if at < 0:
        return len(text)
    beginning = text[at:].lower() if text[at] == "<" else text[at:]
    return at if beginning in _PARTIAL_MARKS else len(text)
