"""On a running slurmctld the agent learns waits from the moment at which each job could start."""

import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from slurm_fixtures import sleeping_slurm
from slurm_queue import submit

from offpeak.ledger.ledger import Ledger
from offpeak.plugin.scheduler.job import Job, join_array_tasks
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.predictors.recent_errors import ErrorsBySize
from offpeak.services.agent.wait_forecast import WaitForecast, WaitHistory
from offpeak.settings.agent import SlurmSettings
from offpeak.settings.ledger import LedgerSettings

FULL_S, BEGIN_S, RELEASE_S = 45, 15, 25
"""How long the nodes are full, when a job may begin, and when others are released."""
LAG_S = 8
"""The lag of slurmctld and of the views at most."""


class ForecastByNumber(WaitForecast):
    """Expects a wait that names the job."""

    def of_jobs(self, jobs: Iterable[Job], now_s: int) -> dict[str, int]:  # noqa: ARG002
        return {job.job_id: int(job.array_id or job.job_id) for job in jobs}


@pytest.mark.parametrize(
    "priority", [pytest.param("priority/basic", marks=pytest.mark.nightly), "priority/multifactor"]
)
def test_waits_count_from_the_moment_at_which_jobs_can_start(
    priority: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned_s: dict[str, float] = {}
    monkeypatch.setattr(ErrorsBySize, "add", lambda _, expected_s, wait_s: learned_s.update({str(expected_s): wait_s}))
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    with sleeping_slurm(priority) as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        scheduler, history = SlurmScheduler(SlurmSettings()), WaitHistory(ForecastByNumber(), ledger)

        def look_until(end_s: float) -> None:
            while time.time() < end_s:
                view = scheduler.view()
                history.observe(join_array_tasks(view.jobs), view.at_s)
                time.sleep(1)

        submit(cluster, "--exclusive", "--nodes=3", f"--wrap=sleep {FULL_S}")
        look_until(time.time() + 3)
        begin_s, wide = time.time(), ("--exclusive", "--nodes=3", "--wrap=true")
        first = submit(cluster, *wide)
        later = submit(cluster, f"--begin=now+{BEGIN_S}", *wide)
        released = [submit(cluster, "--hold", *wide), submit(cluster, *wide)]
        dependent = submit(cluster, f"--dependency=afterany:{first}", *wide)
        array, cancelled = submit(cluster, "--array=1-2", *wide), submit(cluster, *wide)
        look_until(begin_s + 5)
        cluster.run("scontrol", "hold", released[1])
        look_until(begin_s + RELEASE_S)
        cluster.run("scontrol", "release", ",".join(released))
        cluster.run("scancel", cancelled)
        look_until(begin_s + FULL_S + 30)
        jobs = scheduler.view().jobs
    ledger.close()
    starts_s = defaultdict(list)
    for job in jobs:
        starts_s[job.array_id or job.job_id].append(job.start_s or 0)
    since_s = {first: begin_s, array: begin_s, later: begin_s + BEGIN_S}
    since_s |= dict.fromkeys(released, begin_s + RELEASE_S)
    since_s[dependent] = min(starts_s[first])
    waits_s = {job: min(starts_s[job]) - at_s for job, at_s in since_s.items()}
    assert learned_s == {job: pytest.approx(wait_s, abs=LAG_S) for job, wait_s in waits_s.items()}
    assert min(waits_s[job] for job in (first, array)) > FULL_S - 10
