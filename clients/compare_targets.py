"""`duplex-gateway wav --target … --target …`: the same speech for several backends, and one table of what they did."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from clients.bench.figures import median, shown, table
from clients.conversation import Conversation, semantic_vad, server_vad
from clients.heard_replies import audible_after_s
from clients.listed_models import listed_models, shown_models
from clients.microphone import Utterance
from clients.observed_figures import Figures, ObserverStream, figures_of
from clients.own_figures import own_figures
from clients.realtime_connection import RealtimeConnection, RealtimeError, StampedEvent
from clients.server_url import socket_url
from clients.timeline import CREATED, DONE
from clients.wav_audio import Clip, WavError, read_clip

ANSWER_S = 20.0
"""Longest wait for an answer (chosen: callers have hung up long before)."""

REST_S = 1.5
"""So much quiet on both sides ends a turn (chosen: an answer behind a backchannel, and the meter's last word, come
sooner)."""

LONGEST_TURN_S = 120.0
"""A reply that is not over by then is left (chosen)."""


@dataclass(frozen=True, slots=True)
class Target:
    """A name of the gateway's, or a URL; `url` is where its socket is."""

    name: str
    url: str
    api_key: str


def target_of(word: str, gateway_url: str, api_key: str, keys: dict[str, str]) -> Target:
    """Return what `--target` names. `api_key` goes to the gateway's own host only, `keys` (by host) to theirs."""
    gateway = urlsplit(gateway_url)
    if "://" not in word:
        query = {**dict(parse_qsl(gateway.query)), "model": word}
        return Target(word, urlunsplit(gateway._replace(query=urlencode(query))), api_key)
    url = socket_url(word)
    found = urlsplit(url)
    own = found.netloc == gateway.netloc
    key = keys.get(found.netloc) or keys.get(found.hostname or "") or (api_key if own else "")
    return Target(word, url, key)


def compare(asked: argparse.Namespace, tell: Callable[[str], None] = print) -> int:
    """Speak to each target, one after the other, and print the table; return 0 if all of them answered."""
    try:
        files = [read_clip(path) for path in asked.files]
        clips = [files[number % len(files)] for number in range(asked.turns or len(files))]
        cut_in = None if asked.cut_in is None else read_clip(asked.cut_in).trimmed()
    except WavError as error:
        print(f"duplex-gateway wav: {error}", file=sys.stderr)
        return 1
    keys = dict(word.split("=", 1) for word in asked.key)
    targets = [target_of(word, asked.url, asked.api_key, keys) for word in asked.target]
    if (refusal := _unlisted(targets, asked)) is not None:
        print(f"duplex-gateway wav: {refusal}", file=sys.stderr)
        return 1
    measured: list[tuple[Target, Figures | RealtimeError]] = []
    for target in targets:
        try:
            measured.append((target, asyncio.run(_measured(target, clips, cut_in, asked))))
        except RealtimeError as error:
            print(f"duplex-gateway wav: {target.name}: {error}", file=sys.stderr)
            measured.append((target, error))
    tell(json.dumps(report(measured), indent=1) if asked.json else shown_table(measured))
    return 0 if all(isinstance(figures, Figures) and figures.answer_ms for _, figures in measured) else 1


def _unlisted(targets: Sequence[Target], asked: argparse.Namespace) -> str | None:
    """Return a sentence about the first target that is a name which the gateway doesn't list; None if there is none.

    A gateway serves any name by its default backend: a mistyped one would be measured as that.
    """
    names = [target for target in targets if "://" not in target.name]
    listed = listed_models(asked.url, asked.api_key) if names else None
    missing = next((target for target in names if listed is not None and target.name not in listed), None)
    if missing is None or listed is None:
        return None
    try:
        asyncio.run(_opened(missing))
        words = f"{asked.url} lists no such model"
    except RealtimeError as error:  # it may know why: of its own names it tells what they lack
        words = str(error).rstrip(".")
    return f"{missing.name}: {words}; its models are: {shown_models(listed)}."


async def _opened(target: Target) -> None:
    async with RealtimeConnection(target.url, api_key=target.api_key):
        pass


async def _measured(target: Target, clips: Sequence[Clip], cut_in: Clip | None, asked: argparse.Namespace) -> Figures:
    session = {} if asked.instructions is None else {"instructions": asked.instructions}
    if asked.eagerness is None:
        update = server_vad(asked.silence_ms, **session)
    else:
        update = semantic_vad(asked.eagerness, **session)
    turns: list[Utterance] = []
    cut_ins: list[Utterance] = []
    async with Conversation(target.url, update=update, api_key=target.api_key) as talk:
        stream = ObserverStream(target.url, _session_id(talk.events), target.api_key)
        stream.start()
        for clip in clips:
            turns.append(talk.say(clip))
            await _spoken(talk, turns[-1])
            if cut_in is not None and (sounded_at_s := await _answer_begun(talk, turns[-1])) is not None:
                await asyncio.sleep(max(0.0, sounded_at_s + asked.cut_in_ms / 1000 - time.monotonic()))
                cut_ins.append(talk.say(cut_in))
                await _spoken(talk, cut_ins[-1])
            await _rested(talk)
    if (seen := await stream.events()) is not None:
        return figures_of(seen)
    return own_figures(talk.events, turns, cut_ins, talk.microphone.started_at_s)


