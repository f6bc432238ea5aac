"""Runs one experiment: a pure function of the log, the prices, the setup and the seed."""

from dataclasses import replace
from functools import partial

import numpy as np

from offpeak.model.job_power import assumed_power
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_integrals import J_PER_MWH
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from power.capacity.registry import make_capacity_policy
from sim_backend.case import fleet_of
from sim_backend.compare import ReplayCase, compare
from sim_backend.electricity import ReplayPrices
from sim_backend.outcome import PolicyOutcome, PolicyRun, ReplayMachine
from sim_backend.policy import Policy, parse_policy
from sim_backend.powered_replay import PoweredMachine
from sim_backend.replications import shifted
from studies.dynamic_pricing.logs import Log
from studies.price_capacity.arrange import arranged, spread_out
from studies.price_capacity.blind import blind
from studies.price_capacity.experiment import BLIND, Experiment
from studies.price_capacity.result import PolicyResult, Result

NODES = bundled_node_class("server")


def run(experiment: Experiment, log: Log, prices: ReplayPrices) -> Result:
    """Replay under the setup's policies. Submissions come 0 to 60 s later than in the log, by chance, as draws do."""
    case, policies = case_of(experiment, log, prices), experiment.setup.policies
    comparison = compare(case, tuple(policy_named(name, case) for name in policies))
    runs = zip(policies, comparison.runs, comparison.outcomes, strict=True)
    return Result(tuple(_result(name, run, outcome) for name, run, outcome in runs))


def case_of(experiment: Experiment, log: Log, prices: ReplayPrices) -> ReplayCase:
    """Return what is replayed: each unit of the log a node of the class `server`."""
    setup = experiment.setup
    jobs = arranged(log, setup, experiment.replay)
    laid = replace(prices.laid, series=spread_out(prices.laid.series, setup.spread))
    machine, nodes = ReplayMachine(log.size, NODES.idle_w), PoweredMachine(log.size, 1, NODES)
    case = ReplayCase(jobs, jobs.node_power_w, machine, replace(prices, laid=laid), None, nodes)
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    return shifted(case, rng, partial(assumed_power(NODES).draw_w, jobs))


def policy_named(name: str, case: ReplayCase) -> Policy:
    """Return EASY on nodes that sleep as the capacity policy of that name says."""
    fleet, settings = fleet_of(case), CapacitySettings()
    capacity = blind(fleet, settings) if name == BLIND else make_capacity_policy(name, fleet, settings)
    return parse_policy("easy", SchedulingSettings()).on(capacity)


def _result(name: str, run: PolicyRun, outcome: PolicyOutcome) -> PolicyResult:
    return PolicyResult(
        policy=name,
        jobs=outcome.jobs,
        job_cost=run.charges.cost.jobs / J_PER_MWH,
        cost=outcome.cost,
        mean_wait_s=outcome.mean_wait_s,
        slowdown=outcome.mean_bounded_slowdown_by_delay,
    )
