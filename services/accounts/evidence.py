"""The evidence of a time: a bundle with the sealed rows of the ledger, from which anybody computes its figures again.

A bundle is a zip file of `manifest.json`, one Parquet file a table and `SHA256SUMS`, stored without compression of its
own. `make_bundle` writes one with the figures of the reports; `examination` finds what it proves.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import tzinfo
from functools import partial
from io import BytesIO
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Connection

from offpeak.display import minute_text
from offpeak.errors import BadInput
from offpeak.ledger import seals
from offpeak.ledger.job_costs import account_uses
from offpeak.ledger.marks import read_memory
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.prices import LONGEST_PRICE_S
from offpeak.model.constants import J_PER_KWH
from offpeak.model.time_range import TimeRange, day_edges
from offpeak.model.zones import zone_text
from offpeak.prices.tariff_file import TariffSource, parse_source
from offpeak.services.accounts.account_of_savings import account_of
from offpeak.services.accounts.power_bill import read_demand

FORMAT, OLDER_FORMAT = 3, 2
MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
PRICES, SAVINGS, SETTINGS = "prices", "savings", "sealed_settings"
MEMBERS = (MANIFEST, *(f"{table.name}.parquet" for table in seals.SEALED_TABLES), SUMS)
EVER = TimeRange(-1e11, 1e11)

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
    found = {
        f"account {name_of(use.account)} {use.currency}".strip(): _figure(use.energy_j, use.cost, use.carbon_g)
        for use in account_uses(connection, span)
    }
    nodes = node_energy(connection, span, ("node",), zone)
    found |= {f"node {use.of[0]}": _figure(use.energy_j, use.cost, use.carbon_g) for use in nodes}
    for name in ("saving", "shadow"):
        saved = account_of(connection, span, is_shadow=name == "shadow", knows_booking=False)
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


def make_bundle(
    connection: Connection,
    span: TimeRange,
    zone: tzinfo,
    *,
    tariff: TariffSource | None = None,
    anonymise: bool = False,
) -> bytes:
    """Return the bundle of a time that begins and ends with a quarter-hour. Raises BadInput as the reports do.

    `tariff` counts unless the last day of that time is sealed with its tariff. `anonymise`: with pseudonyms of people.
    Raises BadInput if older seals in that time are over names.
    """
    if connection.dialect.name == "postgresql":
        # Figures and rows of one instant, as SQLite gives them: the agent goes on writing.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    before = TimeRange(span.from_unix_s - LONGEST_PRICE_S, span.until_unix_s)
    chain, key = seals.read_seals(connection, before), read_memory(connection, seals.KEY_NAME) or ""
    inside = [seal for seal in chain if seal.until_unix_s > span.from_unix_s]
    named = [seal for seal in inside if not all(each.get("key") for each in seal.tables.values())]
    if anonymise and (named or not key):
        until = f"until {minute_text(named[-1].until_unix_s, zone)}" if named else "of this ledger"
        hint = "leave out --anonymise: a bundle with names proves them"
        raise BadInput(f"the days {until} are not sealed with pseudonyms", hint=hint)
    # All rows of each sealed day, also of one that reaches over the time because it was sealed in another zone.
    spans = [span, *(seal.span for seal in inside)]
    sealed = TimeRange(min(each.from_unix_s for each in spans), max(each.until_unix_s for each in spans))
    of_prices = TimeRange(min([before.from_unix_s, *(seal.from_unix_s for seal in chain)]), sealed.until_unix_s)
    public = seals.read_public(connection, inside[-1].from_unix_s) if inside else {}
    tariff = json.loads(public["tariff"]) if "tariff" in public else tariff
    name_of = partial(seals.pseudonym, key=key) if anonymise else str
    manifest = {
        "format": FORMAT,
        "zone": zone_text(zone) or "UTC",
        "from_unix_s": span.from_unix_s,
        "until_unix_s": span.until_unix_s,
        "seals": [asdict(seal) for seal in chain],
        "key": None if anonymise else key,
        "tariff": tariff,
        "figures": find_figures(connection, span, zone, tariff, name_of),
    }
    members = {MANIFEST: json.dumps(manifest, indent=1).encode()}
    for table in seals.SEALED_TABLES:
        rows_in = of_prices if table.name == PRICES else sealed
        members[f"{table.name}.parquet"] = _parquet(connection, table, rows_in, zone, key if anonymise else "")
    return pack(members)


def _parquet(connection: Connection, table: seals.SealedTable, span: TimeRange, zone: tzinfo, key: str) -> bytes:
    if table.name == SAVINGS:
        # That of a day which goes on ends later.
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
