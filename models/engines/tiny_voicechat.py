"""A VoiceChat checkpoint of random weights, 2 MB: says noise, but runs every part of the real code, anywhere.

It has the layout of the published one, down to the names and the axes of torch's tensors, since mlx-vlm converts them
as it loads. For `--tiny`, and for tests on Linux.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from models.interfaces import EngineError

PAD, SILENCE, BOS, EOS = 12, 11, 1, 2
SEED = 7

_SPECIAL_TOKENS = 24
"""Ids 0…23 are the model's marks; 20…22 those of tools."""

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789{}[]\":,.'?!-_<>()/\\+*=#@%&;"
_BLANK = "\u0120"
"""The space of byte-level tokenizers."""

_MERGES = (("t", "h"), ("h", "e"), (_BLANK, "t"), ("i", "n"), ("a", "n"))
"""A few tokens of two letters, so that words are no mere letters."""

_CONTROL_CODES = (9_990, 9_991, 9_992)
"""Codes of the voice that mean something else than sound: outside the codebook."""

_BLOCKS_PER_STAGE = 1
_RATES = (7, 7, 9)
"""The codec's: 7 · 7 · 9 frames of 4 samples are the 1,764 of 80 ms at 22.05 kHz."""

_WIDTH = 32


def build_tiny_voicechat(folder: Path) -> Path:
    """Write the checkpoint into `folder` and return it. Takes about a second; call it in the model's thread.

    Raises EngineError if mlx-vlm isn't the one that it is written for.
    """
    try:
        import mlx.core as mx
        from mlx.utils import tree_flatten, tree_unflatten
        from mlx_vlm.models.nemotron_voicechat import Model, ModelConfig
    except ImportError as error:
        raise EngineError(
            "duplex_incompatible",
            f"This version of mlx-vlm has no VoiceChat, or can't be imported ({type(error).__name__}): pip install "
            "'duplex-gateway[duplex]' brings the version that it is written for.",
        ) from error
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _write_tokenizer(folder)
    config = _config(max(vocabulary.values()) + 1, sum(len(token) == 1 for token in vocabulary))
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    mx.random.seed(SEED)
    model = Model(ModelConfig.from_dict(config))
    floats = (mx.float32, mx.float16, mx.bfloat16)
    random = []
    for name, value in tree_flatten(model.parameters()):
        if name.endswith("control_codes"):
            random.append((name, mx.array(_CONTROL_CODES, dtype=value.dtype)))
        elif value.dtype in floats and value.ndim >= 2:  # zeros, too: in an empty codebook all codes would tie
            random.append((name, mx.random.normal(value.shape) * 0.3 / max(1.0, value.shape[-1] ** 0.5)))
    model.update(tree_unflatten(random))
    weights: dict[str, Any] = {}
    for name, value in tree_flatten(model.parameters()):
        weights |= _as_published(name, value, mx)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder


def _write_tokenizer(folder: Path) -> dict[str, int]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    special = ["<unk>", "<s>", "</s>", *(f"<SPECIAL_{number}>" for number in range(3, _SPECIAL_TOKENS))]
    tokens = [*special, _BLANK, *_LETTERS, *(first + second for first, second in _MERGES)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(_MERGES), unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": f"<SPECIAL_{PAD}>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "special_tokens_map.json").write_text(json.dumps(roles), encoding="utf-8")
    return vocabulary


