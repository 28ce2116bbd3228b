"""When VoiceChat speaks, and what it is made to write: a token a frame. Nothing here needs the model."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

REPLY_WITHIN_FRAMES = 40
"""So long after the user's last word, 3.2 s, the model is made to take the floor if it has not answered (NVIDIA's
serving policy, which mlx-vlm leaves out)."""

RESULT_WAITS_FRAMES = 38
"""So long, 3 s, a tool's result waits for the model to finish what it says, as reading takes its words from it
(chosen: longer than "let me look that up")."""

TAIL_FRAMES = 8
"""A model that writes nothing for more than this before it falls silent has finished its text: its voice was behind
(chosen: half of what is left to the voice behind words that it is made to say)."""

CUT_IN_FRAMES = 12
"""A user's word that is so old, 1 s, as the model falls silent was said into its speech, and the model answers it if it
wants to; a younger one may be why it fell silent, and is to be answered (chosen: words come half a second late, and it
takes as long to give way)."""

WORDS_WITHIN_FRAMES = 10
"""Within so many frames, 0.8 s, the words that are written now were said (chosen: they come about half a second late,
and a short one lasts a quarter; a longer span would take a quick answer for the echo of what it answers)."""

VOICED_SHARE = 0.1
"""A frame so loud, of the loudest of them, holds a voice: −20 dB (chosen: rooms are quieter, words within a sentence
are not)."""

Forced = tuple[int | None, int | None]
"""Text token and function token of one frame; None leaves the model's own choice."""


class _Waiting(NamedTuple):
    """A frame that waits to be forced. `ends_result`: its function token is the last one of a tool's result."""

    text: int | None
    function: int | None
    ends_result: bool = False


class Steering:
    """What is to be forced, and when the model may speak.

    It keeps the model from answering itself: once it has spoken it takes the floor again only after the user has said
    something or a tool's result has been read. `words_heard`, `floor_taken`, `floor_yielded`, `call_begun` and
    `call_written` are called by whoever reads the frames.
    """

    def __init__(self, bos: int, eos: int, pad: int, silence: int | None = None) -> None:
        """Take the ids of the text channel's marks; `silence`: another one that says nothing."""
        self._bos, self._eos, self._pad = bos, eos, pad
        self._wordless = frozenset({bos, eos, pad, silence})
        self._tail = 0  # frames without a word
        self._queue: deque[_Waiting] = deque()
        self._may_speak = True
        self._speaking = False
        self._unanswered: int | None = None  # frames that an answer has been due, None: nothing to answer
        self._since_word: int | None = None  # frames since the user's last word, None: none since it took the floor
        self._due_after = False  # a result was read while it spoke: it is to speak about it afterwards
        self._result_waited = 0
        self._writes_call = False
        self._open_calls = 0

    @property
    def speaking(self) -> bool:
        """Whether the model has the floor."""
        return self._speaking

    @property
    def reads(self) -> bool:
        """Whether the next token that is forced is one of a tool's result."""
        return bool(self._queue) and self._queue[0].function is not None

    def force(self, *tokens: Forced) -> None:
        """Force `tokens` in the next frames, after those that wait."""
        self._queue.extend(_Waiting(*each) for each in tokens)

    def read(self, *tokens: int) -> None:
        """Have a tool's result read, after what else is to be forced; the model is silent meanwhile."""
        last = len(tokens) - 1
        self._queue.extend(_Waiting(self._pad, token, at == last) for at, token in enumerate(tokens))

    def stop(self) -> None:
        """Make the model yield the floor in the next frame; words that wait are dropped, a tool's result is not."""
        results = [frame for frame in self._queue if frame.function is not None]
        first = results[0]._replace(text=self._eos) if results else _Waiting(self._eos, None)
        self._queue = deque([first, *results[1:]])
        self._result_waited = RESULT_WAITS_FRAMES

    def words_heard(self) -> None:
        """The user has said something; while the model speaks that may be a nod, which needs no answer."""
        self._since_word = 0
        if not self._speaking:
            self._may_speak, self._unanswered = True, 0

    def floor_taken(self) -> None:
        """The model speaks: that answers all so far."""
        self._speaking, self._unanswered, self._since_word = True, None, None

    def floor_yielded(self) -> None:
        """The model has spoken, or has given way to a user who spoke just now."""
        finished = self._tail > TAIL_FRAMES
        cut_in = not finished and self._since_word is not None and self._since_word <= CUT_IN_FRAMES
        self._speaking = False
        self._may_speak = self._since_word is not None or self._due_after
        self._unanswered = 0 if cut_in or self._due_after else None
        self._due_after = False

    def call_begun(self) -> None:
        """The model writes a call: that is its answer for now."""
        self._writes_call, self._unanswered = True, None

    def call_written(self, calls: int) -> None:
        """The model has written so many calls, 0 if it was none."""
        self._writes_call = False
        self._open_calls += calls
        if not self._open_calls:
            self._answer_due()  # the user still waits

    def next(self, text: int, function: int) -> tuple[int, int]:
        """Return the tokens of this frame, given those that the model chose."""
        found = self._next(text, function)
        self._tail = self._tail + 1 if found[0] in self._wordless else 0
        return found

    def _next(self, text: int, function: int) -> tuple[int, int]:
        if self._since_word is not None:
            self._since_word += 1
        if self._queue and not self._result_waits():
            forced = self._taken()
            return (
                text if forced.text is None else forced.text,
                function if forced.function is None else forced.function,
            )
        if self._unanswered is not None and not self._speaking and not self._writes_call and not self._open_calls:
            self._unanswered += 1
            if self._unanswered > REPLY_WITHIN_FRAMES:
                self._unanswered = None
                return self._bos, function
        if text == self._bos and not self._speaking and not self._may_speak:
            return self._pad, function
        return text, function

    def next_silently(self, function: int) -> int:
        """Return the function token of a step without voice, given the model's choice: there is no text meanwhile."""
        if not self.reads:
            return function
        token = self._taken().function
        assert token is not None
        return token

    def _result_waits(self) -> bool:
        if not self.reads or not self._speaking or self._result_waited >= RESULT_WAITS_FRAMES:
            return False
        self._result_waited += 1
        return True

    def _taken(self) -> _Waiting:
        frame = self._queue.popleft()
        if frame.ends_result:  # the model speaks about it
            self._result_waited = 0
            self._open_calls = max(0, self._open_calls - 1)
            self._answer_due()
        return frame

    def _answer_due(self) -> None:
        self._may_speak, self._unanswered, self._due_after = True, 0, self._speaking


class RecentVoices:
    """Whose voice the last frames held: the words that the model writes now were said in them."""

    def __init__(self) -> None:
        self._frames: deque[tuple[float, bool]] = deque(maxlen=WORDS_WITHIN_FRAMES)

    def hear(self, level: float, own: bool) -> None:
        """Take the level of a frame, on any scale, and whether it is mostly the agent's own voice."""
        self._frames.append((level, own))

    @property
    def mostly_own(self) -> bool:
        """Whether most frames that held a voice held the agent's own, and there was one."""
        loudest = max((level for level, _ in self._frames), default=0.0)
        own = sum(is_own for _, is_own in self._frames)
        others = sum(level > loudest * VOICED_SHARE for level, is_own in self._frames if not is_own)
        return own > others
