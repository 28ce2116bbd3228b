"""Kyutai's Moshi in mlx-audio: a full-duplex model of another kind, with nothing but sound in and sound and words out.

It has no marks for taking or yielding the floor, no instructions, no tools and does not write what it hears. Its
modules hold the state of one conversation, so that each conversation gets modules of its own over the same weights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from models.duplex_interface import DuplexAbilities, DuplexPrompt, DuplexStep
from models.engines.duplex_thread import OPENING, DuplexThread
from models.engines.mlx_runtime import bound_buffer_cache, drop_buffer_cache
from models.engines.token_text import TokenText
from models.interfaces import AUDIO_RATE_HZ, EngineError, EngineInfo
from models.resampling import pcm_from_float

MODEL = "kyutai/moshiko-mlx-q4"
"""The smallest of Kyutai's conversions; …-q8 and …-bf16 are the others."""

LICENCE = ("kyutai/moshik", "CC-BY-4.0")
"""How the names of Kyutai's weights begin, and their licence by the model cards."""

VOICES = ("moshiko", "moshika")
"""The voices that Kyutai has published, each as weights of its own that are named after it."""

TEXT_FILE = "tokenizer_spm_32k_3.model"
CODEC_FILE = "tokenizer-e351c8d8-checkpoint125.safetensors"
WEIGHT_FILES = {"model.safetensors": None, "model.q4.safetensors": 4, "model.q8.safetensors": 8}
"""What Kyutai's repositories hold, by the names that mlx-audio reads; the language model's with their bits, None:
bfloat16."""

FRAME_SAMPLES = 1_920
"""80 ms at 24 kHz, Mimi's frame: nothing is resampled."""

LONGEST_S = 300.0
"""Five minutes, as Kyutai's own server allows; all steps of a conversation are allocated at its start."""

STATE_BYTES = 2_000_000_000
"""What a conversation takes at its longest, computed from Kyutai's configuration: 32 layers' keys and values of 4,096
numbers, bfloat16, 524 kB a frame."""

TEMPERATURE = 0.8
"""Of words and sound alike, as mlx-audio has it."""

_SILENT_TOKENS = frozenset({0, 3})
"""Text tokens that say nothing: padding and its end."""

_GROUP_SIZES = {4: 32, 8: 64}
"""Of quantized weights, by bits, as mlx-audio loads them."""

_WARM_UP_FRAMES = 4
"""Until sound has come out of every part of it: the codes are up to two frames late (chosen)."""

_TINY_GAIN = 1.4
"""Of random layers, so that a voice still makes a difference behind all of them (tried out)."""

_TINY_LEVEL = 0.05
"""Of its noise: an RMS level of about that, 1 being full scale."""

_FULL_SCALE = 32_768.0
_NOT_STEERED = "Moshi cannot be steered: its abilities say so."


@dataclass(frozen=True, slots=True)
class MoshiParts:
    """A loaded model: the language model, the codec, and the text of tokens.

    `quantized_bits`: 4 or 8, those of the language model's weights; None: as they are.
    """

    lm: Any
    mimi: Any
    decode: Callable[[Sequence[int]], str]
    quantized_bits: int | None = None


