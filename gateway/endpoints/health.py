"""`GET /health`: is the gateway well, and does its event loop keep time. Open to all, as probes have no key."""

from __future__ import annotations

import dataclasses
import os
import resource
import sys
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from gateway.loop_lag import Lateness
from gateway.rooms import distribution_version
from gateway.service import Service, ServiceState


class HealthEndpoints:
    """The health paths of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, request: Request) -> JSONResponse:
        """Answer with the whole picture; 503 until the gateway is ready. `?reset=1` starts the lateness anew."""
        service = self._service
        body = {
            "status": service.state.value,
            "version": distribution_version(),
            "pid": os.getpid(),
            "uptime_s": round(service.uptime_s, 1),
            "sessions": {"active": service.sessions_active, "total": service.sessions_total},
            "backends": list(service.backends),
            "engines": [dataclasses.asdict(info) for info in service.engines],
            "event_loop": _lateness_body(service.lag.lateness()),
            "memory": memory(),
        }
        if service.failure:
            body["failure"] = service.failure
        self._reset_if_asked(request)
        return JSONResponse(body, 200 if service.state is ServiceState.READY else 503)

    async def lag(self, request: Request) -> JSONResponse:
        """Answer with the event loop's lateness of the last minute only, for load tools."""
        body = _lateness_body(self._service.lag.lateness())
        self._reset_if_asked(request)
        return JSONResponse(body)

    def _reset_if_asked(self, request: Request) -> None:
        if request.query_params.get("reset") == "1":
            self._service.lag.reset()


def _lateness_body(lateness: Lateness) -> dict[str, float]:
    return {"p50": lateness.p50_ms, "p99": lateness.p99_ms, "max": lateness.max_ms}


def memory() -> dict[str, Any]:
    """Return this process's resident memory in MB: now (None where the system doesn't tell) and at its peak."""
    statm = Path("/proc/self/statm")
    resident_mb = None
    if statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[1])
        resident_mb = round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_mb = peak / 2**20 if sys.platform == "darwin" else peak / 2**10  # macOS counts bytes, Linux KiB
    return {"resident_mb": resident_mb, "peak_mb": round(peak_mb, 1)}
