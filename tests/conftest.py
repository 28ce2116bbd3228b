"""Prints how long each stage of the suite took beside its budget, so that a slow test is seen when it is added."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator

import hypothesis
import pytest

# The machine that runs this may be five times slower for a while, or import a library in the middle of an example.
hypothesis.settings.register_profile("noisy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("noisy")

pytest.register_assert_rewrite("tests.matrix.matrix")  # its assertions are each client test's

STAGES_MIN = {
    "core": (2, ("turns", "protocol", "gateway", "recording", "simulation", "test_documents.py", "test_packaging.py")),
    "models": (4, ("models",)),
    "duplex": (
        4,
        (
            *("mlx_engines", "models/test_mlx_in_its_environment.py"),
            *("gateway/test_duplex_server.py", "gateway/test_remote_process.py", "gateway/test_wav_comparison.py"),
        ),
    ),
    "images": (2, ("docker",)),
    "clients": (3, ("clients", "compatibility")),
    "matrix": (5, ("matrix",)),
    "conversations": (6, ("endtoend",)),
}
"""Budget in minutes of each stage, and the folders and files of tests/ that it has; a file's own stage counts."""

_STAGES = {part: name for name, (_, parts) in STAGES_MIN.items() for part in parts}

CONFIGURED_LOGGERS = (
    *("", "gateway", "models", "protocol", "clients", "mcp", "openai", "httpx2", "httpcore2", "websockets"),
    *("uvicorn", "uvicorn.error", "uvicorn.access"),
)
"""The root, and what `gateway.serving.configure_logging` sets."""

_spent_s: defaultdict[str, float] = defaultdict(float)


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    """Undo what a test does to the loggers: commands set levels for the whole process, and others' lines would miss."""
    before = [(logger, logger.level, list(logger.filters)) for logger in map(logging.getLogger, CONFIGURED_LOGGERS)]
    yield
    for logger, level, filters in before:
        logger.setLevel(level)
        logger.filters[:] = filters


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a test's set-up, call and tear-down to its stage's time."""
    path = report.nodeid.split("::")[0].removeprefix("tests/")
    folder = path.split("/")[0]
    _spent_s[_STAGES.get(path) or _STAGES.get(folder, folder)] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the stage table: of stages that ran, their tests' time, shared by the processes that ran them."""
    terminalreporter.section("stages")
    processes = getattr(terminalreporter.config.option, "numprocesses", None) or 1
    for name, (budget_min, _) in STAGES_MIN.items():
        if spent_s := _spent_s.pop(name, 0.0) / processes:
            over = "   over budget" if spent_s > 60 * budget_min else ""
            terminalreporter.write_line(f"{name:<16} {spent_s:5.0f} s   budget {budget_min:2d} min{over}")
    for folder, spent_s in _spent_s.items():
        terminalreporter.write_line(f"{folder:<16} {spent_s / processes:5.0f} s   no budget")
