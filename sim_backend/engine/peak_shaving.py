"""Peak shaving: jobs that would draw a new highest quarter-hour wait, and the engine meters its draw.

The rule is `offpeak.plugin.capacity.peak_shaving`, which also makes the agent's cap. The draw is that of the jobs, at
the power of their nodes from the moment they get them, of idle units, and of nodes asleep; powers are in mW.
"""

from offpeak.compiled import index, part
from offpeak.model.constants import QUARTER_S
from offpeak.model.node_states import ACTIVE
from offpeak.plugin.capacity.peak_shaving import NO_CAP, PeakRules, soft_cap
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.engine.state import NEVER, State, Workload

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
def meter_draw(power: Power, peak: PeakRules, now_s: int) -> None:
    """Add the draw since the last event to the quarter-hours, and keep the highest of those that count."""
    if peak.longest_s == 0:
        return
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
def is_held(workload: Workload, state: State, power: Power, peak: PeakRules, position: int) -> bool:
    """Tell whether the job at queue `position` waits because it would draw a new peak; others may pass it."""
    if peak.longest_s == 0:
        return False
    now = state.scalars[0]
    nodes = power.scalars[0]
    job = index(state.queue.job[index(position)])
    size = state.queue.size[index(position)]
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
def look_again(state: State, power: Power) -> None:
    """End a pass: if it held a job, the next one looks at all jobs again, at the latest when that has waited enough."""
    held_until_s = power.scalars[0].held_until_s
    if held_until_s != NEVER:
        state.scalars[0].ended = 1
        state.scalars[0].wanted_pass_s = min(state.scalars[0].wanted_pass_s, held_until_s)
