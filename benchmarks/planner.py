"""The day-ahead plan: all 22 orders of MultiSearch on a day of Curie, and the bound beside it."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.bars import Measured
from benchmarks.logs import trace_file
from offpeak.errors import OffpeakError
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.planner.problem import NO_LIMIT, NOTHING_RUNS, Problem, Rates
from offpeak.plugin.planner.verify import verify_plan
from offpeak_studies.profit_cooling.heuristics import multi_search
from offpeak_studies.profit_cooling.run import NODES, SCENARIOS, curie_jobs, facility_of, machine, work_of
from offpeak_studies.profit_cooling.upper_bound import upper_bound
from offpeak_studies.workloads.generate import lublin_jobs

JOBS = 1500
BAR_S, VERIFY_BAR_S = 5.0, 0.1


def planner_benchmarks() -> Iterator[Measured]:
    """Measure second runs: the first ones load the kernels."""
    jobs, data = _jobs()
    problem = _problem(jobs)
    for _ in range(2):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        plan = multi_search(problem, budget_of(3600))
        multi_s, multi_cpu_s = time.perf_counter() - begin, time.process_time() - begin_cpu
    begin = time.perf_counter()
    verdict = verify_plan(problem, plan)
    verify_s = time.perf_counter() - begin
    if verdict.violations:
        raise OffpeakError(f"the plan is wrong: {verdict.violations[0]}")
    yield Measured("MultiSearch, 22 orders, 1,500 jobs x 300 nodes", multi_s, "s", BAR_S, False, data)
    yield Measured("processor time of that", multi_cpu_s, "s", 2 * BAR_S, False, data)
    yield Measured("that plan verified", verify_s, "s", VERIFY_BAR_S, False, data)
    upper_bound(problem)
    begin = time.perf_counter()
    upper_bound(problem)
    yield Measured("upper bound of that day", time.perf_counter() - begin, "s", BAR_S, False, data)


def _jobs() -> tuple[Jobs, str]:
    log = trace_file("CEA-curie")
    if not log.exists():
        return lublin_jobs(JOBS, machine_size=9600, seed=1, load=1.5), "generated"
    return curie_jobs(log).take(np.arange(JOBS)), "Curie, a day's jobs"


def _problem(jobs: Jobs) -> Problem:
    work = work_of(jobs, seed=1)
    work = replace(work, release_s=(work.release_s - work.release_s.min()) % DAY_S)
    rates = Rates(np.array([0, DAY_S]), np.array([0.15]), np.array([26.0]), np.array([NO_LIMIT]))
    return Problem(work, machine(NODES), NOTHING_RUNS, rates, facility_of(SCENARIOS["air summer"], machine(NODES)))
