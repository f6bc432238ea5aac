"""Forged bundles: seals, settings, manifest, rows and times, removed, swapped or changed with all sums made again."""

import io
import json
import random
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from sqlalchemy import text
from test_evidence import members_of

from benchmarks.evidence import BEGIN, seal_days, write_month
from offpeak.errors import BadInput
from offpeak.ledger import seals
from offpeak.ledger.database import back_up_ledger, open_ledger, writing_engine
from offpeak.ledger.seals import LedgerSeal, chain_digest, read_seals
from offpeak.model.constants import DAY_S
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts import examination
from offpeak.services.accounts.evidence import make_bundle, pack
from offpeak.services.accounts.examination import Examination, Verdict, examine_bundle

CASES = 2 * settings.default.max_examples
DAYS, BEFORE = 12, 9
"""The bundle is of the last three days, so that it has the seals and the prices of the week before."""
SPAN = TimeRange(BEGIN.timestamp() + BEFORE * DAY_S, BEGIN.timestamp() + DAYS * DAY_S)
TARIFF = ["site.toml", 'currency = "EUR"\n[[energy]]\nprice = "spot"\n']
SETTINGS = {"tariff": json.dumps(TARIFF), "plan.outside_c": "15.0", "plan.revenues": "physics=0.08"}
TABLES = ("quarters", "states", "decisions", "prices", "jobs", "savings", "sealed_settings")

