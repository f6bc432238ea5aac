"""The commands for devices: `offpeak init`, `power`, `enroll`, `check` and `virtual`."""

import shlex
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offpeak.power.check.as_agent import run_as_agent
from offpeak.ui.options import JSON, NODES, CommandSettings, completion, settings_options

if TYPE_CHECKING:
    from offpeak.sim_backend.virtual.room_plan import RoomPlan

of_devices = settings_options("hardware.inventory", "hardware.timeout")


@settings_options("agent.scheduler", "power.node_class")
def init(
    chosen: CommandSettings,
    folder: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("/etc/offpeak"),
    price: Annotated[
        str | None,
        typer.Option(metavar="ZONE|PRICE", help="Bidding zone, or one price for all hours.", show_default=False),
    ] = None,
    bmcs: Annotated[
        str | None,
        typer.Option(help="Addresses of the BMCs, or {node}-bmc; - for none.", show_default=False),
    ] = None,
) -> None:
    """Write the first settings and inventory from the scheduler.

    Asks for what is not given by an option. The agent then runs in shadow mode. Files that exist are left alone.
    """
    from offpeak.ui.hardware.init import SiteAnswers, write_first_files

    kind = chosen.options["power.node_class"]
    answers = SiteAnswers(price, bmcs, None if kind is None else str(kind))
    write_first_files(chosen.read(), folder.expanduser().absolute(), answers)


@of_devices
def power(chosen: CommandSettings, nodes: NODES = None, as_json: JSON = False) -> None:
    """Show the power of nodes and PDUs, with meter and age. Read-only."""
    from offpeak.ui.hardware.power import print_readings

    print_readings(chosen.read(), nodes, as_json=as_json)


