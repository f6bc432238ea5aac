"""`offpeak ledger export`: readings by minute and by quarter-hour as Parquet, from SQLite and from PostgreSQL."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from offpeak.errors import BadInput, CannotWrite
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.settings.ledger import LedgerSettings
from offpeak.ui.ledger import records

BEGIN_S = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
HOUR_S = 3600
DAYS = ("2026-11-01", "2026-11-03")


@pytest.fixture
def settings(url: str, opened: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch) -> LedgerSettings:
    """A ledger with 26 hours of two meters, of which one is silent in the last hour."""
    monkeypatch.setenv("TZ", "UTC")
    ledger = opened(url)
    for hour in range(26):
        start_s = BEGIN_S + HOUR_S * hour
        watts = (100.0, 250.0 if hour < 25 else None)
        ledger.write_readings(
            [
                MeterReading(f"m{at}", "bmc", "total", start_s, start_s + HOUR_S, power_w, node=f"n{at}")
                for at, power_w in enumerate(watts)
            ]
        )
    ledger.close()
    return LedgerSettings(url=url)


@pytest.mark.parametrize("rows_at_once", [7, 100_000])
def test_each_day_is_a_file_whose_joules_are_those_of_the_ledger(
    settings: LedgerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(records, "ROWS_AT_ONCE", rows_at_once)
    records.export_means(settings, tmp_path / "out", DAYS)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"{table}-2026-11-0{day}.parquet" for table in ("minutes", "quarters") for day in (1, 2)]
    for table, length_s in (("minutes", 60), ("quarters", 900)):
        first, second = (pq.read_table(tmp_path / "out" / f"{table}-2026-11-0{day}.parquet") for day in (1, 2))
        assert first.num_rows == 2 * 24 * HOUR_S / length_s
        assert sum(first["energy_j"].to_pylist()) == pytest.approx(350.0 * 24 * HOUR_S)
        assert sum(second["energy_j"].to_pylist()) == pytest.approx(450.0 * HOUR_S)
        assert first["at_unix_s"].to_pylist() == sorted(first["at_unix_s"].to_pylist())
        assert set(zip(first["node"].to_pylist(), first["meter"].to_pylist(), strict=True)) == {
            ("n0", "m0"),
            ("n1", "m1"),
        }


def test_a_second_export_replaces_the_files_of_the_first(settings: LedgerSettings, tmp_path: Path) -> None:
    for _ in range(2):
        records.export_means(settings, tmp_path, ("2026-11-01", "2026-11-02"))
    assert pq.read_table(tmp_path / "quarters-2026-11-01.parquet").num_rows == 2 * 96


def test_a_time_without_readings_and_a_folder_that_cannot_be_made_are_named(
    settings: LedgerSettings, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="has no readings of that time"):
        records.export_means(settings, tmp_path / "out", ("2026-10-01", "2026-10-02"))
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="file: cannot be made"):
        records.export_means(settings, tmp_path / "file", DAYS)
