"""Reports of market operators that are no tables: ISO New England, MISO and OMIE, each turned into a CSV table.

ISO New England marks each line as comment, header, data or trailer; MISO has a row a node and a column an hour; OMIE
numbers the periods of a day. Several days' reports may follow one another in a file. Columns of the tables are declared
in exports.toml.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from offpeak.errors import BadPrices

ISO_NE_LINE = re.compile(r'"?(?P<mark>[CHDT])"?,(?P<rest>.*)')
IESO_BEGINS = "\\\\"
ISO_NE_BEGINS = '"C",'
MISO_HEADER = re.compile(r"Node,Type,Value,HE ?1,.*HE ?24,*")
MISO_DATE = re.compile(r"(\d{1,2}/\d{1,2}/\d{4}),*")
MISO_CLOCK = timezone(timedelta(hours=-5))
"""The Eastern Standard Time of all hours, in summer too."""
OMIE_BEGINS = "MARGINALPDBC"
OMIE_CLOCK = ZoneInfo("Europe/Madrid")
OMIE_PERIODS = {23: 60, 24: 60, 25: 60, 92: 15, 96: 15, 100: 15}
"""The length of a period [min], by their number on a day."""


def report_as_table(text: str, name: str) -> str | None:
    """Return the table of a report, None for a file that is none. Raises BadPrices for a report with other contents.

    A row of ISO New England or IESO stands on the line where it is in the report.
    """
    if text.startswith(ISO_NE_BEGINS):
        return _iso_ne_table(text)
    lines = text.splitlines()
    if text.startswith(IESO_BEGINS):
        at = next((number for number, line in enumerate(lines) if line.startswith("Date,")), 0)
        return "\n".join([lines[at], *[""] * at, *lines[at + 1 :]])
    if lines and lines[0].startswith(OMIE_BEGINS):
        return _omie_table(lines, name)
    if any(MISO_HEADER.fullmatch(line) for line in lines[:10]):
        return "\n".join(_miso_rows(lines, name))
    return None


def _iso_ne_table(text: str) -> str:
    lines = [ISO_NE_LINE.match(line) for line in text.splitlines()]
    header = next((line["rest"] for line in lines if line and line["mark"] == "H"), "")
    return "\n".join([header, *(line["rest"] if line and line["mark"] == "D" else "" for line in lines[1:])])


def _miso_rows(lines: list[str], name: str) -> Iterator[str]:
    yield "Begin (UTC),Node,LMP"
    day = None
    for number, line in enumerate(lines, 1):
        if written := MISO_DATE.fullmatch(line):
            day = datetime.strptime(written[1], "%m/%d/%Y").replace(tzinfo=MISO_CLOCK)
        cells = line.split(",")
        if len(cells) > 24 + 2 and cells[2] == "LMP":
            if day is None:
                raise BadPrices(f"{name}:{number}: no line above has the date of the prices")
            for hour, price in enumerate(cells[3 : 3 + 24]):
                yield f"{day + timedelta(hours=hour):%Y-%m-%dT%H:%M%z},{cells[0]},{price}"


def _omie_table(lines: list[str], name: str) -> str:
    days = dict[date, list[tuple[int, str, str]]]()
    for number, line in enumerate(lines, 1):
        cells = line.strip().rstrip(";").split(";")
        if line.startswith((OMIE_BEGINS, "*")) or not line.strip():
            continue
        try:
            year, month, day_of_month, period = map(int, cells[:4])
            day = date(year, month, day_of_month)
            portugal, spain = cells[4:]
        except ValueError:
            raise BadPrices(
                f"{name}:{number}: is not a line of a year, month, day, period and the prices of Portugal and Spain",
                hint="reports marginalpdbc of OMIE are read",
            ) from None
        days.setdefault(day, []).append((period, portugal, spain))
    rows = []
    for day, periods in days.items():
        minutes = OMIE_PERIODS.get(len(periods))
        if minutes is None or [period for period, *_ in periods] != list(range(1, len(periods) + 1)):
            raise BadPrices(
                f"{name}: {day} has {len(periods)} periods",
                hint="hours or quarter-hours of whole days are expected",
            )
        begin_s = datetime.combine(day, time(), OMIE_CLOCK).timestamp()
        for period, portugal, spain in periods:
            rows.append((int(begin_s) + (period - 1) * minutes * 60, portugal, spain))
    if all(portugal == spain for _, portugal, spain in rows):
        return "\n".join(["begin;Spain and Portugal (EUR/MWh)", *(f"{begin};{spain}" for begin, _, spain in rows)])
    return "\n".join(["begin;Spain (EUR/MWh);Portugal (EUR/MWh)", *(f"{begin};{es};{pt}" for begin, pt, es in rows)])
