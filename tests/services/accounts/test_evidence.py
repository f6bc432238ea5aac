"""Bundles of evidence: the same figures elsewhere, and every changed byte and row found."""

import io
import json
import secrets
import zipfile
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from benchmarks.evidence import BEGIN, KEY, seal_days, write_month
from offpeak.errors import BadInput
from offpeak.ledger.database import open_ledger, writing_engine
from offpeak.model.constants import DAY_S
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.evidence import MEMBERS, SUMS, make_bundle, pack
from offpeak.services.accounts.examination import Examination, Verdict, examine_bundle

DAYS, NODES, JOBS = 3, 4, 200
BEGIN_S = BEGIN.timestamp()
SPAN = TimeRange(BEGIN_S, BEGIN_S + DAYS * DAY_S)
SETTINGS = {
    "zone": "UTC",
    "tariff": "null",
    "offpeak": "0.1.0",
    "prices.decide_by": "price",
    "plan.revenues": "physics=0.08",
}


def bundle_of(url: str) -> bytes:
    with open_ledger(url) as connection:
        return make_bundle(connection, SPAN, UTC)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('site') / 'ledger.sqlite'}"
    write_month(url, NODES, JOBS, DAYS)
    assert len(seal_days(url, settings=SETTINGS)) == DAYS
    return url


@pytest.fixture(scope="module")
def bundle(url: str) -> bytes:
    return bundle_of(url)


@pytest.fixture
def examine(tmp_path: Path) -> Callable[[bytes], Examination]:
    def examined(content: bytes) -> Examination:
        (tmp_path / "bundle.zip").write_bytes(content)
        return examine_bundle(tmp_path / "bundle.zip")

    return examined


Examine = Callable[[bytes], Examination]


def members_of(bundle: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as opened:
        return {name: opened.read(name) for name in opened.namelist() if name != SUMS}


def with_rows(bundle: bytes, member: str, change: Callable[[pa.Table], pa.Table]) -> bytes:
    """Return a bundle with other rows, made again with right digests of its members, as a forger would."""
    members = members_of(bundle)
    file = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(members[member]))), file)
    return pack(members | {member: file.getvalue()})


def test_a_bundle_gives_the_same_figures(bundle: bytes, examine: Examine) -> None:
    found = examine(bundle)
    assert (found.changes, found.different, found.gaps) == ([], [], [])
    assert found.computed == found.printed
    assert {name.partition(" ")[0] for name in found.printed} == {"account", "node", "saving"}
    assert found.rows == DAYS * (24 + 96 * NODES + 2 * NODES + 1 + len(SETTINGS)) + JOBS
    settings = pq.read_table(io.BytesIO(members_of(bundle)["sealed_settings.parquet"])).to_pylist()
    assert {row["setting"]: row["value"] or row["public"] for row in settings} == SETTINGS


def test_an_anonymised_bundle_proves_the_same_figures(url: str, bundle: bytes, examine: Examine) -> None:
    with open_ledger(url) as connection:
        content = make_bundle(connection, SPAN, UTC, anonymise=True)
    found, named = examine(content), examine(bundle)
    assert (found.changes, found.different, found.is_anonymised, named.is_anonymised) == ([], [], True, False)
    assert (found.chain, found.rows) == (named.chain, named.rows)
    sums = [sorted(str(each) for each in one.computed.values()) for one in (found, named)]
    assert sums[0] == sums[1]
    members = members_of(content)
    for name in ("user1", "account01", "idle for 20 min", "physics=0.08", KEY):
        assert (name in texts_of(content), name in texts_of(bundle)) == (False, True)
    users = pq.read_table(io.BytesIO(members["jobs.parquet"]))["user"].to_pylist()
    of_names = pq.read_table(io.BytesIO(members_of(bundle)["jobs.parquet"]))["user"].to_pylist()
    assert len(set(zip(users, of_names, strict=True))) == len(set(users)) == len(set(of_names))
    swapped = with_rows(content, "jobs.parquet", lambda rows: rows.set_column(3, "user", rows["account"]))
    assert examine(swapped).changes


def texts_of(bundle: bytes) -> str:
    members = members_of(bundle)
    tables = [str(pq.read_table(io.BytesIO(members[name])).to_pydict()) for name in members if name != "manifest.json"]
    return "\n".join([members["manifest.json"].decode(), *tables])


