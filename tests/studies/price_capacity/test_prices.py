"""Prices laid on a log: missing prices are filled, with a note."""

from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadPrices
from studies.logs import StudyLog
from studies.price_capacity.run import laid_on, price_notes
from studies.price_capacity.study import digest_of

HOURS = 24 * 21


def price_file(folder: Path, missing: range) -> Path:
    file = folder / "prices_eur_per_mwh.csv"
    at = np.datetime64("2023-01-02T00:00") + np.arange(HOURS) * np.timedelta64(1, "h")
    rows = [f"{time}Z,{hour % 168}" for hour, time in enumerate(at) if hour not in missing]
    file.write_text("utc,price\n" + "\n".join(rows) + "\n")
    return file


def test_a_gap_is_filled_from_the_week_before_with_a_note(log: StudyLog, tmp_path: Path) -> None:
    file = price_file(tmp_path, range(200, 210))
    assert laid_on(log, file).laid.series.value.tolist() == [hour % 168 for hour in range(HOURS)]
    assert price_notes(log, file)[1] == "10 of 504 hours have no price: for them stands the hour of the week before"


def test_how_far_prices_spread_is_noted(log: StudyLog, tmp_path: Path) -> None:
    note = price_notes(log, price_file(tmp_path, range(0)))[0]
    assert note == "prices: prices_eur_per_mwh.csv, mean 83.50, standard deviation 48.50 EUR/MWh"


def test_prices_that_end_before_the_log_does_are_noted(log: StudyLog, tmp_path: Path) -> None:
    *_, note = price_notes(log, price_file(tmp_path, range(24 * 2, HOURS)))
    assert note.startswith("small: log without a date laid on 2023-01-02")
    assert note.endswith("prices end 2023-01-04, from there the last 2 days are repeated")


def test_prices_of_hours_are_too_few(log: StudyLog, tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match="less than a day of prices"):
        price_notes(log, price_file(tmp_path, range(5, HOURS)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match=r"absent\.csv: no such file"):
        digest_of(tmp_path / "absent.csv")
