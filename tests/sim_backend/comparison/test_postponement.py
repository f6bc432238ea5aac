"""The default starvation bound on real logs: how much later than under plain EASY any job starts at the most."""

from pathlib import Path

import pytest

from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

STATED_S = 5 * 86_400
"""docs/science/ordering.md states it."""

POLICIES = ("easy", "greedy", "knapsack")


@pytest.mark.parametrize("log", ["KTH-SP2", "SDSC-SP2", "CTC-SP2", "SDSC-BLUE", "CEA-curie"])
def test_no_job_is_postponed_by_more_than_is_stated(shared: Path, log: str) -> None:
    settings = Settings()
    prepared = prepare(read_swf(shared / "data" / "traces" / f"{log}.swf.gz"), settings, start=None)
    comparison = compare(prepared.case, tuple(parse_policy(name, settings.scheduling) for name in POLICIES))
    worst_s = {outcome.policy: outcome.worst_postponement_s for outcome in comparison.outcomes}
    assert worst_s["easy"] == 0
    assert all(0 < worst_s[policy] <= STATED_S for policy in POLICIES[1:]), worst_s
