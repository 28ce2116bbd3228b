"""VoiceChat's streaming session in mlx-vlm, made steerable: what it writes next can be forced, a token a frame.

The language model's step is overridden: its choice of tokens is replaced where tokens are to be forced. They enter the
model's history, its voice and the session's lists as if it had chosen them itself. Prompts, calls and results are
stepped without its voice, which is most of the work. All this leans on private names of mlx-vlm; `check_contract` says
at start which one is missing, not a crash in mid-conversation.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

from models.engines.voicechat_steering import Steering
from models.interfaces import EngineError

SESSION_NAMES = ("_language_step", "_run_timeline_step", "_perception_step", "push_audio", "cancel", "closed")
"""What of `VoiceChatStreamingSession` is used."""

STATE_NAMES = (
    "_text_tokens", "_function_tokens", "_timeline_index", "_language_cache", "_tts_cache", "_previous_code",
    "_conformer_stream.encoder", "_mel_stream.args", "parent", "model.stt_model.embed_tokens", "tokenizer.encode",
    "tokenizer.decode", "config.bos_token_id", "config.eos_token_id", "config.pad_token_id", "config.silence_token_id",
    "config.function_channel_weight", "frame_samples", "input_sample_rate", "output_sample_rate",
)  # fmt: skip
"""What of its objects is used."""

CACHE_NAMES = {"_tts_cache": ("keys", "values", "offset", "trim"), "_language_cache": ("state",)}
"""What of its caches is used, of each layer's; of the voice's `max_size`, too, if there is one: the layer's window."""

SILENT_FRAMES = 10
"""Silence that is heard before what is heard counts as silence: the ears have a window of a few frames (chosen)."""


def check_contract(session_class: Any, session: Any | None = None) -> None:
    """Raise EngineError if mlx-vlm has changed what this module leans on."""
    missing = [name for name in SESSION_NAMES if not hasattr(session_class, name)]
    if session is not None:
        missing += [name for name in STATE_NAMES if not _has(session, name)]
        for caches, names in CACHE_NAMES.items():
            layers = getattr(session, caches, ())
            missing += [f"{caches}.{name}" for name in names if not all(hasattr(layer, name) for layer in layers)]
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

    A new object has not read its prompt: it is built with an empty one and `prepare`d for another, whose words
    `read_words` reads with the language model alone. Its voice is `give_voice`n to it then (`SharedVoice`).
    """
    check_contract(session_class)

    class SteerableSession(session_class):  # type: ignore[misc]  # a class that is known at run time only
        steering: Steering | None = None
        _no_words: Any = None  # what stands for the language model's output while the voice alone is stepped

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.unread: deque[int] = deque()
            # mlx-vlm decodes all of the conversation anew at each token; whoever reads the tokens decodes the new ones.
            self._text = self._function = _Unread()

        @property
        def tokens_read(self) -> int:
            """Return how many tokens of the prompt have been read."""
            return int(self._timeline_index)

        @property
        def has_voice(self) -> bool:
            """Whether the state of its voice is here."""
            return self._tts_cache is not None

        def prepare(self, prompt: str) -> None:
            """Have `prompt` to read, and no voice meanwhile."""
            if prompt.strip():
                tokens = self.tokenizer.encode(prompt, add_special_tokens=False)
                self.unread.extend((self.config.bos_token_id, *tokens, self.config.eos_token_id))
            self.give_voice(None, None)

        def give_voice(self, caches: Any, code: Any) -> None:
            """Let the voice go on from a state: its layers' caches, and what it said last."""
            self._tts_cache, self._previous_code = caches, code

        def read_words(self, most: int) -> None:
            """Read so many tokens of the prompt, at most, with the language model: at once, and without the voice."""
            count = min(most, len(self.unread))
            words = self._embedding(*(self.unread.popleft() for _ in range(count)))
            silent = (1 + self.config.function_channel_weight) * self._embedding(self.config.pad_token_id)
            output = super()._language_step(words + silent)
            mx.eval(output.hidden_states, [cache.state for cache in self._language_cache])
            self._text_tokens += [self.config.pad_token_id] * count
            self._function_tokens += [self.config.pad_token_id] * count
            self._timeline_index += count

        def read_with_voice(self) -> None:
            """Read a token of the prompt with the language model and the voice, as mlx-vlm does."""
            self._run_timeline_step(self._embedding(self.unread.popleft()), generate_channels=False, decode_audio=False)

        def step_voice(self) -> Any:
            """Step the voice alone, as if a token of a prompt was read, and return what it said."""
            none = mx.zeros((1, 1, 1))
            self._no_words = output_class(none, none, none, None)
            self._run_timeline_step(none, generate_channels=False, decode_audio=False)
            return self._previous_code

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
            if self._no_words is not None:
                return self._no_words
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
