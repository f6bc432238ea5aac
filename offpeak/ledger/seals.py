"""The seals of the ledger: a chain of digests over the rows of each day, so that a later change shows.

A day is sealed once its rows no longer change: readings reach their quarter-hour late, jobs are booked after their end,
and the savings of a day are booked again during the next one. A row belongs to the day in which it happened.
Readings and minutes are not sealed, because they are pruned within weeks; the quarter-hours are.

The digest of a table's day is SHA-256 over its columns in order of the key, the same for SQLite and PostgreSQL:
numbers as IEEE 754 doubles, little-endian, without a value NaN; texts as the JSON list of the distinct ones, sorted,
and the place of each row's text in it as a 32-bit integer. Beside it stand sums over 16 groups of rows. From them the
row of a group is found that was changed, deleted or added, as long as it is the only one of its group.

Names of people, and texts that may have them, are sealed as their pseudonyms: BLAKE2 digests under a secret key of the
ledger. So rows with the pseudonyms in place of the names prove as much, to somebody who does not know the key. Seals of
older programs are over the names, over 0 where a saving is not known, and over no settings.

Whoever can write the ledger can make all seals again. Only the digest of a seal that somebody else has kept proves that
this did not happen.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, tzinfo
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import JSON, Column, Connection, FromClause, Text, delete, func, insert, select

from offpeak.door.effect import AGENT, SCHEDULER
from offpeak.ledger import tables
from offpeak.ledger.tables import quarters, sealed_settings, seals, series
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.time_range import TimeRange, day_edges

SETTLED_S = 30 * HOUR_S
"""After its end no row of a day changes: a day's savings are booked for the last time 24 h after it."""
UNSEEN_S = 7 * DAY_S
"""A day whose jobs the scheduler was never asked for is sealed that much later."""
OLDEST_S = 90 * DAY_S
"""The first seals of an older ledger: decisions are kept as long."""

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class TextColumn:
    """The distinct texts of a column, sorted, and the place of each row's text in them."""

    values: tuple[str, ...]
    codes: NDArray[np.int32]

    def take(self, rows: NDArray[Any]) -> "TextColumn":
        """Return some of the rows, without the texts that they do not have."""
        codes = self.codes[rows]
        used = np.flatnonzero(np.bincount(codes, minlength=len(self.values)))
        place = np.zeros(len(self.values), np.int32)
        place[used] = np.arange(len(used))
        return TextColumn(tuple(self.values[code] for code in used.tolist()), place[codes])


SealedRows = Mapping[str, Any]
"""The rows of a table by column, each a TextColumn or an array of numbers, NaN for those that are not known."""


def recoded(column: TextColumn, values: Sequence[str]) -> TextColumn:
    """Return the column with other values in place of its own, in any order."""
    changed = text_column(values)
    return TextColumn(changed.values, changed.codes[column.codes])


def text_column(texts: Sequence[str]) -> TextColumn:
    """Return the column of these texts."""
    values = tuple(sorted(set(texts)))
    place = {value: code for code, value in enumerate(values)}
    return TextColumn(values, np.fromiter((place[text] for text in texts), np.int32, len(texts)))


