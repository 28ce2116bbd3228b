"""Puts numbers of every kind into the English words that people say for them; plain ones stay digits."""

from __future__ import annotations

import re

from gateway.turns.traced_text import Rewrite

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_CURRENCY_CODES = {
    "€": "euros",
    "£": "pounds",
    "USD": "US dollars",
    "EUR": "euros",
    "GBP": "pounds",
    "$": "dollars",
    "¢": "cents",
}
_MAGNITUDES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion"}

_MONTHS = "January February March April May June July August September October November December".split()

UNITS = {
    "km/h": "kilometers per hour", "km": "kilometers", "kg": "kilograms", "cm": "centimeters", "mm": "millimeters",
    "µm": "micrometers", "km²": "square kilometers", "m²": "square meters", "cm²": "square centimeters",
    "m³": "cubic meters", "mg": "milligrams", "ml": "milliliters", "mL": "milliliters",
    "lb": "pounds", "lbs": "pounds", "oz": "ounces", "ft": "feet", "mph": "miles per hour",
    "ms": "milliseconds", "s": "seconds", "h": "hours", "sec": "seconds", "min": "minutes",
    "hr": "hours", "hrs": "hours",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "kW": "kilowatts",
    "kWh": "kilowatt hours",
    "KB": "kilobytes", "MB": "megabytes", "GB": "gigabytes", "TB": "terabytes", "MB/s": "megabytes per second",
    "GB/s": "gigabytes per second", "Mbps": "megabits per second", "Gbps": "gigabits per second",
    "°C": "degrees Celsius", "°F": "degrees Fahrenheit", "°": "degrees",
}  # fmt: skip
"""Units said in full after a number; the rest is left to the phonemiser."""

_SINGULAR = {"feet": "foot", "Celsius": "Celsius"}
_FRACTIONS = {2: ("half", "halves"), 3: ("third", "thirds"), 4: ("quarter", "quarters"), 8: ("eighth", "eighths")}
_VULGAR = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅛": (1, 8)}
_WHOLES = (5, 10, 20, 100)
"""What ratings and shares are out of."""

_DECADES = {
    "20": "twenties", "30": "thirties", "40": "forties", "50": "fifties", "60": "sixties", "70": "seventies",
    "80": "eighties", "90": "nineties",
}  # fmt: skip

_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50}
_KINGS = (
    "Louis Henry Charles George Edward Elizabeth William James Richard Philip Paul Pius Benedict Francis Napoleon "
    "Catherine Nicholas Alexander Peter Frederick Ivan Leo Gregory Innocent Clement Urban Ferdinand Wilhelm Rama"
).split()
"""Whose numerals are ordinals; other numerals are cardinals ("World War II")."""


def _amount(match: re.Match[str]) -> str:
    """Return "$7.25" as "7 dollars and 25 cents" and "$1.5M" as "1.5 million dollars"."""
    one, many, one_cent, cents = _CURRENCIES[match["sign"]]
    whole, fraction = match["whole"], match["fraction"] or match["comma"] or ""
    magnitude = match["word"] or _MAGNITUDES.get((match["letter"] or "").lower())
    if magnitude or len(fraction) not in (0, 2):
        return " ".join(filter(None, [f"{whole}.{fraction}".rstrip("."), magnitude, many]))
    main = f"{whole} {one if whole == '1' else many}"
    if not fraction.strip("0"):
        return main
    minor = f"{int(fraction)} {one_cent if fraction == '01' else cents}"
    return f"{main} and {minor}" if whole.strip("0") else minor


def _time(match: re.Match[str]) -> str:
    """Return "10:45" as "10 45", "10:05" as "10 oh 5", "10:00" as "10 o'clock" or, before a.m. and p.m., as "10"."""
    hours, minutes = str(int(match["hours"])), match["minutes"]
    if minutes == "00":
        return hours if match["half"] is not None else f"{hours} o'clock"
    return f"{hours} {minutes}" if minutes[0] != "0" else f"{hours} oh {minutes[1]}"


def _range(match: re.Match[str]) -> str:
    """Return "5-10", "1999-2003" and "5–10" with "to"; espeak-ng says "dash" for a hyphen and nothing for a dash."""
    return f"{match[1]} to {match[2]}" if match[1] else f"{match[3]} to "


def _unit(match: re.Match[str]) -> str:
    words = UNITS[match["unit"]]
    if match["number"] != "1":
        return f"{match['number']} {words}"
    return "1 " + " ".join(_SINGULAR.get(word, word.removesuffix("s")) for word in words.split(" "))


