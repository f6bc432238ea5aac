"""The evidence of a time: a bundle with the sealed rows of the ledger, from which anybody computes its figures again.

A bundle is a zip file of `manifest.json`, one Parquet file a table and `SHA256SUMS`, stored without compression of its
own. `make_bundle` writes one. `examine_bundle` finds what was changed, loads the rows into a ledger in memory and
computes the figures with the functions of the reports.
"""

import hashlib
import json
import platform
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, tzinfo
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy
from sqlalchemy import Connection, create_engine, select

from offpeak.display import minute_text, percent_text
from offpeak.errors import BadInput
from offpeak.files import reading
from offpeak.installation import installed_version
from offpeak.ledger import seals
from offpeak.ledger.backlog import QUARTER_S
from offpeak.ledger.marks import read_memory
from offpeak.ledger.prices import slot_prices
from offpeak.ledger.tables import metadata, quarters
from offpeak.model.constants import J_PER_KWH
from offpeak.model.local_time import parse_zone, zone_text
from offpeak.model.time_range import TimeRange, day_edges
from offpeak.prices.tariff_file import TariffSource, parse_source
from services.accounts.month_account import make_month_account
from services.accounts.power_bill import check_demand, read_demand

FORMAT = 2
MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
MEMBERS = (MANIFEST, *(f"{table.name}.parquet" for table in seals.SEALED_TABLES), SUMS)
EVER = TimeRange(-1e11, 1e11)
PERIODS = ("prices", "savings", "trial_days")
"""Tables whose rows have a period: all are in the bundle that touch its time."""
LOADED_AT_ONCE = 100_000
EQUAL_WITHIN = 0.005
"""Figures in kWh, kg and money are equal to the hundredth."""

IN_ALL = "in all"
"""The figure of a saving that is the sum of the others."""

Figures = dict[str, dict[str, float | None]]
"""Energy, cost and CO2 by name, such as "account physics EUR"."""


def find_figures(
    connection: Connection,
    span: TimeRange,
    zone: tzinfo,
    tariff: TariffSource | None = None,
    name_of: Callable[[str], str] = str,
) -> Figures:
    """Return the figures of the reports: accounts under these names, nodes, savings, and demand charges.

    Of a charge per year the highest quarter-hour in this time counts.
    """
    account = make_month_account(connection, span, zone)
    found = {
        f"account {name_of(use.account)} {use.currency}".strip(): _figure(use.energy_j, use.cost, use.carbon_g)
        for use in account.accounts
    }
    found |= {f"node {use.of[0]}": _figure(use.energy_j, use.cost, use.carbon_g) for use in account.nodes}
    for name, saved in (("saving", account.saved), ("shadow", account.shadow)):
        for lever in saved.levers:
            bounds = {"low": lever.low, "high": lever.high}
            found[f"{name} {lever.lever}"] = _figure(lever.energy_j, lever.cost, lever.carbon_g) | bounds
        if saved.levers:
            bounds = {"low": saved.low, "high": saved.high, "bill": saved.bill}
            found[f"{name} {IN_ALL}"] = _figure(saved.energy_j or 0.0, saved.cost, saved.carbon_g) | bounds
    demand = read_demand(connection, span, parse_source(tariff, zone), since_s=span.from_unix_s) if tariff else ()
    for each in demand:
        peak = {"energy_kwh": None, "co2_kg": None, "cost": each.cost, "at_unix_s": each.at_unix_s}
        found[each.name] = peak | {"peak_kw": each.peak_kw, "without_kw": each.without_kw, "saved": each.saved}
    return found


def _figure(energy_j: float, cost: float | None, carbon_g: float | None) -> dict[str, float | None]:
    return {
        "energy_kwh": energy_j / J_PER_KWH,
        "cost": cost,
        "co2_kg": None if carbon_g is None else carbon_g / 1000,
    }