Bundle = tuple[dict[str, Any], dict[str, bytes]]
"""The manifest, and the other members."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('site') / 'ledger.sqlite'}"
    write_month(url, 2, 60, DAYS)
    seal_days(url, settings=SETTINGS)
    return url


def bundle_of(url: str) -> bytes:
    with open_ledger(url) as connection:
        return make_bundle(connection, SPAN, UTC)


def digest_of(url: str) -> str:
    with open_ledger(url) as connection:
        return read_seals(connection, SPAN)[-1].digest


@pytest.fixture(scope="module")
def bundle(url: str) -> bytes:
    return bundle_of(url)


def packed(forged: Bundle) -> bytes:
    manifest, members = forged
    return pack({"manifest.json": json.dumps(manifest, indent=1).encode(), **members})


@pytest.fixture
def examine(tmp_path: Path) -> Callable[..., Examination]:
    def examined(content: bytes, digest: str | None = None) -> Examination:
        (tmp_path / "bundle.zip").write_bytes(content)
        return examine_bundle(tmp_path / "bundle.zip", digest)

    return examined


Examine = Callable[..., Examination]


def remove_seals(forged: Bundle, chance: random.Random) -> str:
    """The first ones with the prices of their days, or others."""
    (manifest, members), chain = forged, forged[0]["seals"]
    start = chance.choice([0, 0, chance.randrange(len(chain))])
    end = chance.choice([len(chain), chance.randint(start + 1, len(chain))])
    if start == 0:
        prices = pq.read_table(io.BytesIO(members["prices.parquet"]))
        later = pa.compute.greater_equal(prices["from_unix_s"], chain[end - 1]["until_unix_s"])
        write_rows(members, "prices", prices.filter(later))
    manifest["seals"] = chain[:start] + chain[end:]
    return "seal"


def swap_seals(forged: Bundle, chance: random.Random) -> str:
    chain = forged[0]["seals"]
    one, other = chance.sample(range(len(chain)), 2)
    chain[one], chain[other] = chain[other], chain[one]
    return "seal"


def change_seal(forged: Bundle, chance: random.Random) -> str:
    seal = chance.choice(forged[0]["seals"])
    name = chance.choice([*seal, "tables", "tables"])
    if name == "tables":
        table = seal["tables"][chance.choice(list(seal["tables"]))]
        part = chance.choice(list(table))
        table[part] = other_value(table[part], chance)
    else:
        seal[name] = other_value(seal[name], chance)
    return "seal"


def change_seal_and_its_digest(forged: Bundle, chance: random.Random) -> str:
    """Not of the last seal: after it nothing follows, and only a digest from outside tells."""
    seal = chance.choice(forged[0]["seals"][:-1])
    table = chance.choice(list(seal["tables"]))
    seal["rows"] -= seal["tables"].pop(table)["rows"]
    times = tuple(seal[f"{name}_unix_s"] for name in ("from", "until", "sealed"))
    seal["digest"] = chain_digest(seal["previous"], times, seal["tables"])
    return "seal"


def remove_or_change_field(forged: Bundle, chance: random.Random) -> str:
    manifest, name = forged[0], chance.choice(["format", "zone", "seals", "key", "tariff", "figures"])
    if chance.random() < 0.4:
        del manifest[name]
    elif name == "format":
        manifest[name] = 2
    elif name == "zone":
        manifest[name] = chance.choice(["Europe/Berlin", "Asia/Kathmandu", "nowhere", "", 7])
    elif name == "seals":
        manifest[name] = chance.choice([[], None, {}, [1]])
    elif name == "key":
        manifest[name] = chance.choice([None, "", "00" * 32, "zz"])
        return "sealed_settings"
    elif name == "tariff":
        manifest[name] = chance.choice([None, ["site.toml", TARIFF[1] + "# free"], ["", "x"], [], 5])
    else:
        figure = chance.choice(list(manifest[name]))
        changed = {part: other_value(value, chance) for part, value in manifest[name][figure].items()}
        manifest[name][figure] = chance.choice([changed, {}, 5])
        return figure
    return name


def add_field(forged: Bundle, chance: random.Random) -> str:
    """Settings and versions are those of the older format, whose bundles prove less."""
    name = chance.choice(["settings", "versions", "note"])
    chance.choice([forged[0], chance.choice(forged[0]["seals"])])[name] = {"plan.outside_c": "1"}
    return name


def change_time(forged: Bundle, chance: random.Random) -> str:
    manifest, name = forged[0], chance.choice(["from_unix_s", "until_unix_s"])
    if chance.random() < 0.2:
        manifest["from_unix_s"], manifest["until_unix_s"] = manifest["until_unix_s"], manifest["from_unix_s"]
        return "from_unix_s"
    value = chance.choice(
        [None, "soon", float("nan"), 1e300, -1.0, manifest[name] + 1, 900.0 * chance.randint(-400, 400)]
    )
    shifts = isinstance(value, float) and abs(value) <= 900 * 400 and value % 900 == 0
    if not shifts:
        manifest[name] = value
        return name
    manifest[name] += value or 900
    # A shorter time of whole days is another bundle, with the seals of the other days removed: it would be true.
    return ""


def change_rows(forged: Bundle, chance: random.Random) -> str:
    members, name = forged[1], chance.choice(TABLES)
    whole = pq.read_table(io.BytesIO(members[f"{name}.parquet"]))
    rows = whole.to_pylist()
    place, how = chance.randrange(len(rows)), chance.choice(["remove", "add", "change", "change", "swap", "all"])
    if how == "remove":
        del rows[place]
    elif how == "add":
        rows.insert(place, dict(rows[place]))
    elif how == "all":
        rows = []
    else:
        column = chance.choice([each for each in rows[place] if len({row[each] for row in rows}) > 1])
        others = [row for row in rows if row[column] != rows[place][column]]
        if how == "swap":
            row = chance.choice(others)
            row[column], rows[place][column] = rows[place][column], row[column]
        else:
            rows[place][column] = other_value(rows[place][column], chance)
    if sorted(map(str, rows)) == sorted(map(str, whole.to_pylist())):
        # Two rows that differ in this value only have changed places.
        return change_rows(forged, chance)
    write_rows(members, name, pa.Table.from_pylist(rows, whole.schema))
    return name


def change_row_time(forged: Bundle, chance: random.Random) -> str:
    members, table = forged[1], chance.choice([each for each in seals.SEALED_TABLES if each.name in TABLES])
    rows = pq.read_table(io.BytesIO(members[f"{table.name}.parquet"])).to_pylist()
    row = chance.choice(rows)
    if chance.random() < 0.5:
        # Another row of a time that no seal of the bundle is over.
        rows.append(dict(row))
        row[table.at] -= 40 * DAY_S
    else:
        row[table.at] += chance.choice([-1, 1]) * chance.choice([1, 3600, DAY_S, 40 * DAY_S, 1e300])
    schema = pq.read_schema(io.BytesIO(members[f"{table.name}.parquet"]))
    write_rows(members, table.name, pa.Table.from_pylist(rows, schema))
    return table.name


def break_a_value(forged: Bundle, chance: random.Random) -> str:
    """Write a value with which no figure can be computed, or no time be printed."""
    broken = [("jobs", "started_unix_s", 1e300), ("savings", "from_unix_s", 1e300), ("prices", "currency", "USD")]
    members, (name, column, value) = forged[1], chance.choice(broken)
    rows = pq.read_table(io.BytesIO(members[f"{name}.parquet"]))
    values = rows[column].to_pylist()
    values[chance.randrange(len(values))] = value
    place = rows.column_names.index(column)
    write_rows(members, name, rows.set_column(place, column, pa.array(values)))
    return name


def cut_a_day(forged: Bundle, chance: random.Random) -> str:
    """The last day is left out, but for the seal that has the published digest."""
    manifest, members = forged
    manifest["until_unix_s"] -= DAY_S * chance.choice([1, 2])
    for table in seals.SEALED_TABLES:
        rows = pq.read_table(io.BytesIO(members[f"{table.name}.parquet"]))
        at = rows[table.at].to_numpy()
        left = at <= manifest["until_unix_s"] if table.to_end else at < manifest["until_unix_s"]
        write_rows(members, table.name, rows.filter(pa.array(left)))
    return "seal"


def change_member(forged: Bundle, chance: random.Random) -> str:
    members, name = forged[1], chance.choice(TABLES)
    how = chance.choice(["remove", "empty", "swap", "column"])
    if how == "remove":
        del members[f"{name}.parquet"]
    elif how == "empty":
        members[f"{name}.parquet"] = b""
    elif how == "swap":
        members[f"{name}.parquet"] = members["outcomes.parquet"]
    else:
        rows = pq.read_table(io.BytesIO(members[f"{name}.parquet"]))
        write_rows(members, name, rows.append_column("note", pa.array(["free"] * len(rows))))
    return name


def write_rows(members: dict[str, bytes], name: str, rows: pa.Table) -> None:
    file = io.BytesIO()
    pq.write_table(rows, file)
    members[f"{name}.parquet"] = file.getvalue()


def other_value(value: object, chance: random.Random) -> Any:
    if isinstance(value, str):
        return chance.choice([f"{value}0", value[:-1] if value else "x"])
    if isinstance(value, dict):
        return {}
    number = value if isinstance(value, int | float) else 0.0
    return chance.choice([number * 10 + 1, -number - 1, number + 0.01])


FORGERIES = (
    *(remove_seals, swap_seals, change_seal, change_seal_and_its_digest),
    *(remove_or_change_field, add_field, change_time),
    *(change_rows, change_row_time, break_a_value, cut_a_day, change_member),
)
BY_ROWS = (change_rows, change_row_time, break_a_value, cut_a_day)


def test_each_forgery_with_right_sums_is_found_and_named(
    bundle: bytes, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a digest from outside; the figures are those of the forged rows, so that only seals can tell."""
    members = members_of(bundle)
    printed = json.loads(members["manifest.json"])["figures"]
    monkeypatch.setattr(examination, "find_figures", lambda *_: printed)
    wrong = []
    for number in range(CASES):
        chance, forge = random.Random(number), FORGERIES[number % len(FORGERIES)]
        others = {name: content for name, content in members.items() if name != "manifest.json"}
        forged = (json.loads(members["manifest.json"]), others)
        name = forge(forged, chance)
        try:
            found = examine(packed(forged))
            refused, named = False, [*found.changes, *found.different, *found.open_points[:-1]]
        except BadInput as problem:
            refused, named = True, [str(problem)]
        if not any(name in each for each in named) or (forge in BY_ROWS and refused):
            wrong.append((number, forge.__name__, name, named))
    assert wrong == [], "\n".join(map(str, wrong))


