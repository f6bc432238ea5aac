"""A power-control service, such as OpenCHAMI's power-control or HPE's PCS: one HTTP API switches and caps many nodes.

`url` of the hardware is the address of the service, `bmc` the xname of a node there, and the password of its login a
token, which is read anew for each request. Queries and orders that come at the same moment are one request. An order is
a transition of the service that waits for no effect: the life cycle of the node does that. A transition that does not
end is aborted, so that it does not switch a node off later.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from offpeak.door.door import Confirm, Guard
from offpeak.errors import (
    AccessRefused,
    BadAnswer,
    BadInput,
    BadInventory,
    DeviceError,
    NoAnswer,
    NotSupported,
    OffpeakError,
)
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.port import PowerObservation, confirm_at_once
from offpeak.power.drivers.redfish import DeviceWebApi, Resource, credential_of, parse_resource
from offpeak.power.drivers.transport import Transport
from offpeak.text import counted, printable

JOIN_S = 0.05
"""A request waits so long for others to be sent with it; the door's last answer about jobs is fresh for longer."""
TASK_TIMEOUTS = 6
"""The longest time of a task of the service, as a multiple of the time-out of one request."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""The pauses between two queries of a task."""
MOST_BYTES = 64 * 1024 * 1024
"""The states of 100,000 nodes have 30 MB."""

Item = TypeVar("Item")
Result = TypeVar("Result")

OPERATIONS = {NodeOrder.ON: "On", NodeOrder.SOFT_OFF: "Soft-Off", NodeOrder.HARD_OFF: "Force-Off"}
STATES = {"on": PowerState.ON, "off": PowerState.OFF}
ENDED = ("completed", "aborted")
UNDER_WAY = ("new", "in-progress")
NOT_KNOWN_HINT = "is bmc below [[machines]] its xname? does the service have it in its inventory?"