def test_days_that_an_older_program_sealed_need_a_bundle_with_names(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'older.sqlite'}"
    write_month(url, NODES, JOBS, DAYS)
    with open_ledger(url) as connection, pytest.raises(BadInput, match="of this ledger are not sealed") as refused:
        make_bundle(connection, SPAN, UTC, anonymise=True)
    assert "leave out --anonymise" in refused.value.hint
    seal_days(url)
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE seals SET tables = replace(tables, '\"key\"', '\"no\"') WHERE rowid = 1"))
    engine.dispose()
    with open_ledger(url) as connection, pytest.raises(BadInput, match="until 2026-07-02 00:00 are not sealed"):
        make_bundle(connection, SPAN, UTC, anonymise=True)


def test_prices_say_since_when_they_were_known(bundle: bytes) -> None:
    prices = pq.read_table(io.BytesIO(members_of(bundle)["prices.parquet"])).to_pylist()
    assert [row["from_unix_s"] - row["known_unix_s"] for row in prices] == [40_000.0] * (24 * DAYS)


def test_postgresql_gives_the_same_rows_and_figures(bundle: bytes, postgres: object, examine: Examine) -> None:
    url = postgres.create(f"evidence_{secrets.token_hex(6)}")  # type: ignore[attr-defined]
    write_month(url, NODES, JOBS, DAYS)
    seal_days(url, settings=SETTINGS)
    found, other = examine(bundle_of(url)), examine(bundle)
    assert (found.changes, found.different, found.rows) == ([], [], other.rows)
    assert [seal.tables for seal in found.chain] == [seal.tables for seal in other.chain]


@pytest.mark.parametrize("member", MEMBERS)
def test_a_flipped_byte_of_each_member_is_found(member: str, bundle: bytes, examine: Examine) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle)) as opened:
        entry = opened.getinfo(member)
    place = bundle.index(opened_content(bundle, member), entry.header_offset) + entry.file_size // 2
    flipped = bytearray(bundle)
    flipped[place] ^= 1
    assert any(member in finding for finding in findings(examine, bytes(flipped)))


def findings(examine: Examine, content: bytes) -> list[str]:
    """Return the changes of a bundle, or why it is refused."""
    try:
        return examine(content).changes
    except BadInput as problem:
        return [str(problem)]


def opened_content(bundle: bytes, member: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(bundle)) as opened:
        return opened.read(member)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_changed_byte_is_found(bundle: bytes, examine: Examine, data: st.DataObject) -> None:
    # The headers of the members and the directory at the end are as likely as the content.
    place = data.draw(st.one_of(st.integers(0, len(bundle) - 1), st.integers(len(bundle) - 1500, len(bundle) - 1)))
    changed = bytearray(bundle)
    changed[place] ^= data.draw(st.integers(1, 255))
    assert findings(examine, bytes(changed))


@pytest.mark.parametrize("length", [0, 1, 100, -1, -30, -5000])
def test_a_truncated_bundle_is_refused(length: int, bundle: bytes, examine: Examine) -> None:
    with pytest.raises(BadInput, match="is damaged or no bundle") as refused:
        examine(bundle[:length])
    assert "copy it again" in refused.value.hint


@pytest.mark.parametrize("name", ["../../etc/passwd", "/tmp/x", "readme.txt"])
def test_an_extra_member_is_named_and_nothing_is_written(name: str, bundle: bytes, examine: Examine) -> None:
    file = io.BytesIO(bundle)
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr(name, b"x")
    assert examine(file.getvalue()).changes == [f"{name!r} is not a member of a bundle"]


def test_a_missing_member_is_named(bundle: bytes, examine: Examine) -> None:
    members = members_of(bundle)
    del members["jobs.parquet"]
    found = examine(pack(members))
    assert "jobs.parquet is missing" in found.changes
    assert [name for name in found.different if name.startswith("account ")] != []


def test_a_bundle_of_another_format_is_refused(bundle: bytes, examine: Examine) -> None:
    members = members_of(bundle)
    manifest = json.loads(members["manifest.json"]) | {"format": 9}
    with pytest.raises(BadInput, match="is of format 9, this offpeak reads 3") as refused:
        examine(pack(members | {"manifest.json": json.dumps(manifest).encode()}))
    assert "with the version of offpeak that made it" in refused.value.hint


