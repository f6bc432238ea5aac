"""`offpeak virtual`: nodes, BMCs and PDUs that are not there, to try everything without hardware."""

import shlex
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sim_backend.virtual.room_plan import RoomPlan


class PbsKind(StrEnum):
    """Which server is put on."""

    TORQUE = "torque"
    OPENPBS = "openpbs"


def virtual(
    nodes: Annotated[str, typer.Option(help="Node set, such as n[01-16].")],
    folder: Annotated[Path, typer.Option(help="Where the inventory and the passwords are written.")] = Path("virtual"),
    node_class: Annotated[str, typer.Option(help="Class of the nodes: a bundled one, or a TOML file.")] = "server",
    clock_factor: Annotated[float, typer.Option(min=0.001, help="How many times as fast as real time it runs.")] = 1.0,
    bmc_address: Annotated[str, typer.Option(help="Address of the first BMC; the others follow it.")] = "127.0.40.1",
    bmc_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of all BMCs.")] = 623,
    pdu_address: Annotated[str, typer.Option(help="Address of the first PDU; the others follow it.")] = "127.0.41.1",
    pdu_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of all PDUs.")] = 1161,
    scheduler: Annotated[
        PbsKind | None, typer.Option(help="A PBS server that is not there either: its commands are in FOLDER/bin.")
    ] = None,
) -> None:
    """Run virtual nodes with BMCs that speak IPMI and PDUs that speak SNMP, on loopback, until Ctrl-C."""
    # What is imported here loads pysnmp, which `offpeak --version` must not wait for.
    from offpeak.machines.node_sets import expand
    from offpeak.model.node_class_file import bundled_node_classes, node_class_named
    from sim_backend.pbs_standin.server import pbs_of_room
    from sim_backend.virtual.machine_room import run_room
    from sim_backend.virtual.room_plan import RoomPlan, room_logins, write_inventory

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
    words = ("offpeak", "virtual", "--nodes", nodes, "--node-class", node_class, *place)
    kind = node_class if node_class in bundled_node_classes() else str(Path(node_class).expanduser().resolve())
    inventory = write_inventory(folder, plan, node_class=kind, made_by=shlex.join(map(str, words)))
    beside = partial(pbs_of_room, scheduler.value, folder=folder.resolve()) if scheduler else None
    run_room(plan, room_logins(folder), ready=lambda: typer.echo(_summary(plan, inventory, scheduler)), beside=beside)


def _summary(plan: "RoomPlan", inventory: Path, scheduler: PbsKind | None) -> str:
    from offpeak.machines.node_sets import fold
    from offpeak.text import counted
    from sim_backend.virtual.room_plan import BMC_PASSWORD, PDU_COMMUNITY, USER

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
