"""The lists of all settings say what the table says."""

from __future__ import annotations

from pathlib import Path

import pytest
from dotenv import dotenv_values

from gateway import settings_reference
from gateway.settings import Settings, table
from gateway.settings_reference import EXAMPLE, PAGE, SECTIONS, example, main, page, sections
from gateway.settings_sources import load_settings


def test_the_example_and_the_page_are_up_to_date() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") == example(), "run python -m gateway.settings_reference --write"
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run python -m gateway.settings_reference --write"


def test_every_setting_is_in_a_section_and_every_section_begins_with_one() -> None:
    listed = [entry.name for _, entries in sections() for entry in entries]
    assert listed == [entry.name for entry in table()]
    assert [title for title, _ in sections()] == list(SECTIONS.values())
    for entry in table():
        assert f"#{entry.env}=" in example()
        assert f"| `{entry.flag}` | `{entry.env}` |" in PAGE.read_text(encoding="utf-8")


def test_the_example_uncommented_changes_nothing(tmp_path: Path) -> None:
    lines = [line[1:] for line in example().splitlines() if line.startswith("#") and not line.startswith("# ")]
    (tmp_path / ".env").write_text("\n".join(lines))
    assert set(dotenv_values(tmp_path / ".env")) == {entry.env for entry in table()}
    assert load_settings({}, {}, tmp_path) == Settings()


def test_the_command_tells_of_a_stale_list_and_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text("above\n<!-- settings:begin -->\nold\n<!-- settings:end -->\nbelow\n")
    monkeypatch.setattr(settings_reference, "EXAMPLE", tmp_path / ".env.example")
    monkeypatch.setattr(settings_reference, "PAGE", tmp_path / "page.md")
    assert main([]) == 1
    assert ".env.example is out of date" in capsys.readouterr().out
    assert main(["--write"]) == 0
    assert main([]) == 0
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert written.startswith("above\n")
    assert written.endswith("-->\nbelow\n")
    with pytest.raises(ValueError, match="settings:begin"):
        page("a page without markers")
