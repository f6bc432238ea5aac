"""What a bundle of evidence proves: `examine_bundle` finds what was changed and what no seal covers.

It loads the rows into a ledger in memory, computes the figures with the functions of the reports, and compares both
with the manifest, the seals, and the digest of a seal that somebody else kept. Only that digest shows that a bundle was
not made up as a whole. Therefore nothing is proven without it, and nothing by what is absent.
"""

import hashlib
import json
import sqlite3
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from enum import IntEnum
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection, create_engine, select
from sqlalchemy.exc import SQLAlchemyError

from offpeak.display import minute_text, percent_text
from offpeak.errors import BadInput
from offpeak.files import reading
from offpeak.ledger import seals
from offpeak.ledger.prices import LONGEST_PRICE_S, slot_prices
from offpeak.ledger.seals import LedgerSeal
from offpeak.ledger.tables import metadata, quarters
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.time_range import TimeRange
from offpeak.model.zones import parse_zone
from offpeak.prices.tariff_file import TariffSource, parse_source
from offpeak.services.accounts.evidence import (
    FORMAT,
    MANIFEST,
    MEMBERS,
    OLDER_FORMAT,
    PRICES,
    SETTINGS,
    SUMS,
    Figures,
    find_figures,
    pack,
)
from offpeak.services.accounts.power_bill import check_demand
from offpeak.text import counted

LONGEST_S = 400 * DAY_S
"""A manifest does not make the program compute a longer time."""
LATEST_UNIX_S = 1e11
LOADED_AT_ONCE = 100_000
EQUAL_WITHIN = 0.005
"""Figures in kWh, kg and money are equal to the hundredth."""


class Verdict(IntEnum):
    """The answer of `offpeak verify`, and its exit status. What is only absent is neither proven nor false."""

    PROVEN = 0
    FALSE = 1
    NOT_PROVEN = 3


def judge(differences: Sequence[str], open_points: Sequence[str]) -> Verdict:
    """Return the verdict on what differs and on what nothing proves."""
    return Verdict.FALSE if differences else Verdict.NOT_PROVEN if open_points else Verdict.PROVEN


@dataclass(frozen=True)
class Examination:
    """The result for a bundle: what was changed, what nothing proves, and the figures as printed and computed again.

    `gaps` is what the ledger itself does not have; `sealed_by` is the version of offpeak that sealed the last day.
    """

    changes: list[str]
    open_points: list[str]
    gaps: list[str]
    printed: Figures
    computed: Figures
    span: TimeRange
    zone: tzinfo
    sealed_by: str
    rows: int
    chain: list[LedgerSeal]
    is_anonymised: bool

    @property
    def different(self) -> list[str]:
        """The names of the figures that are not equal to the cent."""
        names = dict.fromkeys((*self.printed, *self.computed))
        return [name for name in names if not _is_equal(self.printed.get(name), self.computed.get(name))]

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return judge([*self.changes, *self.different], self.open_points)


def _is_equal(one: Mapping[str, float | None] | None, other: Mapping[str, float | None] | None) -> bool:
    if one is None or other is None or one.keys() != other.keys():
        return False
    pairs = [(one[key], other[key]) for key in one]
    return all(a is b is None or (a is not None and b is not None and abs(a - b) < EQUAL_WITHIN) for a, b in pairs)


HINT = "copy it again from where it was made; `sha256sum` there and here tells whether the copies are equal"
UNREADABLE = (
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, LookupError, TypeError, AttributeError),
    *(EOFError, OSError, struct.error, pa.ArrowException, ArithmeticError, MemoryError, sqlite3.Error, SQLAlchemyError),
)


def examine_bundle(path: Path, digest: str | None = None) -> Examination:
    """Return what a bundle proves, with the digest of a seal that somebody else kept.

    Raises BadInput for a file that is no bundle, or of which too much is damaged.
    """
    with reading(path, BadInput):
        raw = path.read_bytes()
    changes: list[str] = []
    try:
        members = _unpack(raw, changes)
        if MANIFEST not in members:
            raise ValueError(f"{MANIFEST} is missing")
        return _examine(_read_manifest(path, members[MANIFEST], changes), members, changes, digest)
    except UNREADABLE as problem:
        found = "; ".join([*changes, f"{type(problem).__name__}: {problem}"])
        raise BadInput(f"{path}: is damaged or no bundle: {found}", hint=HINT) from None