def _config(tokens: int, letters: int) -> dict[str, Any]:
    """Return the configuration; what is fixed in mlx-vlm's code is as in the published model, the rest is small."""
    pieces = ["<unk>", *("\u2581" + letter for letter in "abcdefghij"), *"klmnopqrstuvwxyz"]
    attention = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
    return {
        "model_type": "nemotron_voicechat",
        "architectures": ["NemotronVoiceChatForConditionalGeneration"],
        "text_config": {
            "model_type": "nemotron_h", "vocab_size": tokens, "hidden_size": _WIDTH, "intermediate_size": 2 * _WIDTH,
            "num_hidden_layers": 4, "hybrid_override_pattern": "M-M*", "max_position_embeddings": 4_096,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "attention_bias": False,
            "mamba_num_heads": 4, "mamba_head_dim": 8, "mamba_proj_bias": False, "ssm_state_size": 8,
            "conv_kernel": 4, "n_groups": 2, "mlp_bias": False, "layer_norm_epsilon": 1e-5, "use_bias": False,
            "use_conv_bias": True,
        },
        "audio_config": {
            "preprocessor": {"features": 128, "sample_rate": 16_000},
            "encoder": {
                "feat_in": 128, "n_layers": 1, "d_model": _WIDTH, "n_heads": 2, "subsampling_factor": 8,
                "subsampling_conv_channels": 16, "conv_kernel_size": 9, "att_context_size": [[70, 0]],
            },
            "decoder": {"pred_hidden": 16, "pred_rnn_layers": 1, "vocab_size": len(pieces)},
            "joint": {
                "joint_hidden": 16, "encoder_hidden": _WIDTH, "pred_hidden": 16, "num_classes": len(pieces),
            },
            "output_dim": _WIDTH, "max_symbols": 10,
        },
        "tts_config": {
            "hidden_size": _WIDTH, "intermediate_size": 2 * _WIDTH, "num_hidden_layers": 2, **attention,
            "sliding_window": 512, "sliding_window_pattern": 2, "latent_size": 16, "num_quantizers": 31,
            "codebook_size": 32, "num_iterations": 8,
            "character_encoder": {
                "hidden_size": _WIDTH, "intermediate_size": 2 * _WIDTH, "num_hidden_layers": 1, **attention,
                "char_vocab_size": letters + 1,
            },
            "mog_head": {"intermediate_size": 2 * _WIDTH, "low_rank": 4, "num_layers": 1, "num_predictions": 16},
        },
        "codec_config": {
            "base_channels": 8, "channel_multipliers": [1, 2, 4], "downsample_rates": list(_RATES),
            "blocks_per_stage": _BLOCKS_PER_STAGE, "latent_dim": 16, "num_quantizers": 31, "codebook_size": 32,
        },
        "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "silence_token_id": SILENCE,
        "rnnt_blank_id": len(pieces), "rnnt_vocabulary": pieces, "speaker": "Aria",
    }  # fmt: skip


def _as_published(name: str, value: Any, mx: Any) -> dict[str, Any]:
    """Return a tensor under the name and with the axes that it has in the published checkpoint."""
    if name == "tts_model.control_codes":
        return {"tts_model._control_codes": value}
    if ".dec_rnn.lstm." in name:
        return _lstm(name, value, mx)
    if name.startswith("tts_model.audio_codec.") and name.endswith(".weight") and value.ndim == 3:
        axes = (2, 0, 1) if _is_upsampling(name.removeprefix("tts_model.audio_codec.")) else (0, 2, 1)
        return {name: mx.contiguous(value.transpose(*axes))}
    perceives = name.startswith("stt_model.perception.")
    if perceives and value.ndim == 4:
        return {name: mx.contiguous(value.transpose(0, 3, 1, 2))}
    if value.ndim == 3 and (perceives or ("stt_model.llm." in name and ".conv1d.weight" in name)):
        return {name: mx.contiguous(value.transpose(0, 2, 1))}
    return {name: value}


def _is_upsampling(name: str) -> bool:
    """Return whether a weight of the codec is that of a transposed convolution, which opens each stage."""
    if not name.startswith("decoder.layers.") or "dwconv" in name:
        return False
    layer, stage = int(name.split(".")[2]), _BLOCKS_PER_STAGE + 1
    return layer < stage * len(_RATES) and layer % stage == 0


def _lstm(name: str, value: Any, mx: Any) -> dict[str, Any]:
    base, rest = name.rsplit(".dec_rnn.lstm.", 1)
    layer, leaf = rest.split(".")
    start = f"{base}.dec_rnn.lstm."
    if leaf == "Wx":
        return {f"{start}weight_ih_l{layer}": value}
    if leaf == "Wh":
        return {f"{start}weight_hh_l{layer}": value}
    return {f"{start}bias_ih_l{layer}": value, f"{start}bias_hh_l{layer}": mx.zeros_like(value)}
