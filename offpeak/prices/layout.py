"""The layout of a price file: its columns, unit and clock, declared as text or known from the names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from offpeak.errors import BadPrices
from offpeak.model.units import parse_duration_s, parse_series_unit
from offpeak.model.zones import parse_zone
from offpeak.prices.written_units import WrittenUnit, choose_unit, read_unit_of_file
from offpeak.text import parse_pairs

KEYS = ("time", "value", "unit", "zone", "area", "start", "step")

_FIRST_PAIR = re.compile(rf",(?=\s*(?:{'|'.join(KEYS)})\s*=)")


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


def unit_of(
    layout: PriceFileLayout, file_name: str, texts: Mapping[str, WrittenUnit] | None = None, usual: str = ""
) -> tuple[str, float]:
    """Return the series' unit and the factor to it.

    It is declared, or else in the file's name or in `texts` of the file, or the `usual` one of the file's source.
    Raises BadPrices where it is not known, or where a text of the file names another.
    """
    texts = texts or {}
    if layout.unit is None:
        texts = {"the name of the file": read_unit_of_file(file_name), **texts}
    return parse_series_unit(choose_unit(file_name, texts, declared=layout.unit, usual=usual))


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
        raise BadPrices("step=0 is not an interval", hint="write it like step=1h or step=15min")
    return step_s
