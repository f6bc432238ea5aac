"""Runs one experiment."""

from pathlib import Path

from offpeak.facility_file import facility_named
from offpeak.jobs import Jobs
from studies.profit_cooling.experiment import Experiment, Result
from studies.profit_cooling.jobs import DAYS, curie_jobs, work_of
from studies.profit_cooling.roll import Place, rolled
from studies.profit_cooling.scenario import MOST_W, NODE_CORES, NODES, SCENARIOS, machine


def run_on_log(experiment: Experiment, log: Path) -> Result:
    """Return what the experiment comes to on the paper's days and machine."""
    return run(experiment, curie_jobs(log), nodes=NODES, days=DAYS)


def run(experiment: Experiment, jobs: Jobs, *, nodes: int, days: int) -> Result:
    """Return what the experiment comes to with jobs that are submitted on so many days."""
    scenario = SCENARIOS[experiment.scenario]
    facility = facility_named(scenario.facility, full_power_w=nodes * NODE_CORES * MOST_W)
    place = Place(machine(nodes), facility, scenario)
    plans = list(rolled(work_of(jobs, experiment.seed), place, experiment.solver, experiment.search_s, days))
    it_j = sum(plan.it_j for plan in plans)
    return Result(
        profit=tuple(plan.profit for plan in plans[:days]),
        gap=tuple(plan.gap for plan in plans[:days] if plan.gap is not None),
        makespan_s=max(plan.last_end_s for plan in plans),
        pue=1 + sum(plan.cooling_j for plan in plans) / it_j if it_j else 1.0,
        seconds=sum(plan.seconds for plan in plans),
        plans=len(plans),
        violations=sum(len(plan.violations) for plan in plans),
    )
