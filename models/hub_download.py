"""Fetches a model from the model hub into the hub's own cache, once, and shows how far it is."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from models.interfaces import EngineError
from models.weights import FetchProgress, ProgressCallback

_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_TICK_S = 0.5
_SPARE_BYTES = 64_000_000
_GB = 1_000_000_000


def is_repository(name: str) -> bool:
    """Return whether `name` can be a repository's: OWNER/NAME."""
    return _REPOSITORY.fullmatch(name) is not None


def fetch_repository(
    repository: str,
    patterns: Sequence[str],
    *,
    is_whole: Callable[[Path], bool],
    check_size: Callable[[int], None],
    progress: ProgressCallback | None,
    setting: str,
) -> Path:
    """Return the folder of a repository's files that fit `patterns`, fetched if it isn't there whole. Blocks.

    `check_size` may refuse their bytes before any is fetched; `setting`: what names the model. Raises EngineError with
    one sentence.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise EngineError(
            "duplex_not_installed",
            f"Fetching {repository} needs the package huggingface-hub: pip install 'duplex-gateway[duplex]', or give "
            f"{setting} a folder with the model's files.",
        ) from error
    if (kept := _kept(snapshot_download, repository, patterns)) is not None and is_whole(kept):
        return kept
    try:
        bar = _no_bars()
        files = snapshot_download(repository, allow_patterns=list(patterns), tqdm_class=bar, dry_run=True)
        check_size(sum(file.file_size or 0 for file in files))
        missing = sum(file.file_size or 0 for file in files if file.will_download)
        _check_disk(repository, missing)
        with _Watch(repository, missing, progress):
            return Path(snapshot_download(repository, allow_patterns=list(patterns), tqdm_class=bar))
    except EngineError:
        raise
    except Exception as error:  # the network's, the hub's, the disk's: what it means to the user is below
        raise EngineError(
            "duplex_not_fetched",
            f"The model {repository} can't be fetched from the model hub ({_kind(error)}): check the name and "
            f"the network, or give {setting} a folder with the model's files.",
        ) from error


def _kind(error: Exception) -> str:
    """Return the name of what went wrong, which asking for sizes only wraps."""
    return type(error.__cause__ or error).__name__


def _kept(snapshot_download: Any, repository: str, patterns: Sequence[str]) -> Path | None:
    try:
        return Path(snapshot_download(repository, allow_patterns=list(patterns), local_files_only=True))
    except Exception:  # not there; the library has an error of its own for each way in which it may be missing
        return None


def _check_disk(repository: str, missing: int) -> None:
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if missing + _SPARE_BYTES > free:
        raise EngineError(
            "duplex_not_fetched",
            f"The model {repository} needs {missing / _GB:.1f} GB more on the disk of {folder}, which has "
            f"{free / _GB:.1f}: make room, or set HF_HOME to a folder on another disk.",
        )


def _no_bars() -> Any:
    """Return a progress bar that shows nothing: the hub's own would write over ours."""
    from huggingface_hub.utils.tqdm import tqdm

    bar: Any = tqdm

    def silent(self: Any, *given: Any, **named: Any) -> None:
        bar.__init__(self, *given, **{**named, "disable": True})

    return type("NoBar", (bar,), {"__init__": silent})


class _Watch:
    """Tells `progress`, from a thread of its own, how much of `total` bytes has come, by the size of the cache."""

    def __init__(self, repository: str, total: int, progress: ProgressCallback | None) -> None:
        from huggingface_hub import constants

        self._folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}" / "blobs"
        self._name = repository.rpartition("/")[2]
        self._total = total
        self._progress = progress
        self._before = self._size()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="hub-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._over.set()
        self._thread.join()
        if kind is None:
            self._show(self._total)

    def _tell(self) -> None:
        while not self._over.is_set():
            self._show(min(self._size() - self._before, self._total - 1))
            self._over.wait(_TICK_S)

    def _show(self, done: int) -> None:
        if self._progress is not None and self._total > 0:
            self._progress(FetchProgress(1, 1, self._name, max(0, done), self._total))

    def _size(self) -> int:
        size = 0
        for path in self._folder.glob("*"):
            try:
                size += path.stat().st_size
            except OSError:  # renamed meanwhile
                continue
        return size
