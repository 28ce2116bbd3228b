"""The command `duplex-server`: a native full-duplex model behind the same protocol, and nothing else."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

from gateway.cli import EXIT_FAILED, EXIT_SETTINGS, serve_decided
from gateway.rooms import RoomsError, check_rooms
from gateway.settings import SettingsError
from gateway.settings_sources import load_sourced_settings

NEEDS = {
    "voicechat": "NemotronLabs VoiceChat 11B on MLX: needs Apple Silicon, memory for its weights and up to 4 GB for a "
    "conversation (computed). Others report for 5 bits 8.6 GB of weights, 8.7 to 15.6 GB of memory in use, and 76 to "
    "79 ms for each 80 ms of audio on an M5 Pro: a slower machine falls behind. Nothing of it is measured here",
    "moshi": "Moshi 7B on MLX: needs Apple Silicon; 4 bits are about 4 GB of weights, beside up to 2 GB for a "
    "conversation (computed). Its speed is not measured here",
    "scripted": "the scripted model has no weights: it answers with a murmur, for trying a client",
}
TINY = "tiny random weights say noise: the model's real code, for trying the plumbing on any machine"
"""What each engine asks of the machine, and who says so."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve and return the exit status: 0, 1 for a failure, 2 for wrong settings or usage."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.engine == "scripted" and (given.tiny or given.model):
        parser.error("the engine scripted has no weights: leave out --tiny and --model")
    if given.tiny and given.model:
        parser.error("--tiny makes weights of its own: leave out --model")
    flags = {
        "profile": "scripted",  # of the cascade's engines nothing is loaded but the VAD
        "vad": "scripted" if given.engine == "scripted" else "silero",
        "cascade": False,
        "duplex": given.engine,
        "duplex_model": given.model,
        "duplex_tiny": given.tiny or None,
        "duplex_base_url": "",  # of a gateway on this machine, which may be this very server's
        "host": given.host,
        "port": given.port,
        "api_key": given.api_key,
        "allow_host": given.allow_host,
        "duplex_sessions": given.sessions,
        "home": given.home,
        "log_level": given.log_level,
    }
    try:
        check_rooms()
        sourced = load_sourced_settings(flags, os.environ, Path.cwd(), relays=False)
        from gateway.profile_choice import decide, surroundings

        decision = decide(sourced, surroundings(os.environ), keep=False)
        told = (TINY if given.tiny else NEEDS[given.engine],)
        return serve_decided(replace(decision, told=told), "duplex-server")
    except SettingsError as error:
        return _fail(str(error), EXIT_SETTINGS)
    except RoomsError as error:
        return _fail(str(error), EXIT_FAILED)


def _fail(sentence: str, status: int) -> int:
    print(f"duplex-server: {sentence}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="duplex-server",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Serves a native full-duplex model at ws://HOST:PORT/v1/realtime. Its weights are fetched from\n"
        "the model hub at the first start. All other settings are those of `duplex-gateway serve`, from the\n"
        "environment and files, but for remote servers, which are a gateway's.",
        epilog="What the engines need:\n"
        + "\n".join(fill(f"{name}: {told}.", 100, subsequent_indent="  ") for name, told in NEEDS.items()),
    )
    parser.add_argument("--engine", choices=tuple(NEEDS), default="voicechat", help="the model (default: voicechat)")
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="its weights: a folder, or a name on the model hub, such as mlx-community/NemotronLabs-VoiceChat-11B-8bit",
    )
    parser.add_argument("--tiny", action="store_true", help="tiny random weights: runs anywhere, says noise")
    parser.add_argument("--host", action="append", metavar="HOST", help="address to listen on (default: loopback)")
    parser.add_argument("--port", metavar="PORT", help="port to listen on (default: 8765)")
    parser.add_argument("--api-key", metavar="KEY", help="key that clients must send")
    parser.add_argument(
        "--allow-host", action="append", metavar="NAME", help="name by which clients reach it, as in mac.local"
    )
    parser.add_argument(
        "--sessions", metavar="N", help="sessions at a time (default: one with real weights, any number with others)"
    )
    parser.add_argument(
        "--home",
        metavar="FOLDER",
        help="folder for small weights and certificates; the model's own go to the hub's cache, which HF_HOME moves",
    )
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