class _Joined(Generic[Item, Result]):
    """Joins the calls for many nodes into one; `send` gets one item for each xname, and returns a result or an error.

    A caller that has gone is left out.
    """

    def __init__(self, send: Callable[[Mapping[str, Item]], Awaitable[Mapping[str, Result | OffpeakError]]]) -> None:
        self._send = send
        self._waiting: list[tuple[str, Item, asyncio.Future[Result]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, xname: str, item: Item) -> Result:
        if not self._waiting:
            self._tasks.add(task := asyncio.create_task(self._run()))
            task.add_done_callback(self._tasks.discard)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((xname, item, future))
        return await future

    async def _run(self) -> None:
        await asyncio.sleep(JOIN_S)
        calls, self._waiting = [call for call in self._waiting if not call[2].done()], []
        results: Mapping[str, Result | OffpeakError] = {}
        problem: BaseException | None = None
        try:
            results = await self._send({xname: item for xname, item, _ in calls}) if calls else {}
        except (Exception, asyncio.CancelledError) as error:
            problem = error
        for xname, _, future in calls:
            result = problem or results[xname]
            if future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


@dataclass(frozen=True)
class _NodeStatus:
    """What the service reports of a node: `problem` is why its state is unknown; no operations: it does not say."""

    state: PowerState
    operations: frozenset[str]
    problem: str = ""


class PowerControlService:
    """The service at one address. Its calls are those of many nodes, and raise DeviceErrors."""

    def __init__(self, machine: InventoryNode, *, timeout_s: float) -> None:
        url = (machine.hardware.url or "").rstrip("/")
        if urlsplit(url).scheme not in ("http", "https"):
            hint = f'add url = "https://HOST/v1" below [hardware.{machine.hardware.name}]'
            raise BadInventory(f"hardware.{machine.hardware.name}: has no url of its power-control service", hint=hint)
        self.who = f"power-control service {urlsplit(url).netloc}"
        self._credential, self._timeout_s = credential_of(machine), timeout_s
        table, verify = f"hardware.{machine.hardware.name}", machine.hardware.verify
        self._api = DeviceWebApi(
            url, self.who, table=table, verify=verify, timeout_s=timeout_s, page="/health", most_bytes=MOST_BYTES
        )
        self.states = _Joined(self._read_states)
        self.orders = {order: _Joined(partial(self._start_transition, order)) for order in OPERATIONS}
        self.limits = _Joined(self._read_limits)
        self.new_limits = _Joined(self._set_limits)

    async def close(self) -> None:
        """Close the connection. The service may be used again."""
        await self._api.close()

    async def _read_states(self, xnames: Mapping[str, None]) -> Mapping[str, _NodeStatus | OffpeakError]:
        answer = await self._ask("POST", "/power-status", {"xname": [*xnames]})
        rows = _rows_by_xname(answer.get("status"))
        missing = f"{self.who} reports nothing of it, and answered for {len(rows.keys() & xnames)} of {len(xnames)}"
        return {
            xname: _parse_status(rows[xname]) if xname in rows else BadAnswer(missing, hint=NOT_KNOWN_HINT)
            for xname in xnames
        }

    async def _start_transition(
        self, order: NodeOrder, guards: Mapping[str, Guard]
    ) -> Mapping[str, OffpeakError | None]:
        refused: dict[str, OffpeakError] = {}
        for xname, guard in guards.items():
            try:
                guard()
            except OffpeakError as problem:
                refused[xname] = problem
        location: list[Resource] = [{"xname": xname} for xname in guards if xname not in refused]
        if not location:
            return dict(refused)

        def check() -> None:
            for each in location:
                guards[each["xname"]]()

        # Without a deadline a task ends once the BMC has the order; the service would else lock the node for minutes.
        body = {"operation": OPERATIONS[order], "taskDeadlineMinutes": 0, "location": location}
        path = ""
        tasks: dict[str, Resource] = {}

        def are_done(transition: Resource) -> bool:
            # The transition itself may last for some seconds more.
            tasks.update(_rows_by_xname(transition.get("tasks")))
            states = (tasks.get(each["xname"], {}).get("taskStatus", "new") for each in location)
            return not any(state in UNDER_WAY for state in states) or _has_ended(transition.get("transitionStatus"))

        try:
            answer = await self._ask("POST", "/transitions", body, check)
            path = f"/transitions/{_id_of(answer, 'transitionID', self.who)}"
            await self._wait(path, are_done, f"{OPERATIONS[order]} of {counted(len(location), 'node')}")
        except (DeviceError, asyncio.CancelledError):
            # It must not switch a node off later, when nobody expects that. Its number may be lost with the answer. An
            # equal one may be that of another head node: to abort a wake of its would strand a job.
            with suppress(DeviceError):
                lost = [] if path or order is NodeOrder.ON else await self._find_transitions(order, location)
                for each in [path] if path else lost:
                    await self._ask("DELETE", each)
            raise
        return {xname: refused.get(xname) or self._failure(tasks.get(xname, {})) for xname in guards}

    async def _find_transitions(self, order: NodeOrder, location: list[Resource]) -> list[str]:
        """Return the paths of the transitions under way that have this order for exactly these nodes."""
        listed = (await self._ask("GET", "/transitions")).get("transitions") if location else ()
        rows = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        found = []
        for row in rows:
            if str(row.get("operation")).lower() == OPERATIONS[order].lower() and not _has_ended(
                row.get("transitionStatus")
            ):
                path = f"/transitions/{_id_of(row, 'transitionID', self.who)}"
                tasks = _rows_by_xname((await self._ask("GET", path)).get("tasks"))
                found += [path] if tasks.keys() == {each["xname"] for each in location} else []
        return found

    def _failure(self, task: Resource) -> OffpeakError | None:
        if (status := task.get("taskStatus", "missing")) == "succeeded":
            return None
        texts = (task.get(key) for key in ("taskStatusDescription", "error"))
        message = ": ".join([f"{self.who}: its task is {status}", *(printable(str(text)) for text in texts if text)])
        return (NotSupported if status == "unsupported" else BadAnswer)(message, hint="see the log of the service")

    async def _read_limits(self, xnames: Mapping[str, None]) -> Mapping[str, Resource | OffpeakError]:
        return await self._run_cap_task("POST", "/power-cap/snapshot", {"xnames": [*xnames]}, xnames)

    async def _set_limits(
        self, controls: Mapping[str, tuple[Resource, Guard]]
    ) -> Mapping[str, Resource | OffpeakError]:
        components = [{"xname": xname, "controls": [control]} for xname, (control, _) in controls.items()]

        def check() -> None:
            for _, guard in controls.values():
                guard()

        return await self._run_cap_task("PATCH", "/power-cap", {"components": components}, controls, check)

    async def _run_cap_task(
        self, method: str, path: str, body: Resource, xnames: Mapping[str, Any], guard: Guard | None = None
    ) -> Mapping[str, Resource | OffpeakError]:
        answer = await self._ask(method, path, body, guard)
        path = f"/power-cap/{_id_of(answer, 'taskID', self.who)}"
        done = await self._wait(path, lambda task: _has_ended(task.get("taskStatus")), "its task of caps")
        rows = _rows_by_xname(done.get("components"))
        found: dict[str, Resource | OffpeakError] = {}
        for xname in xnames:
            error = rows[xname].get("error") if xname in rows else "reports nothing of it"
            found[xname] = BadAnswer(f"{self.who}: {printable(str(error))}") if error else rows[xname]
        return found

    async def _wait(self, path: str, is_done: Callable[[Resource], bool], what: str) -> Resource:
        """Return the task of the service once it is done. Raises NoAnswer if that takes too long."""
        limit_s = TASK_TIMEOUTS * self._timeout_s
        pause_s, until_s = FIRST_PAUSE_S, time.monotonic() + limit_s
        while time.monotonic() < until_s:
            await asyncio.sleep(pause_s)
            task = await self._ask("GET", path)
            if is_done(task):
                return task
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        hint = f"the nodes are read back; see the service's log, and: curl {self._api.url}{path}"
        raise NoAnswer(f"{self.who}: {what} has not ended within {limit_s:g} s", hint=hint)

    async def _ask(self, method: str, path: str, body: Resource | None = None, guard: Guard | None = None) -> Resource:
        # A token has an end: a new one in the file is used at once, and no account gets locked by an old one.
        try:
            token = self._credential.password().value.decode("latin-1")
        except BadInput as problem:
            raise AccessRefused(f"{self.who}: no token: {problem}", hint=problem.hint) from None
        answer = await self._api.exchange(method, path, body, {"Authorization": f"Bearer {token}"}, guard)
        if answer.status in (401, 403):
            hint = f"renew the token in {self._credential.password_file}; it is read anew for each request"
            raise AccessRefused(f"{self.who}: refuses {method} {path} (HTTP {answer.status})", hint=hint)
        if not 200 <= answer.status < 300:
            raise self._api.refusal(method, path, answer)
        return parse_resource(answer.body, f"{self.who}: no JSON object at {path}", "a power-control service")


def _rows_by_xname(rows: Any) -> dict[str, Resource]:
    """Return the rows of a list by their xnames; two rows of one node count as one that says nothing."""
    found: dict[str, Resource] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("xname"), str):
            found[row["xname"]] = {} if row["xname"] in found else row
    return found


