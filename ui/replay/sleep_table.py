"""What sleeping nodes came to as a table for the terminal: what was saved, and what it cost jobs and nodes."""

from collections.abc import Sequence

from rich.table import Table

from sim_backend.outcome import PolicyOutcome
from ui.clock_text import clock_text

SLEEP_HEADERS = (
    "policy",
    "idle energy\nsaved",
    "of what\nis possible",
    "node time\ninactive",
    "cycles a\nnode and day",
    "jobs\ndelayed",
    "mean\ndelay",
    "above\nSLA",
)


def sleep_table(outcomes: Sequence[PolicyOutcome]) -> Table:
    """Return a row a policy whose nodes can sleep."""
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for header in SLEEP_HEADERS:
        table.add_column(header, justify="left" if header == "policy" else "right", overflow="fold", vertical="bottom")
    for outcome in outcomes:
        table.add_row(*sleep_row(outcome))
    return table


def sleep_row(outcome: PolicyOutcome) -> tuple[str, ...]:
    """Return the cells of a policy."""
    return (
        outcome.policy,
        f"{outcome.idle_saved_pct:.1f} %",
        f"{outcome.captured_pct:.1f} %",
        _share(outcome.asleep_share),
        f"{outcome.cycles_per_node_day:.2f}",
        _share(outcome.delayed_share),
        clock_text(outcome.mean_sleep_delay_s or 0),
        _share(outcome.above_sla_share),
    )


def _share(share: float | None) -> str:
    return f"{100 * (share or 0):.1f} %"


def sleep_remark(sla: float) -> str:
    """Say what the table's words mean."""
    return (
        "delay: how long nothing but sleeping nodes kept a job from running, its mean over all jobs; possible: with "
        f"these starts, the future known; SLA: slowdown of {sla:g}"
    )
