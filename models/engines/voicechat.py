"""NVIDIA's NemotronLabs VoiceChat 11B on mlx-vlm: hears and speaks at once, in frames of 80 ms.

MLX's arrays belong to the thread that made them, so that one thread loads the model, opens conversations and steps all
of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from models.duplex_interface import DuplexAbilities, DuplexCall, DuplexPrompt, DuplexStep
from models.engines.duplex_thread import OPENING, DuplexThread
from models.engines.mlx_runtime import bound_buffer_cache, drop_buffer_cache
from models.engines.token_text import TokenText
from models.engines.voicechat_prompts import Prompts
from models.engines.voicechat_session import check_contract, clone, steerable
from models.engines.voicechat_steering import RecentVoices, Steering
from models.engines.voicechat_tools import RESULT_ENDS, CallReader, plain_text, prompt_text, result_text
from models.interfaces import AUDIO_RATE_HZ, EngineError, EngineInfo
from models.resampling import PcmResampler, SpeechDownsampler

MODEL = "mlx-community/NemotronLabs-VoiceChat-11B-4bit"
"""The smallest of the published conversions (…-8bit and …-bf16 are the others); its author keeps real time with it on
an M5 Max."""

LICENCE = ("mlx-community/NemotronLabs-VoiceChat-11B", "OpenMDW-1.1")
"""How the names of NVIDIA's weights begin, and their licence by the model card."""

LONGEST_S = 600.0
"""Its voice has a window of 7,500 frames: a conversation of ten minutes."""

STATE_BYTES = 4_000_000_000
"""What a conversation takes at its longest, computed from the published configuration: its voice keeps 28 layers' keys
and values of 16 × 72 numbers, float32, twice for guidance, 516 kB a frame; the rest is its language model's."""

SILENT_STEPS = 8
"""Tokens of a call, or of a tool's result, that are stepped beside each frame, without its voice: at the pace of speech
a call takes ten seconds (NVIDIA's serving does it, too). The number is chosen so that a step stays short: what the user
says meanwhile waits for it."""

SPEECH_TAIL = 17
"""Least frames without text behind words that it is made to say, so that the voice can finish (NVIDIA's wrapper)."""

_LEAD_SAMPLES = 1_056
"""Silence at the start of the output, 44 ms by which all that it says comes later, so that the resampler never runs
dry: soxr gives its output in blocks (from 1,005 samples on no frame of ten minutes lacks any; the rest is margin)."""

_DOWNSAMPLER_LEAD = 48
"""Silence at the start of the input, 2 ms, for the resampler's look-ahead: a frame in then gives a frame out."""


