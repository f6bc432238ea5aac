"""Runs all benchmarks and prints a table: each figure, its target, and the machine."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from benchmarks.accounting import accounting_benchmarks
from benchmarks.accounts import accounts_benchmarks
from benchmarks.agent_at_rest import agent_at_rest_benchmarks
from benchmarks.bars import Measured, machine
from benchmarks.capacity import capacity_benchmarks
from benchmarks.choose import choose_benchmarks
from benchmarks.command import command_benchmarks
from benchmarks.day_plan import day_plan_benchmarks
from benchmarks.engine import engine_benchmarks
from benchmarks.engine_mixed import mixed_engine_benchmarks
from benchmarks.evidence import evidence_benchmarks
from benchmarks.federation import federation_benchmarks
from benchmarks.generate import generate_benchmarks
from benchmarks.grid_replay import grid_replay_benchmarks
from benchmarks.growth import growth_benchmarks
from benchmarks.ipmi import ipmi_benchmarks
from benchmarks.ledger import ledger_benchmarks, rows_benchmarks
from benchmarks.lifecycle import lifecycle_benchmarks
from benchmarks.page import page_benchmarks
from benchmarks.pbs import pbs_benchmarks
from benchmarks.pdus import pdu_benchmarks
from benchmarks.planner import planner_benchmarks
from benchmarks.power_cycle import power_cycle_benchmarks
from benchmarks.power_loop import power_loop_benchmarks
from benchmarks.predict_jobs import job_prediction_benchmarks
from benchmarks.predict_waits import wait_prediction_benchmarks
from benchmarks.price_forecast import price_forecast_benchmarks
from benchmarks.queue_cycle import queue_cycle_benchmarks
from benchmarks.queue_hook import mixed_queue_benchmarks, queue_hook_benchmarks
from benchmarks.slurm import slurm_benchmarks
from benchmarks.trial_design import trial_design_benchmarks
from benchmarks.whatif import whatif_benchmarks
from benchmarks.wide_cluster import wide_cluster_benchmarks

WIDTH_IN_PIPES = 160
GROUPS = (
    engine_benchmarks,
    mixed_engine_benchmarks,
    capacity_benchmarks,
    whatif_benchmarks,
    command_benchmarks,
    wide_cluster_benchmarks,
    accounting_benchmarks,
    price_forecast_benchmarks,
    generate_benchmarks,
    growth_benchmarks,
    job_prediction_benchmarks,
    wait_prediction_benchmarks,
    pdu_benchmarks,
    ipmi_benchmarks,
    ledger_benchmarks,
    rows_benchmarks,
    evidence_benchmarks,
    accounts_benchmarks,
    trial_design_benchmarks,
    lifecycle_benchmarks,
    queue_hook_benchmarks,
    mixed_queue_benchmarks,
    slurm_benchmarks,
    pbs_benchmarks,
    power_loop_benchmarks,
    federation_benchmarks,
    choose_benchmarks,
    grid_replay_benchmarks,
    power_cycle_benchmarks,
    queue_cycle_benchmarks,
    agent_at_rest_benchmarks,
    page_benchmarks,
    planner_benchmarks,
    day_plan_benchmarks,
)


def main() -> None:
    """Measure and print."""
    print_table(measured for group in GROUPS for measured in group())


def print_table(figures: Iterable[Measured]) -> None:
    """Print the figures with their targets below a line that describes the machine."""
    table = Table(title=machine(), title_justify="left", box=None, pad_edge=False, header_style="bold")
    for header in ("what", "measured", "target", "", "data"):
        table.add_column(header, justify="right" if header in ("measured", "target") else "left")
    for measured in figures:
        table.add_row(*row(measured))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_IN_PIPES
    console.print(table)


def row(measured: Measured) -> tuple[str, ...]:
    """Return the cells of a figure."""
    without_bar = measured.bar == (0.0 if measured.at_least else float("inf"))
    sign = ">=" if measured.at_least else "<="
    verdict = "" if without_bar else ("reached" if measured.reached else "MISSED")
    bar = "" if without_bar else f"{sign} {measured.bar:g}"
    return measured.what, f"{measured.value:,.2f} {measured.unit}", bar, verdict, measured.data


if __name__ == "__main__":
    main()
