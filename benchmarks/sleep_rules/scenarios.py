"""Rules with other knowledge than a model: the arrivals of past days as scenarios, and users' announcements."""

from dataclasses import replace

import numpy as np

from benchmarks.sleep_rules.learned import by_cost, queue_of
from benchmarks.sleep_rules.needs import HORIZONS_S, STEPS_OF, NodePrices, Queue, new_memory, observe
from benchmarks.sleep_rules.replays import NODES, STEP_S, Decide, Part, capacity_policy, run
from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.capacity.rules import CapacitySchedule
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.engine.state import State

SCENARIOS = 21
"""Past days: three of each day of the week."""

WIDE_SHARE = 1 / 32
"""A job is wide if it needs at least this share of the nodes."""


@kernel
def play_arrivals(
    submit_s: Int64, size: Int64, runtime_s: Int64, queue: Queue, needed: int, block_tops: Int64, used: Float64,
    tops: Float64,
) -> None:  # fmt: skip
    """Write what comes on average if the arrivals of past days came again, by block and horizon, as predictors do.

    Running jobs end when the scheduler expects it, waiting jobs take what these free, and others start at once.
    """
    used[:], tops[:] = 0.0, 0.0
    bins = STEPS_OF[len(STEPS_OF) - 1]
    per_node = queue.units_per_node
    running, expected = 0, np.zeros(bins + 1, dtype=np.int64)
    for at in range(queue.listed):
        slot = queue.expected[at]
        running += queue.running_size[slot]
        after = (queue.expected_end_s[slot] - queue.now_s) // STEP_S
        expected[min(max(after, 0), bins)] += queue.running_size[slot]
    waiting = 0
    for position in range(queue.head, queue.tail):
        waiting += queue.size[position] if queue.size[position] < (1 << 40) else 0
    scenarios = 0
    for day in range(1, SCENARIOS + 1):
        then_s = queue.now_s - day * DAY_S
        if then_s < submit_s[0]:
            break
        scenarios += 1
        job = np.searchsorted(submit_s, then_s, side="right")
        ends = expected.copy()
        units, backlog, highest, horizon = running, waiting, 0, 0
        reached = np.zeros(len(block_tops))
        for step in range(bins):
            started = min(backlog, ends[step])
            backlog -= started
            units -= ends[step] - started
            while job < len(submit_s) and submit_s[job] < then_s + (step + 1) * STEP_S:
                units += size[job]
                ends[min(step + 1 + runtime_s[job] // STEP_S, bins)] += size[job]
                rise = (units + per_node - 1) // per_node - needed
                if rise > highest and rise <= block_tops[len(block_tops) - 1]:
                    highest = rise
                    reached[np.searchsorted(block_tops, rise)] += 1
                job += 1
            if step + 1 == STEPS_OF[horizon]:
                begin = 0
                for block in range(len(block_tops)):
                    nodes = block_tops[block] - begin
                    used[block, horizon] += min(nodes, max(0, highest - begin)) / nodes
                    tops[block, horizon] += reached[block]
                    begin = block_tops[block]
                horizon += 1
    if scenarios:
        used /= scenarios
        tops /= scenarios


def scenario_rule(part: Part, prices: NodePrices) -> Decide:
    """Return model predictive control: the decision that costs least on average over the arrivals of past days."""
    memory = new_memory(part)
    shape = (len(memory.tops), len(HORIZONS_S))
    used, tops = np.zeros(shape), np.zeros(shape)
    jobs = part.jobs

    def rule(state: State, power: Power) -> tuple[int, int]:
        queue = queue_of(state, power)
        needed = observe(memory, queue)
        play_arrivals(jobs.submit_s, jobs.size, jobs.runtime_s, queue, needed, memory.tops, used, tops)
        return by_cost(memory, used, tops, len(memory.tops), needed, power, prices)

    return Decide("forecast-late:1h", STEP_S, STEP_S, rule)


def announced(part: Part, share: float, idle_s: int, seed: int) -> CapacityPolicy:
    """Return a time-out under which users announce a share of the wide jobs one boot before they submit them.

    The nodes of an announced job are a reserve until it is submitted: a capacity schedule. It has no reserve if it
    would wait for other jobs anyway, on nodes that are always on.
    """
    (depth,) = NODES.depths
    timeout = capacity_policy(part, f"timeout:{idle_s}s")
    nodes = -(-part.jobs.size // part.machine.units_per_node)
    draws = np.random.default_rng(seed).random(len(nodes))
    waits = run(part, "always-on").start_s > part.jobs.submit_s
    known = (nodes >= WIDE_SHARE * part.machine.nodes) & (draws < share) & ~waits
    submit_s, wanted = part.jobs.submit_s[known], nodes[known]
    change_s = np.concatenate([submit_s - depth.leave.duration_s, submit_s + 1])
    at_s, row = np.unique(change_s, return_inverse=True)
    change = np.bincount(row, weights=np.concatenate([wanted, -wanted]), minlength=len(at_s)).astype(np.int64)
    reserve = np.append(0, np.minimum(np.cumsum(change), part.machine.nodes))
    rows = len(reserve)
    schedule = CapacitySchedule(
        np.append(timeout.schedule.at_s, at_s),
        np.full(rows, part.machine.nodes),
        reserve,
        np.repeat(timeout.schedule.after_s, rows, axis=0),
    )
    return replace(timeout, schedule=schedule)