@of_devices
def enroll(
    chosen: CommandSettings,
    nodes: NODES = None,
    replace: Annotated[bool, typer.Option("--replace", help="Accept a BMC whose identity has changed.")] = False,
    standby_test: Annotated[
        bool,
        typer.Option(
            "--standby-test",
            help="Suspend and wake the named nodes one after the other, and record whether they came back.",
        ),
    ] = False,
    from_racksdb: Annotated[
        Path | None, typer.Option(help="First add nodes from the output of RacksDB.", show_default=False)
    ] = None,
    from_netbox: Annotated[
        Path | None, typer.Option(help="First add nodes from NetBox: its devices as CSV or JSON.", show_default=False)
    ] = None,
    accept_pairs: Annotated[
        bool,
        typer.Option(
            "--accept-pairs",
            help="Enrol BMCs that nothing proves to be those of their nodes, without a question on the terminal.",
        ),
    ] = False,
    dmi: Annotated[
        Path | None,
        typer.Option(
            help="Prove by a file that each BMC is its node's: lines of node, DMI UUID and serial number.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Record the identity of each BMC in the inventory. Also its capabilities; no node is switched off."""
    from offpeak.ui.hardware.enroll import EnrollRequest, enroll_nodes

    enroll_nodes(
        chosen.read(), EnrollRequest(nodes, replace, standby_test, from_racksdb, from_netbox, dmi, accept_pairs)
    )


@of_devices
def check(
    chosen: CommandSettings,
    nodes: NODES = None,
    as_json: JSON = False,
    cycle: Annotated[
        str | None,
        typer.Option(metavar="NODE", help="Have this idle node go off and be woken by a job.", show_default=False),
    ] = None,
) -> None:
    """Query each device, feed and the scheduler once. Print problems with hints. Exit 1 if any failed.

    If root runs it, the command runs as the agent does: as the agent's user, in the sandbox of its unit.
    """
    if chosen.options["hardware.inventory"] is None and chosen.config is None:
        timeout = chosen.options["hardware.timeout"]
        options = [*([nodes] if nodes else []), *(["--device-timeout", str(timeout)] if timeout else [])]
        options += ["--cycle", cycle] if cycle else []
        code = run_as_agent(["check", *options, *(["--json"] if as_json else [])], remark=_remark)
        if code is not None:
            raise typer.Exit(code)
    if cycle:
        from offpeak.ui.hardware.cycle import print_cycle

        print_cycle(chosen.read(), cycle)
        return
    from offpeak.ui.hardware.check import print_site_check

    print_site_check(chosen.read(), nodes, as_json=as_json)


def _remark(text: str) -> None:
    typer.echo(f"offpeak: {text}", err=True)


class PbsKind(StrEnum):
    """The kind of stand-in server."""

    TORQUE = "torque"
    OPENPBS = "openpbs"


def virtual(
    nodes: Annotated[str, typer.Option(help="Node set, such as n[01-16].")],
    folder: Annotated[Path, typer.Option(help="Folder for the inventory and the passwords.")] = Path("virtual"),
    node_class: Annotated[
        str,
        typer.Option(help="Node class: a bundled one, or a TOML file.", autocompletion=completion("power.node_class")),
    ] = "server",
    clock_factor: Annotated[
        float, typer.Option(min=0.001, help="Speed of the clock, as a multiple of real time.")
    ] = 1.0,
    bmc_address: Annotated[str, typer.Option(help="Address of the first BMC; the others follow it.")] = "127.0.40.1",
    bmc_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of all BMCs.")] = 623,
    pdu_address: Annotated[str, typer.Option(help="Address of the first PDU; the others follow it.")] = "127.0.41.1",
    pdu_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of all PDUs.")] = 1161,
    scheduler: Annotated[
        PbsKind | None, typer.Option(help="Also run a stand-in PBS server; its commands are in FOLDER/bin.")
    ] = None,
) -> None:
    """Run virtual nodes with BMCs and PDUs on loopback. They speak IPMI and SNMP until Ctrl-C."""
    from offpeak.machines.node_sets import expand
    from offpeak.model.node_class_file import bundled_node_classes, node_class_named
    from offpeak.sim_backend.pbs_standin.server import pbs_of_room
    from offpeak.sim_backend.virtual.machine_room import run_room
    from offpeak.sim_backend.virtual.room_plan import RoomPlan, room_logins, write_inventory

    plan = RoomPlan(
        expand(nodes),
        node_class_named(node_class),
        bmc_host=bmc_address,
        bmc_port=bmc_port,
        pdu_host=pdu_address,
        pdu_port=pdu_port,
        clock_factor=clock_factor,
    )
    place = ("--bmc-address", bmc_address, "--bmc-port", bmc_port, "--pdu-address", pdu_address, "--pdu-port", pdu_port)
    arguments = ("offpeak", "virtual", "--nodes", nodes, "--node-class", node_class, *place)
    kind = node_class if node_class in bundled_node_classes() else str(Path(node_class).expanduser().resolve())
    inventory = write_inventory(folder, plan, node_class=kind, made_by=shlex.join(map(str, arguments)))
    beside = partial(pbs_of_room, scheduler.value, folder=folder.resolve()) if scheduler else None
    run_room(
        plan, room_logins(folder), ready=lambda: typer.echo(_virtual_summary(plan, inventory, scheduler)), beside=beside
    )


def _virtual_summary(plan: "RoomPlan", inventory: Path, scheduler: PbsKind | None) -> str:
    from offpeak.machines.node_sets import fold
    from offpeak.sim_backend.virtual.room_plan import BMC_PASSWORD, PDU_COMMUNITY, USER
    from offpeak.text import counted

    folder = inventory.parent
    lines = [
        f"{counted(len(plan.nodes), 'virtual node')} of class {plan.node_class.name}, {plan.clock_factor:g}x real time",
        f"  IPMI   {fold(plan.bmc_hosts)} port {plan.bmc_port}, user {USER}, password in {folder / BMC_PASSWORD}",
        f"  SNMP   {fold(plan.pdu_hosts)} port {plan.pdu_port}, community in {folder / PDU_COMMUNITY}",
        f"  inventory for the other commands: {inventory}",
        *([f"  {scheduler.value}: export PATH={folder.resolve() / 'bin'}:$PATH"] if scheduler else []),
        "Ctrl-C ends it.",
    ]
    return "\n".join(lines)
