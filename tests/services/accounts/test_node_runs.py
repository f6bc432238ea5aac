"""When which node had a job, by the ledger."""

import math

import pytest
from account_jobs import job, view

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import JobState
from offpeak.services.accounts.ended_jobs import MEMORY_NAME, after_view, find_node_runs, job_watch_json


def booked(number: str, from_s: float, until_s: float, nodes: str) -> JobUse:
    return JobUse(number, from_s, until_s, "ann", "physics", "batch", nodes, None, None, "")


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_booked_running_and_unbooked_jobs_that_touch_the_time_are_found_by_node(ledger: Ledger) -> None:
    ledger.write_jobs([booked("1", 0, 100, "n1"), booked("2", 50, 300, "n[1-2]"), booked("3", 900, 950, "n3")])
    runs = job("4", start_s=250, hosts="n[2,4]")
    ended = job("5", JobState.ENDED, start_s=150, end_s=240, hosts="n5")
    odd = job("6", start_s=10, hosts="")
    ledger.remember(MEMORY_NAME, job_watch_json(after_view(None, view(290, [runs, ended, odd]))))
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        found = find_node_runs(connection, TimeRange(100, 900))
    assert found == {"n1": [(50, 300)], "n2": [(50, 300), (250, math.inf)], "n4": [(250, math.inf)], "n5": [(150, 240)]}


def test_a_ledger_that_knows_of_no_job_says_so(ledger: Ledger) -> None:
    with open_ledger(ledger.settings.url) as connection:
        assert find_node_runs(connection, TimeRange(0, 900)) == {}