@dataclass(frozen=True)
class SealedTable:
    """A table whose rows are sealed: the columns, those that identify a row, and the column with its time.

    A row belongs to the day that has its time; one with the end of a period `to_end` belongs to the day before it.
    The texts of the columns `personal` are sealed as pseudonyms.
    """

    rows: FromClause
    columns: tuple[Column[Any], ...]
    keys: tuple[str, ...]
    at: str
    to_end: bool = False
    personal: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the table."""
        return str(self.columns[0].table.name)

    def within(self, at_unix_s: Any, span: TimeRange) -> Any:
        """Return whether these times are in the span, as a condition or as an array."""
        if self.to_end:
            return (at_unix_s > span.from_unix_s) & (at_unix_s <= span.until_unix_s)
        return (at_unix_s >= span.from_unix_s) & (at_unix_s < span.until_unix_s)


def is_text(column: Column[Any]) -> bool:
    """Tell whether a column has texts; inputs are JSON texts."""
    return isinstance(column.type, Text | JSON)


def _sealed(
    name: str, keys: str, at: str, *, to_end: bool = False, without: str = "", personal: str = ""
) -> SealedTable:
    table = tables.metadata.tables[name]
    columns = tuple(column for column in table.columns if column.name != without)
    return SealedTable(table, columns, tuple(keys.split()), at, to_end, tuple(personal.split()))


_NAMES = (series.c.meter, series.c.way, series.c.part, series.c.node)
_MEANS = tuple(column for column in quarters.columns if column.name != "series")
SEALED_TABLES = (
    SealedTable(
        quarters.join(series), (*_MEANS, *_NAMES), ("at_unix_s", "node", "meter", "way", "part"), at="at_unix_s"
    ),
    _sealed("states", "at_unix_s node", "at_unix_s", personal="by why"),
    # Their numbers differ in a copy.
    _sealed("decisions", "at_unix_s subject decided", "at_unix_s", without="number", personal="reason"),
    _sealed("intents", "number", "at_unix_s", personal="by reason"),
    # An outcome may come days after its intent, when the agent starts again.
    _sealed("outcomes", "intent", "at_unix_s", personal="said trouble"),
    _sealed(
        *("refusals", "at_unix_s subject order rule", "at_unix_s"),
        without="number",
        personal="by reason said hint trouble",
    ),
    _sealed("prices", "from_unix_s", "from_unix_s"),
    _sealed("jobs", "job started_unix_s", "ended_unix_s", personal="user account"),
    _sealed("credits", "job started_unix_s", "ended_unix_s"),
    _sealed("job_gpus", "job started_unix_s", "ended_unix_s"),
    _sealed("savings", "from_unix_s until_unix_s baseline", "until_unix_s", to_end=True, without="as_of_unix_s"),
    _sealed("trial_days", "trial lever partition from_unix_s", "drawn_unix_s"),
    _sealed(sealed_settings.name, "at_unix_s setting", "at_unix_s", personal="value"),
)


def read_rows(connection: Connection, table: SealedTable, span: TimeRange) -> SealedRows:
    """Return the rows that belong to that time, in order of their key."""
    condition = table.within(table.columns[0].table.c[table.at], span)
    return _rows_of(table, connection.execute(select(*table.columns).select_from(table.rows).where(condition)).all())


def _rows_of(table: SealedTable, found: Sequence[Sequence[Any]]) -> SealedRows:
    values: Sequence[Sequence[Any]] = list(zip(*found, strict=True)) or [()] * len(table.columns)
    pairs = zip(table.columns, values, strict=True)
    return in_order(table, {column.name: _column_of(column, given) for column, given in pairs})


def setting_rows(at_unix_s: float, settings: Mapping[str, str]) -> list[tuple[float, str, str, str]]:
    """Return the rows of the table of settings. Names without a section, such as "zone", are public."""
    return [(at_unix_s, name, *((text, "") if "." in name else ("", text))) for name, text in settings.items()]


def read_public(connection: Connection, at_unix_s: float) -> dict[str, str]:
    """Return the time zone, the tariff and the versions under which the day with that begin was sealed."""
    of_day = select(sealed_settings.c.setting, sealed_settings.c.public).where(sealed_settings.c.at_unix_s == at_unix_s)
    return {row.setting: row.public for row in connection.execute(of_day) if row.public}


def _column_of(column: Column[Any], values: Sequence[Any]) -> Float64 | TextColumn:
    if isinstance(column.type, JSON):
        return text_column([json.dumps(value, sort_keys=True) for value in values])
    return text_column(values) if is_text(column) else np.array(values, np.float64)


def in_order(table: SealedTable, rows: SealedRows) -> SealedRows:
    """Return the rows in order of their key."""
    keys = [rows[key] for key in reversed(table.keys)]
    order = np.lexsort([key.codes if isinstance(key, TextColumn) else key for key in keys])
    return take_rows(rows, order)


def take_rows(rows: SealedRows, which: NDArray[Any]) -> SealedRows:
    """Return some of the rows, by their places or a mask."""
    return {
        name: column.take(which) if isinstance(column, TextColumn) else column[which] for name, column in rows.items()
    }


KEY_NAME = "key of pseudonyms"
"""The name of the key in the memory of the ledger, 64 hexadecimal digits. Without it no later seal can be verified."""
NO_PERSONS = frozenset(("", AGENT, SCHEDULER))


def pseudonym(text: str, key: str) -> str:
    """Return the digest of a text under the key; that of no person is the text itself."""
    if text in NO_PERSONS:
        return text
    return hashlib.blake2b(text.encode(), key=bytes.fromhex(key), digest_size=16).hexdigest()


def with_pseudonyms(table: SealedTable, rows: SealedRows, key: str) -> SealedRows:
    """Return the rows with pseudonyms in place of personal texts."""
    named = {name: rows[name] for name in table.personal}
    return {**rows, **{name: recoded(each, [pseudonym(it, key) for it in each.values]) for name, each in named.items()}}


def _key_digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


GROUPS = 16
KEY_TEXT_BYTES = 32
PRIMES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True)
class TableSeal:
    """The number of rows of one day of a table, their digest, and the sums over groups of them, base85.

    `key` identifies the key of the pseudonyms, "" in seals of older programs.
    """

    rows: int
    sha256: str
    sums: str
    key: str = ""


def seal_rows(table: SealedTable, rows: SealedRows, key: str) -> TableSeal | None:
    """Return the seal of rows in order of their key, None without rows."""
    rows = with_pseudonyms(table, rows, key)
    if not (count := len(rows[table.at])):
        return None
    packed = base64.b85encode(zlib.compress(_group_sums(table, rows).tobytes(), 9)).decode()
    return TableSeal(count, _digest(table, rows), packed, _key_digest(key))


def _as_sealed(table: SealedTable, sealed: TableSeal, rows: SealedRows, key: str | None) -> SealedRows:
    if sealed.key:
        return rows if key is None else with_pseudonyms(table, rows, key)
    energies = ("baseline_energy_j", "energy_j") if table.name == "savings" else ()
    return {**rows, **{name: np.where(np.isnan(rows[name]), 0.0, rows[name]) for name in energies}}


def _digest(table: SealedTable, rows: SealedRows) -> str:
    digest = hashlib.sha256()
    for column in table.columns:
        digest.update(_canonical(rows[column.name]))
    return digest.hexdigest()


def _canonical(column: Float64 | TextColumn) -> bytes:
    if isinstance(column, TextColumn):
        return json.dumps(column.values).encode() + column.codes.astype("<i4").tobytes()
    # SQLite stores -0.0 as 0, and there are many bit patterns of NaN.
    return np.where(np.isnan(column), np.nan, column + 0.0).astype("<f8").tobytes()


def _hashes(columns: Sequence[Float64 | TextColumn], prime: int) -> Words:
    """Return a hash of each row, to find rows and not to prove them."""
    with np.errstate(over="ignore"):
        mixed = np.zeros(1, np.uint64)
        for column in columns:
            mixed = (mixed ^ _words(column)) * np.uint64(prime)
            mixed ^= mixed >> np.uint64(29)
    return mixed


def _words(column: Float64 | TextColumn) -> Words:
    if isinstance(column, TextColumn):
        digests = (hashlib.blake2b(value.encode(), digest_size=8).digest() for value in column.values)
        return np.frombuffer(b"".join(digests), "<u8")[column.codes]
    return np.frombuffer(_canonical(column), "<u8")


def _key_words(column: Float64 | TextColumn) -> Words:
    """Return the words of a key, of which a text can be read: its first 32 bytes."""
    if isinstance(column, TextColumn):
        values = b"".join(value.encode()[:KEY_TEXT_BYTES].ljust(KEY_TEXT_BYTES, b"\0") for value in column.values)
        return np.frombuffer(values, "<u8").reshape(-1, KEY_TEXT_BYTES // 8)[column.codes]
    return _words(column).reshape(-1, 1)


def _group_sums(table: SealedTable, rows: SealedRows) -> Words:
    """Return for each group: rows, sum of hashes, sum of hashes times those of keys, and all keys by exclusive or."""
    hashes, keys = _row_hashes(table, rows)
    group = keys >> np.uint64(60)
    words = np.hstack([_key_words(rows[key]) for key in table.keys])
    sums = np.zeros((GROUPS, 3 + words.shape[1]), "<u8")
    for number in range(GROUPS):
        inside = group == number
        sums[number, 0] = inside.sum()
        sums[number, 1] = hashes[inside].sum()
        sums[number, 2] = (hashes[inside] * keys[inside]).sum()
        sums[number, 3:] = np.bitwise_xor.reduce(words[inside], axis=0)
    return sums


def _row_hashes(table: SealedTable, rows: SealedRows) -> tuple[Words, Words]:
    """Return the hashes of the rows, and those of their keys, which are odd."""
    whole = _hashes([rows[column.name] for column in table.columns], PRIMES[0])
    return whole, _hashes([rows[key] for key in table.keys], PRIMES[1]) | np.uint64(1)


@dataclass(frozen=True)
class RowChange:
    """A change after the seal: "altered", "deleted" or "added", and the key, empty for several rows of a group.

    Rows that are sealed under a key that is lost cannot be compared: they are "sealed under another key".
    """

    table: str
    kind: str
    key: tuple[tuple[str, float | str], ...] = ()


def find_changes(table: SealedTable, sealed: TableSeal | None, rows: SealedRows, key: str | None) -> list[RowChange]:
    """Return what differs from a day's seal; nothing if the rows are those that were sealed.

    `key` is that of the pseudonyms, "" if it is lost, None for rows that have pseudonyms already.
    """
    if sealed and sealed.key and table.personal and key is not None and _key_digest(key) != sealed.key:
        return [RowChange(table.name, "sealed under another key")]
    rows = _as_sealed(table, sealed, rows, key) if sealed else rows
    if _digest(table, rows) == sealed.sha256 if sealed else not len(rows[table.at]):
        return []
    present = _group_sums(table, rows)
    was = _unpacked(sealed, present) if sealed else np.zeros_like(present)
    hashes, keys = _row_hashes(table, rows)
    group = keys >> np.uint64(60)
    changed = np.flatnonzero((present != was).any(axis=1)).tolist()
    found = [_change_of_group(table, rows, (hashes, keys, group == each), was[each], present[each]) for each in changed]
    return found or [RowChange(table.name, "altered")]


def _unpacked(sealed: TableSeal, like: Words) -> Words:
    try:
        words = np.frombuffer(zlib.decompress(base64.b85decode(sealed.sums)), "<u8")
    except (ValueError, zlib.error):
        return np.zeros_like(like)
    return words.reshape(like.shape) if words.size == like.size else np.zeros_like(like)


def _change_of_group(
    table: SealedTable, rows: SealedRows, hashed: tuple[Words, Words, NDArray[np.bool_]], was: Words, now: Words
) -> RowChange:
    hashes, keys, inside = hashed
    change, more = now - was, int(now[0]) - int(was[0])
    if more == -1:
        key = _key_of_words(table, was[3:] ^ now[3:])
        columns = [text_column([value]) if isinstance(value, str) else np.array([value]) for _, value in key]
        is_cut = any(isinstance(value, str) and len(value.encode()) >= KEY_TEXT_BYTES for _, value in key)
        # Several changes that leave one row less give a key of no row.
        is_one = bool(change[1] * (_hashes(columns, PRIMES[1]) | np.uint64(1)) == change[2])
        return RowChange(table.name, "deleted", key if is_one or is_cut else ())
    which = inside & (hashes == change[1] if more else change[1] * keys == change[2])
    places = np.flatnonzero(which).tolist()
    kind = "added" if more > 0 else "deleted" if more else "altered"
    if len(places) != 1:
        return RowChange(table.name, kind)
    return RowChange(table.name, kind, tuple((key, _value(rows[key], places[0])) for key in table.keys))


def _value(column: Float64 | TextColumn, place: int) -> float | str:
    return column.values[column.codes[place]] if isinstance(column, TextColumn) else float(column[place])


def _key_of_words(table: SealedTable, words: Words) -> tuple[tuple[str, float | str], ...]:
    raw, key = words.astype("<u8").tobytes(), list[tuple[str, float | str]]()
    types = {column.name: is_text(column) for column in table.columns}
    for name in table.keys:
        size = KEY_TEXT_BYTES if types[name] else 8
        piece, raw = raw[:size], raw[size:]
        key.append((name, piece.rstrip(b"\0").decode(errors="replace") if types[name] else np.frombuffer(piece)[0]))
    return tuple((name, value if isinstance(value, str) else float(value)) for name, value in key)


@dataclass(frozen=True)
class LedgerSeal:
    """The seal of a day: that of each table which has rows, and the digest of them and of the seal before it."""

    from_unix_s: float
    until_unix_s: float
    sealed_unix_s: float
    rows: int
    previous: str
    digest: str
    tables: Mapping[str, Mapping[str, Any]]

    @property
    def span(self) -> TimeRange:
        """The day."""
        return TimeRange(self.from_unix_s, self.until_unix_s)

    def of(self, table: SealedTable) -> TableSeal | None:
        """Return the seal of a table, None if it had no rows."""
        found = self.tables.get(table.name)
        return TableSeal(**found) if found else None


def make_seal(previous: str, span: TimeRange, sealed_unix_s: float, of_tables: Mapping[str, TableSeal]) -> LedgerSeal:
    """Return the seal of a day after the seal with that digest, "" for the first one."""
    described = {name: asdict(seal) for name, seal in sorted(of_tables.items())}
    rows, times = sum(seal.rows for seal in of_tables.values()), (span.from_unix_s, span.until_unix_s, sealed_unix_s)
    return LedgerSeal(*times, rows, previous, chain_digest(previous, times, described), described)


def chain_digest(previous: str, times: tuple[float, float, float], described: Mapping[str, Any]) -> str:
    """Return the digest of a seal."""
    text = json.dumps([previous, *map(float, times), described], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def broken_links(chain: Sequence[LedgerSeal]) -> Iterator[LedgerSeal]:
    """Yield the seals that do not follow from their own content and from the seal before them."""
    for number, seal in enumerate(chain):
        times = (seal.from_unix_s, seal.until_unix_s, seal.sealed_unix_s)
        before = chain[number - 1] if number else None
        follows = before is None or (seal.previous, seal.from_unix_s) == (before.digest, before.until_unix_s)
        content = (
            sum(table["rows"] for table in seal.tables.values()),
            chain_digest(seal.previous, times, seal.tables),
        )
        if not follows or (seal.rows, seal.digest) != content:
            yield seal


def read_seals(connection: Connection, span: TimeRange | None = None) -> list[LedgerSeal]:
    """Return the seals of the days that touch that time, of all days without one."""
    wanted = select(seals).order_by(seals.c.until_unix_s)
    if span:
        wanted = wanted.where(seals.c.until_unix_s > span.from_unix_s, seals.c.from_unix_s < span.until_unix_s)
    return [LedgerSeal(**row._asdict()) for row in connection.execute(wanted)]


def write_seal(connection: Connection, seal: LedgerSeal, settings: Mapping[str, str]) -> None:
    """Write a seal, and the settings that it was made with in place of any rows that its day should not have."""
    at = sealed_settings.c.at_unix_s
    connection.execute(delete(sealed_settings).where(at >= seal.from_unix_s, at < seal.until_unix_s))
    if settings:
        connection.execute(insert(sealed_settings).values(setting_rows(seal.from_unix_s, settings)))
    connection.execute(insert(seals), [vars(seal)])


def make_next_seal(
    connection: Connection,
    zone: tzinfo,
    now_unix_s: float,
    booked_unix_s: float | None,
    *,
    key: str,
    settings: Mapping[str, str],
) -> LedgerSeal | None:
    """Return the seal of the first day without one; None if it is not settled yet, or if no row is newer than it.

    `booked_unix_s` is the time of the last view of the scheduler from which jobs were booked, `settings` what is in
    force, by name; `write_seal` writes it.
    """
    last = connection.execute(
        select(seals.c.until_unix_s, seals.c.digest).order_by(seals.c.until_unix_s.desc()).limit(1)
    ).first()
    start_s = last.until_unix_s if last else _first_midnight(connection, zone, now_unix_s)
    settled_unix_s = min(now_unix_s, max(booked_unix_s or 0.0, now_unix_s - UNSEEN_S)) - SETTLED_S
    if start_s is None or start_s > settled_unix_s:
        return None
    span = TimeRange(*day_edges(TimeRange(start_s, start_s + 2 * DAY_S), zone)[:2])
    # After a jump of the clock the days since the last row are not over yet.
    if span.until_unix_s > settled_unix_s or span.until_unix_s > _last_row(connection):
        return None
    rows = {table.name: read_rows(connection, table, span) for table in SEALED_TABLES[:-1]}
    rows[sealed_settings.name] = _rows_of(SEALED_TABLES[-1], setting_rows(start_s, settings))
    found = ((table.name, seal_rows(table, rows[table.name], key)) for table in SEALED_TABLES)
    return make_seal(last.digest if last else "", span, now_unix_s, {name: seal for name, seal in found if seal})


def _last_row(connection: Connection) -> float:
    """Return the time of the last row that happened; prices and savings reach into the future."""
    times = [table.columns[0].table.c[table.at] for table in SEALED_TABLES if table.name not in ("prices", "savings")]
    return max(float(connection.execute(select(func.max(at))).scalar() or 0.0) for at in times)


def _first_midnight(connection: Connection, zone: tzinfo, now_unix_s: float) -> float | None:
    """Return the begin of the first day with rows, of the last 90 days; None without rows."""
    times = [table.columns[0].table.c[table.at] for table in SEALED_TABLES]
    oldest = [connection.execute(select(func.min(at)).where(at > now_unix_s - OLDEST_S)).scalar() for at in times]
    known = [float(each) for each in oldest if each is not None]
    first = datetime.fromtimestamp(min(known), zone) if known else None
    return first.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp() if first else None
