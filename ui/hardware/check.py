"""Run `offpeak check`: query all devices and services, and print equal findings as one row with a hint."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import typer

from offpeak.errors import BadInventory, OffpeakError
from offpeak.machines.inventory import Inventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand, fold
from offpeak.plugin.scheduler.registry import SIMULATED, SLURM, scheduler_name, scheduler_of
from offpeak.power.check.devices import check_site
from offpeak.power.check.findings import (
    CheckVerdict,
    Finding,
    FindingGroup,
    check_feeds,
    check_qos,
    check_scheduler,
    group_findings,
)
from offpeak.power.door.scheduler_orders import ALLOW_OWN_POLICIES
from offpeak.power.drivers.transport import Transport
from offpeak.power.live.cycle_watch import describe_cycle
from offpeak.power.meters.registry import pdus_feeding
from offpeak.predictors.feeds.registry import carbon_feed, input_feeds, price_feed, temperature_feed
from offpeak.services.agent.node_memory import read_managed_site, read_saved_watch
from offpeak.services.agent.status import fetch_status
from offpeak.settings.agent import AgentSettings
from offpeak.settings.table import Settings
from offpeak.text import counted
from offpeak.ui.terminal import plain_console, print_table, text_table

PART_ORDER = ("scheduler", "cycle", "lease", "qos", "policy", "login", "feed", "wake", "bmc", "ssh", "pdu")


def print_site_check(settings: Settings, nodes: str | None, *, as_json: bool) -> None:
    """Print the findings; exit 1 if any failed. Raise BadInventory if there is nothing to check."""
    found = _check_all(settings, nodes)
    if as_json:
        typer.echo(json.dumps([finding.as_json() for finding in found], indent=2))
    else:
        print_check(found)
    if any(finding.verdict is CheckVerdict.BAD for finding in found):
        raise typer.Exit(1)


def _check_all(settings: Settings, nodes: str | None) -> list[Finding]:
    inventory = read_inventory(settings.hardware.inventory)
    if nodes:
        machines = inventory.chosen(expand(nodes))
        pdus = pdus_feeding(inventory, [machine.node for machine in machines])
    else:
        _, pdus = inventory.read_by(None)
        # A service that switches nodes is in the network of this host, also where their meters are not.
        reader_of = inventory.reader_of
        machines = tuple(each for each in inventory.machines if each.hardware.url or each.node not in reader_of)
    if not inventory.machines and not inventory.pdus:
        hint = "docs/reference/inventory.md shows how they are written; offpeak enroll --from-netbox takes them over"
        raise BadInventory(f"{inventory.path}: names no node and no PDU", hint=hint)
    wire = Transport(timeout_s=settings.hardware.timeout_s)
    found = asyncio.run(
        check_site(
            inventory,
            machines,
            pdus,
            wire,
            partial(check_site_scheduler, settings, inventory),
            state_folder=settings.agent.state_folder,
        )
    )
    feeds = (
        ("prices", price_feed(settings.feeds, settings.prices)),
        ("carbon", carbon_feed(settings.feeds, settings.carbon)),
        ("temperature", temperature_feed(settings.feeds)),
        *input_feeds(settings.feeds),
    )
    found += check_feeds(feeds, now_s=int(time.time()))
    found += check_own_policy(settings.agent)
    if scheduler_name(settings) == SLURM:
        found += check_qos(tuple(settings.flexibility.qos or ()))
        found += check_cycle(settings)
    found += check_lease(settings.agent.socket)
    return sorted(found, key=lambda each: PART_ORDER.index(each.part))


def check_site_scheduler(settings: Settings, inventory: Inventory) -> list[Finding]:
    """Return the findings about the scheduler, as set or detected; about Slurm, which is missing, if there is none."""
    name = scheduler_name(settings) or SLURM
    if name == SIMULATED:
        return [
            Finding(
                "scheduler", name, CheckVerdict.GOOD, "runs inside `offpeak demo` only: other programs cannot query it"
            )
        ]
    return check_scheduler(name.capitalize(), scheduler_of(settings), read_managed_site(settings, inventory))


def check_cycle(settings: Settings) -> Iterator[Finding]:
    """Yield the finding about the last whole cycle of a node, by the agent's record, if there may be one."""
    # Whoever may not read the agent's folder gets no such finding.
    with suppress(OffpeakError, OSError):
        watch = read_saved_watch(settings.ledger.url) if settings.agent.nodes else None
        if watch is not None and (state := describe_cycle(watch)).text:
            verdict = CheckVerdict.GOOD if watch.is_proven else CheckVerdict.DOUBTFUL
            if watch.problem:
                verdict = CheckVerdict.BAD
            yield Finding("cycle", watch.node or "any node", verdict, state.text, state.hint)


def check_lease(socket: Path) -> Iterator[Finding]:
    """Yield the finding about the agents of a pair of head nodes, if the agent of this host has a lease or waits."""
    with suppress(OffpeakError):
        if lease := fetch_status(socket, ask="status").lease:
            verdict = CheckVerdict.GOOD if lease.is_active or lease.has_peer else CheckVerdict.BAD
            yield Finding("lease", "ledger", verdict, lease.text)


def check_own_policy(settings: AgentSettings) -> Iterator[Finding]:
    """Yield the finding about the own policy that orders the queue, if there is one."""
    if not settings.own_policy:
        return
    # The settings of most sites name a built-in policy, which needs no process.
    from offpeak.plugin.window_policy import PolicyProcess

    process = PolicyProcess(settings.own_policy)
    try:
        process.check()
    except OffpeakError as problem:
        yield Finding("policy", settings.own_policy, CheckVerdict.BAD, str(problem), problem.hint)
    else:
        if settings.own_policy_is_shadowed:
            message = "it can be loaded; its order is only recorded, as in mode shadow"
            yield Finding("policy", settings.own_policy, CheckVerdict.DOUBTFUL, message, ALLOW_OWN_POLICIES)
        else:
            yield Finding("policy", settings.own_policy, CheckVerdict.GOOD, "it can be loaded, and orders the queue")
    finally:
        process.close()


def print_check(found: Sequence[Finding]) -> None:
    """Print one row for equal findings, with the hint below it, and the counts of verdicts."""
    console, rows = plain_console(), list[tuple[str, ...]]()
    for finding in group_findings(found):
        rows.append((finding.verdict, finding.part, subjects_text(finding), finding.message))
        if finding.hint:
            rows.append(("", "", "", f"-> {finding.hint}"))
    print_table(text_table(("", "what", "which", "says"), rows, texts=range(4)))
    console.print()
    console.print(check_summary(found))


def subjects_text(each: FindingGroup) -> str:
    """Return the subjects of a group of findings, folded if they are nodes or PDUs."""
    return fold(each.subjects) if each.part in ("bmc", "ssh", "pdu", "wake") else ", ".join(each.subjects)


def check_summary(found: Sequence[Finding]) -> str:
    """Return how many subjects work, need attention, and failed."""
    counts = []
    for verdict, what in zip(CheckVerdict, ("ok", "to look at", "failed"), strict=True):
        subjects = {(finding.part, finding.subject) for finding in found if finding.verdict is verdict}
        counts += [f"{len(subjects)} {what}"] if subjects or verdict is CheckVerdict.GOOD else []
    return f"{counted(len({(finding.part, finding.subject) for finding in found}), 'check')}: {', '.join(counts)}"
