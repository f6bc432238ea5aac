"""The one ComputerSystem of a Redfish service that is a machine, and what it may be told."""

from dataclasses import dataclass
from typing import Any

from offpeak.errors import BadAnswer, WrongDevice
from offpeak.machines.inventory import InventoryNode
from power.drivers.port import Order
from power.redfish_json import Resource, inside, links
from power.redfish_service import ROOT, RedfishService

RESETS = {Order.ON: "On", Order.SOFT_OFF: "GracefulShutdown", Order.HARD_OFF: "ForceOff"}
RESET_ACTION = ("Actions", "#ComputerSystem.Reset")


@dataclass(frozen=True)
class ResetAction:
    """Where a reset is posted to, and which orders the system takes."""

    path: str
    orders: frozenset[Order]


async def system_path(service: RedfishService, machine: InventoryNode) -> str:
    """Return the system's address: the only one, else that of the enrolled UUID, else the one named like the node."""
    collection = inside(await service.get(ROOT), "Systems", "@odata.id")
    if not isinstance(collection, str):
        raise BadAnswer(f"{service.who}: names no systems", hint="is that the address of a Redfish service?")
    paths = links((await service.get(collection)).get("Members"))
    if len(paths) == 1:
        return paths[0]
    ours = [path for path in paths if _is_ours(await service.get(path), machine)]
    if len(ours) == 1:
        return ours[0]
    if machine.enrolled is not None:
        raise WrongDevice(f"{service.who}: none of its {len(paths)} systems is the enrolled one", hint="enrol it anew")
    hint = f"give one of them the HostName {machine.node} in the BMC"
    raise BadAnswer(f"{service.who}: {len(ours)} of its {len(paths)} systems are named {machine.node}", hint=hint)


def uuid_of(system: Resource) -> str | None:
    """Return the system's UUID in small letters, None if it tells none."""
    uuid = system.get("UUID")
    return uuid.lower() if isinstance(uuid, str) and uuid else None


async def reset_action(service: RedfishService, system: Resource) -> ResetAction | None:
    """Return how the system is switched, None if it cannot be; one that does not list its resets may know all."""
    action = inside(system, *RESET_ACTION)
    target = inside(action, "target")
    if not isinstance(target, str):
        return None
    allowed = inside(action, "ResetType@Redfish.AllowableValues")
    info = inside(action, "@Redfish.ActionInfo")
    if allowed is None and isinstance(info, str):
        allowed = _allowed_by_info(await service.get(info))
    if not isinstance(allowed, list):
        return ResetAction(target, frozenset(RESETS))
    return ResetAction(target, frozenset(order for order, reset in RESETS.items() if reset in allowed))


def _is_ours(system: Resource, machine: InventoryNode) -> bool:
    if machine.enrolled is not None:
        return uuid_of(system) == machine.enrolled.identity.lower()
    return machine.node in (system.get("HostName"), system.get("Name"), system.get("Id"))


def _allowed_by_info(info: Resource) -> Any:
    parameters = info.get("Parameters")
    rows = parameters if isinstance(parameters, list) else []
    found = (inside(row, "AllowableValues") for row in rows if inside(row, "Name") == "ResetType")
    return next(found, None)