def test_a_manifest_that_can_be_read_in_two_ways_is_found(bundle: bytes, examine: Examine) -> None:
    members = members_of(bundle)
    twice = members["manifest.json"].replace(b"{\n", b'{\n "zone": "Europe/Berlin",\n', 1)
    assert examine(pack({**members, "manifest.json": twice})).changes == [
        "manifest.json was changed: it is not written as offpeak writes it"
    ]


def rewritten(url: str, folder: Path) -> str:
    """Return a ledger in which a job cost ten times as much and all seals were made again."""
    copy = f"sqlite:///{folder / 'forged.sqlite'}"
    back_up_ledger(url, folder / "forged.sqlite")
    engine = writing_engine(copy)
    with engine.begin() as connection:
        ended = f"ended_unix_s >= {SPAN.from_unix_s}"
        job = connection.execute(text(f"SELECT job FROM jobs WHERE {ended} ORDER BY job LIMIT 1")).scalar_one()
        connection.execute(text(f"UPDATE jobs SET cost = 10 * cost WHERE job = '{job}'"))
        connection.execute(text("DELETE FROM seals"))
    engine.dispose()
    seal_days(copy, settings=SETTINGS)
    return copy


def test_only_a_digest_from_outside_tells_a_whole_forgery(
    url: str, bundle: bytes, examine: Examine, tmp_path: Path
) -> None:
    forged_url = rewritten(url, tmp_path)
    digest, forged = digest_of(url), bundle_of(forged_url)
    genuine = examine(bundle, digest)
    assert (genuine.verdict, genuine.changes, genuine.open_points) == (Verdict.PROVEN, [], [])
    alone = [examine(each) for each in (bundle, forged)]
    assert [found.verdict for found in alone] == [Verdict.NOT_PROVEN] * 2
    assert [found.changes + found.different for found in alone] == [[], []]
    assert [len(found.open_points) for found in alone] == [1, 1]
    assert alone[1].open_points[0].startswith("no digest from outside")
    found = examine(forged, digest)
    assert (found.verdict, found.open_points) == (Verdict.FALSE, [])
    assert found.changes[0].startswith(f"no seal has the digest {digest}")


