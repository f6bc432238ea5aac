"""What the texts of a price file say of its unit: its name, the names of its columns, and its columns of units.

A text may name a whole unit ("Price (EUR/MWh)"), or a part of one ("price_dkk", "Cent/kWh", "kr/MWh"). No part may
contradict another text or the declared unit: a wrong one makes prices wrong by a factor, and nothing shows it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from offpeak.errors import BadPrices
from offpeak.model.units import CURRENCIES, PER_MWH, parse_series_unit

_PER = r"(?:\s*/\s*|\s+(?:per|pro|je|por|par|pr\.?)\s+|_per_)"
_MARKETS = "EUR|DKK|NOK|SEK|GBP|USD|CHF|PLN|CZK|HUF|RON|BGN|AUD|CAD|NZD|ISK|RSD|UAH|JPY|INR|SGD|MXN|BRL|ZAR"
"""Currencies that may stand anywhere in a name; any other only before the energy."""
_NAMES = {
    "€": ("EUR",), "euro": ("EUR",), "euros": ("EUR",), "£": ("GBP",), "zł": ("PLN",), "kč": ("CZK",), "ft": ("HUF",),
    "$": ("USD", "CAD", "AUD", "NZD", "SGD"), "kr": ("DKK", "NOK", "SEK", "ISK"), "lei": ("RON",),
}  # fmt: skip
"""The currencies that a name can mean: a dollar is that of the United States if no other is declared."""
_HUNDREDTHS = {
    "ct": ("EUR",), "cent": ("EUR",), "p": ("GBP",), "pence": ("GBP",), "öre": ("SEK",), "øre": ("DKK", "NOK"),
    "ore": ("SEK", "DKK", "NOK"), "oere": ("SEK", "DKK", "NOK"), "us": ("USD",),
}  # fmt: skip
_CODE = re.compile(
    rf"(?:(?<![A-Za-z])|(?<=[a-z]))(?:{_MARKETS})(?![A-Za-z])|(?<![A-Za-z])(?i:{_MARKETS})(?![A-Za-z])"
    rf"|(?<![A-Za-z])(?i:{'|'.join(sorted(CURRENCIES))})(?={_PER}(?i:[km]wh))"
)
_NAME = re.compile(r"€|£|\$|(?<![^\W\d_])(?:euros?|zł|kč|ft|kr|lei)(?![^\W\d_])", re.IGNORECASE)
_HUNDREDTH = re.compile(
    rf"(?:(?<![^\W\d_])|(?<=EUR)|(?<=Euro))(?P<word>us[ -]?(?:cents?|ct|¢)|cents?|pence|öre|øre|oere|cts?|¢)"
    rf"(?:(?![^\W\d_])|(?=(?:{_MARKETS})(?![A-Za-z])))"
    rf"|(?<![^\W\d_])(?P<letter>p|c|ore){_PER}[km]wh",
    re.IGNORECASE,
)
_PER_ENERGY = re.compile(rf"(?:{_PER}|[A-Za-z€$£¢][_ ])(?P<per>[km]wh)", re.IGNORECASE)
_OTHER_UNIT = re.compile(
    rf"(?<![^\W\d_])(?:mills?|[kMT][ ]?(?:€|\$|£|EUR|USD|GBP))(?![^\W\d_])"
    rf"|{_PER}(?:GJ|MJ|TJ|therms?|mmbtu|MMBtu|t(?:on)?(?:CO[2₂])?|\d+ ?[kM]Wh|[GT]Wh|Wh|kW)(?![^\W\d_])"
)
"""Thousands and thousandths of a currency, and prices of other amounts than a kWh or MWh."""
ANOTHER = "another unit"
_CARBON = re.compile(
    rf"(?<![^\W\d_])(?P<mass>g|kg|t|lbs?)[ _]?(?:co(?:2|₂)[ _-]?(?:eq?|e)?\.?)?{_PER}(?P<per>[km]wh)", re.IGNORECASE
)
_UNIT_IN_FILE_NAME = re.compile(r"_(?P<unit>[a-z]{1,3}_per_[km]wh)(?![a-z])")


@dataclass(frozen=True)
class WrittenUnit:
    """What a text says of a unit: the currencies that it can mean, whether hundredths of them, the mass of CO2, and per
    which energy. What it does not say is empty.
    """

    currencies: tuple[str, ...] = ()
    hundredths: bool = False
    mass: str = ""
    per: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it names a unit of prices or of carbon intensities."""
        return bool(self.per) and bool(self.mass or self.currencies or self.hundredths)

    def text(self) -> str:
        """Return a whole unit as settings have it, such as ctUSD/kWh; "" if the currency is not clear."""
        if self.mass:
            return f"{self.mass}/{self.per}"
        if len(self.currencies) != 1 and self.currencies[:1] != ("USD",):
            return ""
        return f"{'ct' if self.hundredths else ''}{self.currencies[0]}/{self.per}"

    def agrees_with(self, unit: str) -> bool:
        """Tell whether a unit as settings have it can be meant."""
        name, factor = parse_series_unit(unit)
        if self.mass or name == "g/kWh":
            return parse_series_unit(self.text()) == (name, factor) if self.mass else not self.currencies
        per = unit.rpartition("/")[2]
        hundredths = factor == PER_MWH[per] / 100
        return (
            self.per in ("", per)
            and (not self.currencies or name.partition("/")[0] in self.currencies)
            and (self.hundredths == hundredths or not (self.hundredths or self.is_whole))
        )


