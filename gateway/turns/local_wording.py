"""Puts into words what voices read wrong, in languages other than English: abbreviations, a few signs, German ordinals.

Numbers, decimal commas, dates and amounts such as "5,50 €" stay as they are: espeak-ng 1.52 reads them right in all of
these. What it read wrong by trial: "Nr." by its letters, "z. B." as two sentences, "Sr." in Portuguese as "ésse érre",
"km" as two letters in German and Spanish, "10:30 Uhr" with two "Uhr", "3. Mai" as "drei. Mai", "y/o" with "barra".
Japanese and Chinese are left to the voice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.turns.traced_text import Rewrite, TracedText


@dataclass(frozen=True, slots=True)
class Wording:
    """One language's. Blanks in an abbreviation may be missing in the text ("z. B.", "z.B.").

    `abbreviations`: their stop never ends a sentence. `closing`: it may. `numbered`: only before a number are they one.
    `signs`: what else is put into words.
    """

    abbreviations: Mapping[str, str]
    closing: Mapping[str, str]
    numbered: Mapping[str, str]
    signs: tuple[Rewrite, ...] = ()
    rewrites: tuple[Rewrite, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Compile what `in_words` does."""
        rewrites: list[Rewrite] = [
            *((re.compile(rf"{_found(short)}(?=\s?\d)"), said) for short, said in self.numbered.items()),
            *((re.compile(rf"{_found(short)}(?![\w.])"), said) for short, said in self.abbreviations.items()),
        ]
        for short, said in self.closing.items():  # with the stop where a capital or the end of the text follows
            rewrites.append((re.compile(rf"{_found(short)}(?=\s+[\"“'(«]?[^\W\da-zà-ÿ]|[)\"”'»*_]*\s*$)"), f"{said}."))
            rewrites.append((re.compile(rf"{_found(short)}(?![\w.])"), said))
        object.__setattr__(self, "rewrites", (*self.signs, *rewrites))


def _found(short: str) -> str:
    return r"(?<![\w.])" + re.escape(short).replace(r"\ ", r"\s?")


