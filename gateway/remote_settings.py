"""Reads the named Realtime servers, `[remotes.NAME]` in the file and REMOTE_<NAME>_… in the environment; checks all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import cast, get_args
from urllib.parse import urlsplit, urlunsplit

from gateway.own_address import is_own_address
from gateway.settings import DOTENV_NAME, TOML_NAME, Remote, RemoteDialect, Settings, SettingsError

REMOTES = "remotes"
"""The table in `duplex-gateway.toml`."""

RESERVED = frozenset({"cascade", "duplex", "twin"})
"""Names of ours that `?model=` knows already (design: names)."""

KEYS = tuple(field.name for field in fields(Remote) if field.name != "name")
"""What may be said of a server."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_VARIABLE = re.compile(r"REMOTE_([A-Z0-9][A-Z0-9_]{0,39})_(BASE_URL|API_KEY|MODEL|DIALECT)")
_HTTP = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
_REQUESTS = ("/realtime", "/models")


def read_remotes(
    tables: object, environment: Mapping[str, str], dotenv: Mapping[str, str | None]
) -> tuple[tuple[Remote, ...], dict[str, str]]:
    """Return the servers that the file's `tables`, `environment` and `dotenv` name, by name, and each one's sources.

    The environment wins over `dotenv`, that over the file. A server exists where it has a base URL; another variable
    without one is somebody else's. A name in the file and the same in capitals, other signs written `_`, are one.
    Raises SettingsError.
    """
    known = _from_tables(tables)
    sources = {name: dict.fromkeys(given, TOML_NAME) for name, given in known.items()}
    for place, variables in ((DOTENV_NAME, dotenv), ("environment", environment)):
        _overlay(known, sources, place, variables)
    for name, given in known.items():
        if not given.get("base_url") and any(given.values()) and name in _table_names(tables):
            raise SettingsError(f"`remotes.{name}` in duplex-gateway.toml has no base_url: give it one.")
    remotes = tuple(
        Remote(
            name,
            given["base_url"],
            given.get("api_key", ""),
            given.get("model", ""),
            _dialect(name, given.get("dialect", "ga")),
        )
        for name, given in sorted(known.items())
        if given.get("base_url")
    )
    return remotes, {f"{REMOTES}.{remote.name}": _told(sources[remote.name]) for remote in remotes}


def _told(sources: Mapping[str, str]) -> str:
    """Return where a server comes from: its base URL, and those other parts that came from elsewhere."""
    first = sources["base_url"]
    others = [f"{key}: {sources[key]}" for key in KEYS if sources.get(key, first) != first]
    return "; ".join([first, *others])


def _table_names(tables: object) -> Iterator[str]:
    return iter(tables if isinstance(tables, dict) else ())


def _from_tables(tables: object) -> dict[str, dict[str, str]]:
    if tables is None:
        return {}
    if not isinstance(tables, dict) or not all(isinstance(given, dict) for given in tables.values()):
        raise SettingsError(
            "`remotes` in duplex-gateway.toml is no table: write [remotes.NAME] with a base_url below it."
        )
    for name, given in tables.items():
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"`remotes.{name}` in duplex-gateway.toml: give a name of small letters, digits, '.', '-' and '_'."
            )
        for key, value in given.items():
            if key not in KEYS:
                raise SettingsError(
                    f"`remotes.{name}.{key}` in duplex-gateway.toml is not a setting: give {', '.join(KEYS)}."
                )
            if not isinstance(value, str):
                raise SettingsError(f"`remotes.{name}.{key}` in duplex-gateway.toml is no text: put it in quotes.")
    return {name: dict(given) for name, given in tables.items()}


def _overlay(
    known: dict[str, dict[str, str]],
    sources: dict[str, dict[str, str]],
    place: str,
    environment: Mapping[str, str | None],
) -> None:
    by_variable = {in_capitals(name): name for name in known}
    for variable, value in environment.items():
        found = _VARIABLE.fullmatch(variable)
        if found is not None and value:
            name = by_variable.get(found[1], found[1].lower())
            key = found[2].lower()
            known.setdefault(name, {})[key] = value
            sources.setdefault(name, {})[key] = place if place == DOTENV_NAME else f"{place} {variable}"


def in_capitals(name: str) -> str:
    """Return a server's name as it stands in REMOTE_<NAME>_BASE_URL."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _dialect(name: str, word: str) -> RemoteDialect:
    if word not in get_args(RemoteDialect):
        raise SettingsError(f"The dialect of the remote server `{name}` is {word!r}: give ga or beta.")
    return cast(RemoteDialect, word)


def all_remotes(settings: Settings) -> dict[str, Remote]:
    """Return every Realtime server that stands behind a model's name: `duplex` if DUPLEX_BASE_URL names one."""
    named = {remote.name: remote for remote in settings.remotes}
    if not settings.duplex_base_url:
        return named
    duplex = Remote(
        "duplex",
        settings.duplex_base_url,
        settings.duplex_api_key,
        settings.duplex_model or "duplex",  # what a gateway or a `duplex-server` calls it
        settings.duplex_dialect,
    )
    return {"duplex": duplex, **named}


def http_url(base_url: str) -> str:
    """Return a base URL as http or https, with the usual `/v1` if it has no path. Raises ValueError for another URL."""
    parts = urlsplit(base_url.strip())
    if parts.scheme not in _HTTP or not parts.hostname or parts.port == 0:
        raise ValueError("no http(s) or ws(s) URL")
    path = parts.path.rstrip("/") or "/v1"
    return urlunsplit((_HTTP[parts.scheme], parts.netloc, path, parts.query, ""))


def check_remotes(settings: Settings) -> None:
    """Raise SettingsError for a server that can't be one."""
    if settings.duplex_base_url and settings.duplex not in ("profile", "none"):
        raise SettingsError(
            f"The setting `duplex` is {settings.duplex} and DUPLEX_BASE_URL names a server: give one of the two."
        )
    for remote in all_remotes(settings).values():
        if remote in settings.remotes and remote.name in RESERVED:
            advice = "set DUPLEX_BASE_URL" if remote.name == "duplex" else "choose another name"
            raise SettingsError(f"A remote server can't be named `{remote.name}`, which is a name of ours: {advice}.")
        _check(settings, remote)


def _check(settings: Settings, remote: Remote) -> None:
    told = "DUPLEX_BASE_URL" if remote.name == "duplex" else f"The base URL of the remote server `{remote.name}`"
    try:
        url = http_url(remote.base_url)
        ours = is_own_address(url, settings)
    except ValueError as error:
        example = "http://192.0.2.7:8765/v1"
        raise SettingsError(f"{told} is no http(s) or ws(s) URL: give one such as {example}.") from error
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise SettingsError(f"{told} has a user or password in it: give the server's key by its own setting.")
    if parts.path.endswith(_REQUESTS):
        raise SettingsError(f"{told} ends in the path of a request ({parts.path}): give what stands before it.")
    if ours:
        raise SettingsError(f"{told} points at the gateway's own address: give the address of another Realtime server.")