def test_an_altered_row_is_named_and_its_figures_differ(bundle: bytes, examine: Examine) -> None:
    def dearer(jobs: pa.Table) -> pa.Table:
        cost = [value + (0.01 if place == 7 else 0) for place, value in enumerate(jobs["cost"].to_pylist())]
        return jobs.set_column(jobs.column_names.index("cost"), "cost", pa.array(cost))

    row = pq.read_table(io.BytesIO(members_of(bundle)["jobs.parquet"])).to_pylist()[7]
    found = examine(with_rows(bundle, "jobs.parquet", dearer))
    assert len(found.changes) == 1
    assert found.changes[0].startswith(f"jobs of 2026-07-01: {row['job']}, 2026-0")
    assert found.changes[0].endswith("was altered")
    assert found.different == [f"account {row['account']} EUR"]


def test_a_missing_row_is_named(bundle: bytes, examine: Examine) -> None:
    row = pq.read_table(io.BytesIO(members_of(bundle)["quarters.parquet"])).to_pylist()[5]
    found = examine(with_rows(bundle, "quarters.parquet", lambda rows: pa.concat_tables([rows[:5], rows[6:]])))
    assert found.changes == [
        f"quarters of 2026-07-01: 2026-07-01 00:15, {row['node']}, pdu1, snmp, {row['part']} was deleted"
    ]
    assert found.different == [f"node {row['node']}"]


def test_a_figure_that_was_altered_differs(bundle: bytes, examine: Examine) -> None:
    members = members_of(bundle)
    manifest = json.loads(members["manifest.json"])
    manifest["figures"]["saving sleep"]["cost"] += 0.01
    found = examine(pack(members | {"manifest.json": json.dumps(manifest, indent=1).encode()}))
    assert (found.verdict, found.changes, found.different) == (Verdict.FALSE, [], ["saving sleep"])


def test_an_altered_seal_is_named(bundle: bytes, examine: Examine) -> None:
    members = members_of(bundle)
    manifest = json.loads(members["manifest.json"])
    manifest["seals"][1]["sealed_unix_s"] += 1
    found = examine(pack(members | {"manifest.json": json.dumps(manifest, indent=1).encode()}))
    assert found.changes == ["the seal of 2026-07-02 was changed"]


HALF_S = BEGIN_S + DAYS * DAY_S / 2


@pytest.mark.parametrize(
    ("statements", "gaps", "kinds"),
    [
        (["DELETE FROM prices"], ["no prices for 100.0 %"], {"account", "node", "saving"}),
        (["DELETE FROM quarters"], ["no readings for 100.0 %"], {"account", "saving"}),
        (
            [f"DELETE FROM prices WHERE from_unix_s >= {HALF_S}", f"DELETE FROM quarters WHERE at_unix_s < {HALF_S}"],
            ["no prices for 50.0 % of the time, first at 2026-07-02 12:00", "no readings for 50.0 %"],
            {"account", "node", "saving"},
        ),
        (
            [f"UPDATE prices SET carbon_g_per_kwh = NULL WHERE from_unix_s >= {HALF_S}"],
            ["no carbon intensity for 50.0 % of the time, first at 2026-07-02 12:00"],
            {"account", "node", "saving"},
        ),
    ],
)
def test_what_is_missing_is_said_and_the_rest_holds(
    statements: list[str], gaps: list[str], kinds: set[str], tmp_path: Path, examine: Examine
) -> None:
    url = f"sqlite:///{tmp_path / 'gaps.sqlite'}"
    write_month(url, NODES, JOBS, DAYS)
    engine = writing_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()
    seal_days(url)
    found = examine(bundle_of(url))
    assert (found.changes, found.different) == ([], [])
    assert [any(gap in line for line in found.gaps) for gap in gaps] == [True] * len(gaps)
    assert len(found.gaps) == len(gaps)
    assert {name.partition(" ")[0] for name in found.computed} == kinds


def test_a_ledger_without_seals_and_rows_says_so(tmp_path: Path, examine: Examine) -> None:
    url = f"sqlite:///{tmp_path / 'empty.sqlite'}"
    write_month(url, 1, 0, 0)
    found = examine(bundle_of(url))
    assert (found.changes, found.printed, found.rows) == ([], {}, 0)
    assert [line.partition(" for ")[0] for line in found.gaps] == ["no prices", "no readings"]
    assert found.open_points[0].startswith("no seals for 100.0 % of the time, first at 2026-07-01 00:00")
    assert found.verdict is Verdict.NOT_PROVEN