_GERMAN_MONTHS = (
    "Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhundert\\w*"
)
_GERMAN_ORDINALS = dict(enumerate("erst zweit dritt viert fünft sechst siebt acht neunt".split(), 1))
_GERMAN_BELOW_TWENTY = dict(
    enumerate("zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split(), 10)
)
_GERMAN_UNITS = dict(enumerate("ein zwei drei vier fünf sechs sieben acht neun".split(), 1))
_GERMAN_TENS = {2: "zwanzig", 3: "dreißig"}
_WEAK_EN = frozenset("am vom zum im beim den dem des ab bis seit".split())
_WEAK_E = frozenset("der die das".split())


def _german_ordinal(match: re.Match[str]) -> str:
    """Return an ordinal up to 39 as its article or preposition wants it: am dritten, der dritte, dritter."""
    before, number = match[1] or "", int(match[2])
    if number < 10:
        stem = _GERMAN_ORDINALS[number]
    elif number < 20:
        stem = _GERMAN_BELOW_TWENTY[number] + "t"
    else:
        tens, units = divmod(number, 10)
        stem = (f"{_GERMAN_UNITS[units]}und" if units else "") + _GERMAN_TENS[tens] + "st"
    article = before.strip().lower()
    return f"{before}{stem}{'en' if article in _WEAK_EN else 'e' if article in _WEAK_E else 'er'}"


def _uhr(match: re.Match[str]) -> str:
    minutes = int(match[2])
    return f"{int(match[1])} Uhr {minutes}" if minutes else f"{int(match[1])} Uhr"


def _amount(names: Mapping[str, str]) -> tuple[Rewrite, ...]:
    """Return what puts a currency's sign that stands before its amount behind it, as a word."""
    return tuple(
        (
            re.compile(rf"{re.escape(sign)}\s?(\d+(?:[.,\u00a0\u202f]\d+)*)"),
            lambda amount, name=name: f"{amount[1]} {name}",
        )
        for sign, name in names.items()
    )


def _units(names: Mapping[str, str]) -> tuple[Rewrite, ...]:
    return tuple((re.compile(rf"(?<=\d)\s?{re.escape(short)}(?![\w/])"), f" {name}") for short, name in names.items())


def _both(word: str, other: str) -> tuple[Rewrite, ...]:
    """Return what says "and/or" and "&" in words."""
    return (
        (re.compile(rf"\b{word}/{other}\b"), f"{word} {other}"),
        (re.compile(r"\s+&\s+"), f" {word} "),
    )


GERMAN = Wording(
    abbreviations={
        "z. B.": "zum Beispiel", "Z. B.": "Zum Beispiel", "d. h.": "das heißt", "D. h.": "Das heißt",
        "u. a.": "unter anderem", "i. d. R.": "in der Regel", "v. a.": "vor allem", "o. ä.": "oder ähnlich",
        "s. o.": "siehe oben", "s. u.": "siehe unten", "u. U.": "unter Umständen", "z. T.": "zum Teil",
        "Dr.": "Doktor", "Prof.": "Professor", "Hr.": "Herr", "Fr.": "Frau", "Dipl.": "Diplom", "St.": "Sankt",
        "bzw.": "beziehungsweise", "ca.": "circa", "evtl.": "eventuell", "ggf.": "gegebenenfalls", "inkl.": "inklusive",
        "exkl.": "exklusive", "vgl.": "vergleiche", "sog.": "sogenannt",
        "tel.": "Telefon", "Tel.": "Telefon", "Mio.": "Millionen",
        "Mrd.": "Milliarden", "zzgl.": "zuzüglich",
    },
    closing={"usw.": "und so weiter", "etc.": "et cetera", "u. v. m.": "und vieles mehr", "Str.": "Straße", "Std.":
             "Stunden"},
    numbered={"Nr.": "Nummer", "S.": "Seite", "Abb.": "Abbildung", "Art.": "Artikel", "Bd.": "Band", "Kap.": "Kapitel",
              "Abs.": "Absatz"},
    signs=(
        (re.compile(r"\b(\d{1,2})[.:](\d\d)(?:\sUhr\b)"), _uhr),
        (re.compile(rf"((?:\b(?:am|vom|zum|im|beim|den|dem|des|der|die|das|ab|bis|seit)\s)?)\b([1-9]|[12]\d|3\d)\."
                    rf"(?=\s(?:{_GERMAN_MONTHS})\b)", re.IGNORECASE), _german_ordinal),
        (re.compile(r"(\b(?i:am|vom|zum|im|beim|den|dem|des|der|die|das)\s)([1-9]|[12]\d|3\d)\.(?=\s[A-ZÄÖÜ])"),
         _german_ordinal),
        (re.compile(r"(?<=\d)\s?[-–]\s?(?=\d{1,3}\s(?:Uhr|Tage|Wochen|Monate|Jahre|Stunden|Minuten|Euro|Grad|Prozent|"
                    r"Personen|Stück|Kilometer|km|€|%))"), " bis "),
        *_amount({"€": "Euro", "$": "Dollar", "£": "Pfund"}),
        *_units({"km": "Kilometer", "kg": "Kilogramm", "cm": "Zentimeter", "km/h": "Kilometer pro Stunde"}),
        *_both("und", "oder"),
    ),
)  # fmt: skip

FRENCH = Wording(
    abbreviations={
        "p. ex.": "par exemple", "c.-à-d.": "c'est-à-dire", "M.": "Monsieur", "MM.": "Messieurs", "Mr.": "Monsieur",
        "Mme.": "Madame", "Mlle.": "Mademoiselle", "Dr.": "Docteur", "Pr.": "Professeur", "St.": "Saint",
        "Ste.": "Sainte", "env.": "environ", "tél.": "téléphone", "Tél.": "téléphone", "av.": "avenue",
        "bd.": "boulevard", "cf.": "voir", "apr.": "après",
    },
    closing={"etc.": "et cetera"},
    numbered={"n°": "numéro", "N°": "Numéro", "nº": "numéro", "p.": "page", "art.": "article", "chap.": "chapitre",
              "vol.": "volume", "fig.": "figure"},
    signs=(*_amount({"€": "euros", "$": "dollars", "£": "livres"}), *_units({"km": "kilomètres", "kg": "kilos", "cm":
           "centimètres", "km/h": "kilomètres heure"}), *_both("et", "ou")),
)  # fmt: skip

SPANISH = Wording(
    abbreviations={
        "p. ej.": "por ejemplo", "P. ej.": "Por ejemplo", "Sr.": "señor", "Sra.": "señora", "Srta.": "señorita",
        "Sres.": "señores", "Dr.": "doctor", "Dra.": "doctora", "Prof.": "profesor", "Dña.": "doña",
        "Ud.": "usted", "Uds.": "ustedes", "Vd.": "usted", "Vds.": "ustedes", "aprox.": "aproximadamente",
        "tel.": "teléfono", "Tel.": "teléfono", "avda.": "avenida", "Avda.": "Avenida", "máx.": "máximo",
        "mín.": "mínimo", "a. C.": "antes de Cristo", "d. C.": "después de Cristo", "dpto.": "departamento",
    },
    closing={"etc.": "etcétera", "EE. UU.": "Estados Unidos", "a. m.": "de la mañana", "p. m.": "de la tarde"},
    numbered={"n.º": "número", "N.º": "Número", "núm.": "número", "nº": "número", "pág.": "página", "págs.": "páginas",
              "art.": "artículo", "cap.": "capítulo", "vol.": "volumen"},
    signs=((re.compile(r"\b1\.º(?= )"), "primero"), (re.compile(r"\b1\.ª(?= )"), "primera"),
           *_amount({"€": "euros", "$": "dólares", "£": "libras"}), *_units({"km": "kilómetros", "kg": "kilos", "cm":
           "centímetros", "km/h": "kilómetros por hora"}), *_both("y", "o")),
)  # fmt: skip

ITALIAN = Wording(
    abbreviations={
        "p. es.": "per esempio", "ad es.": "ad esempio", "Sig.": "signor", "Sig.ra": "signora", "Sig.na": "signorina",
        "Sigg.": "signori", "Dott.": "dottor", "Dott.ssa": "dottoressa", "Dr.": "dottor", "Prof.": "professor",
        "Prof.ssa": "professoressa", "Ing.": "ingegner", "Avv.": "avvocato", "ca.": "circa", "tel.": "telefono",
        "Tel.": "telefono", "a. C.": "avanti Cristo", "d. C.": "dopo Cristo",
    },
    closing={"ecc.": "eccetera", "etc.": "eccetera"},
    numbered={"n.": "numero", "nr.": "numero", "n°": "numero", "pag.": "pagina", "pagg.": "pagine", "art.": "articolo",
              "cap.": "capitolo", "vol.": "volume"},
    signs=((re.compile(r"\b1[°º](?=\s[a-z])"), "primo"), *_amount({"€": "euro", "$": "dollari", "£": "sterline"}),
           *_units({"km": "chilometri", "kg": "chili", "cm": "centimetri", "km/h": "chilometri orari"}),
           *_both("e", "o")),
)  # fmt: skip

PORTUGUESE = Wording(
    abbreviations={
        "p. ex.": "por exemplo", "P. ex.": "Por exemplo", "Sr.": "senhor", "Sra.": "senhora", "Srs.": "senhores",
        "Srta.": "senhorita", "Dr.": "doutor", "Dra.": "doutora", "Prof.": "professor", "Profa.": "professora",
        "Eng.": "engenheiro", "aprox.": "aproximadamente", "tel.": "telefone", "Tel.": "telefone",
        "Av.": "Avenida", "av.": "avenida", "máx.": "máximo", "mín.": "mínimo", "Exmo.": "excelentíssimo",
        "Exma.": "excelentíssima", "a. C.": "antes de Cristo", "d. C.": "depois de Cristo",
    },
    closing={"etc.": "etcétera"},
    numbered={"n.º": "número", "N.º": "Número", "nº": "número", "núm.": "número", "pág.": "página", "págs.": "páginas",
              "art.": "artigo", "cap.": "capítulo", "vol.": "volume"},
    signs=(*_amount({"R$": "reais", "US$": "dólares", "€": "euros", "$": "dólares", "£": "libras"}),
           *_units({"km": "quilômetros", "kg": "quilos", "cm": "centímetros", "km/h": "quilômetros por hora"}),
           *_both("e", "ou")),
)  # fmt: skip

WORDINGS: Mapping[str, Wording] = {
    "de": GERMAN,
    "es": SPANISH,
    "fr": FRENCH,
    "it": ITALIAN,
    "pt": PORTUGUESE,
}
"""By primary language subtag. Other languages are said as they are written."""

_HOLDS_ANY = re.compile(r"[.°º€$£&/]|\d")
"""What all rewrites need: only for speed."""


def in_words(text: TracedText, language: str) -> TracedText:
    """Return `text`, free of markup, as it is said in `language` (a primary subtag)."""
    wording = WORDINGS.get(language)
    if wording is None or not _HOLDS_ANY.search(text.text):
        return text
    return text.sub_all(wording.rewrites)