def _examine(manifest: "Manifest", members: Mapping[str, bytes], changes: list[str], digest: str | None) -> Examination:
    chain, span, zone = manifest.chain, manifest.span, _zone(manifest.zone)
    inside = [seal for seal in chain if seal.until_unix_s > span.from_unix_s and seal.from_unix_s < span.until_unix_s]
    before = [seal for seal in chain if span.from_unix_s - LONGEST_PRICE_S < seal.until_unix_s <= span.from_unix_s]
    has_settings = manifest.format != OLDER_FORMAT or any(SETTINGS in seal.tables for seal in inside)
    needed = [name for name in MEMBERS if has_settings or name != f"{SETTINGS}.parquet"]
    changes += [f"{name} is missing" for name in needed if name not in members]
    changes += [f"the seal of {_day(seal, zone)} was changed" for seal in seals.broken_links(chain)]
    changes += [f"the seal of {_day(seal, zone)} is of another time" for seal in chain if seal not in before + inside]
    engine, rows, unsealed = create_engine("sqlite://"), 0, dict[str, int]()
    metadata.create_all(engine, checkfirst=False)
    with engine.connect() as connection:
        for table in seals.SEALED_TABLES:
            if (content := members.get(f"{table.name}.parquet")) is not None:
                of_table, sealing = _rows_of(table, content), chain if table.name == PRICES else inside
                rows += len(of_table[table.at])
                changes += changes_in(table, of_table, sealing, zone, manifest.key)
                sealed = [table.within(of_table[table.at], seal.span) for seal in sealing]
                unsealed[table.name] = len(of_table[table.at]) - int(np.any(sealed, axis=0).sum())
                _load(connection, table, of_table)
        public = seals.read_public(connection, inside[-1].from_unix_s) if inside else {}
        gaps, computed = list[str](), Figures()
        try:
            tariff = json.loads(public["tariff"]) if "tariff" in public else manifest.tariff
            if tariff != (manifest.tariff and [*manifest.tariff]) and "tariff" in public:
                changes.append(f"{MANIFEST}: the tariff was changed: another one is sealed")
            gaps, computed = find_gaps(connection, span, zone), find_figures(connection, span, zone, tariff)
            changes += check_demand(connection, span, parse_source(tariff, zone)) if tariff else []
        except (BadInput, *UNREADABLE) as problem:
            if not changes:
                raise
            changes.append(f"the figures cannot be computed: {problem}")
    engine.dispose()
    contradicted, open_points = check_digest(chain, digest, zone)
    return Examination(
        changes=[*changes, *contradicted],
        open_points=[*find_open_points(manifest, inside, public, unsealed), *open_points],
        gaps=gaps,
        printed=manifest.figures,
        computed=computed,
        span=span,
        zone=zone,
        sealed_by=f"offpeak {public['offpeak']}" if "offpeak" in public else "an older offpeak",
        rows=rows,
        chain=inside,
        is_anonymised=manifest.key is None,
    )


def _day(seal: LedgerSeal, zone: tzinfo) -> str:
    return minute_text(seal.from_unix_s, zone).partition(" ")[0]


def changes_in(
    table: seals.SealedTable, rows: seals.SealedRows, chain: Sequence[LedgerSeal], zone: tzinfo, key: str | None
) -> list[str]:
    """Return the changes of a table's rows since the days of the chain were sealed, as texts; `key` as there."""
    found = []
    for seal in chain:
        inside = table.within(rows[table.at], seal.span)
        for change in seals.find_changes(
            table, seal.of(table), seals.in_order(table, seals.take_rows(rows, inside)), key
        ):
            which = ", ".join(_key_text(name, value, zone) for name, value in change.key)
            found.append(
                f"{table.name} of {_day(seal, zone)}: {f'{which} was' if which else 'rows were'} {change.kind}"
            )
    return found


