"""Checkpoints of mlx-audio's models in the layout that the model hub has them in, tiny and of random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

LETTERS = "abcdefghijklmnopqrstuvwxyz"

PHONEMES = ';:,.!?—…"() ' + LETTERS + "AIOQSTWYæçðøŋœɐɑɒɔɕɖəɚɛɜɟɡɣɥɨɪɯɲɹɾʁʃʊʌʒʔˈˌːʤʧʣʦθβᵊᵻ"
"""Kokoro's alphabet, as far as the tests speak it."""

KOKORO_VOICES = ("af_heart", "am_michael", "ff_siwis")


def write_parakeet(folder: Path) -> Path:
    """Write a Parakeet TDT of NVIDIA's layout. Its text is made of letters, and about two a frame of 80 ms."""
    from mlx_audio.stt.models.parakeet import Model

    vocabulary = ["<unk>", *("▁" + letter for letter in LETTERS), *LETTERS, ".", ","]
    durations = [0, 1, 2, 3, 4]
    config = {
        "target": "nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel",
        "model_defaults": {"tdt_durations": durations},
        "preprocessor": {
            "sample_rate": 16_000,
            "normalize": "per_feature",
            "window_size": 0.025,
            "window_stride": 0.01,
            "window": "hann",
            "features": 128,
            "n_fft": 512,
            "dither": 1e-5,
            "pad_to": 0,
        },
        "encoder": {
            "feat_in": 128,
            "n_layers": 2,
            "d_model": 32,
            "n_heads": 2,
            "ff_expansion_factor": 2,
            "subsampling_factor": 8,
            "self_attention_model": "rel_pos",
            "subsampling": "dw_striding",
            "conv_kernel_size": 9,
            "subsampling_conv_channels": 16,
            "pos_emb_max_len": 5000,
            "use_bias": False,
            "xscaling": False,
        },
        "decoder": {
            "blank_as_pad": True,
            "vocab_size": len(vocabulary),
            "prednet": {"pred_hidden": 16, "pred_rnn_layers": 2},
        },
        "joint": {
            "num_classes": len(vocabulary),
            "vocabulary": vocabulary,
            "num_extra_outputs": len(durations),
            "jointnet": {"joint_hidden": 16, "activation": "relu", "encoder_hidden": 32, "pred_hidden": 16},
        },
        "decoding": {"model_type": "tdt", "durations": durations, "greedy": {"max_symbols": 10}},
    }
    return _write(folder, config, _random(Model.from_config(config), scale=0.3))


def write_sense_voice(folder: Path) -> Path:
    """Write a SenseVoice, which is told the language and says which of its five it heard."""
    from mlx_audio.stt.models.sensevoice import Model, ModelConfig

    encoder = {"output_size": 32, "attention_heads": 2, "linear_units": 32, "num_blocks": 1, "tp_blocks": 1}
    config = {"model_type": "sensevoice", "vocab_size": 64, "encoder_conf": {**encoder, "kernel_size": 5}}
    model = Model(ModelConfig.from_dict(json.loads(json.dumps(config))))
    folder.mkdir(parents=True)
    (folder / "tokens.json").write_text(json.dumps(["<blank>", *("▁" + letter for letter in LETTERS), *LETTERS]))
    turned = {"fsmn_block.weight": (0, 2, 1)}
    weights = {
        name: weight.transpose(*next((axes for part, axes in turned.items() if part in name), range(weight.ndim)))
        for name, weight in _random(model, scale=0.3).items()
    }
    return _write(folder, config, weights)


def write_kokoro(folder: Path) -> Path:
    """Write a Kokoro with three voices, in PyTorch's layout of weights as the hub's are.

    The network's widths are fixed by mlx-audio; layers, kernels and the time that a phoneme takes are as small as can
    be.
    """
    from mlx_audio.tts.models.kokoro import Model, ModelConfig

    config = {
        "dim_in": 64,
        "dropout": 0.2,
        "hidden_dim": 512,
        "max_conv_dim": 512,
        "max_dur": 2,
        "multispeaker": True,
        "n_layer": 1,
        "n_mels": 80,
        "n_token": 178,
        "style_dim": 128,
        "text_encoder_kernel_size": 5,
        "istftnet": {
            "upsample_rates": [2, 2, 2],
            "upsample_kernel_sizes": [4, 4, 4],
            "gen_istft_hop_size": 5,
            "gen_istft_n_fft": 20,
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 1, 1]],
            "upsample_initial_channel": 512,
        },
        "plbert": {
            "hidden_size": 32,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 512,
            "num_hidden_layers": 1,
            "dropout": 0.1,
        },
        "vocab": {symbol: index + 1 for index, symbol in enumerate(PHONEMES)},
    }
    model = Model(ModelConfig.from_dict(config))
    weights = {name: _as_pytorch(name, weight) for name, weight in _random(model, scale=0.08).items()}
    numbers = np.random.default_rng(2)
    (folder / "voices").mkdir(parents=True)
    for name in KOKORO_VOICES:
        styles = mx.array(numbers.normal(0.0, 0.1, (510, 1, 256)).astype(np.float32))
        mx.save_safetensors(str(folder / "voices" / f"{name}.safetensors"), {"voice": styles})
    return _write(folder, config, weights)


def write_kitten(folder: Path) -> Path:
    """Write a KittenTTS, which reads with espeak-ng and makes long texts segment by segment."""
    from mlx_audio.tts.models.kitten_tts import Model, ModelConfig

    config = {
        "model_type": "kitten_tts",
        "hidden_dim": 32,
        "max_conv_dim": 32,
        "max_dur": 4,
        "n_layer": 1,
        "n_mels": 16,
        "n_token": 178,
        "style_dim": 128,
        "text_encoder_kernel_size": 5,
        "asr_res_dim": 16,
        "decoder_out_dim": 32,
        "istftnet": {
            "upsample_rates": [2, 2],
            "upsample_kernel_sizes": [4, 4],
            "gen_istft_hop_size": 5,
            "gen_istft_n_fft": 20,
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 1, 1]],
            "upsample_initial_channel": 32,
        },
        "plbert": {
            "hidden_size": 32,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 512,
            "num_hidden_layers": 1,
        },
    }
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(3)
    voices = {name: numbers.normal(0.0, 0.1, (400, 256)).astype(np.float32) for name in ("expr-voice-5-m", "bella")}
    np.savez(folder / "voices.npz", **voices)
    return _write(folder, config, _random(Model(ModelConfig.from_dict(config)), scale=0.2))


def _random(model: Any, *, scale: float) -> dict[str, Any]:
    """Return random weights for a model's matrices; its vectors stay as they begin."""
    numbers = np.random.default_rng(1)
    return {
        name: mx.array(numbers.normal(0.0, scale, weight.shape).astype(np.float32)) if weight.ndim > 1 else weight
        for name, weight in tree_flatten(model.parameters())
    }


def _as_pytorch(name: str, weight: Any) -> Any:
    """Return a weight in the order that mlx-audio turns round when it loads."""
    turned = "weight_v" in name or name.endswith(("F0_proj.weight", "N_proj.weight"))
    turned = turned or ("noise_convs" in name and name.endswith(".weight"))
    return weight.transpose(0, 2, 1) if turned else weight


def _write(folder: Path, config: dict[str, Any], weights: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder
