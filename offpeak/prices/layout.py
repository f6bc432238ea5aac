"""The layout of a price file: its columns, unit and clock, declared as text or known from the names."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from offpeak.errors import BadInput, BadPrices
from offpeak.model.units import parse_duration_s, parse_series_unit
from offpeak.model.zones import parse_zone
from offpeak.text import parse_pairs

KEYS = ("time", "value", "unit", "zone", "area", "start", "step")

_FIRST_PAIR = re.compile(rf",(?=\s*(?:{'|'.join(KEYS)})\s*=)")
_CARBON_IN_COLUMN = re.compile(r"\bgco(?:2|₂)(?:eq)?(?:/|_per_)kwh")
_UNIT_IN_COLUMN = re.compile(
    r"(?P<currency>€|\$|£|\b[a-z]{3})\s*/\s*(?P<per>[km]wh)|\b(?P<minor>ct|p|öre|øre|gco2|lb|kg|g)\s*/\s*(?P<of>[km]wh)",
    re.IGNORECASE,
)
_CURRENCY_IN_COLUMN = re.compile(
    r"(?:\b|(?<=[a-z]))(EUR|DKK|NOK|SEK|GBP|USD|CHF|PLN|CZK|HUF|RON|BGN|AUD|CAD|NZD)(?:\b|_|$)"
)
_SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP"}
_UNIT_IN_NAME = re.compile(r"_(?:([a-z]{3})_per_(mwh|kwh)|(ct|g)_per_kwh)(?![a-z])")


@dataclass(frozen=True)
class PriceFileLayout:
    """The user's declarations about a file; None if the file's own header and name decide.

    `time` and `value` are column names. `unit` is as written ("EUR/kWh"). `zone` is the clock of times without an
    offset. `area` is what stands in the rows of one place, where a file has several. A file without times has `start_s`
    [Unix s] and `step_s` instead of `time`.
    """

    time: str | None = None
    value: str | None = None
    unit: str | None = None
    zone: tzinfo | None = None
    area: str | None = None
    start_s: int | None = None
    step_s: int = 0


def parse_layout(text: str) -> PriceFileLayout:
    """Return the layout of "time=utc,value=price,unit=EUR/MWh,zone=UTC" or "start=2014-06-01,step=1h,..."; "" is none.

    Raises BadPrices or BadInput, with an example, for anything else.
    """
    pairs = parse_pairs(text, known=KEYS, error=BadPrices)
    if ("start" in pairs) != ("step" in pairs) or ("start" in pairs and "time" in pairs):
        raise BadPrices(
            f"the layout {text!r} needs either time= or both start= and step=",
            hint="time=utc or start=2014-06-01,step=1h,zone=America/Chicago",
        )
    zone = parse_zone(pairs["zone"]) if "zone" in pairs else None
    if "unit" in pairs:
        parse_series_unit(pairs["unit"])
    start_s = _start_s(pairs["start"], zone) if "start" in pairs else None
    step_s = _step_s(pairs["step"]) if "step" in pairs else 0
    return PriceFileLayout(
        pairs.get("time"), pairs.get("value"), pairs.get("unit"), zone, pairs.get("area"), start_s, step_s
    )


def parse_file_and_layout(text: str) -> tuple[Path, PriceFileLayout]:
    """Return the file and the layout of "carbon.csv" or of "carbon.csv,value=direct,zone=UTC"."""
    pairs = _FIRST_PAIR.search(text)
    return Path(text[: pairs.start()] if pairs else text), parse_layout(text[pairs.end() :] if pairs else "")


def unit_of(layout: PriceFileLayout, file_name: str, column: str = "", usual: str = "") -> tuple[str, float]:
    """Return the series' unit and the factor to it.

    It is declared, or else in the file's name, the column's name, or the `usual` one of the file's source. Raises
    BadPrices where it is not known, or where the column is in another currency or per another amount of energy.
    """
    in_column = unit_in_column(column)
    if layout.unit is not None:
        unit = parse_series_unit(layout.unit)
        currency = currency_in_column(column)
        if in_column not in (None, unit) or (currency and unit[0] != "g/kWh" and not unit[0].startswith(currency)):
            raise BadPrices(
                f"{file_name}: the column {column!r} is not in {layout.unit}, which is declared",
                hint="declare another column with value=, or leave unit= out",
            )
        return unit
    named = _unit_in_name(file_name)
    if named is not None or in_column is not None:
        return named or in_column  # type: ignore[return-value]
    if usual:
        return parse_series_unit(usual.replace("{currency}", currency_in_column(column) or "EUR"))
    if _CARBON_IN_COLUMN.search(column.lower()):
        return parse_series_unit("g/kWh")
    raise BadPrices(
        f"{file_name}: the unit is not known",
        hint="declare it, such as unit=EUR/MWh, or name the file ..._eur_per_mwh.csv or ..._g_per_kwh.csv",
    )


def unit_in_column(column: str) -> tuple[str, float] | None:
    """Return the unit in a column's name, such as "Price (EUR/MWh)" or "LBMP ($/MWHr)", and the factor to it."""
    match = _UNIT_IN_COLUMN.search(column)
    if match is None:
        return None
    per = (match["per"] or match["of"]).lower().replace("wh", "Wh").replace("m", "M")
    name = _SYMBOLS.get(match["currency"], match["currency"]) if match["currency"] else match["minor"].lower()
    try:
        return parse_series_unit(f"{name}/{per}")
    except BadInput:
        return None


def currency_in_column(column: str) -> str:
    """Return the currency in a column's name, such as SpotPriceDKK or "SE1 (EUR)", "" for none."""
    match = _CURRENCY_IN_COLUMN.search(column)
    return match[1] if match else ""


def _unit_in_name(file_name: str) -> tuple[str, float] | None:
    match = _UNIT_IN_NAME.search(file_name.lower())
    if match is None:
        return None
    if match[3]:
        return parse_series_unit(f"{match[3]}/kWh")
    return parse_series_unit(f"{match[1]}/{match[2].replace('wh', 'Wh').replace('m', 'M')}")


def _start_s(text: str, zone: tzinfo | None) -> int:
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        raise BadPrices(f"cannot read the date start={text}", hint="write it like start=2014-06-01") from None
    if start.tzinfo is None and zone is None:
        raise BadPrices(f"start={text} needs a time zone", hint="add one, such as zone=America/Chicago or zone=UTC")
    aware = start if start.tzinfo else start.replace(tzinfo=zone)
    return int(aware.astimezone(UTC).timestamp())


def _step_s(text: str) -> int:
    step_s = parse_duration_s(text)
    if step_s == 0:
        raise BadPrices("step=0 is no interval", hint="write it like step=1h or step=15min")
    return step_s
