"""Run `offpeak check --cycle NODE`: the agent takes the node through its cycle, a job of its account wakes the node."""

import time
from collections.abc import Callable
from typing import Any

import typer

from offpeak.display import duration_text
from offpeak.errors import OffpeakError
from offpeak.plugin.slurm.batch import probe_command
from offpeak.plugin.slurm.commands import CannotAskSlurm, ask
from offpeak.power.live.cycle_watch import CycleStep, describe_cycle, parse_watch
from offpeak.services.agent.requests import CYCLE
from offpeak.services.agent.status import AgentSilent, exchange
from offpeak.settings.table import Settings

POLL_S = 1.0
SILENT_S = 600.0
JOB_S = 180.0
"""The longest time until the job has run on the node that is up: Slurm looks every 30 s whether its node is up."""
SLURM_S = 20.0


def print_cycle(settings: Settings, node: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Have the node go through its cycle, and print each step; exit 1 if it fails. Raises OffpeakError before it."""

    def ask_agent(request: dict[str, str]) -> dict[str, Any]:
        # An agent that is restarted goes on with the cycle.
        until_s = time.monotonic() + SILENT_S
        while True:
            try:
                return exchange(settings.agent.socket, request)
            except AgentSilent:
                if time.monotonic() > until_s:
                    raise
                sleep(POLL_S)

    before = parse_watch(ask_agent({"ask": CYCLE}).get("cycle"))
    partitions = exchange(settings.agent.socket, {"tell": CYCLE, "nodes": node}).get("partitions") or [""]
    typer.echo(f"{node}: its cycle begins; the agent goes on with it if this command is ended")
    job, shown = "", 0
    while True:
        sleep(POLL_S)
        watch = parse_watch(ask_agent({"ask": CYCLE}).get("cycle"))
        if (watch.node, watch.begun_s) == (before.node, before.begun_s):
            continue
        for step, at_s in watch.reached[shown:]:
            typer.echo(f"{node}: {step} after {duration_text(at_s - watch.begun_s)}")
        shown = len(watch.reached)
        if watch.next_step is CycleStep.WOKEN and not job:
            job = _submit(node, str(partitions[0]))
        if watch.next_step is None or watch.node != node:
            break
    ran = not watch.problem and _has_run(job, sleep)
    if job and not ran:
        _ask_slurm("scancel", job)
    end = describe_cycle(watch)
    typer.echo(f"{end.text}\n  hint: {end.hint}" if end.hint else end.text)
    if not watch.problem and job.isdecimal():
        typer.echo(f"job {job} ran there" if ran else f"job {job} did not end there, and was cancelled")
    if watch.problem or not ran:
        raise typer.Exit(1)


def _submit(node: str, partition: str) -> str:
    """Return the number of the job that wakes the node, or "none" if Slurm refuses it: then any other job does."""
    try:
        return ask(*probe_command(node, partition), timeout_s=SLURM_S).decode().strip().partition(";")[0]
    except CannotAskSlurm as problem:
        typer.echo(f"{node}: Slurm refuses a job of the agent's account: {problem}")
        typer.echo(f"  hint: submit one yourself: {' '.join(probe_command(node, partition))}")
        return "none"


def _has_run(job: str, sleep: Callable[[float], None]) -> bool:
    """Whether the job has ended, or was another user's."""
    until_s = time.monotonic() + JOB_S
    while job.isdecimal() and time.monotonic() < until_s:
        if _ask_slurm("squeue", "--noheader", "--format=%T", f"--jobs={job}") in ("", "COMPLETED"):
            return True
        sleep(POLL_S)
    return not job.isdecimal()


def _ask_slurm(*command: str) -> str:
    try:
        return ask(*command, timeout_s=SLURM_S).decode().strip()
    except OffpeakError as problem:
        return str(problem)
