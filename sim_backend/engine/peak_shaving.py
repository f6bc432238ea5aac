"""Peak shaving: jobs that would draw a new highest quarter-hour wait, and the engine meters its draw.

The rule is `offpeak.plugin.capacity.peak_shaving`, which also makes the agent's cap. The draw is that of the jobs, at
the power of their nodes from the moment they get them, of idle units, and of nodes asleep; powers are in mW.
"""

from offpeak.compiled import apart, index, part
from offpeak.model.constants import QUARTER_S
from offpeak.model.node_states import ACTIVE
from offpeak.plugin.capacity.peak_shaving import NO_CAP, PeakRules, soft_cap
from offpeak.sim_backend.engine.pools import SleepingPools, pool_power
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.engine.rules import NEVER
from offpeak.sim_backend.engine.state import SLOTS, State, Workload

start_cap = part(soft_cap)
"""The rule as a part of kernels, which Python cannot call."""


@part
def draw_mw(power: Power, peak: PeakRules) -> int:
    """Return what the machine draws now."""
    nodes = power.scalars[0]
    total = nodes.jobs_mw + nodes.idle_units * peak.idle_mw
    for state in range(len(peak.state_mw)):
        if state != ACTIVE:
            total += power.nodes_in[state] * peak.state_mw[state]
    return int(total)


@part
def count_draw(workload: Workload, pools: SleepingPools, job: int, units: int) -> None:
    """Count what the job draws on so many units, none where they are negative: it ends."""
    if pools.peak is not None:
        pools.power.scalars[0].jobs_mw += int(1000 * workload.node_power_w[index(job)] * units)


@part
def meter_draw(pools: SleepingPools, now_s: int) -> None:
    """Add the draw since the last event to the quarter-hours, and keep the highest of those that count."""
    if pools.peak is not None:
        meter(pool_power(pools, 0), pools.peak, now_s)


@apart
def meter(power: Power, peak: PeakRules, now_s: int) -> None:
    """Add the draw of the nodes since the last event to the quarter-hours."""
    nodes = power.scalars[0]
    drawn_mw = draw_mw(power, peak)
    while nodes.metered_s < now_s:
        follow_rules(power, peak, nodes.metered_s)
        after_s = peak.at_s[0] + ((nodes.metered_s - peak.at_s[0]) // QUARTER_S + 1) * QUARTER_S
        until_s = min(now_s, after_s)
        nodes.quarter_mj += drawn_mw * (until_s - nodes.metered_s)
        nodes.metered_s = until_s
        if until_s == after_s:
            for charge in range(len(peak.target_mw)):
                if peak.target_mw[charge, index(nodes.peak_row)] != NO_CAP:
                    power.peaks_mw[charge] = max(power.peaks_mw[charge], nodes.quarter_mj // QUARTER_S)
            nodes.quarter_mj = 0
    follow_rules(power, peak, now_s)


@part
def follow_rules(power: Power, peak: PeakRules, at_s: int) -> None:
    """Move to the row of the rules that holds then; nothing is paid in a new period."""
    nodes = power.scalars[0]
    while nodes.peak_row + 1 < len(peak.at_s) and peak.at_s[index(nodes.peak_row + 1)] <= at_s:
        nodes.peak_row += 1
        for charge in range(len(peak.is_new)):
            if peak.is_new[charge, index(nodes.peak_row)]:
                power.peaks_mw[charge] = 0


@part
def is_kept_back(workload: Workload, state: State, pools: SleepingPools, position: int) -> bool:
    """Tell whether the job at `position` would fit and waits for a lower peak; others may pass it."""
    if pools.peak is None:
        return False
    fits = state.waiting.size[index(position)] <= state.free[SLOTS, 0]
    return bool(fits and is_held(workload, state, pools, pools.peak, position))


@apart
def is_held(workload: Workload, state: State, pools: SleepingPools, peak: PeakRules, position: int) -> bool:
    """Tell whether the job at `position` would draw a new peak and must wait.

    If so, the next pass looks at all jobs again, at the latest when this one has waited long enough.
    """
    now = state.scalars[0]
    power = pool_power(pools, 0)
    nodes = power.scalars[0]
    job = index(state.waiting.job[index(position)])
    size = state.waiting.size[index(position)]
    job_mw = int(1000 * workload.node_power_w[job] * size)
    drawn_mw = draw_mw(power, peak) + job_mw - min(size, nodes.idle_units) * peak.idle_mw
    waited_s = now.now_s - workload.submit_s[job]
    cap_mw = NO_CAP
    for charge in range(len(peak.target_mw)):
        target_mw = peak.target_mw[charge, index(max(nodes.peak_row, 0))]
        cap_mw = min(cap_mw, start_cap(target_mw, power.peaks_mw[charge], waited_s, peak.longest_s))
    if drawn_mw <= cap_mw:
        return False
    nodes.held_until_s = min(nodes.held_until_s, now.now_s + peak.longest_s - waited_s)
    return True


@part
def held_any(state: State, pools: SleepingPools) -> bool:
    """End a pass, and return whether it held a job: the next one, at the latest when that has waited enough, begins
    anew.
    """
    nodes = pools.power.scalars[0]
    if nodes.held_until_s == NEVER:
        return False
    now = state.scalars[0]
    now.wanted_pass_s = min(now.wanted_pass_s, nodes.held_until_s)
    nodes.held_until_s = NEVER
    return True
