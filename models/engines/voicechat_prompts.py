"""How VoiceChat reads the prompts of conversations: words by the language model, and one voice that all begin with.

mlx-vlm steps the language model and the voice together, a token a step. But while a prompt is read the voice is told
of silence only: its state depends on the prompt's length, not on its words. So one voice steps through as many silent
tokens as the longest prompt has had, a shorter prompt takes the beginning of its state, and of each prompt's own words
the language model reads many at once. Everything here runs in the model's thread, in pieces, so that frames of
conversations come in between.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from typing import Any

from models.engines.voicechat_session import clone

KEPT_PROMPTS = 4
"""Prompts whose words stay read (chosen: a few applications on one machine)."""

WORDS_AT_ONCE = 32
"""Tokens that the language model reads in one piece (chosen: it goes through all of its weights for one token as well;
more of them at once would keep conversations waiting)."""

VOICE_STEPS_AT_ONCE = 2
"""Steps of the voice in one piece (chosen: less than a frame's worth of work each, so that two keep a conversation's
frame waiting for less than two frames)."""


class SharedVoice:
    """The voice after each number of silent tokens, up to `length`."""

    def __init__(self, blank: Any, mx: Any) -> None:
        """Take a session that has read nothing."""
        self._blank = blank
        self._mx = mx
        rooms = [cache.max_size - cache.offset for cache in blank._tts_cache if hasattr(cache, "max_size")]
        self.longest = min(rooms, default=sys.maxsize)
        """Tokens from which on a layer's window is full: what it has forgotten no shorter prompt can have."""
        self._begin()

    def _begin(self) -> None:
        self._session = clone(self._blank)
        self._said = [self._session._previous_code]  # by the number of tokens

    @property
    def length(self) -> int:
        """Return how many tokens it has stepped through."""
        return len(self._said) - 1

    def grow(self, length: int) -> None:
        """Step on towards so many tokens, two steps at most."""
        try:
            for _ in range(min(VOICE_STEPS_AT_ONCE, length - self.length)):
                self._said.append(self._session.step_voice())
        except BaseException:
            self._begin()  # half a step is no state
            raise

    def give(self, session: Any, length: int) -> None:
        """Give `session` the state after so many tokens, a copy."""
        surplus = _steps(self.length) - _steps(length)
        caches = [self._beginning(cache, surplus) for cache in self._session._tts_cache]
        self._mx.eval([(cache.keys, cache.values) for cache in caches])
        session.give_voice(caches, self._said[length])

    def _beginning(self, cache: Any, surplus: int) -> Any:
        """Return a copy of a layer's cache without its last `surplus` steps."""
        shorter = copy.copy(cache)
        shorter.trim(surplus)
        shorter.keys = self._mx.contiguous(shorter.keys[..., : shorter.offset, :])
        shorter.values = self._mx.contiguous(shorter.values[..., : shorter.offset, :])
        return shorter


def _steps(tokens: int) -> int:
    """Return how often the voice is stepped for so many tokens: at the first one mlx-vlm leaves it out."""
    return max(0, tokens - 1)


class Prompts:
    """What conversations have read before they begin. `begin` one, let it `go_on` to the end, and `take` it."""

    def __init__(self, blank: Any, mx: Any) -> None:
        """Take a session that has read nothing; it stays as it is."""
        self._blank = blank
        self.voice = SharedVoice(blank, mx)
        self.kept: OrderedDict[str, Any] = OrderedDict()

    def begin(self, text: str) -> Any:
        """Return a session that is to read `text`, or has read it; for `go_on` and `take` only."""
        session = self.kept.get(text)
        if session is None:
            session = clone(self._blank)
            session.prepare(text)
        return session

    def go_on(self, session: Any) -> bool:
        """Read some more, and return whether anything is left.

        What is read of the prompt is lost with the session, what the voice has stepped through is not.
        """
        shared = min(session.tokens_read + len(session.unread), self.voice.longest)
        if session.tokens_read < shared:
            session.read_words(min(WORDS_AT_ONCE, shared - session.tokens_read))
            return True
        if self.voice.length < shared:
            self.voice.grow(shared)
            return True
        if session.unread:  # it is longer than the voice's windows: the rest is its own
            if not session.has_voice:
                self.voice.give(session, shared)
            session.read_with_voice()
        return bool(session.unread)

    def take(self, text: str, session: Any) -> Any:
        """Return a conversation that has read `text`, of which `session` has read all; it is kept for the next."""
        self.kept[text] = session
        self.kept.move_to_end(text)
        while len(self.kept) > KEPT_PROMPTS:
            self.kept.popitem(last=False)
        taken = clone(session)
        if not taken.has_voice:
            self.voice.give(taken, taken.tokens_read)
        return taken
