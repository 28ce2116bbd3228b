"""The command `duplex-gateway`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from gateway.remote_settings import all_remotes, http_url
from gateway.rooms import RoomsError, check_rooms, distribution_version
from gateway.settings import Settings, SettingsError, table
from gateway.settings_sources import SourcedSettings, load_sourced_settings

if TYPE_CHECKING:
    from gateway.profile_choice import Decision
    from gateway.serving import TlsListener

EXIT_FAILED = 1
EXIT_SETTINGS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return its exit status: 0, 1 for a failure, 2 for wrong settings or usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        check_rooms()
        if arguments[:1] in (["wav"], ["play"]):  # has flags of its own, which argparse must not see here
            return _play(arguments[1:])
        parsed = _parser().parse_args(arguments)
        return cast(int, parsed.run(parsed))
    except SettingsError as error:
        return _fail(str(error), EXIT_SETTINGS)
    except RoomsError as error:
        return _fail(str(error), EXIT_FAILED)


def _fail(sentence: str, status: int, program: str = "duplex-gateway") -> int:
    print(f"{program}: {sentence}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="duplex-gateway", description="A speech gateway that speaks the OpenAI Realtime API on localhost."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, help_text in (
        ("serve", _serve, "serve the Realtime API"),
        ("warmup", _warmup, "fetch weights and load every engine once"),
        ("doctor", _doctor, "check each engine by itself and say what to do about what is wrong"),
    ):
        command = commands.add_parser(
            name, help=help_text, description="Flags win over the environment, that over .env and duplex-gateway.toml."
        )
        command.set_defaults(run=run)
        if name == "doctor":
            command.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
        _add_settings(command)
    config = commands.add_parser(
        "config",
        help="print every setting as it holds here, and where it comes from",
        description="Takes serve's flags. Keys are masked; nothing is started, fetched or remembered.",
    )
    licenses = commands.add_parser(
        "licenses",
        help="print the licences of what the engines run on: weights, models, packages",
        description="Takes serve's flags: what is printed belongs to the engines that they choose.",
    )
    licenses.add_argument(
        "--all", action="store_true", help="all weights there are, and every package that is installed"
    )
    for command, run in ((config, _config), (licenses, _licenses)):
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=run)
        _add_settings(command)
    _add_turnlab(commands.add_parser("turnlab", help="measure turn-taking on synthetic speech"))
    replay = commands.add_parser(
        "replay",
        help="run a recorded session through the turn-taking core again and print which decisions change",
        description="Recordings come from `serve --record FOLDER`. Engines answer as they did then.",
    )
    replay.add_argument("file", type=Path, metavar="FILE", help="<session>.jsonl of a recording")
    replay.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another setting, e.g. eagerness=low; repeats"
    )
    replay.add_argument("--all", action="store_true", help="print the decisions that stay the same, too")
    replay.set_defaults(run=_replay)
    _add_rehearse(commands.add_parser("rehearse", help="hold a conversation with scripted engines, without waiting"))
    commands.add_parser("version", help="print the version").set_defaults(run=_version)
    commands.add_parser(
        "wav",
        aliases=["play"],
        help="speak a WAV file to a gateway and save the answer, or compare targets by the same meter",
        add_help=False,
    )
    return parser


def _add_turnlab(parser: argparse.ArgumentParser) -> None:
    benches = parser.add_subparsers(required=True, metavar="BENCH")
    bench = benches.add_parser(
        "endpointing",
        help="false cut-offs and delay of semantic_vad beside silence",
        description="Speaks texts with pauses to sessions in lockstep and prints false cut-offs against delay.",
    )
    bench.add_argument("--half", choices=("dev", "test"), default="dev", help="of the texts (default: dev)")
    bench.add_argument("--texts", type=int, metavar="N", help="only N texts, in the order of their hashes")
    bench.add_argument("--policy", action="append", metavar="NAME", help="only this policy, as named in the table")
    bench.add_argument(
        "--out", type=Path, metavar="FILE", help="all outcomes as JSON, and the frontier as .svg beside it"
    )
    bench.set_defaults(run=_endpointing)
    _add_settings(bench)


def _add_rehearse(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Has a scripted user say TEXTs to the same session, turn-taking and protocol that are served, on scripted "
        "engines and virtual time: is it the loop, or the room and the models?"
    )
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="what the user says, one turn each")
    parser.add_argument(
        "--interrupt-after", type=_seconds, metavar="S", help="cut in when a reply has been heard for S seconds"
    )
    parser.add_argument(
        "--reply", default="", metavar="TEXT", help="what the agent always says (default: what it heard)"
    )
    parser.add_argument(
        "--observe", action="store_true", help="print what observers of the session read, as JSON lines"
    )
    parser.set_defaults(run=_rehearse)


def _seconds(word: str) -> float:
    seconds = float(word)
    if not 0 <= seconds <= 60:
        raise argparse.ArgumentTypeError("give 0 to 60 seconds")
    return seconds


def _add_settings(command: argparse.ArgumentParser) -> None:
    for entry in table():
        default = ", ".join(entry.default) if isinstance(entry.default, tuple) else entry.default
        shown = f" (default: {default})" if default not in (None, "", False) else ""
        if entry.type is bool:
            command.add_argument(
                entry.flag,
                dest=entry.name,
                action=argparse.BooleanOptionalAction,
                default=None,
                help=f"{entry.help}{shown} [{entry.env}]".replace("%", "%%"),
            )
            continue
        command.add_argument(
            entry.flag,
            dest=entry.name,
            action="append" if entry.repeatable else "store",
            metavar="|".join(entry.choices) or entry.name.rsplit("_", 1)[-1].upper(),
            help=f"{entry.help}{shown} [{entry.env}]".replace("%", "%%"),
        )


def _sourced(parsed: argparse.Namespace) -> SourcedSettings:
    flags = {entry.name: getattr(parsed, entry.name) for entry in table()}
    return load_sourced_settings(flags, os.environ, Path.cwd())


def _decided(parsed: argparse.Namespace, *, keep: bool = True) -> Decision:
    """Return the settings with nothing left to choose; `keep`: an automatic choice is remembered."""
    given = _sourced(parsed)
    from gateway.profile_choice import decide, surroundings

    return decide(given, surroundings(os.environ), keep=keep)


def _settings(parsed: argparse.Namespace) -> Settings:
    return _decided(parsed).settings


def _serve(parsed: argparse.Namespace) -> int:
    return serve_decided(_decided(parsed), "duplex-gateway")


def serve_decided(decision: Decision, program: str) -> int:
    """Serve until told to stop, and return the exit status. `program`: what the console calls it."""
    settings = decision.settings
    # Heavy imports wait until the settings are known to be right: a typo is answered at once.
    from gateway.app import create_app, service_of
    from gateway.local_certificate import CertificateError
    from gateway.serving import ListenError, configure_logging, open_listeners, serve
    from models.weights import default_home

    configure_logging(settings.log_level)
    try:
        sockets, tls = open_listeners(settings, settings.home or default_home())
    except (CertificateError, ListenError) as error:
        return _fail(str(error), EXIT_FAILED, program)
    port = sockets[0].getsockname()[1]
    app = create_app(settings)
    service = service_of(app)
    profile, *others = decision.told
    _print(f"{program} {distribution_version()}: loading {profile}")
    for line in others:
        _print(f"  {line}")

    async def when_settled() -> bool:
        await service.settled.wait()
        if service.failure:
            return False
        for info in service.engines:
            details = ", ".join(part for part in (info.source, info.licence) if part)
            _print(f"  {info.role}: {info.name}" + (f" ({details})" if details else ""))
        for name, remote in all_remotes(settings).items():
            _print(f"  remote: ?model={name} is relayed to {urlsplit(http_url(remote.base_url)).netloc}")
        if tls is not None:
            _print_tls(tls)
        _print(_ready_line(settings, port))
        return True

    serve(app, settings, sockets, when_settled, tls)
    return _fail(service.failure, EXIT_FAILED, program) if service.failure else 0


def _print_tls(tls: TlsListener) -> None:
    address, trusted = f"localhost:{tls.port}/v1", shlex.quote(str(tls.authority))
    _print(f"  TLS: wss://{address}/realtime  (OpenAI SDK: base_url=https://{address})")
    _print(f"  TLS: trust it with NODE_EXTRA_CA_CERTS={trusted} (Node) or SSL_CERT_FILE={trusted} (Python)")


def _ready_line(settings: Settings, port: int) -> str:
    host = settings.host[0]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    secure = "s" if settings.ssl_certfile else ""
    address = f"{shown}:{port}/v1"
    return f"ready: ws{secure}://{address}/realtime  (OpenAI SDK: base_url=http{secure}://{address})"


def _warmup(parsed: argparse.Namespace) -> int:
    settings = _settings(parsed)
    from gateway.app import warm_up
    from gateway.serving import configure_logging
    from models.interfaces import EngineError

    configure_logging(settings.log_level)
    try:
        infos = warm_up(settings)
    except EngineError as error:
        return _fail(error.message, EXIT_FAILED)
    for info in infos:
        _print(f"  {info.role}: {info.name}")
    _print("warm: all engines loaded")
    return 0


def _config(parsed: argparse.Namespace) -> int:
    decision = _decided(parsed, keep=False)
    from gateway.config_report import config_json, config_table

    _print(config_json(decision) if parsed.json else config_table(decision))
    return 0


def _licenses(parsed: argparse.Namespace) -> int:
    from gateway.licence_report import licence_json, licence_table
    from models.licences import all_licences, plan_licences

    rows = all_licences() if parsed.all else plan_licences(_decided(parsed, keep=False).plan)
    _print(licence_json(rows) if parsed.json else licence_table(rows))
    return 0


def _doctor(parsed: argparse.Namespace) -> int:
    from gateway.doctor.report import report, report_wrong_settings

    try:
        settings = _decided(parsed, keep=False).settings
    except SettingsError as error:
        report_wrong_settings(str(error), _print, as_json=parsed.json)
        return EXIT_FAILED
    from gateway.serving import configure_logging

    # What the engines warn of is what the doctor finds, and says better.
    configure_logging(settings.log_level if settings.log_level == "debug" else "error")
    return 0 if report(settings, _print, as_json=parsed.json) else EXIT_FAILED


def _endpointing(parsed: argparse.Namespace) -> int:
    settings = _settings(parsed)
    from clients.turnlab.endpointing import POLICIES
    from clients.turnlab.main import Measured, endpointing
    from gateway.lockstep import OpenSession, run_in_lockstep
    from models.interfaces import EngineError
    from models.timed_voices import VoiceMissingError, open_timed_voices
    from models.weights import WeightsError, WeightsStore

    policies = parsed.policy or list(POLICIES)
    if unknown := [name for name in policies if name not in POLICIES]:
        return _fail(f"there is no policy {unknown[0]!r}: choose of {', '.join(POLICIES)}.", EXIT_SETTINGS)

    async def bench(open_session: OpenSession) -> Measured:
        return await endpointing(open_session, voices, half=parsed.half, most=parsed.texts, policies=policies)

    try:
        voices = open_timed_voices(WeightsStore(settings.home))
        measured = run_in_lockstep(settings, bench)
    except (EngineError, WeightsError, VoiceMissingError) as error:
        return _fail(str(error), EXIT_FAILED)
    _print(measured.table)
    if parsed.out is not None:
        parsed.out.write_text(measured.report, "utf-8")
        parsed.out.with_suffix(".svg").write_text(measured.picture, "utf-8")
    return 0


def _replay(parsed: argparse.Namespace) -> int:
    from gateway.recording.changed_settings import Changes, WrongChange
    from gateway.recording.recording import RecordingError, read_recording
    from gateway.recording.replay import replayed

    try:
        words = dict(pair.split("=", 1) if "=" in pair else (pair, "") for pair in parsed.set)
        changes = Changes(words)
        recording = read_recording(parsed.file)
    except WrongChange as error:
        return _fail(str(error), EXIT_SETTINGS)
    except RecordingError as error:
        return _fail(str(error), EXIT_FAILED)
    replay = replayed(recording, changes)
    for change in replay.changes:
        if parsed.all or change.mark != " ":
            _print(f"{change.mark} {change.decision}")
    total = sum(change.mark != "+" for change in replay.changes)
    if replay.identical:
        _print(f"{total} decisions, none changed: the core answered {len(recording.steps)} inputs bit for bit as then")
    else:
        _print(f"{total} decisions then; {replay.changed} lines differ (- then, + now)")
    return 0


def _rehearse(parsed: argparse.Namespace) -> int:
    from gateway.rehearsal import RehearsalStuck, rehearse

    try:
        rehearse(
            parsed.texts, _print, interrupt_after_s=parsed.interrupt_after, reply=parsed.reply, observe=parsed.observe
        )
    except RehearsalStuck as bug:
        return _fail(str(bug), EXIT_FAILED)
    return 0


def _version(_parsed: argparse.Namespace) -> int:
    _print(distribution_version())
    return 0


def _play(arguments: list[str]) -> int:
    from clients.play_wav import main as play

    return play(arguments)


def _print(line: str) -> None:
    print(line, flush=True)  # flushed: whoever waits for the ready line may read through a pipe


if __name__ == "__main__":
    sys.exit(main())