def test_a_digest_of_an_earlier_day_leaves_the_later_ones_open(url: str, bundle: bytes, examine: Examine) -> None:
    with open_ledger(url) as connection:
        earlier = read_seals(connection, SPAN)[-2].digest
    found = examine(bundle, earlier)
    assert (found.verdict, found.changes) == (Verdict.NOT_PROVEN, [])
    assert found.open_points == ["the days from 2026-07-12 00:00 on were sealed after that digest"]


def test_a_bundle_without_seals_is_not_proven_and_contradicts_a_digest(
    url: str, examine: Examine, tmp_path: Path
) -> None:
    """A job costs ten times as much, all figures follow, and there is no seal that tells."""
    forged_url = rewritten(url, tmp_path)
    members = members_of(bundle_of(forged_url))
    manifest = json.loads(members["manifest.json"]) | {"seals": []}
    content = pack(members | {"manifest.json": json.dumps(manifest, indent=1).encode()})
    found = examine(content)
    assert (found.verdict, found.changes, found.different) == (Verdict.NOT_PROVEN, [], [])
    assert found.open_points[0].startswith("no seals for 100.0 % of the time")
    assert examine(content, digest_of(url)).verdict is Verdict.FALSE


def older(url: str) -> None:
    """Make all seals as an offpeak did that sealed no settings."""
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM sealed_settings"))
        chain, previous = read_seals(connection), ""
        connection.execute(text("DELETE FROM seals"))
        for seal in chain:
            tables = {name: table for name, table in seal.tables.items() if name != "sealed_settings"}
            rows, times = sum(table["rows"] for table in tables.values()), (*vars(seal).values(),)[:3]
            previous, before = chain_digest(previous, times, tables), previous
            seals.write_seal(connection, LedgerSeal(*times, rows, before, previous, tables), {})
    engine.dispose()


@pytest.mark.parametrize("form", [2, 3])
def test_seals_of_an_older_offpeak_prove_rows_and_no_settings(
    form: int, url: str, examine: Examine, tmp_path: Path
) -> None:
    copy = rewritten(url, tmp_path)
    older(copy)
    members = members_of(bundle_of(copy))
    manifest = json.loads(members["manifest.json"])
    if form == 2:
        del members["sealed_settings.parquet"]
        manifest |= {"format": 2, "versions": {"offpeak": "0.1.0"}, "settings": {"prices.decide_by": "price"}}
    found = examine(pack(members | {"manifest.json": json.dumps(manifest, indent=1).encode()}), digest_of(copy))
    assert (found.verdict, found.changes, found.different) == (Verdict.NOT_PROVEN, [], [])
    assert found.open_points == [
        "an older offpeak sealed 3 days, first 2026-07-10, without settings, tariff and time zone: "
        "nothing can prove these now"
    ]
    # The next days of this ledger are sealed with settings.
    engine = writing_engine(copy)
    with engine.begin() as connection:
        connection.execute(text(f"DELETE FROM seals WHERE until_unix_s > {SPAN.from_unix_s}"))
    engine.dispose()
    seal_days(copy)
    assert examine(bundle_of(copy), digest_of(copy)).verdict is Verdict.PROVEN


def test_sealed_settings_are_not_left_out_as_an_older_bundle(url: str, bundle: bytes, examine: Examine) -> None:
    """With another tariff, under which all figures are computed again."""
    members = members_of(bundle)
    del members["sealed_settings.parquet"]
    tariff = ["site.toml", f'{TARIFF[1]}[[demand]]\nprice = "1EUR/kW"\nper = "month"\n']
    older = {"format": 2, "versions": {"offpeak": "0.1.0"}, "settings": {}, "tariff": tariff}
    manifest = json.loads(members["manifest.json"]) | older
    for _ in range(2):
        found = examine(pack(members | {"manifest.json": json.dumps(manifest, indent=1).encode()}), digest_of(url))
        manifest["figures"] = found.computed
    assert (found.verdict, found.changes, found.different) == (
        Verdict.FALSE,
        ["sealed_settings.parquet is missing"],
        [],
    )


def test_a_time_in_part_of_a_sealed_day_or_in_another_zone_is_not_proven(url: str, examine: Examine) -> None:
    digest = digest_of(url)
    with open_ledger(url) as connection:
        later = TimeRange(SPAN.from_unix_s + 3600, SPAN.until_unix_s)
        parts = (make_bundle(connection, later, UTC), make_bundle(connection, SPAN, ZoneInfo("Europe/Berlin")))
    found = [examine(part, digest) for part in parts]
    assert [each.verdict for each in found] == [Verdict.NOT_PROVEN] * 2
    assert found[0].open_points == ["the time begins at 2026-07-10 01:00, within a day that is sealed as a whole"]
    assert found[1].open_points == [
        "the time zone is Europe/Berlin, that of the seals UTC: write the bundle with the settings of the agent"
    ]
