"""What is installed: our four packages, nothing else, and nobody else's under their names."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from gateway.rooms import ROOMS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(TEXT)["project"]


def test_the_wheel_ships_exactly_our_four_packages(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
        (entries,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    shipped = {name.split("/")[0] for name in names}
    assert {name for name in shipped if not name.endswith(".dist-info")} == set(ROOMS)
    in_the_tree = {path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == in_the_tree
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "\nName: duplex-gateway\n" in metadata
    for script, target in PROJECT["scripts"].items():
        assert f"{script} = {target}" in entries


def test_no_installed_distribution_ships_a_package_of_our_names() -> None:
    providers = packages_distributions()
    for room in ROOMS:
        assert set(providers.get(room, [])) <= {"duplex-gateway"}


def test_every_dependency_stands_on_its_own_line_with_its_reason() -> None:
    declared = [
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ]
    lines = [line.strip() for line in TEXT.splitlines()]
    for dependency in declared:
        (line,) = (line for line in lines if line.startswith(f'"{dependency}"'))
        assert re.fullmatch(r'"[^"]+",\s+# \S.{5,}', line), f"no reason: {line}"


def test_every_dependency_has_a_lower_bound_and_is_named_once() -> None:
    requirements = [Requirement(line) for line in PROJECT["dependencies"]]
    assert len({requirement.name for requirement in requirements}) == len(requirements)
    for requirement in requirements:
        assert any(bound.operator in {">=", "=="} for bound in requirement.specifier), str(requirement)


def test_the_python_versions_are_the_same_everywhere() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    minors = [minor for minor in range(30) if f"3.{minor}.5" in allowed]
    prefix = "Programming Language :: Python :: "
    assert [f"{prefix}3.{minor}" for minor in minors] == [c for c in PROJECT["classifiers"] if c.startswith(prefix)]
    assert f"Python 3.{minors[0]}–3.{minors[-1]}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert sys.version_info[1] in minors
    tools = tomllib.loads(TEXT)["tool"]
    assert tools["mypy"]["python_version"] == f"3.{minors[0]}"
    assert tools["ruff"]["target-version"] == f"py3{minors[0]}"
