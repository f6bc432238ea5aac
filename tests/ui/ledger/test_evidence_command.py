"""`offpeak ledger bundle` and `offpeak verify` as an operator and an auditor run them."""

import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import text

from benchmarks.evidence import MONTH, seal_days, write_month
from offpeak.ledger.database import writing_engine

Offpeak = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    return environment | {"TZ": "UTC"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    write_month(url, 2, 50)
    seal_days(url)
    return url


def change(url: str, statement: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_a_bundle_is_verified_without_the_ledger(offpeak: Offpeak, url: str, tmp_path: Path) -> None:
    done = offpeak("ledger", "bundle", "july.zip", "--month", MONTH, "--ledger", url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "written: july.zip\n", "")
    assert stat.S_IMODE((tmp_path / "july.zip").stat().st_mode) == 0o600
    (tmp_path / "ledger.sqlite").unlink()
    done = offpeak("verify", "july.zip")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2026-07-01 00:00 to 2026-08-01 00:00, UTC: made by offpeak ")
    assert lines[1].startswith("sealed: 31 days, digest of the last ")
    assert [line.split()[:3] for line in lines[4:7]] == [
        ["account", "40", "40"],
        ["node", "2", "2"],
        ["saving", "2", "2"],
    ]
    total = json.loads(ZipFile(tmp_path / "july.zip").read("manifest.json"))["figures"]["saving in all"]
    assert lines[6].split()[3:5] == [f"{total['energy_kwh']:,.2f}", f"{total['cost']:,.2f}"], "counted once"
    assert lines[-1] == "verified: no row was changed, and all figures are the same to the cent"
    assert len(lines) < 24


def test_a_row_that_was_deleted_in_the_ledger_is_named(offpeak: Offpeak, url: str) -> None:
    done = offpeak("verify", "--ledger", url)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "verified: no row was changed since it was sealed"
    change(url, "DELETE FROM jobs WHERE job = '1000007'")
    assert offpeak("ledger", "bundle", "july.zip", "--month", MONTH, "--ledger", url).returncode == 0
    for done in (offpeak("verify", "--ledger", url), offpeak("verify", "july.zip")):
        assert (done.returncode, done.stderr) == (1, "")
        assert ": 1000007, 2026-07-" in done.stdout
        assert done.stdout.splitlines()[-2].endswith(" was deleted")
        assert done.stdout.splitlines()[-1] == "NOT VERIFIED: 1 difference"


def test_pruned_rows_are_no_change(offpeak: Offpeak, url: str) -> None:
    assert offpeak("ledger", "prune", "--ledger", url).returncode == 0
    done = offpeak("verify", "--ledger", url)
    assert done.returncode == 0, done.stdout


def test_what_cannot_be_read_or_written_is_refused(offpeak: Offpeak, url: str, tmp_path: Path) -> None:
    (tmp_path / "broken.zip").write_bytes(b"PK")
    done = offpeak("verify", "broken.zip")
    assert (done.returncode, done.stdout) == (2, "")
    assert "broken.zip: is damaged or no bundle" in done.stderr
    assert "no such file" in offpeak("verify", "missing.zip").stderr
    done = offpeak("ledger", "bundle", "missing/july.zip", "--month", MONTH, "--ledger", url)
    assert done.returncode == 2
    assert "`mkdir -p missing` makes the folder" in done.stderr


def test_an_empty_month_says_what_is_missing(offpeak: Offpeak, url: str) -> None:
    assert offpeak("ledger", "bundle", "june.zip", "--month", "2026-06", "--ledger", url).returncode == 0
    done = offpeak("verify", "june.zip")
    assert done.returncode == 0
    for what in ("prices", "readings", "seals"):
        assert f"- no {what} for 100.0 % of the time, first at 2026-06-01 00:00" in done.stdout


def test_a_month_is_that_of_the_market_where_the_machine_has_another_zone(offpeak: Offpeak, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'market.sqlite'}"
    write_month(url, 2, 50, days=33)
    seal_days(url, ZoneInfo("America/Los_Angeles"))
    config = tmp_path / "market.toml"
    config.write_text('[feeds]\nzone = "CAISO/TH_NP15_GEN-APND"\n')
    of_ledger = ("--month", MONTH, "--ledger", url)
    assert offpeak("ledger", "bundle", "july.zip", *of_ledger, "--config", str(config)).returncode == 0
    # Without its settings, the month is that of the machine: days of the market reach over its ends.
    assert offpeak("ledger", "bundle", "utc.zip", *of_ledger).returncode == 0
    for bundle, start in (
        ("july.zip", "2026-07-01 00:00 to 2026-08-01 00:00, America/Los_Angeles"),
        ("utc.zip", "2026-07-01 00:00"),
    ):
        done = offpeak("verify", bundle)
        assert (done.returncode, done.stdout.splitlines()[0][: len(start)]) == (0, start), done.stdout
    report = offpeak("report", *of_ledger, "--config", str(config)).stdout
    assert "America/Los_Angeles" in report