def _digit_by_digit(match: re.Match[str]) -> str:
    """Return "(555) 123-4567" as "5 5 5, 1 2 3, 4 5 6 7": nobody says a telephone number as three large numbers."""
    groups = ", ".join(" ".join(group) for group in re.findall(r"\d+", match[0]))
    return f"plus {groups}" if match[0].startswith("+") else groups


def _address(match: re.Match[str]) -> str:
    """Return "10.0.0.1:80" as "10 dot 0 dot 0 dot 1 port 80"."""
    return match[1].replace(".", " dot ") + (f" port {match[2]}" if match[2] else "")


def _date(match: re.Match[str]) -> str:
    year, month, day = (int(part) for part in match.groups())
    return f"{_MONTHS[month - 1]} {day}, {year_said(str(year))}"


def _month(start: str) -> str:
    return next(month for month in _MONTHS if month.startswith(start[:3]))


def _slashed_date(match: re.Match[str]) -> str:
    return f"{int(match[1])} slash {int(match[2])} slash {match[3]}"


def _fraction(match: re.Match[str]) -> str:
    """Return "3/4" as "3 quarters", "1 1/2" as "1 and a half", "8/10" as "8 out of 10", "24/7" as "24 7"."""
    whole, over, under = match[1], int(match[2]), int(match[3])
    if under in _FRACTIONS and over < under:
        return _part(over, under, whole)
    said = f"{over} out of {under}" if under in _WHOLES and over <= under else f"{over} {under}"
    return f"{whole} {said}" if whole else said


def _part(over: int, under: int, whole: str | None) -> str:
    one, many = _FRACTIONS[under]
    said = (
        f"{over} {many}" if over > 1 else f"{'an' if under == 8 else 'a'} {one}" if whole or under == 2 else f"1 {one}"
    )
    return f"{whole} and {said}" if whole else said


def year_said(year: str) -> str:
    """Return a year in the halves in which it is said: "19 99", "19 oh 5", "19 hundred"; 2000…2009 as it is."""
    century, rest = year[:2], year[2:]
    if len(year) != 4 or century == "10" or (century == "20" and rest[0] == "0"):
        return year
    if rest == "00":
        return f"{century} hundred"
    return f"{century} oh {rest[1]}" if rest[0] == "0" else f"{century} {rest}"


def _roman(match: re.Match[str]) -> str:
    """Return "XIV" as "14", after a king's name as "the 14th"; what is no numeral stays."""
    values = [_ROMAN[letter] for letter in match[0]]
    number = sum(-one if one < other else one for one, other in zip(values, [*values[1:], 0], strict=True))
    before = match.string[: match.start()].split()[-1].strip("*_(\"'“")
    if _numeral(number) != match[0] or match[0] == "XL" or not before[:1].isupper():
        return match[0]
    if before not in _KINGS:
        return str(number)
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"the {number}{'th' if 10 < number % 100 < 14 else endings.get(number % 10, 'th')}"


def _numeral(number: int) -> str:
    parts = []
    for value, letters in ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        count, number = divmod(number, value)
        parts.append(letters * count)
    return "".join(parts)


_UNIT_NAMES = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_QUANTITY = r"(?<![A-Za-z])(?P<number>\d+(?:[.,]\d+)*)"
_MONTH_STARTS = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
_BEFORE_YEAR = re.compile(
    rf"(?:\b(?:[Ii]n|[Ss]ince|[Bb]y|[Uu]ntil|year|summer of)|(?:{'|'.join(_MONTHS)})(?: \d{{1,2}}(?:st|nd|rd|th)?,)?) $"
)


def _year(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 20) : match.start()]
    return year_said(match[0]) if _BEFORE_YEAR.search(before) else match[0]


