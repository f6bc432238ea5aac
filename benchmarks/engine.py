"""The engine alone: jobs per second with caches warm, on one core."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.bars import Measured
from benchmarks.logs import price_file, rebuilt_logs
from offpeak.model.job_power import default_power_model, node_power_w
from offpeak.model.jobs import Jobs, Trace
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import peak_times, prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine, guessed_end_s, log_span
from offpeak.sim_backend.comparison.compare import meters_of, usage_of
from offpeak.sim_backend.comparison.outcome import charges_of
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import parse_policy

ROUNDS = 15
HOURLY = PriceSettings(file=price_file())
EVERY_30_S = replace(SchedulingSettings(), period_s=30)


def engine_benchmarks() -> Iterator[Measured]:
    """Measure EASY with accounting on five logs, and the window policies on the largest of the small machines."""
    logs, data = rebuilt_logs()
    cases = {name: case_of(jobs, size, HOURLY) for name, (jobs, size) in logs.items()}
    rates = {name: jobs_per_s(case, "easy", SchedulingSettings()) for name, case in cases.items()}
    for name, rate in rates.items():
        yield Measured(f"EASY with energy and cost, {name}", rate / 1e6, "million jobs/s", 0.0, True, data)
    mean = math.exp(sum(math.log(rate) for rate in rates.values()) / len(rates))
    yield Measured("EASY with energy and cost, geometric mean", mean / 1e6, "million jobs/s", 3.0, True, data)
    name = list(cases)[3]
    for policy, bar in (("greedy", 2.0), ("knapsack", 0.8)):
        rate = jobs_per_s(cases[name], policy, EVERY_30_S)
        yield Measured(f"{policy}, window 20, every 30 s, {name}", rate / 1e6, "million jobs/s", bar, True, data)
    for discipline in ("fcfs", "first-fit", "best-fit", "conservative"):
        for log in list(cases)[:4:3]:
            rate = jobs_per_s(cases[log], discipline, SchedulingSettings())
            yield Measured(f"{discipline}, {log}", rate / 1e6, "million jobs/s", 0.0, True, data)


def case_of(jobs: Jobs, size: int, prices: PriceSettings) -> ReplayCase:
    """Return the case of a log: its power as measured, else assumed, at those prices."""
    log = log_span(Trace("", jobs, size, size, None, None), jobs)
    power_w = node_power_w(default_power_model(jobs), jobs, 1)
    return ReplayCase(jobs, power_w, ReplayMachine(size, 75.0), prices_of(log, prices, None), None)


def jobs_per_s(case: ReplayCase, name: str, scheduling: SchedulingSettings) -> float:
    """Return the best rate of several replays, each charged for energy and money."""
    policy = parse_policy(name, scheduling)
    begin_s, until_s = int(case.jobs.submit_s[0]), guessed_end_s(case)
    case = replace(case, prices=replace(case.prices, aligned=case.prices.aligned.until(until_s)))
    peaks = peak_times(case.prices)
    meters = meters_of(case, until_s)

    def once() -> None:
        schedule = replay(case.jobs, case.node_power_w, machine_size=case.machine.size, policy=policy, peaks=peaks)
        charges_of(usage_of(case, schedule, begin_s, until_s), meters)

    return len(case.jobs) / best_s(once, ROUNDS)


def best_s(run: Callable[[], object], rounds: int) -> float:
    """Return the shortest time of several runs, after one that is not counted."""
    run()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)
