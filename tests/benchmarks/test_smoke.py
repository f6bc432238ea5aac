"""Benchmarks run on a tiny input and print plausible rows."""

import gzip
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
from study_tables import stored

from benchmarks import power_loop
from benchmarks.demo_slurm import price_fall_s, write_prices
from benchmarks.mixed_queue import mixed_queue, share_ordered
from benchmarks.modern_sites import TABLES
from benchmarks.off_nodes import FILE, OFF, book, read_days
from benchmarks.sample import make_sample
from benchmarks.score_tables import POWERS, power_row, scores_of
from benchmarks.very_large_site import very_large_site_benchmarks
from offpeak.model.constants import DAY_S
from offpeak.power.meters.plausibility import DrawBound
from offpeak.predictors.price_forecast import price_curve
from offpeak.predictors.site_sources import build_price_source
from offpeak.prices.peak import Peak, parse_peak_rule
from offpeak.settings.replay import FeedSettings, PriceSettings
from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES, SAMPLE_SACCT
from offpeak.ui.forecast.log_scores import POWER

CABINETS, MOST_NODES, SPIKE_W = 1, 60, 900.0


def very_large_site(monkeypatch: pytest.MonkeyPatch) -> bool:
    for name in ("NODES", "RUNNING", "PENDING", "NAMES"):
        monkeypatch.setattr(power_loop, name, getattr(power_loop, name))
    measured = list(very_large_site_benchmarks(CABINETS))
    return len(measured) == 5 and all(each.value > 0 for each in measured)


def mixed_windows(_: pytest.MonkeyPatch) -> bool:
    return share_ordered(mixed_queue(600, 150), 20, equal_requests_only=False) >= 0.9


def power_scores(_: pytest.MonkeyPatch) -> bool:
    rows = [power_row(name, result)[:-1] for name, result in scores_of(SAMPLE_LOG, POWER, POWERS[:2]).items()]
    return rows == [row[:-1] for row in stored("jobs/power")[1:3]]


@pytest.mark.parametrize("benchmark", [very_large_site, mixed_windows, power_scores])
def test_a_benchmark_runs(benchmark: Callable[[pytest.MonkeyPatch], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    assert benchmark(monkeypatch)


def test_the_bundled_sample_is_what_the_generators_make(tmp_path: Path) -> None:
    make_sample(tmp_path)
    for bundled in (SAMPLE_LOG, SAMPLE_SACCT, SAMPLE_PRICES):
        # Unpacked: builds of zlib differ in how they pack.
        assert gzip.decompress((tmp_path / bundled.name).read_bytes()) == gzip.decompress(bundled.read_bytes())


def test_the_agent_sees_the_price_of_the_demo_fall(tmp_path: Path) -> None:
    """The last two times fall at a midnight and shortly after one."""
    file = tmp_path / "prices_eur_per_mwh.csv"
    for begin_s in (1_800_000_001, 1_799_971_130, 1_799_971_190):
        fall_s = int(price_fall_s(begin_s))
        write_prices(file, fall_s)
        source, _ = build_price_source(FeedSettings(cache=tmp_path / str(begin_s)), PriceSettings(file=file))
        curve = price_curve(source, parse_peak_rule("day-mean", zone=UTC), UTC, now_s=begin_s, ahead_s=DAY_S)
        assert curve.peak_at(begin_s) is curve.peak_at(fall_s - 1) is Peak.ON_PEAK
        assert curve.peak_until_s(begin_s) == fall_s
        assert curve.peak_at(fall_s) is Peak.OFF_PEAK
        assert curve.peak_until_s(fall_s) >= fall_s + 3600


def test_speeds_of_capped_gpus(shared: Path) -> None:
    if not (shared / "data" / "modern").exists():
        pytest.skip("needs the data of modern machines")
    assert TABLES["caps"]() == stored("site-2026/caps")


def test_spikes_of_nodes_that_are_off_are_refused(shared: Path) -> None:
    file = shared / FILE.relative_to("../shared")
    if not file.exists():
        pytest.skip("needs the readings of Harvard's nodes")
    days = sorted(read_days(file, "supply"), key=lambda day: -float((day.power_w > SPIKE_W).sum()))[:MOST_NODES]
    checked = book(days, OFF["supply"])
    assert checked.refused == sum(int((day.power_w > SPIKE_W).sum()) for day in days)
    assert abs(checked.error) < 0.01
    assert abs(book(days, DrawBound()).error) < 0.01
    assert book(days, None).error > 0.1
