"""The calls of a full-duplex model that wait for their results, and in which order and when it reads them. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from protocol.audio_time import Samples, samples_from_s

CALL_TIMEOUT: Samples = samples_from_s(10)
"""A tool's result that does not come within this is an error for the model, which would wait for ever."""

RESULT_GRACE: Samples = samples_from_s(1)
"""The model reads a tool's result when the client asks for the response to it, as stock clients do at once, or after
this (chosen: a slow round trip). Answering earlier, it would be speaking when they ask, and they would be refused."""

LATE_CALLS = 16
"""So many calls without a result in time are remembered, for results that come after all (chosen)."""

NO_TOOL_RESULT = '{"error": "no result came in time"}'


@dataclass(slots=True)
class _Call:
    """A call that is given up, or whose `output` is read without having been asked for, at `until`."""

    until: Samples
    output: str | None = None


class DuplexCalls:
    """One session's. The model is given results without names, so that it reads them in the order of its calls."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._late: deque[str] = deque(maxlen=LATE_CALLS)  # calls of which the model believes that no result came

    @property
    def wait(self) -> bool:
        """Whether a call waits for its result, or a result to be read."""
        return bool(self._calls)

    @property
    def have_results(self) -> bool:
        """Whether a result has come that the model has not read."""
        return any(call.output is not None for call in self._calls.values())

    def made(self, call_id: str, now: Samples) -> None:
        """The model has called."""
        self._calls[call_id] = _Call(now + CALL_TIMEOUT)

    def answered(self, call_id: str, output: str, now: Samples) -> bool:
        """Take a result; return False where the model that runs waits for no such one."""
        if call_id in self._late:
            self._late.remove(call_id)
        elif call_id not in self._calls or self._calls[call_id].output is not None:
            return False
        self._calls[call_id] = _Call(now + RESULT_GRACE, output)
        return True

    def take(self) -> list[str]:
        """Return the results that the model is to read now; those behind a call that still waits are kept."""
        ready = []
        for call_id, call in list(self._calls.items()):
            if call.output is None:
                break
            ready.append(call.output)
            del self._calls[call_id]
        return ready

    def expire(self, now: Samples) -> list[str]:
        """Give up calls that have waited for long enough; return what the model is to read though nobody asked."""
        for call_id, call in self._calls.items():
            if call.output is None and now >= call.until:
                call.output = NO_TOOL_RESULT
                self._late.append(call_id)
        first = next(iter(self._calls.values()), None)
        return [] if first is None or first.output is None or now < first.until else self.take()

    def clear(self) -> None:
        """Forget all calls: the model that made them is gone."""
        self._calls.clear()
        self._late.clear()
