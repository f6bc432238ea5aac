"""A what-if as a table for the terminal, a row for each number of nodes on offer, and as JSON with all steps."""

import json
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from offpeak.display import NOT_WRAPPED, clock_text
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, coming_up
from offpeak.model.snapshot import Snapshot
from offpeak.text import counted
from power.capacity.online_simulation import OlsDecision
from power.whatif.simulation import SleepTime, WhatIfPlan, find_sleep_times

HEADERS = ("", "nodes on offer", "mean slowdown", "mean wait", "last job ends in")
DECIDED = "->"
SHOWN_STEPS = 6
UP = (ACTIVE, *(coming_up(depth) for depth in range(len(DEPTHS))))


@dataclass(frozen=True, eq=False)
class WhatIf:
    """The question, its state file, and the answer."""

    file: str
    policy: str
    snapshot: Snapshot
    plans: tuple[WhatIfPlan, ...]
    decision: OlsDecision


def print_whatif(answer: WhatIf) -> None:
    """Print the curve, the decision, and how long which number of nodes can sleep."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    console.print(headline(answer))
    console.print()
    console.print(curve_table(answer))
    console.print()
    console.print(verdict(answer), style="bold")
    console.print(change_text(answer))
    for line in sleep_lines(answer):
        console.print(line)
    console.print()
    for line in remarks(answer):
        console.print(f"- {line}")


def headline(answer: WhatIf) -> str:
    """Say in a line what the what-if is about."""
    snapshot = answer.snapshot
    jobs = f"{counted(len(snapshot.running.size), 'running job')}, {len(snapshot.queued.size):,} queued"
    up, failed = nodes_up(snapshot), int((snapshot.node_state == FAILED).sum())
    broken = f", {failed:,} failed" if failed else ""
    return f"{answer.file}: {jobs}; {counted(len(snapshot.node_state), 'node')}, {up:,} of them up{broken}"


def nodes_up(snapshot: Snapshot) -> int:
    """Return how many nodes are up or coming up."""
    return int(np.isin(snapshot.node_state, UP).sum())


def curve_table(answer: WhatIf) -> Table:
    """Return a row for each plan; the one decided for is marked."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in HEADERS:
        table.add_column(header, justify="right")
    for plan in answer.plans:
        table.add_row(DECIDED if plan is answer.decision.plan else "", *plan_row(plan, answer.snapshot))
    return table


def plan_row(plan: WhatIfPlan, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the cells of a plan."""
    nodes = plan.units // snapshot.units_per_node
    left_s = plan.until_s - snapshot.now_s
    return f"{nodes:,}", f"{plan.slowdown:,.2f}", clock_text(plan.mean_wait_s), clock_text(left_s)


def verdict(answer: WhatIf) -> str:
    """Return the decision as a sentence."""
    decision, per_node = answer.decision, answer.snapshot.units_per_node
    nodes, most = decision.units // per_node, answer.snapshot.usable_units // per_node
    if not decision.met:
        return f"Not even all {counted(most, 'node')} keep the SLA of {decision.sla:g}: keep all of them on offer."
    return f"{nodes:,} of {counted(most, 'node')} on offer keep the SLA of {decision.sla:g}."


def change_text(answer: WhatIf) -> str:
    """Return how many nodes to wake or to put to sleep, as text."""
    more = answer.decision.units // answer.snapshot.units_per_node - nodes_up(answer.snapshot)
    if more > 0:
        return f"To wake now: {counted(more, 'node')}."
    return f"Up and not needed on offer: {counted(-more, 'node')}." if more < 0 else "They are the nodes that are up."


def sleep_lines(answer: WhatIf) -> list[str]:
    """Say until when how many nodes run no job: of many steps the last, because short sleeps are of little use."""
    steps = find_sleep_times(answer.snapshot, answer.decision.plan)[-SHOWN_STEPS:]
    lines = [f"  {sleep_text(step, answer.snapshot.now_s)}" for step in steps]
    return ["Without a job by that plan:", *lines] if lines else []


def sleep_text(step: SleepTime, now_s: int) -> str:
    """Return until when these nodes run no job, as text."""
    until = "until more jobs come" if step.until_s is None else f"for {clock_text(step.until_s - now_s)}"
    return f"{counted(step.nodes, 'node')} {until}"


def remarks(answer: WhatIf) -> tuple[str, ...]:
    """Return what the figures rest on, in sentences."""
    return (
        "slowdown: 1 + wait / max(10 s, run), the mean over running and queued jobs",
        f"{answer.policy} starts the jobs; they run as long as estimated, no more are submitted",
        "nodes on offer that sleep are woken now; jobs wait until they are up",
    )


def whatif_json(answer: WhatIf) -> str:
    """Return the what-if as a JSON object."""
    snapshot, decision = answer.snapshot, answer.decision
    document = {
        "now_s": snapshot.now_s,
        "units_per_node": snapshot.units_per_node,
        "policy": answer.policy,
        "sla": decision.sla,
        "met": decision.met,
        "nodes": decision.units // snapshot.units_per_node,
        "units": decision.units,
        "curve": [plan_document(plan) for plan in answer.plans],
        "sleep": [asdict(step) for step in find_sleep_times(snapshot, decision.plan)],
    }
    return json.dumps(document, indent=2)


def plan_document(plan: WhatIfPlan) -> dict[str, float]:
    """Return a plan's figures."""
    return {
        "units": plan.units,
        "slowdown": plan.slowdown,
        "mean_wait_s": plan.mean_wait_s,
        "until_s": plan.until_s,
    }
