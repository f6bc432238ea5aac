"""`offpeak ledger bundle` and `offpeak verify` as an operator and an auditor run them."""

import json
import re
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


def printed_digest(offpeak: Offpeak, *arguments: str) -> str:
    """Return the digest that a month report or `offpeak verify` prints."""
    (digest,) = set(re.findall(r"digest ([0-9a-f]{64})", offpeak(*arguments).stdout))
    return digest


def test_a_bundle_is_verified_without_the_ledger(offpeak: Offpeak, url: str, tmp_path: Path) -> None:
    digest = printed_digest(offpeak, "report", "--month", MONTH, "--ledger", url)
    done = offpeak("ledger", "bundle", "july.zip", "--month", MONTH, "--ledger", url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "written: july.zip\n", "")
    assert stat.S_IMODE((tmp_path / "july.zip").stat().st_mode) == 0o600
    (tmp_path / "ledger.sqlite").unlink()
    done = offpeak("verify", "july.zip", "--digest", digest)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2026-07-01 00:00 to 2026-08-01 00:00, UTC: ")
    assert lines[1] == f"sealed: 31 days, the last by offpeak 0.1.0, digest {digest}"
    assert [line.split()[:3] for line in lines[4:7]] == [
        ["account", "40", "40"],
        ["node", "2", "2"],
        ["saving", "2", "2"],
    ]
    total = json.loads(ZipFile(tmp_path / "july.zip").read("manifest.json"))["figures"]["saving in all"]
    assert lines[6].split()[3:5] == [f"{total['energy_kwh']:,.2f}", f"{total['cost']:,.2f}"], "counted once"
    assert lines[-1] == "proven: rows and settings are those of the digest, and all figures are the same to the cent"
    assert len(lines) < 24
    done = offpeak("verify", "july.zip")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines()[:-2] == lines[:-1]
    assert done.stdout.splitlines()[-2].startswith("- no digest from outside: ")
    assert done.stdout.splitlines()[-1] == "NOT PROVEN: no difference, 1 open point"
    done = offpeak("verify", "july.zip", "--digest", "0" * 64)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "FALSE: 1 difference")


def test_a_row_that_was_deleted_in_the_ledger_is_named(offpeak: Offpeak, url: str) -> None:
    digest = printed_digest(offpeak, "verify", "--ledger", url)
    assert offpeak("verify", "--ledger", url).returncode == 3
    done = offpeak("verify", "--ledger", url, "--digest", digest)
    assert done.returncode == 0
    proven = "proven: no row from 2026-07-01 00:00 until 2026-08-01 00:00 was changed since it was sealed"
    assert done.stdout.splitlines()[-1] == proven
    change(url, "DELETE FROM jobs WHERE job = '1000007'")
    assert offpeak("ledger", "bundle", "july.zip", "--month", MONTH, "--ledger", url).returncode == 0
    for done in (
        offpeak("verify", "--ledger", url, "--digest", digest),
        offpeak("verify", "july.zip", "--digest", digest),
    ):
        assert (done.returncode, done.stderr) == (1, "")
        assert ": 1000007, 2026-07-" in done.stdout
        assert done.stdout.splitlines()[-2].endswith(" was deleted")
        assert done.stdout.splitlines()[-1] == "FALSE: 1 difference"


def test_a_saving_that_ends_after_the_last_seal_is_not_proven(offpeak: Offpeak, url: str) -> None:
    """It begins in the month, so its report has it, and no seal has."""
    digest = printed_digest(offpeak, "verify", "--ledger", url)
    change(url, "UPDATE savings SET until_unix_s = until_unix_s + 864000 WHERE from_unix_s = 1785456000")
    change(
        url,
        "INSERT INTO savings (from_unix_s, until_unix_s, baseline, baseline_energy_j, energy_j, currency, basis) "
        "SELECT from_unix_s + 1, until_unix_s + 8640000, baseline, 9e12, 0, currency, basis FROM savings LIMIT 1",
    )
    done = offpeak("verify", "--ledger", url, "--digest", digest)
    assert "- no seal is over 2 rows of savings, which begin on a sealed day" in done.stdout


def test_pruned_rows_are_no_change(offpeak: Offpeak, url: str) -> None:
    assert offpeak("ledger", "prune", "--ledger", url).returncode == 0
    done = offpeak("verify", "--ledger", url)
    assert done.stdout.splitlines()[-1] == "NOT PROVEN: no difference, 1 open point", done.stdout


def test_what_cannot_be_read_or_written_is_refused(offpeak: Offpeak, url: str, tmp_path: Path) -> None:
    (tmp_path / "broken.zip").write_bytes(b"PK")
    done = offpeak("verify", "broken.zip")
    assert (done.returncode, done.stdout) == (2, "")
    assert "broken.zip: is damaged or no bundle" in done.stderr
    assert "no such file" in offpeak("verify", "missing.zip").stderr
    assert "is not a digest" in offpeak("verify", "broken.zip", "--digest", "08f4").stderr
    done = offpeak("ledger", "bundle", "missing/july.zip", "--month", MONTH, "--ledger", url)
    assert done.returncode == 2
    assert "`mkdir -p missing` makes the folder" in done.stderr


def test_an_empty_month_says_what_is_missing(offpeak: Offpeak, url: str) -> None:
    assert offpeak("ledger", "bundle", "june.zip", "--month", "2026-06", "--ledger", url).returncode == 0
    done = offpeak("verify", "june.zip")
    assert done.returncode == 3
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
        assert (done.returncode, done.stdout.splitlines()[0][: len(start)]) == (3, start), done.stdout
        assert "FALSE" not in done.stdout
    report = offpeak("report", *of_ledger, "--config", str(config)).stdout
    assert "America/Los_Angeles" in report


def test_a_ledger_whose_first_or_last_seals_were_deleted_is_false(offpeak: Offpeak, url: str) -> None:
    digest = printed_digest(offpeak, "verify", "--ledger", url)
    change(url, "DELETE FROM seals WHERE until_unix_s = (SELECT max(until_unix_s) FROM seals)")
    done = offpeak("verify", "--ledger", url, "--digest", digest)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "FALSE: 1 difference")
    assert f"- no seal has the digest {digest}: " in done.stdout
    change(url, "DELETE FROM seals WHERE until_unix_s = (SELECT min(until_unix_s) FROM seals)")
    assert "- the seals before 2026-07-02 00:00 are missing" in offpeak("verify", "--ledger", url).stdout
    change(url, "DELETE FROM seals")
    done = offpeak("verify", "--ledger", url)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, "NOT PROVEN: no difference, 2 open points")
    report = offpeak("report", "--month", MONTH, "--ledger", url).stdout
    assert "Seals: no day of this month is sealed yet, so nothing can prove these figures." in report
