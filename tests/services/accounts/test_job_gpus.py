"""The GPUs of ended jobs: how long they were idle, what that cost, and what is not known."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from account_jobs import job
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.ledger.database import open_ledger
from offpeak.ledger.job_costs import gpu_uses
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobGpus, JobUse, Price
from offpeak.model.request import Chunk, Request
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.power.meters.gpu import GpuSample, gpu_readings
from offpeak.power.meters.port import MeterResult
from offpeak.services.accounts.ended_jobs import EndedJob
from offpeak.services.accounts.job_use import measure_job_gpus
from offpeak.services.accounts.metering import LatestReadings, make_meter_rows
from offpeak.settings.ledger import LedgerSettings

HOUR_S = 3600
NODE_GPUS = {"n1": 4, "n2": 4}


def ran(start_s: int, end_s: int, gpus: int, hosts: str = "n1", *, whole: bool = False, nodes: int = 1) -> Job:
    request = Request(("gpu",), (Chunk(nodes, gpus=gpus),))
    times = {"start_s": start_s, "end_s": end_s, "hosts": hosts, "nodes": nodes}
    return job("7", JobState.ENDED, request=request, whole_nodes=whole, **times)


def meter(
    ledger: Ledger,
    use_percent: Sequence[Sequence[float | None]],
    *,
    step_s: int = 60,
    power_w: float = 50.0,
    name: str = "n1",
    node: str = "n1",
) -> None:
    """Meter the GPUs of a node, whose utilisations from step to step these are; a busy one draws 300 W."""
    last: LatestReadings = {}
    # The last reading only ends the one before.
    for at, uses in enumerate([*use_percent, use_percent[-1]]):
        readings = [
            reading
            for gpu, use in enumerate(uses)
            for reading in gpu_readings(
                node,
                GpuSample(str(gpu), 300.0 if (use or 0) >= 1 else power_w, use),
                meter=name,
                at_unix_s=float(at * step_s),
            )
        ]
        last, rows = make_meter_rows(last, [MeterResult(name, "gpu", tuple(readings))], now_unix_s=0, longest_hold_s=99)
        ledger.write_readings(rows)


def price(ledger: Ledger, from_s: int, until_s: int, per_mwh: float, currency: str = "EUR") -> None:
    ledger.write_prices([Price(at, at + 900, per_mwh, currency, "x") for at in range(from_s, until_s, 900)])


def measured(ledger: Ledger, *jobs: Job) -> list[JobGpus]:
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        return measure_job_gpus(connection, [EndedJob(each, each.end_s or 0) for each in jobs], NODE_GPUS)


def test_a_whole_node_is_idle_by_its_readings_at_the_price_of_each_quarter_hour(ledger: Ledger) -> None:
    # GPU 0 works all the time, GPU 1 in the first half hour, GPU 2 never; GPU 3 is divided and reports no utilisation.
    meter(ledger, [[98, 45, 0, None]] * 30 + [[98, 0.9, 0, None]] * 30)
    price(ledger, 0, 1800, 100.0)
    price(ledger, 1800, HOUR_S, 20.0)
    (row,) = measured(ledger, ran(0, HOUR_S, 4))
    assert (row.allocated_s, row.idle_s, row.busy_s) == (4 * HOUR_S, 1.5 * HOUR_S, 1.5 * HOUR_S)
    assert row.idle_j == pytest.approx(50 * 1.5 * HOUR_S)
    assert (row.idle_cost, row.currency) == (pytest.approx(0.05 / 1000 * (0.5 * 100 + 20)), "EUR")
    # A job without a request of GPUs that has the node for itself keeps the others from its GPUs.
    assert measured(ledger, ran(0, HOUR_S, 0, whole=True))[0].allocated_s == 4 * HOUR_S


def test_of_a_shared_node_only_those_count_that_others_cannot_have(ledger: Ledger) -> None:
    meter(ledger, [[98, 0, 0, 0]] * 60)
    price(ledger, 0, HOUR_S, 100.0)
    one, two, three = measured(ledger, *(ran(0, HOUR_S, gpus) for gpus in (1, 2, 3)))
    assert (one.idle_s, one.busy_s) == (0.0, 0.0)
    assert one.idle_cost is None
    assert (two.idle_s, two.busy_s, two.idle_j) == (HOUR_S, 0.0, pytest.approx(50 * HOUR_S))
    assert (three.idle_s, three.busy_s) == (2 * HOUR_S, 0.0)


def test_time_without_readings_is_neither_idle_nor_busy(ledger: Ledger) -> None:
    # The exporter was away for half of the time, and n2 is not metered.
    meter(ledger, [[0, 0, 0, 0]] * 30)
    (row,) = measured(ledger, ran(0, HOUR_S, 4, "n[1-2]", nodes=2))
    assert (row.allocated_s, row.idle_s, row.busy_s) == (8 * HOUR_S, 4 * 1800.0, 0.0)
    assert row.idle_cost is None
    (away,) = measured(ledger, ran(HOUR_S, 2 * HOUR_S, 4, "n2"))
    assert (away.allocated_s, away.idle_s, away.busy_s, away.idle_cost) == (4 * HOUR_S, 0.0, 0.0, None)
    # The scheduler does not say how many GPUs these nodes have: the job has those of its request.
    (requested,) = measured(ledger, ran(0, HOUR_S, 2, "n[8-9]", nodes=2))
    assert requested.allocated_s == 2 * 2 * HOUR_S


def test_two_meters_of_a_node_are_not_added_up(ledger: Ledger) -> None:
    meter(ledger, [[0, 98, 0, 98]] * 60)
    meter(ledger, [[0, 98, 0, 98]] * 50, name="prometheus:9090")
    (row,) = measured(ledger, ran(0, HOUR_S, 4))
    assert (row.idle_s, row.busy_s) == (2 * HOUR_S, 2 * HOUR_S)


def test_jobs_without_gpus_have_no_row_and_prices_in_two_currencies_are_no_cost(ledger: Ledger) -> None:
    meter(ledger, [[0] * 4] * 60)
    price(ledger, 0, 1800, 100.0)
    price(ledger, 1800, HOUR_S, 100.0, "CHF")
    unclear = ran(0, HOUR_S, 4)._replace(request=None, request_problem="gres/shard")
    did_not_run = ran(HOUR_S, HOUR_S, 4)
    broken = ran(0, HOUR_S, 4, "n[1-")
    elsewhere = ran(0, HOUR_S, 0, "c1", whole=True)
    (row,) = measured(ledger, ran(0, HOUR_S, 0), unclear, did_not_run, broken, elsewhere, ran(0, HOUR_S, 4))
    assert (row.idle_s, row.idle_cost, row.currency) == (4 * HOUR_S, None, "")


@settings(max_examples=15)
@given(
    uses=st.lists(st.lists(st.sampled_from([0.0, 98.0, None]), min_size=4, max_size=4), min_size=4, max_size=20),
    its=st.sets(st.integers(0, 3), min_size=1),
)
def test_the_range_holds_what_was_whichever_gpus_the_job_had(uses: list[list[float | None]], its: set[int]) -> None:
    with TemporaryDirectory() as folder:
        ledger = Ledger(LedgerSettings(url=f"sqlite:///{Path(folder) / 'ledger.sqlite'}"))
        try:
            ledger.ready()
            meter(ledger, uses)
            (row,) = measured(ledger, ran(0, 60 * len(uses), len(its)))
        finally:
            ledger.close()
    idle_s, busy_s = (60 * sum(step[gpu] == use for step in uses for gpu in its) for use in (0.0, 98.0))
    assert row.idle_s <= idle_s + 1e-6
    assert row.busy_s <= busy_s + 1e-6
    if len(its) == 4:
        assert (row.idle_s, row.busy_s) == (pytest.approx(idle_s), pytest.approx(busy_s))


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_who_leaves_most_gpus_idle_comes_first(ledger: Ledger) -> None:
    for name, user, idle_s in (("1", "ann", 10.0), ("2", "bob", 70.0), ("3", "ann", 20.0), ("4", "eve", 900.0)):
        end_s = 100.0 if user != "eve" else 5000.0
        ledger.write_jobs([JobUse(name, 0.0, end_s, user, "physics", "gpu", "n1", 1.0, None, "")])
        ledger.write_job_gpus([JobGpus(name, 0.0, end_s, 100.0, idle_s, 5.0, idle_s, None, "")])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        found = gpu_uses(connection, TimeRange(0.0, 1000.0))
    assert [(use.user, use.jobs, use.allocated_s, use.idle_s, use.busy_s, use.idle_cost) for use in found] == [
        ("bob", 1, 100.0, 70.0, 5.0, None),
        ("ann", 2, 200.0, 30.0, 10.0, None),
    ]


def test_energy_without_a_price_is_not_beside_the_cost_of_the_rest(ledger: Ledger) -> None:
    for name, idle_j, cost in (("1", 9e9, None), ("2", 1e6, 0.5)):
        ledger.write_jobs([JobUse(name, 0.0, 100.0, "ann", "physics", "gpu", "n1", 1.0, None, "")])
        ledger.write_job_gpus([JobGpus(name, 0.0, 100.0, 100.0, 50.0, 5.0, idle_j, cost, "EUR")])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        found = gpu_uses(connection, TimeRange(0.0, 1000.0))
    assert {(use.currency, use.jobs, use.idle_j, use.idle_cost) for use in found} == {
        ("", 1, 9e9, None),
        ("EUR", 1, 1e6, 0.5),
    }
