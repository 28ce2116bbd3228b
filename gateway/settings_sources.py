"""Reads the settings from flags, the environment, `.env` and `duplex-gateway.toml`, in that order, and notes which."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from dotenv import dotenv_values

from gateway.masking import MASK
from gateway.remote_settings import REMOTES, read_remotes
from gateway.settings import DOTENV_NAME, TOML_NAME, YES_AND_NO, Entry, Remote, Settings, SettingsError, table
from gateway.settings_checks import check_settings

DEFAULT = "default"
"""Source of a setting that nobody gave."""


@dataclass(frozen=True, slots=True)
class SourcedSettings:
    """Settings, and where each of them came from.

    `sources`, by field name: `default`, `flag --port`, `environment DUPLEX_GATEWAY_PORT`, `.env`,
    `duplex-gateway.toml`; of a remote server, as `remotes.NAME`, that of its base URL, then those of other parts that
    came from elsewhere.
    """

    settings: Settings
    sources: Mapping[str, str]

    def by_flag(self, name: str) -> bool:
        """Say whether the setting `name` was given on the command line."""
        return self.sources[name].startswith("flag ")


def load_settings(flags: Mapping[str, object], environment: Mapping[str, str], folder: Path) -> Settings:
    """Return the settings of `flags` (by field name; None: not given), `environment` and the files in `folder`.

    An empty variable counts as not set, as compose files write it. Unknown variables are ignored, unknown file keys are
    not. Raises SettingsError.
    """
    return load_sourced_settings(flags, environment, folder).settings


def load_sourced_settings(
    flags: Mapping[str, object], environment: Mapping[str, str], folder: Path, *, relays: bool = True
) -> SourcedSettings:
    """Return what `load_settings` returns, with the source of each setting. Raises SettingsError.

    `relays` False: the named remote servers are a gateway's and not read.
    """
    dotenv = dotenv_values(folder / DOTENV_NAME) if (folder / DOTENV_NAME).is_file() else {}
    toml = _read_toml(folder / TOML_NAME)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for entry in table():
        candidates = (
            (flags.get(entry.name), f"the flag {entry.flag}", f"flag {entry.flag}"),
            (environment.get(entry.env) or None, f"the environment variable {entry.env}", f"environment {entry.env}"),
            (dotenv.get(entry.env) or None, f"{entry.env} in {DOTENV_NAME}", DOTENV_NAME),
            (toml.get(entry.name), f"`{entry.name}` in {TOML_NAME}", TOML_NAME),
        )
        sources[entry.name] = DEFAULT
        for raw, told, source in candidates:
            if raw is not None:
                values[entry.name] = _parse(entry, raw, told)
                sources[entry.name] = source
                break
    remotes: tuple[Remote, ...] = ()
    if relays:
        remotes, sources_of_remotes = read_remotes(toml.get(REMOTES), environment, dotenv)
        sources |= sources_of_remotes
    settings = Settings(**values, remotes=remotes)
    check_settings(settings)
    return SourcedSettings(settings, sources)


def _read_toml(path: Path) -> dict[str, object]:
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{TOML_NAME} is not valid TOML ({error}): correct or remove it.") from error
    known = [REMOTES, *(entry.name for entry in table())]
    for name in content:
        if name not in known:
            meant = "".join(f"perhaps `{near}` is meant, else " for near in get_close_matches(name, known, 1))
            raise SettingsError(
                f"`{name}` in {TOML_NAME} is not a setting: {meant}remove it (`serve --help` lists them all)."
            )
    return content


def _parse(entry: Entry, raw: object, source: str) -> Any:
    """Return `raw` as the entry's type; a file may hold the type itself, all other sources hold text."""

    def wrong(expected: str) -> SettingsError:
        shown = MASK if entry.secret else repr(raw)
        return SettingsError(f"{source[0].upper()}{source[1:]} is {shown}: give {expected}.")

    if entry.repeatable:
        parts = raw if isinstance(raw, list | tuple) else [raw]
        if not all(isinstance(part, str) for part in parts):
            raise wrong("text, or a list of texts")
        return tuple(word.strip() for part in parts for word in cast(str, part).split(",") if word.strip())
    if entry.choices:
        if raw not in entry.choices:
            raise wrong("one of " + ", ".join(entry.choices))
        return raw
    if entry.type is bool:
        word = raw if isinstance(raw, bool) else YES_AND_NO.get(raw.lower()) if isinstance(raw, str) else None
        if word is None:
            raise wrong("true or false")
        return word
    if entry.type in (int, float):
        return _number(entry, raw, wrong)
    if not isinstance(raw, str):
        raise wrong("text")
    return raw if entry.type is str else Path(raw).expanduser()


def _number(entry: Entry, raw: object, wrong: Any) -> float:
    unit = "a whole number" if entry.type is int else "a number"
    expected = f"{unit} from {entry.at_least} to {entry.at_most}"
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise wrong(expected)
    value: float
    try:
        value = entry.type(raw) if isinstance(raw, str) or entry.type is float else raw
    except ValueError as error:
        raise wrong(expected) from error
    in_range = (entry.at_least is None or value >= entry.at_least) and (entry.at_most is None or value <= entry.at_most)
    if not in_range or (entry.type is int and not isinstance(value, int)):  # nan is in no range
        raise wrong(expected)
    return value
