"""`duplex-gateway wav`: speak WAV files to a Realtime server and tell what it answered, and how soon."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clients.compare_targets import add_flags, compare, url_argument
from clients.conversation import Conversation, server_vad
from clients.realtime_connection import RealtimeError
from clients.server_url import on_this_machine
from clients.timeline import Latencies, Row, Turn, rows, turns
from clients.wav_audio import RATE_HZ, Clip, WavError, read_clip, write_wav

DEFAULT_URL = "ws://127.0.0.1:8765/v1/realtime"
KEY_VARIABLE = "DUPLEX_GATEWAY_API_KEY"
EXIT_FAILED = 1

_LATENCY_NAMES = {
    "speech_started": "speech onset → speech_started",
    "first_partial": "speech onset → first partial transcript",
    "speech_stopped": "last speech sample → speech_stopped",
    "transcript": "last speech sample → transcript",
    "response_created": "last speech sample → response.created",
    "first_reply_text": "last speech sample → first reply text",
    "first_audio": "last speech sample → first audio byte",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 if each turn was answered, 1 if not."""
    parser = _parser()
    asked = parser.parse_args(argv)
    if any("=" not in word for word in asked.key):
        parser.error("--key: give HOST=KEY")
    if asked.api_key is None:
        asked.api_key = _key_for(asked.url)
    if asked.target:
        try:
            return compare(asked)
        except KeyboardInterrupt:
            return EXIT_FAILED
    if asked.cut_in is not None:
        parser.error("--cut-in goes with --target")
    try:
        clips = [read_clip(path) for path in asked.files]
        spoken = [clips[index % len(clips)] for index in range(asked.turns or len(clips))]
        conversation = asyncio.run(_converse(asked, spoken))
    except (WavError, RealtimeError) as error:
        print(f"duplex-gateway wav: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FAILED
    microphone = conversation.microphone
    found = turns(conversation.events, microphone.utterances, microphone.started_at_s)
    recording = conversation.player.recording()
    if asked.out is not None:
        write_wav(asked.out, recording)
    if asked.json:
        print(json.dumps(_report(conversation, found), indent=1))
    else:
        _print_timeline(rows(conversation.events, microphone.utterances, microphone.started_at_s))
        for number, turn in enumerate(found, start=1):
            _print_turn(number, turn)
        if asked.out is not None:
            print(f"\n{asked.out}: {len(recording) / 2 / RATE_HZ:.2f} s as a player would have played them")
    return 0 if all(turn.latencies.first_audio is not None for turn in found) else EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="duplex-gateway wav", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="WAV file to speak, one turn each")
    parser.add_argument(
        "--url", type=url_argument, default=DEFAULT_URL, help="any Realtime or base URL (default: %(default)s)"
    )
    parser.add_argument("--api-key", help=f"key for the host of --url [{KEY_VARIABLE}, if it is this machine]")
    parser.add_argument("--out", type=Path, metavar="WAV", help="write what is heard to this file")
    parser.add_argument("--silence-ms", type=int, default=300, help="silence that ends a turn (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=0, help="turns to take, files in turn (default: one per file)")
    parser.add_argument("--instructions", help="instructions for the session")
    add_flags(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    return parser


def _key_for(url: str) -> str:
    """Return the key of the environment. It is that of this machine's gateway, and no other host's to see."""
    return (os.environ.get(KEY_VARIABLE) if on_this_machine(url) else None) or "unused"


async def _converse(asked: argparse.Namespace, spoken: Sequence[Clip]) -> Conversation:
    session = {} if asked.instructions is None else {"instructions": asked.instructions}
    update = server_vad(asked.silence_ms, **session)
    async with Conversation(asked.url, update=update, api_key=asked.api_key) as conversation:
        for clip in spoken:
            response_id = await conversation.answered(conversation.say(clip))
            if response_id is not None:
                await conversation.ended(response_id)
                await conversation.played()
    return conversation


def _print_timeline(found: Sequence[Row]) -> None:
    width = max(len(row.event) for row in found)
    print(f"{'audio time':>10}  {'event':<{width}}  detail")
    for row in found:
        print(f"{row.audio_ms / 1000:>9.3f}s  {row.event:<{width}}  {row.detail}".rstrip())


def _print_turn(number: int, turn: Turn) -> None:
    print(f"\nturn {number}: “{turn.user_text}” → “{turn.reply_text}” ({turn.status or 'no response'})")
    width = max(len(name) for name in _LATENCY_NAMES.values())
    for field, name in _LATENCY_NAMES.items():
        value = getattr(turn.latencies, field)
        print(f"  {name:<{width}}  {'never' if value is None else f'{value:.0f} ms':>8}")


def _report(conversation: Conversation, found: Sequence[Turn]) -> dict[str, Any]:
    microphone = conversation.microphone
    return {
        "turns": [{**dataclasses.asdict(turn), "latencies": latencies_ms(turn.latencies)} for turn in found],
        "timeline": [
            dataclasses.asdict(row) for row in rows(conversation.events, microphone.utterances, microphone.started_at_s)
        ],
        "heard_s": round(len(conversation.player.recording()) / 2 / RATE_HZ, 3),
        "append_lateness_max_ms": round(max(microphone.lateness_ms, default=0.0), 1),
    }


def latencies_ms(latencies: Latencies) -> dict[str, float | None]:
    """Return a turn's latencies for JSON, in ms to one decimal."""
    return {name: None if value is None else round(value, 1) for name, value in dataclasses.asdict(latencies).items()}


if __name__ == "__main__":
    sys.exit(main())
