"""A small table that only this connection sees, for as long as a question takes: rows to join with."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Float, MetaData, Table, Text, insert

TYPES: Mapping[type, BigInteger | Text] = {int: BigInteger(), str: Text()}


@contextmanager
def scratch(
    connection: Connection, rows: Sequence[Mapping[str, object]], *, name: str = "offpeak_scratch"
) -> Iterator[Table]:
    """Give a table of these rows, one at least; what is neither text nor a whole number in the first is a number.

    A question that fails takes its transaction with it, and so the table.
    """
    columns: list[Column[Any]] = [Column(key, TYPES.get(type(value), Float(53))) for key, value in rows[0].items()]
    table = Table(name, MetaData(), *columns, prefixes=["TEMPORARY"])
    table.create(connection)
    connection.execute(insert(table), rows)
    yield table
    table.drop(connection)
