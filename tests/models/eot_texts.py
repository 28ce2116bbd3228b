"""End-of-turn texts with labels, halved by text: judges are tuned on `dev`, and quoted on `test` only."""

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from models.interfaces import Utterance

DATA = Path(__file__).parent.parent / "data"
TEXTS = (DATA / "eot_text_open.jsonl", DATA / "eot_languages.jsonl")

Half = Literal["dev", "test"]
Label = Literal["complete", "incomplete", "wait"]

GROUPS = {
    "Disfl-QA": ("disfl-qa/dev", "disfl-qa/test"),
    "Niu cards": ("niu-eot-cards",),
    "own cards, English": ("own-cards",),
    "own cards, others": ("own-cards",),
    "cards by language": ("own-cards-by-language",),
    "Taskmaster-4": ("taskmaster-4",),
    "AMI": ("ami-derived",),
}
"""What the table's rows stand for, in the order in which they are to be quoted."""

PREFIXES = "cut at 60 % of words"
"""Complete English texts beside their own beginnings: no label by anyone's last-word rule."""

_CUT = 0.6
_SHORTEST_TO_CUT = 5


@dataclass(frozen=True)
class Text:
    """One text. `group` is a key of GROUPS, or PREFIXES."""

    text: str
    label: Label
    language: str
    group: str
    context: str

    @property
    def utterance(self) -> Utterance:
        return Utterance(text=self.text, agent_text=self.context, language=self.language)


def half_of(text: str) -> Half:
    """Return the half of a text: the parity of the first byte of its words' SHA-256. Equal texts share a half."""
    return "test" if hashlib.sha256(" ".join(text.split()).encode()).digest()[0] % 2 else "dev"


def read_texts(half: Half) -> list[Text]:
    """Return the half's texts, and the beginnings of its complete English ones."""
    texts = []
    for line in (line for file in TEXTS for line in file.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        if half_of(row["text"]) == half:
            context = re.sub(r"^Agent:\s*", "", row["context"] or "")
            texts.append(Text(row["text"], row["label"], row["lang"], _group_of(row), context))
    return texts + [beginning for text in texts if (beginning := _beginning(text)) is not None]


def _group_of(row: dict[str, str]) -> str:
    groups = [group for group, sources in GROUPS.items() if row["source"] in sources]
    return groups[0] if len(groups) == 1 or row["lang"] == "en" else groups[1]


def _beginning(text: Text) -> Text | None:
    words = text.text.split()
    if text.label != "complete" or text.language != "en" or len(words) < _SHORTEST_TO_CUT:
        return None
    return replace(text, text=" ".join(words[: round(len(words) * _CUT)]), label="incomplete", group=PREFIXES)
