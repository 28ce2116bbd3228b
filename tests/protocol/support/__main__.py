"""Writes `protocol/README.md` anew."""

from __future__ import annotations

from tests.protocol.support.document import README, text

README.write_text(text(), encoding="utf-8")
