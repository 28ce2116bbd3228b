"""What goes into requests to a server only as long as it takes it: usage, and the switch that turns thinking off.

Servers differ in both, and no server says so before it is asked. So they are sent, and what a server refuses by a 400
or 422 is left out from then on; the request itself is repeated and no turn is lost.
"""

from __future__ import annotations

import logging
from typing import Any

from models.engine_plan import Thinking

logger = logging.getLogger(__name__)

TEMPLATE_SWITCH = {"enable_thinking": False, "thinking": False}
"""Arguments of chat templates: Qwen's and GLM's templates read the first, DeepSeek's, Kimi's and Granite's the second.
Templates don't see what they don't read."""

LEAST_EFFORTS = ("none", "minimal", "low")
"""Values of `reasoning_effort`, the least first: OpenAI's models since GPT-5.1, Ollama and Gemini take `none`, GPT-5
`minimal`, older ones and gpt-oss `low`."""

_TEMPLATE = "chat_template_kwargs"
_EFFORT = "reasoning_effort"
_USAGE = "stream_options"


class RequestOptions:
    """One server's. `thinking` as in ChatPlan; `at_openai`: its servers are known to refuse template arguments.

    For `off` both switches are sent: a server that doesn't know a field usually ignores it, so that an answer to one of
    them says nothing about the other.
    """

    def __init__(self, thinking: Thinking, *, at_openai: bool = False) -> None:
        self._options: dict[str, Any] = {_USAGE: {"include_usage": True}}
        if thinking == "chat_template_kwargs" or (thinking == "off" and not at_openai):
            self._options[_TEMPLATE] = TEMPLATE_SWITCH
        if thinking in ("reasoning_effort", "off"):
            self._options[_EFFORT] = LEAST_EFFORTS[0]
        self.switches_thinking = thinking != "unchanged"

    @property
    def fields(self) -> dict[str, Any]:
        """What goes into the next request."""
        return dict(self._options)

    def without(self, refusal: str) -> RequestOptions | None:
        """Return the options to try after a server refused these, None if there is nothing left to leave out.

        `refusal`: the server's words. Of the fields that they name one is changed; if they name none, any may be meant
        and all go.
        """
        if not self._options:
            return None
        named = [name for name in (_USAGE, _TEMPLATE, _EFFORT) if name in self._options and name in refusal]
        if not named:
            return self._with({})
        left = dict(self._options)
        if named == [_EFFORT] and left[_EFFORT] != LEAST_EFFORTS[-1]:
            left[_EFFORT] = LEAST_EFFORTS[LEAST_EFFORTS.index(left[_EFFORT]) + 1]
        else:
            for name in named:
                del left[name]
        return self._with(left)

    def _with(self, options: dict[str, Any]) -> RequestOptions:
        changed = RequestOptions("unchanged")
        changed._options = options
        changed.switches_thinking = self.switches_thinking
        return changed

    def describe(self) -> str:
        """Return the fields that are sent, for a log line."""
        return ", ".join(f"{name}={value}" if name == _EFFORT else name for name, value in self._options.items())
