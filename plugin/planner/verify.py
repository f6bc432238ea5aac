"""Checks a plan without anything that made it: every rule at every instant, and its profit from first principles."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from plugin.planner.plan import TOMORROW, Plan
from plugin.planner.problem import Problem


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a plan, a sentence each, and its profit summed up instant by instant."""

    violations: tuple[str, ...]
    profit: float


def verify(problem: Problem, plan: Plan) -> Verdict:
    """Return the verdict; a plan without violations is one that the machine can carry out."""
    pieces = list(_pieces(problem, plan))
    return Verdict((*_broken_jobs(problem, plan), *_overfull(problem, pieces)), _profit(problem, pieces))


@dataclass(frozen=True)
class _Piece:
    """A unit on its node."""

    node: int
    start_s: int
    end_s: int
    asks: tuple[int, int, int]
    power_w: float
    revenue_per_s: float


def _pieces(problem: Problem, plan: Plan) -> Iterator[_Piece]:
    running, work = problem.running, problem.work
    for row in range(len(running)):
        asks = (int(running.cores[row]), int(running.memory_mb[row]), int(running.gpus[row]))
        figures = float(running.power_w[row]), float(running.revenue_per_s[row])
        yield _Piece(int(running.node[row]), 0, int(running.until_s[row]), asks, *figures)
    unit = 0
    for job in range(len(work)):
        units, start_s = int(work.units[job]), int(plan.start_s[job])
        asks = (int(work.cores[job]), int(work.memory_mb[job]), int(work.gpus[job]))
        figures = float(work.power_w[job]) / units, float(work.revenue_per_s[job]) / units
        for node in plan.node[unit : unit + units]:
            if start_s != TOMORROW:
                yield _Piece(int(node), start_s, start_s + int(work.duration_s[job]), asks, *figures)
        unit += units


def _broken_jobs(problem: Problem, plan: Plan) -> Iterator[str]:
    work, unit = problem.work, 0
    for job in range(len(work)):
        name, start_s = f"job {work.job_id[job]}", int(plan.start_s[job])
        nodes = [int(node) for node in plan.node[unit : unit + int(work.units[job])]]
        unit += len(nodes)
        if start_s == TOMORROW:
            if any(node != TOMORROW for node in nodes):
                yield f"{name} has nodes but no start"
            continue
        if not 0 <= start_s < problem.rates.horizon_s:
            yield f"{name} starts in second {start_s}, outside the plan"
        if start_s < work.release_s[job]:
            yield f"{name} starts in second {start_s}, before it is there in second {work.release_s[job]}"
        if start_s + work.duration_s[job] > work.latest_end_s[job]:
            yield f"{name} ends after its latest end in second {work.latest_end_s[job]}"
        if len(set(nodes)) < len(nodes) or not all(0 <= node < len(problem.machine) for node in nodes):
            yield f"{name} does not have {len(nodes)} nodes of the machine, each once: {nodes}"


def _overfull(problem: Problem, pieces: list[_Piece]) -> Iterator[str]:
    machine = problem.machine
    has = np.stack([machine.cores, machine.memory_mb, machine.gpus], axis=1)
    used = np.zeros_like(has)
    drawn_w = 0.0
    changes = [(piece.start_s, 1, piece) for piece in pieces] + [(piece.end_s, -1, piece) for piece in pieces]
    caps = list(zip(problem.rates.edge_s.tolist(), problem.rates.cap_w.tolist(), strict=False))
    instants = sorted({at_s for at_s, _, _ in changes} | {at_s for at_s, _ in caps})
    changes.sort(key=lambda change: change[:2])
    at = 0
    for now_s in instants:
        touched = set()
        while at < len(changes) and changes[at][0] == now_s:
            _, sign, piece = changes[at]
            at += 1
            if not 0 <= piece.node < len(machine):
                continue
            used[piece.node] += sign * np.array(piece.asks)
            drawn_w += sign * piece.power_w
            touched.add(piece.node)
        yield from (
            f"node {node} is overfull in second {now_s}" for node in sorted(touched) if (used[node] > has[node]).any()
        )
        cap_w = next((cap for edge_s, cap in reversed(caps) if edge_s <= now_s), None)
        if now_s < problem.rates.horizon_s and cap_w is not None and drawn_w > cap_w + 1e-6 * max(cap_w, 1):
            yield f"{drawn_w:.0f} W are drawn in second {now_s}, above the cap of {cap_w} W"


def _profit(problem: Problem, pieces: list[_Piece]) -> float:
    """Sum up, step by step of the rates, each piece's seconds in it."""
    rates, total = problem.rates, 0.0
    for step, (from_s, until_s) in enumerate(zip(rates.edge_s[:-1], rates.edge_s[1:], strict=True)):
        revenue = energy_j = 0.0
        for piece in pieces:
            seconds = min(piece.end_s, int(until_s)) - max(piece.start_s, int(from_s))
            if seconds > 0:
                revenue += seconds * piece.revenue_per_s
                energy_j += seconds * piece.power_w
        mean_w = energy_j / float(until_s - from_s)
        pue = float(problem.facility.pue_at(np.array(mean_w), np.array(rates.temperature_c[step])))
        total += revenue - energy_j * pue * float(rates.price_per_kwh[step]) / 3.6e6
    return total