def _has_ended(status: Any) -> bool:
    return str(status).lower() in ENDED


def _parse_status(row: Resource) -> _NodeStatus:
    state, management = (str(row.get(key) or "unknown").lower() for key in ("powerState", "managementState"))
    listed = row.get("supportedPowerTransitions")
    operations = frozenset(str(each).lower() for each in listed) if isinstance(listed, list) else frozenset()
    if state in STATES and management == "available":
        return _NodeStatus(STATES[state], operations)
    error = f": {printable(str(row['error']))}" if row.get("error") else ""
    return _NodeStatus(PowerState.UNKNOWN, operations, f"its power is {state}, its BMC {management}{error}")


def _id_of(answer: Resource, key: str, who: str) -> str:
    number = answer.get(key)
    if not isinstance(number, str) or not number.replace("-", "").isalnum():
        raise BadAnswer(f"{who}: names no {key}", hint="its state is read back; see the service's log")
    return number


def service_of(machine: InventoryNode, wire: Transport) -> tuple[PowerControlService, str]:
    """Return the service of a node, one for all nodes that have the same, and the node's xname there."""
    hardware = machine.hardware
    if machine.bmc is None:
        raise BadInventory(f"{machine.node}: has no xname", hint="write it as bmc of its [[machines]]")
    key = (hardware.url, hardware.credential, hardware.verify)
    service = wire.services.get(key)
    if not isinstance(service, PowerControlService):
        service = wire.services[key] = PowerControlService(machine, timeout_s=wire.timeout_s)
    return service, machine.bmc


class PowerControlDriver:
    """Reads and sets one node's power. `orders` are all orders until the service has said which ones the node has."""

    name = "pcs"

    def __init__(self, machine: InventoryNode, wire: Transport) -> None:
        self._service, self._xname = service_of(machine, wire)
        self._node, self._now = f"{machine.node} ({self._xname})", wire.clock
        self.orders = frozenset(OPERATIONS)

    async def query(self) -> PowerObservation:
        """Return on or off as the service knows it from its last round of the BMCs, else UNKNOWN."""
        try:
            status = await self._status()
        except DeviceError as error:
            return PowerObservation(PowerState.UNKNOWN, self._now(), error)
        return PowerObservation(status.state, self._now(), self._error(status))

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Send the order with those of other nodes, unless the node is already in that state.

        Raises BadAnswer, and sends nothing, if the state is unknown.
        """
        status = await self._status()
        if order not in self.orders:
            offered = ", ".join(sorted(self.orders)) or "nothing"
            raise NotSupported(f"{self._node}: does not support {order}", hint=f"it supports: {offered}")
        if error := self._error(status):
            raise error
        if (status.state is PowerState.ON) is not (order is NodeOrder.ON):
            await self._service.orders[order].call(self._xname, await confirm())

    async def identity(self) -> str | None:
        """Return the xname, if the service has it: the service, not offpeak, knows which board is at that place."""
        await self._status()
        return self._xname

    async def close(self) -> None:
        """Do nothing: the transport closes the service, which other nodes use."""

    async def _status(self) -> _NodeStatus:
        status = await self._service.states.call(self._xname, None)
        if status.operations:
            self.orders = frozenset(order for order, each in OPERATIONS.items() if each.lower() in status.operations)
        return status

    def _error(self, status: _NodeStatus) -> DeviceError | None:
        if not status.problem:
            return None
        hint = f"`offpeak check` asks again; see the log of the {self._service.who}"
        return BadAnswer(f"{self._node}: {status.problem}", hint=hint)


def find_node_control(controls: Any) -> Resource | None:
    """Return the control that caps the whole node: the one that is named so, or the only one."""
    found = [each for each in controls if isinstance(each, dict)] if isinstance(controls, list) else []
    named = [each for each in found if str(each.get("name")).lower().startswith("node")]
    return named[0] if named else found[0] if len(found) == 1 else None
