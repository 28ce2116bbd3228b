"""Whether models of the model hub can be had: it answers, or they are here already."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from gateway.bounded_calls import within

QUALITY_MODEL = "istupakov/parakeet-tdt-0.6b-v3-onnx"
"""What the hub is asked for: the recogniser of the profile `quality`, as onnx-asr 0.12 names it there."""

PROBE_LIMIT_S = 1.0
"""Longest time for a start to find out whether the hub answers (chosen: a user waits for it, once)."""

_DEFAULT_URL = "https://huggingface.co"
_YES = frozenset({"1", "ON", "YES", "TRUE"})
"""Yes, as huggingface_hub reads it."""


class Hub(Enum):
    """How the hub's models can be had. The value completes a sentence."""

    CACHED = "its models are on this machine"
    REACHABLE = "the model hub answers"
    UNREACHABLE = "the model hub does not answer"
    OFF = "the model hub is switched off (HF_HUB_OFFLINE)"


@dataclass(frozen=True, slots=True)
class HubSettings:
    """What huggingface_hub reads from the environment, as far as it decides whether a model can be had."""

    url: str = _DEFAULT_URL
    offline: bool = False
    cache: Path = Path("~/.cache/huggingface/hub")


def hub_settings(environment: Mapping[str, str]) -> HubSettings:
    """Return huggingface_hub's settings by its own rules (its `constants.py`, 2.4), without importing it."""
    offline = environment.get("HF_HUB_OFFLINE") or environment.get("TRANSFORMERS_OFFLINE") or ""
    home = environment.get("HF_HOME") or f"{environment.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    cache = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return HubSettings(
        url=(environment.get("HF_ENDPOINT") or _DEFAULT_URL).rstrip("/"),
        offline=offline.upper() in _YES,
        cache=Path(os.path.expandvars(cache)).expanduser(),
    )


def hub_state(settings: HubSettings) -> Hub:
    """Return how QUALITY_MODEL can be had, within PROBE_LIMIT_S. Asks the hub only if the model isn't here."""
    if is_cached(settings.cache, QUALITY_MODEL):
        return Hub.CACHED
    if settings.offline:
        return Hub.OFF
    (answered,) = within(PROBE_LIMIT_S, [lambda: _answers(settings.url)])
    return Hub.REACHABLE if answered else Hub.UNREACHABLE


def is_cached(cache: Path, model: str) -> bool:
    """Say whether the hub's cache holds `model` with its weights, as far as names tell."""
    snapshots = cache / f"models--{model.replace('/', '--')}" / "snapshots"
    try:
        return any(path.exists() for path in snapshots.glob("*/*.onnx"))  # a link whose blob is missing doesn't exist
    except OSError:
        return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        """Follow nothing: a redirect is an answer."""


def _answers(url: str) -> bool:
    """Say whether a hub answers at `url`, by the proxies of the environment. No token is sent."""
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        request = urllib.request.Request(f"{url}/api/models/{QUALITY_MODEL}", method="HEAD")
        with opener.open(request, timeout=PROBE_LIMIT_S):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 400 and error.code != 304  # a redirect; 401, 403 and 404: nothing to fetch for us
    except (OSError, ValueError, http.client.HTTPException):  # URLError is an OSError
        return False