def _key_text(name: str, value: float | str, zone: tzinfo) -> str:
    if name.endswith("unix_s") and isinstance(value, float) and abs(value) < LATEST_UNIX_S:
        return minute_text(value, zone)
    return str(value)


def find_open_points(
    manifest: "Manifest", inside: Sequence[LedgerSeal], public: Mapping[str, str], unsealed: Mapping[str, int]
) -> list[str]:
    """Return what no seal proves: `inside` are the seals of the time, `unsealed` the rows of tables without one.

    `public` is what the last of them is over, beside the rows of that day and the settings.
    """
    chain, span, zone = manifest.chain, manifest.span, _zone(manifest.zone)
    start_s, found = _quarters_of(span), list[str]()
    has = np.array([any(seal.from_unix_s <= at < seal.until_unix_s for seal in inside) for at in start_s.tolist()])
    if not has.all():
        found.append(_gap("seals", start_s, has, zone, "write the bundle again 30 h after the end of the month"))
    if count := sum(unsealed.values()):
        names = ", ".join(table for table, rows in unsealed.items() if rows)
        found.append(f"no seal is over {counted(count, 'row')} of {names}")
    if inside and chain[0].previous and chain[0].from_unix_s > span.from_unix_s - LONGEST_PRICE_S:
        found.append("the seals of the week before are missing: a price may reach into the time")
    if older := [seal for seal in inside if SETTINGS not in seal.tables]:
        days = f"{counted(len(older), 'day')}, first {_day(older[0], zone)}"
        found.append(
            f"an older offpeak sealed {days}, without settings, tariff and time zone: nothing can prove these now"
        )
    elif inside and public.get("zone") != manifest.zone:
        own = f"the time zone is {manifest.zone}, that of the seals {public.get('zone')}"
        found.append(f"{own}: write the bundle with the settings of the agent")
    for name, edge in (("begins", span.from_unix_s), ("ends", span.until_unix_s)):
        if any(seal.from_unix_s < edge < seal.until_unix_s for seal in inside):
            found.append(f"the time {name} at {minute_text(edge, zone)}, within a day that is sealed as a whole")
    return found


def find_gaps(connection: Connection, span: TimeRange, zone: tzinfo) -> list[str]:
    """Return what is missing in a time, and what holds without it."""
    start_s = _quarters_of(span)
    prices = slot_prices(connection, start_s, QUARTER_S)
    has_price, has_carbon = ~np.isnan(prices.price_per_mwh), ~np.isnan(prices.carbon_g_per_kwh)
    measured = connection.execute(select(quarters.c.at_unix_s).where(quarters.c.covered_s > 0).distinct()).scalars()
    known = (
        ("prices", has_price, "the energy of that time is in no cost of a node"),
        ("readings", np.isin(start_s, list(measured)), "the energy of nodes is that of the other time"),
        ("carbon intensity", has_carbon | ~has_price | ~has_carbon.any(), "that energy is in no CO2 of a node"),
    )
    return [_gap(what, start_s, has, zone, holds) for what, has, holds in known if not has.all()]