def find_gaps(connection: Connection, span: TimeRange, zone: tzinfo, chain: Sequence[seals.LedgerSeal]) -> list[str]:
    """Return what is missing in a time, and what holds without it."""
    start_s = np.arange(span.from_unix_s // QUARTER_S * QUARTER_S, span.until_unix_s, QUARTER_S, dtype=np.float64)
    prices = slot_prices(connection, start_s, QUARTER_S).price_per_mwh
    measured = connection.execute(select(quarters.c.at_unix_s).where(quarters.c.covered_s > 0).distinct()).scalars()
    sealed = [any(seal.from_unix_s <= at < seal.until_unix_s for seal in chain) for at in start_s.tolist()]
    known = (
        ("prices", ~np.isnan(prices), "the energy of that time is in no cost of a node"),
        ("readings", np.isin(start_s, list(measured)), "the energy of nodes is that of the other time"),
        ("seals", np.array(sealed, np.bool_), "a change of a row before the bundle was made does not show"),
    )
    return [
        f"no {what} for {percent_text(100 * float(1 - has.mean()), 1)} of the time, first at "
        f"{minute_text(float(start_s[~has][0]), zone)}: {holds}"
        for what, has, holds in known
        if not has.all()
    ]


def make_bundle(
    connection: Connection,
    span: TimeRange,
    zone: tzinfo,
    settings: Mapping[str, object],
    *,
    tariff: TariffSource | None = None,
    anonymise: bool = False,
) -> bytes:
    """Return the bundle of a time that begins and ends with a quarter-hour. Raises BadInput as the reports do.

    `anonymise`: with pseudonyms of people. Raises BadInput if older seals in that time are over names.
    """
    if connection.dialect.name == "postgresql":
        # Figures and rows of one instant, as SQLite gives them: the agent goes on writing.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    chain, key = seals.read_seals(connection, span), read_memory(connection, seals.KEY_NAME) or ""
    named = [seal for seal in chain if not all(each.get("key") for each in seal.tables.values())]
    if anonymise and (named or not key):
        until = f"until {minute_text(named[-1].until_unix_s, zone)}" if named else "of this ledger"
        hint = "leave out --anonymise: a bundle with names proves them"
        raise BadInput(f"the days {until} are not sealed with pseudonyms", hint=hint)
    # All rows of each sealed day, also of one that reaches over the time because it was sealed in another zone.
    spans = [span, *(seal.span for seal in chain)]
    sealed = TimeRange(min(each.from_unix_s for each in spans), max(each.until_unix_s for each in spans))
    manifest = {
        "format": FORMAT,
        "versions": {
            "offpeak": installed_version(),
            "python": platform.python_version(),
            **{package.__name__: package.__version__ for package in (np, pa, sqlalchemy)},
        },
        "zone": zone_text(zone) or "UTC",
        "from_unix_s": span.from_unix_s,
        "until_unix_s": span.until_unix_s,
        # Settings name accounts and jobs, too.
        "settings": {} if anonymise else dict(settings),
        "seals": [asdict(seal) for seal in chain],
        "key": None if anonymise else key,
        "tariff": tariff,
        "figures": find_figures(
            connection, span, zone, tariff, partial(seals.pseudonym, key=key) if anonymise else str
        ),
    }
    members = {MANIFEST: json.dumps(manifest, indent=1, default=str).encode()}
    for table in seals.SEALED_TABLES:
        members[f"{table.name}.parquet"] = _parquet(connection, table, sealed, zone, key if anonymise else "")
    return pack(members)


def _parquet(connection: Connection, table: seals.SealedTable, span: TimeRange, zone: tzinfo, key: str) -> bytes:
    if table.name in PERIODS:
        rows = seals.read_rows(connection, table, EVER)
        touches = (rows["from_unix_s"] < span.until_unix_s) & (rows["until_unix_s"] > span.from_unix_s)
        days = [seals.take_rows(rows, touches | table.within(rows[table.at], span))]
    else:
        edges = pairwise(day_edges(span, zone))
        days = [seals.read_rows(connection, table, TimeRange(start, end)) for start, end in edges]
    days = [seals.with_pseudonyms(table, day, key) for day in days] if key else days
    whole = pa.concat_tables([pa.table({name: _array(column) for name, column in day.items()}) for day in days])
    file = BytesIO()
    texts = [column.name for column in table.columns if seals.is_text(column)]
    pq.write_table(whole.unify_dictionaries(), file, compression="zstd", use_dictionary=texts)
    return file.getvalue()


def _array(column: Any) -> pa.Array:
    if isinstance(column, seals.TextColumn):
        return pa.DictionaryArray.from_arrays(pa.array(column.codes, pa.int32()), pa.array(column.values, pa.string()))
    return pa.array(column, pa.float64(), from_pandas=True)


def pack(members: Mapping[str, bytes]) -> bytes:
    """Return the zip file of these members and of their digests; the same members give the same bytes."""
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in members.items())
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as bundle:
        for name, content in (*members.items(), (SUMS, sums.encode())):
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            bundle.writestr(entry, content)
    return file.getvalue()


