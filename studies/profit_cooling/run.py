"""Runs one experiment."""

from pathlib import Path

from offpeak.model.jobs import Jobs
from studies.profit_cooling.experiment import Experiment, Result
from studies.profit_cooling.jobs import DAYS, curie_jobs, work_of
from studies.profit_cooling.roll import Place, rolled
from studies.profit_cooling.scenario import NODES, SCENARIOS, machine


def run_on_log(experiment: Experiment, log: Path) -> Result:
    """Return what the experiment comes to on the paper's days and machine."""
    return run(experiment, curie_jobs(log), nodes=NODES, days=DAYS)


def run(experiment: Experiment, jobs: Jobs, *, nodes: int, days: int) -> Result:
    """Return what the experiment comes to with jobs that are submitted on so many days."""
    place = Place(machine(nodes), SCENARIOS[experiment.scenario])
    plans = list(rolled(work_of(jobs, experiment.seed), place, experiment.solver, experiment.search_s, days))
    it_j = sum(plan.it_j for plan in plans)
    return Result(
        profit=tuple(plan.profit for plan in plans[:days]),
        gap=tuple(plan.gap for plan in plans[:days] if plan.gap is not None),
        makespan_s=max(plan.last_end_s for plan in plans),
        pue=1 + sum(plan.cooling_j for plan in plans) / it_j if it_j else 1.0,
        seconds=sum(plan.planned.seconds for plan in plans),
        search_s=sum(plan.planned.search_s for plan in plans),
        own=sum(plan.planned.is_own for plan in plans),
        plans=len(plans),
        violations=sum(len(plan.violations) for plan in plans),
        notes=tuple(plan.planned.plan.note for plan in plans if plan.planned.plan.note),
    )
