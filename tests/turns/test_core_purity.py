"""The core is pure: the standard library without clocks, chance, threads and I/O, and two modules of `protocol`."""

from __future__ import annotations

import ast
import asyncio
import sys
import time
from pathlib import Path

import pytest

import gateway.turns

IMPURE = frozenset(
    "asyncio concurrent datetime http io logging multiprocessing os pathlib queue random sched secrets select "
    "selectors signal socket ssl subprocess sys tempfile threading time urllib uuid zoneinfo".split()
)
"""Modules of the standard library that know a clock, a die, a thread or the world outside."""

OURS = frozenset({"protocol.audio_time", "protocol.backend_events"})

MODULES = sorted(Path(gateway.turns.__path__[0]).glob("*.py"))


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            names.add(node.module or "")
    return names


def allowed(name: str) -> bool:
    top = name.partition(".")[0]
    if top in ("gateway", "protocol"):
        return name.startswith("gateway.turns.") or name in OURS
    return top in sys.stdlib_module_names and top not in IMPURE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_core_imports_nothing_impure(path: Path) -> None:
    assert {name for name in imports(path) if not allowed(name)} == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_core_opens_and_prints_nothing(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls & {"open", "print", "input", "eval", "exec", "__import__"} == set()


@pytest.mark.parametrize("name", ["protocol.audio_time", "protocol.backend_events"])
def test_what_the_core_imports_of_the_protocol_is_as_pure(name: str) -> None:
    path = Path(gateway.turns.__path__[0]).parents[1] / f"{name.replace('.', '/')}.py"
    assert {imported for imported in imports(path) if not allowed(imported)} == set()


def test_the_package_files_on_the_way_are_empty() -> None:
    room = Path(gateway.turns.__path__[0])
    assert (room / "__init__.py").read_text(encoding="utf-8") == ""
    assert (room.parents[1] / "protocol" / "__init__.py").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("sleep", [lambda: time.sleep(0), lambda: asyncio.sleep(0)], ids=["time", "asyncio"])
def test_a_test_of_the_core_that_sleeps_fails(sleep: object) -> None:
    assert callable(sleep)
    with pytest.raises(pytest.fail.Exception, match="feed time"):
        sleep()
