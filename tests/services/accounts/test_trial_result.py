"""A trial measured from the ledger: readings, jobs, temperature, prices and booked savings of eight weeks."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from sqlalchemy import Table, delete, insert, literal, select, update

from offpeak.ledger.database import add_partitions, open_ledger, writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, Price, SavingRecord
from offpeak.ledger.tables import jobs, prices, quarters, series
from offpeak.model.constants import HOUR_S
from offpeak.model.step_series import Series
from offpeak.services.accounts.trials import (
    NOT_MEASURED,
    NOT_OBEYED,
    NOT_PRICED,
    RESULTS,
    STORED_RESULTS,
    TrialInputs,
    TrialResult,
    draw_blocks,
    measure_trial,
    trial_results,
)
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings

BERLIN = ZoneInfo("Europe/Berlin")
FIRST = date(2026, 10, 5)
"""The clocks go back in the third week."""
NODES = ("n1", "n2")
IDLE_W = 400.0


class TrialSite:
    """Eight weeks of two nodes whose power follows load and temperature, and of a lever that saves a tenth."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        settings = AgentSettings(trial="winter", trial_lever="both")
        self.blocks = self.ledger.draw_trial(draw_blocks(settings, "x", first=FIRST, zone=BERLIN, drawn_unix_s=1.0))
        self.days = [block for block in self.blocks if block.lever == "sleep"]
        chance, count = np.random.default_rng(5), len(self.days)
        cores, outside_c = chance.integers(100, 1000, count), chance.normal(5, 5, count)
        logs = 6 + 0.0003 * cores + 0.01 * outside_c + chance.normal(0, 0.01, count)
        self.power_w = np.exp(logs) * np.where([day.is_on for day in self.days], 0.9, 1.0)
        self.write_power()
        begins = [int(day.from_unix_s) for day in self.days]
        self.outside = Series(np.array(begins, np.int64), int(self.days[-1].until_unix_s), outside_c, "degC", "test")
        self.ledger.write_jobs(
            JobUse(f"{at}", at, day.until_unix_s, "ann", "a", "batch", "n1", 1.0, None, "", cpus=int(cpus))
            for at, day, cpus in zip(begins, self.days, cores, strict=True)
        )
        hours = range(begins[0], int(self.days[-1].until_unix_s), int(HOUR_S))
        self.ledger.write_prices(Price(at, at + HOUR_S, 50.0 + at // HOUR_S % 7, "EUR", "test") for at in hours)
        self.ledger.write_savings(
            SavingRecord(day.from_unix_s, day.until_unix_s, "all nodes on", 2e7, None, 1e7, None, "")
            for day in self.days
            if day.is_on
        )
        assert self.ledger.settle()
        obeyed_s = {day.from_unix_s: day.until_unix_s - day.from_unix_s for day in self.days}
        self.inputs = TrialInputs(self.days[-1].until_unix_s, BERLIN, obeyed_s, self.outside)

    def write_power(self) -> None:
        names = ("meter", "way", "part", "node")
        self.change(insert(series).values([dict(zip(names, ("bmc", "dcmi", "", node), strict=True)) for node in NODES]))
        rows = [
            {"at_unix_s": at_s, "series": number, "covered_s": 900.0, "energy_j": 900 * power_w, "without_value": 0}
            for day, power_w in zip(self.days, self.power_w, strict=True)
            for at_s in range(int(day.from_unix_s), int(day.until_unix_s), 900)
            for number in (1, 2)
        ]
        with writing_engine(self.ledger.settings.url).begin() as connection:
            add_partitions(connection, quarters.name, (row["at_unix_s"] for row in rows))
            connection.execute(insert(quarters), rows)

    def change(self, statement: object) -> None:
        with writing_engine(self.ledger.settings.url).begin() as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def measure(self, **inputs: object) -> dict[str, TrialResult]:
        with open_ledger(self.ledger.settings.url) as connection:
            results = measure_trial(connection, self.blocks, replace(self.inputs, **inputs))  # type: ignore[arg-type]
        return {result.lever: result for result in results}


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> TrialSite:
    return TrialSite(tmp_path_factory.mktemp("trial"))


def test_the_saving_is_measured_and_the_other_lever_does_nothing(shared_site: TrialSite) -> None:
    results = shared_site.measure()
    sleep, order = results["sleep"], results["order"]
    assert sleep.effect is not None
    assert order.effect is not None
    assert sleep.effect.low_percent < 10 < sleep.effect.high_percent
    assert sleep.effect.high_percent - sleep.effect.low_percent < 2
    assert sleep.effect.adjusted_for == ("load", "outside temperature", "day of the week", "lever order")
    assert (sleep.blocks, sleep.used, sleep.excluded) == (56, 56, {})
    on_j = [
        2 * watts * (day.until_unix_s - day.from_unix_s)
        for day, watts in zip(shared_site.days, shared_site.power_w, strict=True)
        if day.is_on
    ]
    saved_j = 1e7 * len(on_j)
    assert sleep.modelled_percent == pytest.approx(100 * saved_j / (saved_j + sum(on_j)))
    assert order.modelled_percent is None
    assert abs(order.effect.saving_percent) < 1
    assert sleep.text == (
        f"measured by on/off days: {sleep.effect.saving_percent:.1f} ({sleep.effect.low_percent:.1f} to "
        f"{sleep.effect.high_percent:.1f}) % of energy, 56 of 56 blocks, adjusted for load, outside temperature, "
        f"day of the week, lever order; by the model {sleep.modelled_percent:.1f} %"
    )


def test_days_are_left_out_with_the_reason(shared_site: TrialSite) -> None:
    days = shared_site.days
    idle = {**shared_site.inputs.obeyed_s, days[3].from_unix_s: 20 * HOUR_S}
    result = shared_site.measure(obeyed_s=idle)["sleep"]
    assert (result.used, result.excluded) == (55, {NOT_OBEYED: 1})
    nothing = shared_site.measure(obeyed_s={})["sleep"]
    assert (nothing.used, nothing.effect, nothing.excluded) == (0, None, {NOT_OBEYED: 56})
    assert nothing.text == "not measured yet, 0 of 56 blocks: 0 on and 0 off: a result needs 7 of each"


def test_a_result_in_the_middle_of_the_trial_counts_the_days_that_are_over(shared_site: TrialSite) -> None:
    result = shared_site.measure(now_unix_s=shared_site.days[29].until_unix_s - 1)["sleep"]
    assert (result.blocks, result.used) == (29, 29)
    with open_ledger(shared_site.ledger.settings.url) as connection:
        inputs = replace(shared_site.inputs, now_unix_s=shared_site.days[0].until_unix_s - 1)
        assert measure_trial(connection, shared_site.blocks, inputs) == ()


def test_without_temperature_the_result_says_so(shared_site: TrialSite) -> None:
    result = shared_site.measure(outside=None)["sleep"]
    assert ", not for weather" in result.text


def test_missing_readings_prices_and_cores_are_not_guessed(tmp_path: Path) -> None:
    site = TrialSite(tmp_path)
    first, second = site.days[0], site.days[1]

    def within(table: Table, column: str, day: object) -> object:
        at = table.c[column]
        return (at >= day.from_unix_s) & (at < day.until_unix_s)  # type: ignore[attr-defined]

    # A meter fails for half of a day, prices for the whole of another, and an older program booked one job.
    half = quarters.c.at_unix_s < first.from_unix_s + 12 * HOUR_S
    site.change(delete(quarters).where(within(quarters, "at_unix_s", first), half, quarters.c.series == 1))
    site.change(delete(prices).where(within(prices, "from_unix_s", second)))
    site.change(update(jobs).where(jobs.c.job == f"{int(first.from_unix_s)}").values(cpus=None))
    results = site.measure()
    assert results["sleep"].excluded == {NOT_MEASURED: 1}
    assert results["order"].excluded == {NOT_MEASURED: 1, NOT_PRICED: 1}
    assert results["sleep"].effect is not None
    assert "load" not in results["sleep"].effect.adjusted_for


def test_readers_get_the_results_that_the_agent_stored(shared_site: TrialSite) -> None:
    results = tuple(shared_site.measure().values())
    shared_site.ledger.remember(f"{RESULTS}winter", STORED_RESULTS.dump_json(results).decode())
    shared_site.ledger.settle()
    with open_ledger(shared_site.ledger.settings.url) as connection:
        assert trial_results(connection) == results


def test_a_site_without_meters_jobs_and_prices_has_a_result_with_the_reason(tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    settings = AgentSettings(trial="bare", trial_lever="both", trial_days=14, trial_block="half-day")
    blocks = ledger.draw_trial(draw_blocks(settings, "x", first=FIRST, zone=BERLIN, drawn_unix_s=1.0))
    obeyed_s = {block.from_unix_s: block.until_unix_s - block.from_unix_s for block in blocks}
    with open_ledger(ledger.settings.url) as connection:
        assert trial_results(connection) == ()
        results = measure_trial(connection, blocks, TrialInputs(blocks[-1].until_unix_s, BERLIN, obeyed_s))
    assert [(each.lever, each.blocks, each.excluded) for each in results] == [
        ("order", 28, {NOT_MEASURED: 28}),
        ("sleep", 28, {NOT_MEASURED: 28}),
    ]
    ledger.close()


def test_partitions_are_pooled_each_measured_by_its_own_nodes_and_jobs(tmp_path: Path) -> None:
    site = TrialSite(tmp_path)
    settings = AgentSettings(trial="parts", trial_partitions=("batch", "gpu"))
    blocks = site.ledger.draw_trial(draw_blocks(settings, "x", first=FIRST, zone=BERLIN, drawn_unix_s=2.0))
    of_batch = {block.from_unix_s: block.is_on for block in blocks if block.partition == "batch"}
    of_gpu = {block.from_unix_s: block.is_on for block in blocks if block.partition == "gpu"}
    # The nodes slept on days of the other trial; now n1 does on those of batch, and n2, five times as large, of gpu.
    for day, power_w in zip(
        site.days, site.power_w / np.where([day.is_on for day in site.days], 0.9, 1.0), strict=True
    ):
        within = (quarters.c.at_unix_s >= day.from_unix_s) & (quarters.c.at_unix_s < day.until_unix_s)
        for number, is_on, size in ((1, of_batch, 1.0), (2, of_gpu, 5.0)):
            energy_j = 900 * power_w * size * (0.9 if is_on[day.from_unix_s] else 1.0)
            site.change(update(quarters).where(within, quarters.c.series == number).values(energy_j=energy_j))
    changed = {"job": literal("g") + jobs.c.job, "partition": literal("gpu")}
    columns = [changed.get(column.name, column) for column in jobs.columns]
    site.change(insert(jobs).from_select(list(jobs.columns), select(*columns)))
    nodes_of = {"batch": frozenset({"n1", "n9"}), "gpu": frozenset({"n2"})}
    with open_ledger(site.ledger.settings.url) as connection:
        (result,) = measure_trial(connection, blocks, replace(site.inputs, nodes_of=nodes_of))
        (unknown,) = measure_trial(connection, blocks, site.inputs)
    assert (result.blocks, result.used, result.partitions, result.modelled_percent) == (112, 112, 2, None)
    assert result.effect is not None
    assert result.effect.low_percent < 10 < result.effect.high_percent
    assert result.effect.high_percent - result.effect.low_percent < 4
    assert "% of energy (mean of 2 partitions), 112 of 112 blocks, adjusted for partition, load" in result.text
    assert (unknown.used, unknown.excluded) == (0, {NOT_MEASURED: 112})


def test_prices_in_two_currencies_give_the_reason(tmp_path: Path) -> None:
    site = TrialSite(tmp_path)
    site.ledger.write_prices([Price(site.days[5].from_unix_s + 0.5, site.days[5].until_unix_s, 9.0, "USD", "test")])
    site.ledger.settle()
    assert "EUR and USD" in site.measure()["sleep"].text