@dataclass(frozen=True)
class Examination:
    """The result for a bundle: what was changed, what is missing, and the figures as printed and computed again."""

    changes: list[str]
    gaps: list[str]
    printed: Figures
    computed: Figures
    span: TimeRange
    zone: tzinfo
    made_by: str
    rows: int
    chain: list[seals.LedgerSeal]
    is_anonymised: bool

    @property
    def different(self) -> list[str]:
        """The names of the figures that are not equal to the cent."""
        names = dict.fromkeys((*self.printed, *self.computed))
        return [name for name in names if not _is_equal(self.printed.get(name), self.computed.get(name))]


def _is_equal(one: Mapping[str, float | None] | None, other: Mapping[str, float | None] | None) -> bool:
    if one is None or other is None or one.keys() != other.keys():
        return False
    pairs = [(one[key], other[key]) for key in one]
    return all(a is b is None or (a is not None and b is not None and abs(a - b) < EQUAL_WITHIN) for a, b in pairs)


HINT = "copy it again from where it was made; `sha256sum` there and here tells whether the copies are equal"
UNREADABLE = (
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, KeyError, TypeError, AttributeError),
    *(EOFError, OSError, struct.error, pa.ArrowException, OverflowError, MemoryError, sqlite3.Error),
)


def examine_bundle(path: Path) -> Examination:
    """Return what a bundle proves. Raises BadInput for a file that is no bundle, or of which too much is damaged."""
    with reading(path, BadInput):
        raw = path.read_bytes()
    changes: list[str] = []
    try:
        members = _unpack(raw, changes)
        manifest = json.loads(members[MANIFEST])
        if manifest["format"] != FORMAT:
            made = f"{path}: was made by offpeak {manifest['versions']['offpeak']} in format {manifest['format']}"
            raise BadInput(made, hint="verify it with that version")
        return _examine(manifest, members, changes)
    except UNREADABLE as problem:
        found = "; ".join(changes) or f"{type(problem).__name__}: {problem}"
        raise BadInput(f"{path}: is damaged or no bundle: {found}", hint=HINT) from None


def _unpack(raw: bytes, changes: list[str]) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(BytesIO(raw)) as bundle:
        names = bundle.namelist()
        changes += [f"{name!r} is no member of a bundle" for name in names if name not in MEMBERS]
        changes += [f"{name} is missing" for name in MEMBERS if name not in names]
        for name in filter(MEMBERS.__contains__, names):
            if bundle.getinfo(name).compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{name} is compressed")
            try:
                members[name] = bundle.read(name)
            except zipfile.BadZipFile as problem:
                changes.append(f"{name} was changed: {problem}")
    lines = (line.partition("  ") for line in members.get(SUMS, b"").decode().splitlines())
    sums = {name: digest for digest, _, name in lines}
    rest = {name: content for name, content in members.items() if name != SUMS}
    changes += [
        f"{name} was changed: it has another digest than {SUMS} says"
        for name, content in rest.items()
        if sums.get(name) != hashlib.sha256(content).hexdigest()
    ]
    if not changes and pack(rest) != raw:
        changes.append("the zip file was changed outside of its members")
    return members


