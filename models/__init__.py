import os

# Official builds of onnxruntime send usage events to their maker (found in 1.32; Privacy.md in its package) unless this
# is set before they are first imported, by whomever. Nobody asked for that here; who sets it to 0 does.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
