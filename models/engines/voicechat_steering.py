"""VoiceChat's streaming session in mlx-vlm, made steerable: what it writes next can be forced, a token a frame.

The language model's step is overridden: its choice of tokens is replaced where tokens are to be forced. They enter the
model's history, its voice and the session's lists as if it had chosen them itself. Its prompt is read in pieces, so
that other conversations go on meanwhile, and calls and results are stepped without its voice, which is most of the
work. All this leans on private names of mlx-vlm; `check_contract` says at start which one is missing, not a crash in
mid-conversation.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, NamedTuple

from models.interfaces import EngineError

SESSION_NAMES = (
    "_language_step", "_prefill_prompt", "_run_timeline_step", "_perception_step", "push_audio", "cancel", "closed",
)  # fmt: skip
"""What of `VoiceChatStreamingSession` is used."""

STATE_NAMES = (
    "_text_tokens", "_function_tokens", "_timeline_index", "_conformer_stream.encoder", "_mel_stream.args", "parent",
    "model.stt_model.embed_tokens", "tokenizer.encode", "tokenizer.decode", "config.bos_token_id",
    "config.eos_token_id", "config.pad_token_id", "config.silence_token_id", "config.function_channel_weight",
    "frame_samples", "input_sample_rate", "output_sample_rate",
)  # fmt: skip
"""What of its objects is used."""

REPLY_WITHIN_FRAMES = 40
"""So long after the user's last word, 3.2 s, the model is made to take the floor if it has not answered (NVIDIA's
serving policy, which mlx-vlm leaves out)."""

RESULT_WAITS_FRAMES = 38
"""So long, 3 s, a tool's result waits for the model to finish what it says, as reading takes its words from it
(chosen: longer than "let me look that up")."""

CUT_IN_FRAMES = 12
"""A user's word that is so old, 1 s, as the model falls silent was said into its speech, and the model answers it if it
wants to; a younger one may be why it fell silent, and is to be answered (chosen: words come half a second late, and it
takes as long to give way)."""

SILENT_FRAMES = 10
"""Silence that is heard before what is heard counts as silence: the ears have a window of a few frames (chosen)."""

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

    def __init__(self, bos: int, eos: int, pad: int) -> None:
        self._bos, self._eos, self._pad = bos, eos, pad
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
        """The user has said something; while the model speaks that may be a nod, or its own echo."""
        self._since_word = 0
        if not self._speaking:
            self._may_speak, self._unanswered = True, 0

    def floor_taken(self) -> None:
        """The model speaks: that answers all so far."""
        self._speaking, self._unanswered, self._since_word = True, None, None

    def floor_yielded(self) -> None:
        """The model has spoken, or has given way to a user who spoke just now."""
        cut_in = self._since_word is not None and self._since_word <= CUT_IN_FRAMES
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


def check_contract(session_class: Any, session: Any | None = None) -> None:
    """Raise EngineError if mlx-vlm has changed what this module leans on."""
    missing = [name for name in SESSION_NAMES if not hasattr(session_class, name)]
    if session is not None:
        missing += [name for name in STATE_NAMES if not _has(session, name)]
    if missing:
        raise EngineError(
            "duplex_incompatible",
            f"This version of mlx-vlm has no {', '.join(missing)} in its VoiceChat session: pip install "
            "'duplex-gateway[duplex]' brings the version that it is written for.",
        )


def _has(value: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def steerable(session_class: Any, output_class: Any, mx: Any) -> Any:
    """Return mlx-vlm's session class with a `steering` that its objects obey once it is set.

    A new object has not read its prompt: `read_prompt` does, in pieces.
    """
    check_contract(session_class)

    class SteerableSession(session_class):  # type: ignore[misc]  # a class that is known at run time only
        steering: Steering | None = None
        _read: Any = None  # what the language model made of the part of the prompt that its voice steps through

        def __init__(self, *given: Any, **named: Any) -> None:
            self._prompt: deque[int] = deque()
            super().__init__(*given, **named)
            # mlx-vlm decodes all of the conversation anew at each token; whoever reads the tokens decodes the new ones.
            self._text = self._function = _Unread()

        def _prefill_prompt(self, system_prompt: str | None) -> None:
            if system_prompt and system_prompt.strip():
                tokens = self.tokenizer.encode(system_prompt, add_special_tokens=False)
                self._prompt.extend((self.config.bos_token_id, *tokens, self.config.eos_token_id))

        def read_prompt(self, tokens: int) -> bool:
            """Read at most so many tokens of the prompt and return whether any is left.

            The language model reads them at once, which takes it hardly longer than one; its voice, one by one.
            """
            count = min(tokens, len(self._prompt))
            if count:
                words = self._embedding(*(self._prompt.popleft() for _ in range(count)))
                silent = (1 + self.config.function_channel_weight) * self._embedding(self.config.pad_token_id)
                self._read = super()._language_step(words + silent)
                for at in range(count):
                    self._run_timeline_step(words[:, at : at + 1], generate_channels=False, decode_audio=False)
                self._read = None
            return bool(self._prompt)

        def step_silently(self, silence: Any) -> int:
            """Step the language model alone, hearing `silence` and saying nothing; return its function token."""
            text = self._embedding(self._text_tokens[-1])
            function = self._embedding(self._function_tokens[-1])
            output = super()._language_step(text + silence + self.config.function_channel_weight * function)
            token = int(mx.argmax(output.function_logits[:, -1]))
            token = token if self.steering is None else self.steering.next_silently(token)
            self._text_tokens.append(self.config.pad_token_id)
            self._function_tokens.append(token)
            self._timeline_index += 1
            return token

        def hear_silence(self) -> Any:
            """Return what the model perceives of silence. Spoils the session for conversations."""
            for _ in range(SILENT_FRAMES):
                perceived, _ = self._perception_step(mx.zeros((self.frame_samples,), dtype=mx.float32))
                mx.eval(perceived)
            return perceived

        def _embedding(self, *tokens: int) -> Any:
            return self.model.stt_model.embed_tokens(mx.array([tokens], dtype=mx.int32))

        def _language_step(self, inputs: Any) -> Any:
            if self._read is not None:
                return self._read
            output = super()._language_step(inputs)
            if self.steering is None:
                return output
            chosen = (int(mx.argmax(output.text_logits[:, -1])), int(mx.argmax(output.function_logits[:, -1])))
            text, function = self.steering.next(*chosen)
            if (text, function) == chosen:
                return output
            return output_class(
                output.hidden_states,
                _only(output.text_logits, text, mx),
                _only(output.function_logits, function, mx),
                output.cache,
            )

    return SteerableSession


class _Unread:
    """Stands for the session's collectors of text, which tell nothing."""

    def append(self, token: int) -> None:
        """Take a token and tell of no text."""


def _only(logits: Any, token: int, mx: Any) -> Any:
    """Return logits of which argmax picks `token`."""
    size = logits.shape[-1]
    chosen = mx.where(mx.arange(size) == token, mx.array(1.0, logits.dtype), mx.array(0.0, logits.dtype))
    return mx.broadcast_to(chosen, logits.shape)


def clone(session: Any) -> Any:
    """Return a session that goes on from where `session` stands, which stays as it is.

    Only what a conversation changes is copied: not the model, its tokenizer and configuration (7 MB instead of 7 GB).
    """
    encoder = session._conformer_stream.encoder
    shared = (session.parent, session.model, session.tokenizer, session.config, encoder, session._mel_stream.args)
    return copy.deepcopy(session, {id(each): each for each in shared})
