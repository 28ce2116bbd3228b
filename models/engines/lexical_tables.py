"""The lexical judge's languages: English is thorough, the others know what most often stands before a pause."""

from __future__ import annotations

from collections.abc import Mapping

from models.engines.lexical_words.chinese import CHINESE
from models.engines.lexical_words.english import ENGLISH
from models.engines.lexical_words.french import FRENCH
from models.engines.lexical_words.german import GERMAN
from models.engines.lexical_words.italian import ITALIAN
from models.engines.lexical_words.japanese import JAPANESE
from models.engines.lexical_words.portuguese import PORTUGUESE
from models.engines.lexical_words.spanish import SPANISH
from models.engines.lexical_words.table import LanguageTable, UnspacedTable

TABLES: Mapping[str, LanguageTable | UnspacedTable] = {
    "en": ENGLISH,
    "de": GERMAN,
    "es": SPANISH,
    "fr": FRENCH,
    "it": ITALIAN,
    "pt": PORTUGUESE,
    "ja": JAPANESE,
    "zh": CHINESE,
}
"""By primary language subtag (BCP 47)."""
