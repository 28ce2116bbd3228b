"""Drops a reasoning model's inner monologue from its streamed reply, wherever the tags are split."""

from __future__ import annotations

import re

TAG_NAMES = ("think", "thinking", "reasoning")
"""Tags that open models put around reasoning (Qwen3 and DeepSeek-R1: `think`; the others by fine-tunes and prompts)."""

_NAMES = "|".join(TAG_NAMES)
_TAG = re.compile(rf"<(/?)({_NAMES})>", re.IGNORECASE | re.ASCII)
_CLOSING = {name: re.compile(rf"</{name}>", re.IGNORECASE | re.ASCII) for name in TAG_NAMES}
_TAGS = [f"<{slash}{name}>" for slash in ("", "/") for name in TAG_NAMES]
_PARTIAL_TAGS = frozenset(tag[:length] for tag in _TAGS for length in range(1, len(tag)))
_LONGEST_TAG = max(map(len, _TAGS))


class ReasoningFilter:
    """One reply's filter: feed it the pieces as they come; what it returns, joined, depends on the whole text only.

    A block ends at the first closing tag of its own name: a `<think>` mentioned inside a block does not nest, because
    counting it would hide the answer too. An unclosed block hides everything to the end. A closing tag without a block
    is dropped, the text around it stays. White space at the start of the reply goes if a block follows or precedes it.
    """

    def __init__(self) -> None:
        """Begin a reply."""
        self._held = ""  # a possible beginning of a tag, or the end of hidden text that may hold one
        self._hidden_by = ""  # name of the open tag
        self._at_start = True  # nothing but white space and blocks so far
        self._leading_space = ""  # held until it is known whether a block follows
        self._after_tag = False

    @property
    def hiding(self) -> bool:
        """Tell whether a block is open."""
        return bool(self._hidden_by)

    def feed(self, text: str) -> str:
        """Return what is certain to be said of the text so far and was not returned yet."""
        text = self._held + text
        self._held = ""
        shown: list[str] = []
        at = 0
        while at < len(text):
            if self._hidden_by:
                closing = _CLOSING[self._hidden_by].search(text, at)
                if closing is None:
                    self._held = text[max(at, len(text) - _LONGEST_TAG + 1) :]
                    break
                self._hidden_by = ""
                at = closing.end()
                continue
            tag = _TAG.search(text, at)
            if tag is None:
                end = _end_of_certain_text(text, at)
                shown.append(self._show(text[at:end]))
                self._held = text[end:]
                break
            shown.append(self._show(text[at : tag.start()]))
            if self._at_start:
                self._leading_space = ""
            if not tag[1]:
                self._hidden_by = tag[2].lower()
            at = tag.end()
            self._after_tag = True
        return "".join(shown)

    def finish(self) -> str:
        """Return the rest: the reply is complete, so what looked like the beginning of a tag was none."""
        rest = "" if self._hidden_by else self._show(self._held)
        rest = self._leading_space + rest
        self._held = self._leading_space = ""
        return rest

    def _show(self, text: str) -> str:
        if not self._at_start:
            return text
        said = text.lstrip()
        space = "" if self._after_tag else text[: len(text) - len(said)]
        self._leading_space += space
        if not said:
            return ""
        self._at_start = False
        said, self._leading_space = self._leading_space + said, ""
        return said


def _end_of_certain_text(text: str, start: int) -> int:
    """Return where in `text` a tag may be beginning, looking no further back than `start`; its length if nowhere."""
    at = text.rfind("<", max(start, len(text) - _LONGEST_TAG + 1))
    return at if at >= 0 and text[at:].lower() in _PARTIAL_TAGS else len(text)
