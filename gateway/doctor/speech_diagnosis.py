"""Why a recogniser or a voice failed, in one sentence, and the one thing to do about it."""

from __future__ import annotations

from typing import Any

from gateway.doctor.endpoint import Answer, Endpoint, refusal, shown, unreachable
from gateway.doctor.findings import Diagnosis
from models.interfaces import EngineError

PROBE_S = 5.0
"""Longest wait for what a server says about itself (chosen)."""


def diagnosed(error: EngineError | TimeoutError, role: str, endpoint: Endpoint | None, limit_s: float) -> Diagnosis:
    """Return why `role` failed; `endpoint` None: it runs in this process."""
    if isinstance(error, TimeoutError):
        return Diagnosis(
            f"no answer within {limit_s:g} s",
            f"take a smaller model or a faster machine, or raise DUPLEX_GATEWAY_{role.upper()}_TIMEOUT_S.",
        )
    if endpoint is None:
        return Diagnosis(error.message, f"run with --log-level debug and report it, or take another --{role}.")
    cause: Any = error.__cause__
    response = getattr(cause, "response", None)
    status = getattr(cause, "status_code", None) or getattr(response, "status_code", None)
    if isinstance(status, int) and status != 200:
        return _refused(status, response, role, endpoint)
    if error.code.endswith("unreachable"):
        return unreachable(error, endpoint)
    return Diagnosis(error.message, f"look into the log of {endpoint.server}.")


def _refused(status: int, response: Any, role: str, endpoint: Endpoint) -> Diagnosis:
    headers = {} if response is None else response.headers
    answer = Answer(status, headers.get("content-type", ""), b"", headers.get("location", ""))
    if (known := refusal(answer, endpoint)) is not None:
        return known
    what = {"asr": "a transcription", "tts": "speech"}[role]
    name = shown(endpoint.model) or "its own model"
    more = f" and {endpoint.prefix}_VOICE to a voice it knows" if role == "tts" else ""
    return Diagnosis(
        f"{endpoint.server} answers {status} when asked for {what} by {name}",
        f"set {endpoint.prefix}_MODEL to a model it has{more}; {endpoint.url_setting} usually ends in /v1.",
    )
