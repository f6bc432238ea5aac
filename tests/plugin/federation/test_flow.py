"""The flow keeps to arcs and capacities, is as cheap as a second opinion's, and answers the same to the same."""

import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.installation import install_hint
from offpeak.model.arrays import Int64
from offpeak.model.snapshot import NEVER
from offpeak.plugin.federation.cycle import NO_SITE
from offpeak.plugin.federation.metaschedule import cheapest_flow

pytestmark = pytest.mark.quick


class Problem:
    """Jobs, sites, costs and arcs drawn from a seed."""

    def __init__(self, jobs: int, sites: int, highest: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.cost: Int64 = rng.integers(0, highest + 1, (jobs, sites))
        self.allowed: NDArray[np.bool_] = rng.random((jobs, sites)) < rng.random()
        self.most: Int64 = rng.integers(0, 4, sites)

    def __repr__(self) -> str:
        return f"{self.cost.tolist()} {self.allowed.tolist()} {self.most.tolist()}"


PROBLEMS = st.builds(
    Problem, st.integers(1, 12), st.integers(1, 6), st.sampled_from([0, 1, 10_000]), st.integers(0, 10**6)
)


def total(cost: Int64, site: Int64) -> int:
    placed = np.flatnonzero(site != NO_SITE)
    return int(cost[placed, site[placed]].sum())


def second_opinion(problem: Problem) -> tuple[int, int]:
    """Return how many jobs find a place, and at which cost, by networkx."""
    network = nx.DiGraph()
    network.add_nodes_from(["source", "sink"])
    for job, site in zip(*np.nonzero(problem.allowed), strict=True):
        network.add_edge("source", ("job", job), capacity=1, weight=0)
        network.add_edge(("job", job), ("site", site), capacity=1, weight=int(problem.cost[job, site]))
        network.add_edge(("site", site), "sink", capacity=int(problem.most[site]), weight=0)
    flow = nx.max_flow_min_cost(network, "source", "sink")
    return sum(flow["source"].values()), nx.cost_of_flow(network, flow)


@given(PROBLEMS)
def test_no_capacity_and_no_arc_is_violated(problem: Problem) -> None:
    site = cheapest_flow(problem.cost, problem.allowed, problem.most)
    placed = np.flatnonzero(site != NO_SITE)
    assert problem.allowed[placed, site[placed]].all()
    assert (np.bincount(site[placed], minlength=len(problem.most)) <= problem.most).all()


@given(PROBLEMS)
def test_min_cost_flow_equals_the_optimum_of_networkx(problem: Problem) -> None:
    site = cheapest_flow(problem.cost, problem.allowed, problem.most)
    assert (int((site != NO_SITE).sum()), total(problem.cost, site)) == second_opinion(problem)


@given(PROBLEMS, st.integers(-(10**6), 10**6))
def test_a_number_added_to_all_costs_changes_nothing(problem: Problem, constant: int) -> None:
    before = cheapest_flow(problem.cost, problem.allowed, problem.most)
    after = cheapest_flow(problem.cost + constant, problem.allowed, problem.most)
    assert before.tolist() == after.tolist()


def test_the_arrays_are_left_alone_and_any_number_may_be_allowed() -> None:
    problem = Problem(50, 5, 100, seed=3)
    problem.allowed[:] = True
    cost, allowed = problem.cost.copy(), problem.allowed.copy()
    site = cheapest_flow(problem.cost, problem.allowed, np.full(5, NEVER))
    assert site.tolist() == problem.cost.argmin(axis=1).tolist() or total(problem.cost, site) == int(
        problem.cost.min(axis=1).sum()
    )
    assert (problem.cost == cost).all()
    assert (problem.allowed == allowed).all()


@pytest.mark.parametrize("jobs", [0, 3])
def test_without_arcs_nobody_gets_a_place(jobs: int) -> None:
    nothing = np.zeros((jobs, 2), np.int64)
    assert cheapest_flow(nothing, nothing > 0, np.array([1, 1])).tolist() == [NO_SITE] * jobs


def test_without_or_tools_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)
    for jobs in (0, 1):
        with pytest.raises(BadInput, match="needs OR-tools") as problem:
            cheapest_flow(np.zeros((jobs, 1), np.int64), np.ones((jobs, 1), np.bool_), np.array([1]))
        assert problem.value.hint == install_hint("federation")