def _examine(manifest: Mapping[str, Any], members: Mapping[str, bytes], changes: list[str]) -> Examination:
    chain = [seals.LedgerSeal(**seal) for seal in manifest["seals"]]
    span, zone = TimeRange(manifest["from_unix_s"], manifest["until_unix_s"]), _zone(manifest["zone"])
    changes += [f"the seal of {_day(seal, zone)} was changed" for seal in seals.broken_links(chain)]
    engine, rows = create_engine("sqlite://"), 0
    metadata.create_all(engine)
    with engine.connect() as connection:
        for table in seals.SEALED_TABLES:
            if (content := members.get(f"{table.name}.parquet")) is not None:
                of_table = _rows_of(table, content)
                rows += len(of_table[table.at])
                changes += changes_in(table, of_table, chain, zone, manifest["key"])
                _load(connection, table, of_table)
        gaps, tariff = find_gaps(connection, span, zone, chain), manifest.get("tariff")
        computed = find_figures(connection, span, zone, tariff)
        changes += check_demand(connection, span, parse_source(tariff, zone)) if tariff else []
    engine.dispose()
    return Examination(
        changes=changes,
        gaps=gaps,
        printed=manifest["figures"],
        computed=computed,
        span=span,
        zone=zone,
        made_by=str(manifest["versions"]["offpeak"]),
        rows=rows,
        chain=chain,
        is_anonymised=manifest["key"] is None,
    )


def _zone(name: str) -> tzinfo:
    try:
        return parse_zone(name)
    except BadInput:
        return UTC


def _day(seal: seals.LedgerSeal, zone: tzinfo) -> str:
    return minute_text(seal.from_unix_s, zone).partition(" ")[0]


def changes_in(
    table: seals.SealedTable, rows: seals.SealedRows, chain: Sequence[seals.LedgerSeal], zone: tzinfo, key: str | None
) -> list[str]:
    """Return the changes of a table's rows since the days of the chain were sealed, as texts; `key` as there."""
    found = []
    for seal in chain:
        inside = table.within(rows[table.at], seal.span)
        for change in seals.find_changes(
            table, seal.of(table), seals.in_order(table, seals.take_rows(rows, inside)), key
        ):
            which = ", ".join(
                minute_text(value, zone) if name.endswith("unix_s") and isinstance(value, float) else str(value)
                for name, value in change.key
            )
            found.append(
                f"{table.name} of {_day(seal, zone)}: {f'{which} was' if which else 'rows were'} {change.kind}"
            )
    return found


def _rows_of(table: seals.SealedTable, content: bytes) -> seals.SealedRows:
    read = pq.read_table(BytesIO(content), read_dictionary=[each.name for each in table.columns if seals.is_text(each)])
    return {column.name: _column(read[column.name], seals.is_text(column)) for column in table.columns}


def _column(read: pa.ChunkedArray, has_text: bool) -> Any:
    if not has_text:
        return read.cast(pa.float64()).to_numpy()
    array = read.cast(pa.dictionary(pa.int32(), pa.string())).unify_dictionaries().combine_chunks()
    values, codes = array.dictionary.to_pylist(), array.indices.to_numpy()
    return seals.recoded(seals.TextColumn(tuple(values), codes), values)


def _load(connection: Connection, table: seals.SealedTable, rows: seals.SealedRows) -> None:
    """Insert the rows of a table; those of quarter-hours by the numbers of their series."""
    target, columns, cursor = metadata.tables[table.name], {**rows}, connection.connection.cursor()
    if target is quarters:
        names = [columns.pop(name) for name in ("meter", "way", "part", "node")]
        # The key of a series is a number whose digits are the places of its four names.
        sizes = [max(len(name.values), 1) for name in names]
        keys, number = np.unique(np.ravel_multi_index([name.codes for name in names], sizes), return_inverse=True)
        digits = zip(names, np.unravel_index(keys, sizes), strict=True)
        series = list(zip(*(_listed(replace(name, codes=digit), slice(None)) for name, digit in digits), strict=True))
        cursor.executemany("INSERT INTO series (meter, way, part, node) VALUES (?, ?, ?, ?)", series)
        columns["series"] = number + 1.0
    fields = ", ".join(f'"{name}"' for name in columns)
    statement = f"INSERT INTO {table.name} ({fields}) VALUES ({', '.join('?' * len(columns))})"
    for first in range(0, len(rows[table.at]), LOADED_AT_ONCE):
        some = slice(first, first + LOADED_AT_ONCE)
        cursor.executemany(statement, list(zip(*(_listed(each, some) for each in columns.values()), strict=True)))


def _listed(column: Any, some: slice) -> list[Any]:
    if isinstance(column, seals.TextColumn):
        return [column.values[code] for code in column.codes[some].tolist()]
    return list(column[some].tolist())
