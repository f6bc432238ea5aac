"""Answers a question by CP-SAT: intervals on cumulative resources, and what overlaps earn, linear in each start.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", section 5; the nodes are one resource here,
because equal nodes make as many equal solutions as they can be exchanged.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from offpeak.jobs import Int64
from plugin.planner.cp_question import Question

FINENESS = 1e6
"""The largest earning per second becomes this integer."""


def warm_up() -> None:
    """Load the solver."""
    import ortools.sat.python.cp_model  # noqa: F401


def solve(question: Question, seconds: float, seed: int) -> Int64 | None:
    """Return the start of each job, the horizon for none; None if nothing was found in time."""
    # Imported here: it takes a third of a second, and only searches by constraints need it.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    starts = _jobs(model, cp_model, question)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return np.array([solver.value(start) for start in starts], np.int64)


def _jobs(model: Any, cp_model: Any, question: Question) -> list[Any]:
    """Fill the model; return the variable of each job's start."""
    horizon_s = int(question.edge_s[-1])
    starts, intervals, earned = [], [], []
    scale = FINENESS / max(float(np.abs(question.per_s).max(initial=0)), 1e-12)
    rates = np.rint(question.per_s * scale).astype(np.int64)
    for job in range(len(question.duration_s)):
        duration_s, earliest_s = int(question.duration_s[job]), int(question.earliest_s[job])
        latest_s = max(min(int(question.latest_s[job]), horizon_s - 1), earliest_s)
        span = [[horizon_s, horizon_s]] if latest_s >= horizon_s else [[earliest_s, latest_s], [horizon_s, horizon_s]]
        start = model.new_int_var_from_domain(cp_model.Domain.from_intervals(span), f"s{job}")
        starts.append(start)
        intervals.append(_interval(model, start, duration_s, horizon_s))
        earned += _earned(model, start, duration_s, question.edge_s.tolist(), rates[job].tolist())
        if question.hint_s is not None:
            model.add_hint(start, int(question.hint_s[job]))
    _resources(model, question, intervals)
    model.maximize(sum(earned))
    return starts


def _interval(model: Any, start: Any, duration_s: int, horizon_s: int) -> Any:
    """Return the job's interval, absent if it starts at the horizon."""
    present = model.new_bool_var("")
    model.add(start < horizon_s).only_enforce_if(present)
    model.add(start == horizon_s).only_enforce_if(~present)
    return model.new_optional_fixed_size_interval_var(start, duration_s, present, "")


def _earned(model: Any, start: Any, duration_s: int, edge_s: Sequence[int], rates: Sequence[int]) -> list[Any]:
    """Return what the job earns as terms: before an edge it has run for min(max(edge - start, 0), duration)."""
    terms = []
    for edge, before, after in zip(edge_s[1:], rates, [*rates[1:], 0], strict=True):
        if before == after:
            continue
        late = model.new_int_var(0, edge, "")
        model.add_max_equality(late, [edge - start, 0])
        ran = model.new_int_var(0, min(duration_s, edge), "")
        model.add_min_equality(ran, [late, duration_s])
        terms.append((before - after) * ran)
    return terms


def _resources(model: Any, question: Question, intervals: list[Any]) -> None:
    taken = question.taken
    ends_s = np.append(taken.at_s[1:], taken.at_s[-1:] + 1)
    others = [
        model.new_fixed_size_interval_var(int(at_s), int(end_s - at_s), "")
        for at_s, end_s in zip(taken.at_s, ends_s, strict=True)
    ]
    for resource, has in enumerate(question.has.tolist()):
        demands = question.asks[:, resource].tolist() + taken.used[:, resource].tolist()
        if sum(demands) > has:
            model.add_cumulative([*intervals, *others], demands, has)
    for node in question.on_nodes:
        if int(node.cores.sum()) > node.capacity:
            model.add_cumulative([intervals[job] for job in node.job], node.cores.tolist(), node.capacity)
