"""OLS as a capacity policy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from random_snapshots import snapshots

from offpeak.errors import BadInput
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.snapshot import QueuedJobs, Snapshot
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.online_simulation import OnlineSimulation, find_ols_units, make_ols_policy
from offpeak.settings.capacity import CapacitySettings

FLEET = Fleet(nodes=64, units_per_node=2, node_class=bundled_node_class("server"))


@pytest.mark.parametrize(
    ("argument", "period_s", "sla"), [("", 3600, 150.0), ("2h", 7200, 150.0), ("30min:50", 1800, 50.0)]
)
def test_period_and_sla(argument: str, period_s: int, sla: float) -> None:
    capacity = make_ols_policy(FLEET, CapacitySettings(sla=150.0), argument)
    assert capacity.rules.period_s == period_s
    assert capacity.decide == OnlineSimulation(sla)
    assert capacity.rules.raise_for_wide
    assert not capacity.rules.on_demand


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("soon", "capacity policy 'ols': "),
        ("0s", "capacity policy 'ols': the period is zero"),
        ("1h:much", "capacity policy 'ols': 'much' is not a slowdown"),
        ("1h:0.5", "no job has a slowdown of 0.5"),
    ],
)
def test_ols_rejects_invalid_arguments(argument: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_ols_policy(FLEET, CapacitySettings(), argument)


@given(snapshots())
def test_the_target_is_the_what_ifs_answer_in_nodes(snapshot: Snapshot) -> None:
    targets = OnlineSimulation(20.0)(snapshot)
    assert targets.awake * snapshot.units_per_node == find_ols_units(snapshot, 20.0).units
    assert targets.reserve == 0


@given(snapshots())
def test_jobs_that_wait_for_a_repair_decide_nothing(snapshot: Snapshot) -> None:
    queued = snapshot.queued
    wide = QueuedJobs(
        np.append(queued.size, snapshot.usable_units + 1),
        np.append(queued.submit_s, snapshot.now_s),
        np.append(queued.estimate_s, 3600),
    )
    assert OnlineSimulation(20.0)(replace(snapshot, queued=wide)) == OnlineSimulation(20.0)(snapshot)