NUMBERS: list[Rewrite] = [
    (re.compile(r"(?<![\w.:])(\d{1,3}(?:\.\d{1,3}){3})(?::(\d{2,5}))?(?!\.?\w)"), _address),
    (re.compile(r"(?<![\w-])(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?![\w-])"), _date),
    (re.compile(r"(?<![\w/])(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)(?![\w/])"), _slashed_date),
    (re.compile(r"(?<![\w.])\+(?=(?:[ .()-]*\d){8})\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,5}(?![\w-])"), _digit_by_digit),
    (re.compile(r"(?<![\w.$€£¥,-])(?:1[ -])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"), _digit_by_digit),
    (re.compile(r"(?<![\w.$€£¥,-])\d{3}-\d{4}(?![\w-])"), _digit_by_digit),
    (re.compile(r"(?<![\w.,-])\d{4}(?: \d{4}){2,3}(?![\w-])"), _digit_by_digit),
    (re.compile(r"(?<![\w.,-])\d+(?:-\d+){2,}(?![\w-])"), _digit_by_digit),
    (re.compile(r"(?<!\S)(?<!\d )0\d+(?=[\s,;!?)]|\.?(?:\s|$))"), _digit_by_digit),
    (re.compile(r"(?<=\d)\s?[-–]\s?(?=[$€£¥₹]\d)"), " to "),
    (re.compile(r"([$€£¥₹])(\d[\d,.]*)[-–](?=\d)"), lambda match: f"{match[2]} to {match[1]}"),
    (
        re.compile(
            r"(?:\bUS)?(?P<sign>[$€£¥₹])\s?(?P<whole>\d+(?:,\d{3})*)(?:\.(?P<fraction>\d+)|,(?P<comma>\d\d)(?!\d))?(?!\d)"
            r"(?:(?:\s(?P<word>thousand|million|billion|trillion)|(?P<letter>bn|[kKmMbB]))\b)?"
        ),
        _amount,
    ),
    (
        re.compile(r"(?<=\d)\s?(€|£|¢|USD|EUR|GBP|\$(?!\s?\d))(?!\w)"),
        lambda match: f" {_CURRENCY_CODES[match[1]]}",
    ),
    (
        re.compile(
            r"(?<![\d.:])(?P<hours>[01]?\d|2[0-4]):(?P<minutes>[0-5]\d)(?![\d:])(?P<half>(?=\s?[aApP]\.?[mM]\b))?"
        ),
        _time,
    ),
    (re.compile(r"(?<=\d)\s?([aApP])[mM]\b"), lambda match: f" {match[1].upper()}M"),
    (re.compile(r"(?<=\d [AP]M)\s?[-–]\s?(?=\d)"), " to "),
    (re.compile(rf"\b({_MONTH_STARTS})\.?(?= \d)"), lambda match: _month(match[1])),
    (re.compile(r"(?<![\d.:])(\d+):(\d+)(?![\d:])"), lambda match: f"{match[1]} to {match[2]}"),
    (re.compile(r"(?<![\d.])(\d+(?:\.\d+){2,})(?![\d])"), lambda version: version[1].replace(".", " point ")),
    (re.compile(r"(?:(?<![\w/.])(\d+) )?(?<![\w/.])([1-9]\d?)/([1-9]\d{0,2})(?![\w/])"), _fraction),
    (
        re.compile(r"(?<!\d)(\d+)?\s?([½⅓⅔¼¾⅛])"),
        lambda match: (" " if match.start() and not match[1] else "") + _part(*_VULGAR[match[2]], match[1]),
    ),
    (
        re.compile(
            r"(?<![\w.-])(\d{1,2}(?:\.\d+)?|\d{4})-(\d{1,2}(?:\.\d+)?|\d{4})(?![\d-]|[A-Z]\b)|(?<!\d)(\d+)–(?=\d)"
        ),
        _range,
    ),
    (re.compile(r"(?<![\w.,$€£-])(?:1[1-9]\d\d|20[1-9]\d)(?![\w%°]|[.,]?\d| ?[%°])"), _year),
    (re.compile(r"\b(1[1-9]|20)([2-9]0)s\b"), lambda match: f"{match[1]} {_DECADES[match[2]]}"),
    (re.compile(r"\b(?:(1[1-9])00|2000)s\b"), lambda match: f"{match[1]} hundreds" if match[1] else "2 thousands"),
    (re.compile(r"(?:'|(?<=\bthe ))([2-9]0)s\b"), lambda match: _DECADES[match[1]]),
    (re.compile(r"(?<=\d)-(?=\d)"), " "),
    (re.compile(rf"{_QUANTITY}\s?(?P<unit>{_UNIT_NAMES})(?![\w/²³])"), _unit),
    (re.compile(r"(?<=\d)(?<!\b[48])k\b"), " thousand"),
    (re.compile(r"(?<=\d)'\s?(?=\d{1,2}\b)"), " foot "),
    (re.compile(r"(?<=\d)(?<!\b0)x(?=\d)"), " by "),
    (re.compile(r"(?<=\d)x\b"), " times"),
    (re.compile(r"(?<=\d)(?:\s*[*×]\s*|\s+x\s+)(?=\d)"), " times "),
]

ROMAN: Rewrite = (re.compile(r"(?<=[a-z*] )[IVXL]{2,}(?![\w-])"), _roman)
