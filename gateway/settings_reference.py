"""Writes the two lists of all settings from the table: `.env.example`, and the tables of `gateway/README.md`.

`python -m gateway.settings_reference --write` in a checkout; without the flag it says whether they are up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.settings import Entry, table

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / ".env.example"
PAGE = ROOT / "gateway" / "README.md"
BEGIN, END = "<!-- settings:begin -->", "<!-- settings:end -->"

SECTIONS = {
    "host": "Who may connect, and where",
    "mcp_allow_host": "Sessions",
    "log_level": "Logs and recordings",
    "profile": "Profile and conversation",
    "device": "Recognition",
    "tts": "Voice",
    "duplex": "Native full-duplex model",
    "foreground": "Language model",
    "llm_first_token_timeout_s": "Deadlines",
    "vad": "Turn-taking and scripted engines",
}
"""Title of each section, by the setting that it begins with."""


def sections() -> Iterator[tuple[str, list[Entry]]]:
    """Yield each section's title and its settings, in the table's order."""
    title, entries = "", list[Entry]()
    for entry in table():
        if entry.name in SECTIONS:
            if entries:
                yield title, entries
            title, entries = SECTIONS[entry.name], []
        entries.append(entry)
    yield title, entries


def example() -> str:
    """Return the text of `.env.example`: every setting with its default, commented out."""
    lines = [
        "# Settings of duplex-gateway. Copy this to `.env` beside where it starts, and uncomment what you change.",
        "# Flags and the environment win over it. Written by `python -m gateway.settings_reference --write`.",
    ]
    for title, entries in sections():
        lines += ["", f"# --- {title}"]
        for entry in entries:
            lines += [f"# {entry.help}{_limits(entry)}", f"#{entry.env}={_default(entry)}"]
    return "\n".join(lines) + "\n"


def tables() -> str:
    """Return the Markdown tables, without their markers."""
    lines: list[str] = []
    for title, entries in sections():
        lines += [f"**{title}**", "", "| flag | environment | default | what it does |", "|---|---|---|---|"]
        for entry in entries:
            default = _default(entry)
            told = f"{entry.help}{_limits(entry)}".replace("|", "\\|")
            lines.append(f"| `{entry.flag}` | `{entry.env}` | {f'`{default}`' if default else ''} | {told} |")
        lines.append("")
    return "\n".join(lines).strip()


def page(text: str) -> str:
    """Return the page `text` with the tables between its markers. Raises ValueError if it lacks them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def _default(entry: Entry) -> str:
    default = entry.default
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return "true" if default else "false"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _limits(entry: Entry) -> str:
    if entry.choices and "profile" not in entry.choices and entry.name != "profile":
        return f" ({', '.join(entry.choices)})"
    if entry.at_least is not None:
        return f" ({entry.at_least:g} to {entry.at_most:g})"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Write both lists, or say which is out of date; return the exit status."""
    wanted = {EXAMPLE: example(), PAGE: page(PAGE.read_text(encoding="utf-8"))}
    if list(arguments) == ["--write"]:
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path.name for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
    for name in stale:
        print(f"{name} is out of date: run python -m gateway.settings_reference --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