class VoiceChatStream:
    """One conversation; see DuplexStream. Everything but the interface runs in the model's thread."""

    def __init__(self, session: Any, silence: Any, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        """Take a session of `steerable`'s, its prompt read, and what the model perceives of `silence`."""
        config = session.config
        self._session = session
        self._silence = silence
        self._run = run
        self._bos, self._eos, self._pad = config.bos_token_id, config.eos_token_id, config.pad_token_id
        self._silent = frozenset({self._pad, config.silence_token_id})
        self._tokenizer = session.tokenizer
        self.steering = Steering(self._bos, self._eos, self._pad, config.silence_token_id)
        session.steering = self.steering
        self._orders: deque[Callable[[], None]] = deque()  # given outside the model's thread, obeyed in it
        self._calls = CallReader(self._decode, self._silent)
        self._complete: deque[DuplexCall] = deque()
        self._voices = RecentVoices()
        self._words = TokenText(self._decode)
        self._frame = session.frame_samples * AUDIO_RATE_HZ // session.input_sample_rate
        self._down = SpeechDownsampler()
        self._down.feed(bytes(2 * _DOWNSAMPLER_LEAD))
        self._up = PcmResampler(session.output_sample_rate)
        self._sound = bytearray(2 * _LEAD_SAMPLES)

    @property
    def closed(self) -> bool:
        """Whether the conversation is over."""
        return self._session is None

    @property
    def text_tokens(self) -> tuple[int, ...]:
        """Return all tokens of the text channel so far, the prompt's included, as the model remembers them."""
        return tuple(self._session._text_tokens)

    @property
    def function_tokens(self) -> tuple[int, ...]:
        """Return all tokens of the function channel so far."""
        return tuple(self._session._function_tokens)

    async def step(self, pcm: bytes, *, own_voice: bool = False) -> DuplexStep:
        """Hear one frame of 1,920 samples; see DuplexStream."""
        found: DuplexStep = await self._run(lambda: self._step(pcm, own_voice))
        return found

    def answer_call(self, output: str) -> None:
        """Have the result read."""
        self._orders.append(lambda: self.steering.read(*self._encode(result_text(output)), RESULT_ENDS))

    def say(self, text: str) -> None:
        """Have `text` written into the model's own words, which its voice then says."""
        self._orders.append(lambda: self._say(text))

    def stop(self) -> None:
        """Make it yield the floor."""
        self._orders.append(self.steering.stop)

    def start(self) -> None:
        """Make it take the floor."""
        self._orders.append(lambda: self.steering.force((self._bos, None)))

    async def aclose(self) -> None:
        """End the conversation and free its memory."""
        try:
            await self._run(self._end)
        except EngineError:
            self._session = None  # the thread is gone, and all of MLX's memory with it

    # --- in the model's thread -------------------------------------------------------------------------------------

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.cancel()
            del session
            drop_buffer_cache()

    def _step(self, pcm: bytes, own_voice: bool = False) -> DuplexStep:
        if self._session is None or len(pcm) != 2 * self._frame:
            raise EngineError("duplex_failed", "The full-duplex model was given no whole frame, or is closed.")
        try:
            while self._orders:
                self._orders.popleft()()
            samples = self._down.feed(pcm)
            self._voices.hear(float(np.abs(samples).mean()), own_voice)
            text, user_text, takes, yields = self._hear(samples)
            for _ in range(SILENT_STEPS):
                if self.steering.speaking or not (self._calls.reading or self.steering.reads):
                    break
                self._functions(self._session.step_silently(self._silence))
        except Exception as error:  # whatever it is: the session's state is half advanced and can't be used any more
            self._end()
            if type(error).__name__ == "VoiceChatContextLimitError":
                raise EngineError("duplex_too_long", "The conversation is as long as the model can hold.") from error
            raise EngineError("duplex_failed", "The full-duplex model failed.") from error
        audio = bytes(self._sound[: 2 * self._frame])
        del self._sound[: 2 * self._frame]
        audio += bytes(2 * self._frame - len(audio))
        call = self._complete.popleft() if self._complete else None
        return DuplexStep(audio, text, user_text, takes, yields, self._calls.reading, call)

    def _say(self, text: str) -> None:
        tokens = self._encode(plain_text(text))
        tail = max(SPEECH_TAIL, len(text) // 2)
        words = [self._bos, *tokens, *[self._pad] * tail, self._eos]
        self.steering.force(*((token, None) for token in words))

    def _hear(self, samples: Any) -> tuple[str, str, bool, bool]:
        """Step the model once and return its text, the user's, and whether it takes or yields the floor."""
        session = self._session
        events = session.push_audio(samples, sample_rate=session.input_sample_rate)
        user_text = "".join(event.delta for event in events if event.kind == "user_transcript_delta")
        if user_text and not self._voices.mostly_own:
            self.steering.words_heard()
        for event in events:
            if event.kind == "audio":
                self._sound += self._up.feed(np.asarray(event.samples, np.float32))
        self._functions(session._function_tokens[-1])
        text, takes, yields = self._wrote(session._text_tokens[-1])
        return text, user_text, takes, yields

    def _functions(self, token: int) -> None:
        """Take a token of the function channel."""
        was_reading = self._calls.reading
        made = self._calls.take(token)
        self._complete.extend(made)
        if self._calls.reading and not was_reading:
            self.steering.call_begun()
        elif was_reading and not self._calls.reading:
            self.steering.call_written(len(made))

    def _wrote(self, token: int) -> tuple[str, bool, bool]:
        if token == self._bos:
            self._words.restart()
            self.steering.floor_taken()
            return "", True, False
        if token == self._eos:
            self._words.restart()
            self.steering.floor_yielded()
            return "", False, True
        return "" if token in self._silent else self._words.take(token), False, False

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def _encode(self, text: str) -> list[int]:
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens


class VoiceChat:
    """DuplexModel over a folder; see `load_voicechat`."""

    abilities = DuplexAbilities(
        marks=True,
        hears_words=True,
        instructions=True,
        tools=True,
        steered=True,
        voices=("Aria",),
        languages=("en",),
        longest_s=LONGEST_S,
    )

    def __init__(self, name: str, source: str) -> None:
        """Take a thread for the model; `load` fills it."""
        self.info = EngineInfo("native", name, source, LICENCE[1] if source.startswith(LICENCE[0]) else "")
        if source:
            self.abilities = replace(VoiceChat.abilities, at_once=1)  # its author's fastest machine just keeps up
        self.frame_samples = 0
        self._thread = DuplexThread()
        self._silence: Any = None
        self._prompts: Any = None  # Prompts; only the model's thread looks into it
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self, find: Callable[[], Path]) -> None:
        """Load the weights of the folder that `find` returns, and step the model a few times. Raises EngineError.

        `find` is called in the model's thread.
        """
        await self._thread.run(lambda: self._load(find()), OPENING)

    async def open(self, prompt: DuplexPrompt) -> VoiceChatStream:
        """Return a conversation that has read `prompt`.

        It takes a step of the voice for each token by which the prompt is longer than all before, and a step of the
        language model for each few tokens unless the prompt was read lately. Frames of other conversations come in
        between. One who gives up waiting leaves nothing behind but the voice's steps, which the next one needs not
        wait for.
        """
        text = prompt_text(prompt)
        async with self._reading.setdefault(text, asyncio.Lock()):
            reading = await self._thread.run(lambda: self._prompts.begin(text), OPENING)
            while await self._thread.run(lambda: self._prompts.go_on(reading), OPENING):
                pass
            session = await self._thread.run(lambda: self._prompts.take(text, reading), OPENING)
        return VoiceChatStream(session, self._silence, self._thread.run)

    async def aclose(self) -> None:
        """Free the model and end its thread."""
        await self._thread.aclose(self._free)

    # --- in the model's thread -------------------------------------------------------------------------------------

    def _load(self, folder: Path) -> None:
        try:
            import mlx.core as mx
            from mlx_vlm import load
            from mlx_vlm.models.nemotron_voicechat.model import VoiceChatOutput
            from mlx_vlm.models.nemotron_voicechat.streaming import VoiceChatStreamingSession
        except ImportError as error:
            raise EngineError(
                "duplex_incompatible",
                f"This version of mlx-vlm has no VoiceChat, or can't be imported ({type(error).__name__}): pip install "
                "'duplex-gateway[duplex]' brings the version that it is written for.",
            ) from error
        bound_buffer_cache()
        session_class = steerable(VoiceChatStreamingSession, VoiceChatOutput, mx)
        try:
            model, processor = load(str(folder), lazy=False, strict=True, trust_remote_code=False)
            sessions = model.create_session(processor)
        except Exception as error:  # of the disk, of the format: the library has no errors of its own
            raise EngineError(
                "duplex_not_loaded",
                f"The full-duplex model in {folder.name} can't be loaded ({type(error).__name__}): fetch it anew.",
            ) from error
        blank = session_class(sessions, system_prompt="", max_streaming_seconds=LONGEST_S)
        check_contract(session_class, blank)
        self._silence = clone(blank).hear_silence()
        self.frame_samples = blank.frame_samples * AUDIO_RATE_HZ // blank.input_sample_rate
        warm = clone(blank)
        for _ in range(2):  # the first frame of a conversation takes another path than the others
            warm.push_audio(np.zeros(warm.frame_samples, np.float32), sample_rate=warm.input_sample_rate)
        warm.step_silently(self._silence)
        self._prompts = Prompts(blank, mx)
        del warm
        drop_buffer_cache()

    def _free(self) -> None:
        self._prompts = self._silence = None


async def load_voicechat(find: Callable[[], Path], source: str = "") -> VoiceChat:
    """Return the model of the folder that `find` returns, loaded and warm. Raises EngineError.

    `find` may block: it fetches the weights, or makes them. `source`: what is told of where they come from; "": they
    are tiny and random.
    """
    model = VoiceChat("NemotronLabs VoiceChat 11B" if source else "VoiceChat (tiny, random weights)", source)
    try:
        await model.load(find)
    except BaseException:
        await model.aclose()
        raise
    return model
