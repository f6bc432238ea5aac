"""The numbers of what is measured: one a part of a meter, given when it is first seen."""

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from offpeak.ledger.rows import Metered
from offpeak.ledger.tables import series

Name = tuple[str, str, str, str]


def series_name(reading: Metered) -> Name:
    """Return what tells a series from all others."""
    return reading.meter, reading.way, reading.part, reading.node or ""


class SeriesNumbers:
    """What is known of the table. To be forgotten when a transaction in which numbers were given does not end well."""

    def __init__(self) -> None:
        self._numbers: dict[Name, int] = {}

    def of(self, connection: Connection, readings: Sequence[Metered]) -> dict[Name, int]:
        """Return the numbers, of these readings at least; those that are missing are given."""
        if missing := {series_name(each) for each in readings} - self._numbers.keys():
            self._read(connection)
            missing -= self._numbers.keys()
        if missing:
            columns = ("meter", "way", "part", "node")
            connection.execute(insert(series), [dict(zip(columns, name, strict=True)) for name in sorted(missing)])
            self._read(connection)
        return self._numbers

    def forget(self) -> None:
        """Look the numbers up again at the next time."""
        self._numbers = {}

    def _read(self, connection: Connection) -> None:
        found = connection.execute(select(series.c.meter, series.c.way, series.c.part, series.c.node, series.c.number))
        self._numbers = {(meter, way, part, node): number for meter, way, part, node, number in found}
