import os

# Official builds of onnxruntime send usage events to their maker (seen in 1.32, Privacy.md in its package) unless this is
# set before their first import, whoever imports them. Nobody asked for that here; who sets it to 0 does.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
