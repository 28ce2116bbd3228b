"""Fetches one tarball of an npm registry: by the user's npm, or without one from the registry that npm is set to.

No registry is named here. npm knows its own and the user's; a machine without npm has to name one, in the variable or
the file in which npm would look for it.
"""

from __future__ import annotations

import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from models.child_process import ChildResult, run_child

REGISTRY_VARIABLE = "NPM_CONFIG_REGISTRY"
"""What npm reads its registry's address from, in upper or lower case."""

SILENCE_TIMEOUT_S = 30.0
"""Longest silence of a registry that is asked directly (chosen; pip waits 15 s and tries again)."""

_BLOCK_BYTES = 1 << 18

NpmFetcher = Callable[[str, str, int, Path, Path, Callable[[], None]], Path]
"""Fetches (project, version, at most so many bytes) into a folder, with one for temporary files, calling `tick`."""


class NpmError(Exception):
    """The registry gave no tarball. The text is one sentence: why, and what to do."""


def fetch_tarball(
    project: str, version: str, max_bytes: int, destination: Path, temporary: Path, tick: Callable[[], None]
) -> Path:
    """Return the tarball of `project` at `version`, in `destination`, not yet checked. Raises NpmError, OSError."""
    npm = shutil.which("npm")
    if npm is not None:
        return _packed_by_npm(npm, project, version, destination, temporary, tick)
    registry = configured_registry()
    if not registry:
        raise NpmError(
            f"Fetching {project}@{version} needs npm, which is not installed, or the address of an npm registry in "
            f"{REGISTRY_VARIABLE}: install npm or set that variable."
        )
    target = destination / f"{version}.tgz"
    url = f"{registry.rstrip('/')}/{project}/-/{project.rsplit('/', 1)[-1]}-{version}.tgz"
    try:
        _download(url, target, max_bytes, tick)
    except urllib.error.HTTPError as error:
        raise NpmError(
            f"The npm registry of {REGISTRY_VARIABLE} answered {error.code} for {project}@{version}: check its address."
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
            raise  # the disk's
        raise NpmError(
            f"The npm registry can't be reached to fetch {project}@{version}: check the network and the address in "
            f"{REGISTRY_VARIABLE}."
        ) from error
    return target


def configured_registry() -> str:
    """Return the address that npm's variable or the user's .npmrc names; "": neither."""
    for name, value in os.environ.items():
        if name.upper() == REGISTRY_VARIABLE and value:
            return value
    settings = Path(os.environ.get("NPM_CONFIG_USERCONFIG") or Path.home() / ".npmrc")
    try:
        lines = settings.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    pairs = (line.partition("=")[::2] for line in lines)
    return next((value.strip().strip("\"'") for name, value in pairs if name.strip() == "registry"), "")


def _packed_by_npm(
    npm: str, project: str, version: str, destination: Path, temporary: Path, tick: Callable[[], None]
) -> Path:
    command = [npm, "pack", f"{project}@{version}", "--ignore-scripts", "--loglevel=error", "--no-update-notifier"]
    command += [f"--pack-destination={destination}", f"--cache={temporary / 'cache'}"]  # the store is the cache
    result = run_child(command, os.environ, temporary, tick)
    found = list(destination.glob("*.tgz"))
    if result.returncode or len(found) != 1:
        raise NpmError(_why_npm_failed(result, f"{project}@{version}"))
    return found[0]


def _download(url: str, target: Path, max_bytes: int, tick: Callable[[], None]) -> None:
    if not url.startswith(("http://", "https://")):
        raise ValueError("no http(s) address")
    done = 0
    with urllib.request.urlopen(url, timeout=SILENCE_TIMEOUT_S) as source, target.open("wb") as file:
        while done <= max_bytes and (block := source.read(_BLOCK_BYTES)):
            done += len(block)
            file.write(block)
            tick()


_NO_NETWORK = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET|CERT|EPROTO")


def _why_npm_failed(result: ChildResult, spec: str) -> str:
    output = result.output
    if "ENOSPC" in output:
        return "The disk is full: free some space."
    if "E404" in output or "ETARGET" in output:
        return f"The npm registry has no {spec}: point npm to one that has it (npm config get registry shows it)."
    if _NO_NETWORK.search(output):
        return (
            f"The npm registry can't be reached to fetch {spec}: check the network and npm's proxy settings "
            "(npm config list), then start again; finished parts are kept."
        )
    lines = [line.strip() for line in output.splitlines() if line.lower().startswith("npm err")]
    reason = re.sub(r"^npm err(or|!)\s*", "", lines[-1] if lines else "", flags=re.IGNORECASE) or "no reason given"
    return f"npm could not fetch {spec}: {reason[:300]}"