def read_unit(text: str) -> WrittenUnit:
    """Return what a text says of a unit."""
    carbon = _CARBON.search(text)
    if carbon:
        return WrittenUnit(mass=carbon["mass"].lower(), per=_energy(carbon["per"]))
    per = _PER_ENERGY.search(text)
    other = _OTHER_UNIT.search(text)
    code, name, hundredth = (pattern.search(text) for pattern in (_CODE, _NAME, _HUNDREDTH))
    currencies = (code[0].upper(),) if code else _NAMES[name[0].lower()] if name else ()
    if hundredth:
        word = (hundredth["word"] or hundredth["letter"]).lower()
        currencies = currencies or _HUNDREDTHS.get("us" if word.startswith("us") else word, ())
    if other and (per is None or other.start() < per.start()):
        return WrittenUnit(currencies, bool(hundredth), per=ANOTHER)
    return WrittenUnit(currencies, bool(hundredth), per=_energy(per["per"]) if per else "")


def read_unit_of_file(name: str) -> WrittenUnit:
    """Return the unit in a file's name, such as prices_eur_per_mwh.csv."""
    found = _UNIT_IN_FILE_NAME.search(name.lower())
    return read_unit(found["unit"]) if found else WrittenUnit()


def choose_unit(file_name: str, written: Mapping[str, WrittenUnit], *, declared: str | None, usual: str) -> str:
    """Return the unit as settings have it: the declared one, else the one that is written, else the usual.

    `written` are what the texts say, by where they stand; {currency} in the usual unit is theirs. Raises BadPrices
    where one contradicts another or the declared unit, and where none is known.
    """
    parts = tuple(written.values())
    currencies = next((part.currencies for part in parts if part.currencies), ())
    whole = next((part for part in parts if part.mass), None) or WrittenUnit(
        currencies, any(part.hundredths for part in parts), per=next((part.per for part in parts if part.per), "")
    )
    unread = next((where for where, part in written.items() if part.per == ANOTHER), "")
    if unread:
        hint = "convert the prices, or choose another column with value="
        raise BadPrices(
            f"{file_name}: {unread} is neither per kWh nor per MWh of a currency or its hundredth", hint=hint
        )
    unit = declared or (whole.text() if whole.is_whole else usual.replace("{currency}", (*currencies, "EUR")[0]))
    if not unit:
        problem = "is that of more than one currency" if whole.is_whole else "is not known"
        example = "ctUSD/kWh" if whole.hundredths else "EUR/MWh"
        raise BadPrices(
            f"{file_name}: the unit {problem}",
            hint=f"declare it, such as unit={example}, or name the file ..._eur_per_mwh.csv or ..._g_per_kwh.csv",
        )
    for where, part in written.items():
        if not part.agrees_with(unit):
            if declared:
                message = f"{where} is not in {declared}, which is declared"
                raise BadPrices(f"{file_name}: {message}", hint="choose another column with value=, or leave unit= out")
            raise BadPrices(f"{file_name}: {where} is not in {unit}", hint=f"say which is right, such as unit={unit}")
    return unit


def _energy(text: str) -> str:
    return "kWh" if text.lower() == "kwh" else "MWh"