def _session_id(events: Sequence[StampedEvent]) -> str:
    return str(next((event.details("session", "id") for event in events if event.type == "session.created"), ""))


async def _spoken(talk: Conversation, utterance: Utterance) -> None:
    await asyncio.sleep(max(0.0, talk.microphone.time_of(utterance.end) - time.monotonic()))
    if talk.connection.closed:
        raise RealtimeError(f"The server closed the connection ({talk.connection.close_code}).")


async def _answer_begun(talk: Conversation, utterance: Utterance) -> float | None:
    """Wait until the answer to an utterance has come; return when its sound begins (monotonic clock), None if none did.

    It may have come while the clip still rang, all of it at once: it is one if it is heard beyond the clip's end.
    """
    onset_s, end_s = (talk.microphone.time_of(position) for position in (utterance.onset, utterance.end))

    def is_answer(event: StampedEvent) -> bool:
        return event.at_s >= onset_s and talk.player.ends_at_s > end_s and audible_after_s(event) is not None

    try:
        sound = await talk.connection.until(is_answer, within_s=ANSWER_S)
    except RealtimeError:
        if talk.connection.closed:
            raise
        return None
    return sound.at_s + (audible_after_s(sound) or 0.0)


async def _rested(talk: Conversation) -> None:
    """Wait until an answer has come, and both sides have been quiet for a while."""
    began_s = time.monotonic()
    quiet_since_s = began_s
    answered = False
    while (now_s := time.monotonic()) < began_s + LONGEST_TURN_S:
        if talk.connection.closed:
            raise RealtimeError(f"The server closed the connection ({talk.connection.close_code}).")
        open_ids = {event.details("response", "id") for event in talk.events if event.type == CREATED}
        open_ids -= {event.details("response", "id") for event in talk.events if event.type == DONE}
        if open_ids or talk.player.ends_at_s > now_s:
            quiet_since_s, answered = now_s, True
        answered = answered or any(event.at_s >= began_s and event.type == CREATED for event in talk.events)
        if now_s - quiet_since_s >= (REST_S if answered else ANSWER_S):
            return
        await asyncio.sleep(0.05)


def shown_table(measured: Sequence[tuple[Target, Figures | RealtimeError]]) -> str:
    """Return the table, medians in ms with the number of values behind each, and what has to be said beside it."""
    header = ("target", "measured by", "answer", "n", "yield", "n", "stop", "n", "unanswered", "went on", "ended")
    lines = []
    for target, figures in measured:
        if isinstance(figures, RealtimeError):
            lines.append((target.name, "not reached", *["–"] * (len(header) - 2)))
            continue
        cells: list[str] = []
        for values in (figures.answer_ms, figures.yield_ms, figures.stop_ms):
            cells += [shown(median(values)), str(len(values))]
        lines.append(
            (target.name, figures.source, *cells, str(figures.unanswered), str(figures.went_on), str(figures.ended))
        )
    said = [
        "",
        "Medians in ms. answer: last voice of the user → first sound in their ear. yield: the user's voice over",
    ]
    said += ["the agent's → the agent gives way. stop: → the user hears the last of it."]
    if any(isinstance(figures, Figures) and figures.source == "client" for _, figures in measured):
        said += [
            "client: that server shows no meter of ours; by arrival, with the network, without the player's delay."
        ]
    return "\n".join([table(header, lines), *said])


def report(measured: Sequence[tuple[Target, Figures | RealtimeError]]) -> dict[str, Any]:
    """Return all values and their medians for JSON."""
    found: list[dict[str, Any]] = []
    for target, figures in measured:
        if isinstance(figures, RealtimeError):
            found.append({"target": target.name, "url": target.url, "error": str(figures)})
            continue
        medians = {name: median(getattr(figures, name)) for name in ("answer_ms", "yield_ms", "stop_ms")}
        found.append({"target": target.name, "url": target.url, **dataclasses.asdict(figures), "median": medians})
    return {"targets": found}


def url_argument(word: str) -> str:
    """Return the socket of a URL on the command line. Raises argparse's error for any other word."""
    try:
        return socket_url(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _target_argument(word: str) -> str:
    if "://" in word:
        url_argument(word)
    return word  # as it was given: the table names it


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what only a comparison takes."""
    parser.add_argument(
        "--target",
        action="append",
        type=_target_argument,
        default=[],
        metavar="NAME|URL",
        help="compare: a model of the gateway at --url, such as cascade or duplex, or any Realtime URL; repeats",
    )
    parser.add_argument("--cut-in", type=Path, metavar="WAV", help="said over each reply, for yield and stop")
    parser.add_argument(
        "--cut-in-ms", type=int, default=1_500, help="so long after a reply's first sound (default: %(default)s)"
    )
    parser.add_argument(
        "--eagerness",
        choices=("auto", "low", "medium", "high"),
        help="compare with semantic_vad instead of --silence-ms",
    )
    parser.add_argument(
        "--key", action="append", default=[], metavar="HOST=KEY", help="key for a target's host; repeats"
    )
