"""`offpeak whatif`: how many nodes could sleep now, and what that would do to the jobs that are known."""

from pathlib import Path
from typing import Annotated

import typer

from offpeak.settings.capacity import DEFAULT_SLA


def whatif(
    state: Annotated[Path, typer.Argument(metavar="STATE.json", help="State file: jobs and nodes at one instant.")],
    sla: Annotated[
        float, typer.Option(help="Mean slowdown, 1 + wait / max(10 s, run), that has to be kept.")
    ] = DEFAULT_SLA,
    policy: Annotated[str, typer.Option(help="Discipline: easy, fcfs, first-fit or best-fit.")] = "easy",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Say how many nodes could sleep now, and what that would do to the jobs that are known."""
    # What is imported here loads numba, which `offpeak --version` must not wait for.
    from power.capacity.online_simulation import check_sla, chosen, simulate_all_offers
    from power.whatif.simulation import find_rules
    from power.whatif.snapshot_file import read_snapshot
    from ui.replay.whatif_json import whatif_json
    from ui.replay.whatif_table import WhatIf, print_whatif

    check_sla(sla)
    rules = find_rules(policy)
    snapshot = read_snapshot(state)
    plans = simulate_all_offers(snapshot, rules=rules)
    answer = WhatIf(str(state), policy, snapshot, plans, chosen(plans, sla))
    if as_json:
        typer.echo(whatif_json(answer))
    else:
        print_whatif(answer)