class MoshiStream:
    """One conversation; see DuplexStream."""

    def __init__(self, parts: MoshiParts, generator: Any, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._parts: MoshiParts | None = parts
        self._generator = generator
        self._run = run
        self._words = TokenText(parts.decode)
        self._steps = 0

    async def step(self, pcm: bytes, *, own_voice: bool = False) -> DuplexStep:
        """Hear one frame of 1,920 samples; see DuplexStream. Whose voice it is makes no difference."""
        found: DuplexStep = await self._run(lambda: self._step(pcm))
        return found

    def answer_call(self, output: str) -> None:
        """Raise: it calls nothing."""
        raise NotImplementedError(_NOT_STEERED)

    def say(self, text: str) -> None:
        """Raise: it can't be made to speak."""
        raise NotImplementedError(_NOT_STEERED)

    def stop(self) -> None:
        """Raise: it can't be made to stop."""
        raise NotImplementedError(_NOT_STEERED)

    def start(self) -> None:
        """Raise: it can't be made to speak."""
        raise NotImplementedError(_NOT_STEERED)

    async def aclose(self) -> None:
        """End the conversation and free its memory."""
        try:
            await self._run(self._end)
        except EngineError:
            self._parts = self._generator = None  # the thread is gone, and all of MLX's memory with it

    # --- in the model's thread -------------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._parts is not None:
            self._parts = self._generator = None
            drop_buffer_cache()

    def _step(self, pcm: bytes) -> DuplexStep:
        parts, generator = self._parts, self._generator
        if parts is None or len(pcm) != 2 * FRAME_SAMPLES:
            raise EngineError("duplex_failed", "The full-duplex model was given no whole frame, or is closed.")
        if self._steps >= generator.max_steps:
            self._end()
            raise EngineError("duplex_too_long", "The conversation is as long as the model can hold.")
        try:
            return self._heard(parts, generator, pcm)
        except Exception as error:  # whatever it is: the state is half advanced and can't be used any more
            self._end()
            raise EngineError("duplex_failed", "The full-duplex model failed.") from error

    def _heard(self, parts: MoshiParts, generator: Any, pcm: bytes) -> DuplexStep:
        import mlx.core as mx

        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(_FULL_SCALE)
        codes = parts.mimi.encode_step(mx.array(samples)[None, None])
        if not self._steps:
            parts.mimi.reset_state()  # the first frame is padded on its left: as Kyutai's server does
        self._steps += 1
        text, _ = generator.step(codes[:, : parts.lm.cfg.other_codebooks, 0])
        token = int(text.reshape(-1)[0])
        sound = generator.last_audio_tokens()
        audio = bytes(2 * FRAME_SAMPLES)
        if sound is not None:
            audio = pcm_from_float(np.asarray(parts.mimi.decode_step(sound[:, :, None])).reshape(-1))
        return DuplexStep(audio, "" if token in _SILENT_TOKENS else self._words.take(token))


class Moshi:
    """DuplexModel over mlx-audio's Moshi; `make` loads it, in the thread that then owns it."""

    frame_samples = FRAME_SAMPLES

    def __init__(self, name: str = "Moshi", source: str = "") -> None:
        self.info = EngineInfo("native", name, source, LICENCE[1] if source.startswith(LICENCE[0]) else "")
        self.abilities = DuplexAbilities(
            marks=False,
            hears_words=False,
            instructions=False,
            tools=False,
            steered=False,
            voices=(_voice_of(source or MODEL),),
            languages=("en",),
            longest_s=LONGEST_S,
            at_once=1 if source else None,  # its speed is known to nobody here
        )
        self._thread = DuplexThread()
        self._parts: MoshiParts | None = None

    async def load(self, make: Callable[[], MoshiParts]) -> None:
        """Load the model, and step it a few times. Raises EngineError."""
        await self._thread.run(lambda: self._load(make), OPENING)

    async def open(self, prompt: DuplexPrompt) -> MoshiStream:
        """Return a conversation. Moshi reads no prompt: `prompt` is ignored, as its abilities say."""
        own, generator = await self._thread.run(self._own, OPENING)
        return MoshiStream(own, generator, self._thread.run)

    async def aclose(self) -> None:
        """Free the model and end its thread."""
        await self._thread.aclose(self._free)

    # --- in the model's thread -------------------------------------------------------------------------------------

    def _load(self, make: Callable[[], MoshiParts]) -> None:
        self._parts = make()
        bound_buffer_cache()
        stream = MoshiStream(*self._own(), self._thread.run)
        for _ in range(_WARM_UP_FRAMES):
            stream._step(bytes(2 * FRAME_SAMPLES))
        stream._end()

    def _own(self) -> tuple[MoshiParts, Any]:
        """Return modules for one conversation, and their generator."""
        assert self._parts is not None
        return _own(self._parts)

    def _free(self) -> None:
        self._parts = None


def _voice_of(source: str) -> str:
    """Return the voice of weights by the name of their folder or repository; others' have none that we know."""
    name = Path(source).name.lower()
    return next((voice for voice in VOICES if voice in name), "moshi")


def _own(whole: MoshiParts) -> tuple[MoshiParts, Any]:
    """Return modules for one conversation over the weights of `whole`, and their generator."""
    from mlx_audio.sts.models.moshi.generate import LmGen
    from mlx_audio.sts.models.moshi.utils.sampling import Sampler

    lm, mimi = _twin(whole.lm, whole.quantized_bits), _twin(whole.mimi)
    mimi.reset_state()
    steps = int(LONGEST_S * AUDIO_RATE_HZ / FRAME_SAMPLES)
    generator = LmGen(
        lm, max_steps=steps, text_sampler=Sampler(temp=TEMPERATURE), audio_sampler=Sampler(temp=TEMPERATURE)
    )
    return replace(whole, lm=lm, mimi=mimi), generator


def _twin(module: Any, quantized_bits: int | None = None) -> Any:
    """Return a module with the same weights, not copied, and caches of its own.

    Its own random weights are never computed: MLX computes what is asked for.
    """
    import mlx.nn as nn

    twin = type(module)(module.cfg)
    if quantized_bits is not None:
        nn.quantize(twin, bits=quantized_bits, group_size=_GROUP_SIZES[quantized_bits])
    twin.update(module.parameters())
    for _, part in twin.named_modules():
        if hasattr(part, "update_in_place"):  # what a codebook or convolution derives from its weights
            part.update_in_place()
    return twin


def check_contract() -> None:
    """Raise EngineError if mlx-audio has changed what this module leans on."""
    try:
        from mlx_audio.codec.models.mimi.mimi import Mimi
        from mlx_audio.sts.models.moshi.generate import LmGen
    except ImportError as error:
        raise _incompatible(error) from error
    used = ((Mimi, ("encode_step", "decode_step", "reset_state")), (LmGen, ("step", "last_audio_tokens")))
    missing = [f"{owner.__name__}.{name}" for owner, names in used for name in names if not hasattr(owner, name)]
    if missing:
        raise EngineError(
            "duplex_incompatible",
            f"This version of mlx-audio has no {', '.join(missing)} in its Moshi: pip install "
            "'duplex-gateway[duplex]' brings the version that it is written for.",
        )


def load_parts(folder: Path) -> MoshiParts:
    """Return the published model of a folder. Raises EngineError."""
    check_contract()
    from mlx_audio.sts.models.moshi import MoshiSTSModel

    bits = next((bits for name, bits in WEIGHT_FILES.items() if (folder / name).exists()), None)
    try:
        model = MoshiSTSModel.from_pretrained(str(folder), quantized=bits)
        decode = model.text_tokenizer.decode
    except Exception as error:  # of the disk, of the format: the library has no errors of its own
        raise EngineError(
            "duplex_not_loaded",
            f"The full-duplex model in {folder.name} can't be loaded ({type(error).__name__}): fetch it anew.",
        ) from error
    return MoshiParts(model.model, model.audio_tokenizer.model, lambda tokens: str(decode(list(tokens))), bits)


def _incompatible(error: ImportError) -> EngineError:
    return EngineError(
        "duplex_incompatible",
        f"This version of mlx-audio has no Moshi, or can't be imported ({type(error).__name__}): pip install "
        "'duplex-gateway[duplex]' brings the version that it is written for.",
    )


def tiny_parts(seed: int = 3) -> MoshiParts:
    """Return a Moshi of random weights, 0.4 million: says noise, but runs all of the real code. Raises EngineError."""
    check_contract()
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_unflatten
    from mlx_audio.codec.models.mimi.mimi import Mimi, mimi_202407
    from mlx_audio.sts.models.moshi import lm as moshi_lm

    mx.random.seed(seed)
    whole = moshi_lm.config_v0_1()
    small = replace(
        whole.transformer, d_model=64, num_heads=4, num_layers=2, dim_feedforward=128, context=200, max_seq_len=512
    )
    deep = replace(whole.depformer.transformer, d_model=32, num_heads=2, num_layers=1, dim_feedforward=64)
    config = replace(
        whole,
        transformer=small,
        depformer=replace(whole.depformer, transformer=deep),
        audio_vocab_size=65,
        text_in_vocab_size=101,
        text_out_vocab_size=100,
    )
    lm = moshi_lm.Lm(config)
    published = mimi_202407(config.other_codebooks)
    codec = replace(
        published,
        seanet=replace(published.seanet, dimension=32, nfilters=4),
        transformer=replace(published.transformer, d_model=32, num_heads=2, num_layers=1, dim_feedforward=64),
        quantizer_bins=64,
        quantizer_dim=16,
    )
    mimi = Mimi(codec)
    random = []
    for name, weight in tree_flatten(mimi.parameters()):
        if name.endswith("cluster_usage"):  # what a codebook's sums are divided by
            random.append((name, mx.ones(weight.shape)))
        elif weight.ndim >= 2:
            scale = _TINY_GAIN / (weight.size / weight.shape[0]) ** 0.5
            if name.startswith("decoder.final_conv1d."):
                scale *= _TINY_LEVEL
            random.append((name, mx.random.normal(weight.shape) * scale))
    mimi.update(tree_unflatten(random))
    mx.eval(lm.parameters(), mimi.parameters())
    return MoshiParts(lm, mimi, lambda tokens: "".join(f" w{token}" for token in tokens))


async def load_moshi(find: Callable[[], Path], source: str = "") -> Moshi:
    """Return the model of the folder that `find` returns, loaded and warm. Raises EngineError.

    `find` may block: it fetches the weights. `source`: what is told of where they come from.
    """
    return await _loaded(Moshi("Moshi 7B", source), lambda: load_parts(find()))


async def load_tiny_moshi() -> Moshi:
    """Return a Moshi of random weights, loaded and warm. Raises EngineError."""
    return await _loaded(Moshi("Moshi (tiny, random weights)"), tiny_parts)


async def _loaded(moshi: Moshi, make: Callable[[], MoshiParts]) -> Moshi:
    try:
        await moshi.load(make)
    except BaseException:
        await moshi.aclose()
        raise
    return moshi