def _quarters_of(span: TimeRange) -> Float64:
    return np.arange(span.from_unix_s // QUARTER_S * QUARTER_S, span.until_unix_s, QUARTER_S, dtype=np.float64)


def _gap(what: str, start_s: Float64, has: NDArray[np.bool_], zone: tzinfo, holds: str) -> str:
    share = percent_text(100 * float(1 - has.mean()), 1)
    return f"no {what} for {share} of the time, first at {minute_text(float(start_s[~has][0]), zone)}: {holds}"


def check_digest(chain: Sequence[LedgerSeal], digest: str | None, zone: tzinfo) -> tuple[list[str], list[str]]:
    """Return what the digest that somebody else kept contradicts, and what it leaves open."""
    if digest is None:
        why = "no digest from outside: whoever writes the ledger can make all seals again"
        return [], [f"{why}; give that of the month report with --digest"]
    fixed = [seal for seal in chain if seal.digest == digest]
    if not fixed:
        return [f"no seal has the digest {digest}: the seals were made again, or it is of another month"], []
    if fixed[0] != chain[-1]:
        return [], [f"the days from {minute_text(fixed[0].until_unix_s, zone)} on were sealed after that digest"]
    return [], []


def _zone(name: str) -> tzinfo:
    try:
        return parse_zone(name)
    except BadInput:
        return UTC


def _unpack(raw: bytes, changes: list[str]) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(BytesIO(raw)) as bundle:
        names = bundle.namelist()
        changes += [f"{name!r} is not a member of a bundle" for name in names if name not in MEMBERS]
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


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


UnixSeconds = Annotated[float, Field(ge=0, le=LATEST_UNIX_S)]
QuarterHour = Annotated[float, Field(ge=0, le=LATEST_UNIX_S, multiple_of=QUARTER_S)]


class _TableSeal(_Part):
    rows: int
    sha256: str
    sums: str
    key: str = ""


class _Seal(_Part):
    from_unix_s: UnixSeconds
    until_unix_s: UnixSeconds
    sealed_unix_s: UnixSeconds
    rows: int
    previous: str
    digest: str
    tables: dict[str, _TableSeal]


class Manifest(_Part):
    """The manifest of a bundle. In the older format it has settings and versions, which no seal covers."""

    format: Literal[2, 3]
    versions: dict[str, str] | None = None
    zone: str
    from_unix_s: QuarterHour
    until_unix_s: QuarterHour
    settings: dict[str, Any] | None = None
    seals: list[_Seal]
    key: str | None
    tariff: TariffSource | None
    figures: Figures

    @property
    def span(self) -> TimeRange:
        """Its time."""
        return TimeRange(self.from_unix_s, self.until_unix_s)

    @property
    def chain(self) -> list[LedgerSeal]:
        """The seals as in the ledger."""
        return [LedgerSeal(**seal.model_dump(exclude_unset=True)) for seal in self.seals]


def _read_manifest(path: Path, content: bytes, changes: list[str]) -> Manifest:
    """Return the manifest, and add what seals and figures would not show. Raises ValueError with the field."""
    raw = json.loads(content)
    if raw["format"] not in (OLDER_FORMAT, FORMAT):
        hint = "verify it with the version of offpeak that made it"
        raise BadInput(f"{path}: is of format {raw['format']}, this offpeak reads {FORMAT}", hint=hint)
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise ValueError(f"{MANIFEST}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if not 0 < manifest.until_unix_s - manifest.from_unix_s <= LONGEST_S:
        raise ValueError(f"{MANIFEST}: from_unix_s and until_unix_s are not the begin and the end of a time")
    if json.dumps(raw, indent=1).encode() != content:
        changes.append(f"{MANIFEST} was changed: it is not written as offpeak writes it")
    is_older = manifest.format == OLDER_FORMAT
    if {manifest.versions is not None, manifest.settings is not None} != {is_older}:
        changes.append(f"{MANIFEST} was changed: versions and settings do not belong to format {manifest.format}")
    return manifest


def _rows_of(table: seals.SealedTable, content: bytes) -> seals.SealedRows:
    texts = [each.name for each in table.columns if seals.is_text(each)]
    try:
        read = pq.ParquetFile(BytesIO(content), read_dictionary=texts).read()
        if more := set(read.column_names) - {column.name for column in table.columns}:
            raise ValueError(f"no seal is over {', '.join(sorted(more))}")
        return {column.name: _column(read[column.name], seals.is_text(column)) for column in table.columns}
    except UNREADABLE as problem:
        raise ValueError(f"{table.name}.parquet: {problem}") from None


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
    statement = f"INSERT OR IGNORE INTO {table.name} ({fields}) VALUES ({', '.join('?' * len(columns))})"
    for first in range(0, len(rows[table.at]), LOADED_AT_ONCE):
        some = slice(first, first + LOADED_AT_ONCE)
        cursor.executemany(statement, list(zip(*(_listed(each, some) for each in columns.values()), strict=True)))


def _listed(column: Any, some: slice) -> list[Any]:
    if isinstance(column, seals.TextColumn):
        return [column.values[code] for code in column.codes[some].tolist()]
    return list(column[some].tolist())
