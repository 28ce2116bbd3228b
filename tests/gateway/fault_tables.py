"""Writes the faults of endpoints into the doctor's page: `python -m tests.gateway.fault_tables`."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.endpoint_faults import CHAT_FAULTS, Fault
from tests.gateway.speech_endpoint_faults import ASR_FAULTS, TTS_FAULTS

PAGE = Path(__file__).resolve().parents[2] / "gateway" / "doctor" / "README.md"
BEGIN = "<!-- faults:begin (written by `python -m tests.gateway.fault_tables`) -->\n"
END = "<!-- faults:end -->\n"
TABLES = {"Language model": CHAT_FAULTS, "Recogniser": ASR_FAULTS, "Voice": TTS_FAULTS}


def page(before: str) -> str:
    """Return the page with the tables as they are now."""
    head, rest = before.split(BEGIN)
    tables = "\n".join(table(title, faults) for title, faults in TABLES.items())
    return head + BEGIN + "\n" + tables + "\n" + END + rest.split(END)[1]


def table(title: str, faults: tuple[Fault, ...]) -> str:
    lines = [
        f"### {title}",
        "",
        "| fault | check | doctor says | and advises | in a session |",
        "|---|---|---|---|---|",
    ]
    for fault in faults:
        found = fault.diagnosis
        check = f"{found.check}: {found.verdict}"
        cells = (fault.name.removeprefix("ASR: ").removeprefix("TTS: "), check, found.detail, found.advice)
        lines.append("| " + " | ".join([*(cell.replace("|", "\\|") for cell in cells), str(fault.wire)]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
