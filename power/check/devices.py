"""Checks all devices of a site at the same time: BMCs, nodes by ssh, PDUs, and the wake-up of nodes without the agent.

The checks only read from devices. The wake-up check queries one BMC by ipmitool, like Slurm's resume program while the
agent is dead.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offpeak.display import duration_text, watts_text
from offpeak.errors import DeviceError, NotSupported, OffpeakError, WrongDevice
from offpeak.machines.inventory import Enrolment, Inventory, InventoryNode, Pdu, SleepMethod, is_standby_proof
from offpeak.model.orders import NodeOrder
from offpeak.power.check.findings import CheckVerdict, Finding, check_credentials, failed_finding
from offpeak.power.check.pairing import NodeFirmware, prove_pair, read_claims
from offpeak.power.drivers.ipmi.bmc import address_of
from offpeak.power.drivers.ipmi.requests import read_restore_policy
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.ssh import NodeProbe, NodeSsh, check_standby
from offpeak.power.drivers.transport import Transport
from offpeak.power.drivers.wake_on_lan import WakeOnLanDriver
from offpeak.power.meters.port import Reading
from offpeak.power.meters.registry import bmc_meter, pdu_meter
from offpeak.power.wake_list import FILE, make_wake_list

ALWAYS_OFF_HINT = "nodes that start all at once after a power failure are a risk: ipmitool chassis policy always-off"

IPMI_DRIVERS = ("ipmi", "ipmitool", "ipmipower")
SAFE_SUITE = 17
WEAK_SUITES = {0: "no login and no encryption", 1: "no encryption", 2: "no encryption", 3: "SHA-1"}

TOTAL_PART = "total"
NO_TOTAL_HINT = "docs/how-to/pdus.md explains the reason; offpeak power --json lists every part that the PDU measures"
NO_OUTLET_HINT = "does this model meter its outlets? names must match those of the PDU; offpeak power --json lists them"

WAKE_PART, IPMITOOL = "wake", "ipmitool"
IPMITOOL_TIMEOUT_S = 20.0
NO_IPMITOOL_HINT = "apt install ipmitool, or dnf install ipmitool: the resume program needs it while the agent is dead"

METERED = "metered"
"""A capability of a node: its BMC measures power. The others are its orders and proven standby states."""


async def check_bmc(machine: InventoryNode, wire: Transport) -> list[Finding]:
    """Return the findings about the node's BMC, which is only read."""
    try:
        driver = driver_of(machine, wire)
        seen = await driver.query()
        if seen.error is not None:
            raise seen.error
        found = [await _check_enrolled_identity(machine, driver)]
        found += await _check_bmc_meter(machine, wire)
        found += await _check_restore_policy(machine, wire)
        found += check_transport(machine) + _check_cipher_suite(machine, wire)
    except OffpeakError as problem:
        return [failed_finding("bmc", machine.node, problem)]
    problems = [finding for finding in found if finding.verdict is not CheckVerdict.GOOD]
    power = ", measures power" if bmc_meter(machine, wire) else ""
    return problems or [Finding("bmc", machine.node, CheckVerdict.GOOD, f"{seen.state}, as enrolled{power}")]


async def _check_enrolled_identity(machine: InventoryNode, driver: PowerDriver) -> Finding:
    identity = await driver.identity()
    if identity is None:
        hint = "offpeak never switches such nodes off: after a repair the address may belong to another node"
        return Finding("bmc", machine.node, CheckVerdict.DOUBTFUL, "reports no identity", hint)
    if machine.enrolled is None:
        hint = "offpeak never switches off a node that is not enrolled: offpeak enroll"
        return Finding("bmc", machine.node, CheckVerdict.DOUBTFUL, "answers, but is not enrolled", hint)
    if identity != machine.enrolled.identity:
        message = f"is {identity}, but {machine.enrolled.identity} was enrolled on {machine.enrolled.date}"
        hint = f"check which node has this address; if its board was replaced: offpeak enroll --replace {machine.node}"
        return Finding("bmc", machine.node, CheckVerdict.BAD, message, hint)
    return Finding("bmc", machine.node, CheckVerdict.GOOD, "as enrolled")


async def _check_bmc_meter(machine: InventoryNode, wire: Transport) -> list[Finding]:
    meter = bmc_meter(machine, wire)
    if meter is None:
        return []
    try:
        readings = await meter.read()
    except NotSupported as problem:
        return [Finding("bmc", machine.node, CheckVerdict.DOUBTFUL, "measures no power", problem.hint)]
    except DeviceError as problem:
        return [failed_finding("bmc", machine.node, problem)]
    finally:
        await meter.close()
    return [
        Finding("bmc", machine.node, CheckVerdict.DOUBTFUL, reading.why, "meter the node at its PDU if that stays so")
        for reading in readings
        if reading.power_w is None
    ]


async def _check_restore_policy(machine: InventoryNode, wire: Transport) -> list[Finding]:
    if machine.hardware.driver != "ipmi":
        return []
    bmc = address_of(machine)
    policy = await read_restore_policy(lambda request: wire.sessions.ask(bmc, request))
    if policy in ("always-off", "unknown"):
        return []
    return [Finding("bmc", machine.node, CheckVerdict.DOUBTFUL, f"after a power failure: {policy}", ALWAYS_OFF_HINT)]


def check_transport(machine: InventoryNode) -> list[Finding]:
    """Return the findings about an insecure path to the BMC, where anybody on the network can read the password."""
    message = hint = ""
    if machine.is_unencrypted:
        message, hint = "is queried by http: its password travels unencrypted", "give its address as https://"
    elif machine.hardware.driver in IPMI_DRIVERS and (suite := machine.hardware.cipher_suite) != SAFE_SUITE:
        message = f"cipher_suite = {suite}, {WEAK_SUITES.get(suite, 'weaker than SHA-256')}"
        hint = f"set cipher_suite = {SAFE_SUITE} (SHA-256, AES) if the BMC takes it"
    return [Finding("bmc", machine.node, CheckVerdict.DOUBTFUL, message, hint)] if message else []


def _check_cipher_suite(machine: InventoryNode, wire: Transport) -> list[Finding]:
    """Return a finding if pyghmi proposed suite 17 and the BMC accepted only 3."""
    if machine.hardware.driver != "ipmi":
        return []
    bmc = address_of(machine)
    suite = wire.sessions.cipher_suite(bmc)
    if suite is None or suite >= bmc.cipher_suite:
        return []
    message = f"refused cipher suite {bmc.cipher_suite}; its sessions use {suite}, {WEAK_SUITES[suite]}"
    hint = f"update its firmware, or accept that with cipher_suite = {suite}"
    return [Finding("bmc", machine.node, CheckVerdict.DOUBTFUL, message, hint)]


async def check_node(machine: InventoryNode, wire: Transport) -> list[Finding]:
    """Return the findings about the node by ssh, which is only read."""
    method = machine.hardware.sleep_method(NodeOrder.STANDBY)
    try:
        if method and "wol" in method.wake:
            WakeOnLanDriver(machine)
        probe = await NodeSsh(machine, logins=wire.logins, timeout_s=wire.timeout_s).probe()
        if method:
            check_standby(probe, machine, method)
    except OffpeakError as problem:
        return [failed_finding("ssh", machine.node, problem)]
    return [*_check_inhibit_delay(machine, probe.inhibit_delay_s), _check_probe(machine, method, probe)]


def _check_probe(machine: InventoryNode, method: SleepMethod | None, probe: NodeProbe) -> Finding:
    if method is None:
        return Finding("ssh", machine.node, CheckVerdict.GOOD, "answers")
    if not probe.wake_clock:
        hint = "if no other way wakes it, it stays asleep; see docs/how-to/standby.md"
        return Finding("ssh", machine.node, CheckVerdict.DOUBTFUL, "can stand by, but has no alarm clock", hint)
    if machine.usable_method(NodeOrder.STANDBY) is None:
        hint = f"until then it is not suspended; drain it, and: offpeak enroll {machine.node} --standby-test"
        return Finding("ssh", machine.node, CheckVerdict.DOUBTFUL, "can stand by, but has not proven it", hint)
    return Finding("ssh", machine.node, CheckVerdict.GOOD, "answers, can stand by, has an alarm clock")


def _check_inhibit_delay(machine: InventoryNode, delay_s: float | None) -> Iterator[Finding]:
    """Yield a finding if programs may delay a shutdown for longer than the order is waited for."""
    soft_off = machine.hardware.sleep_method(NodeOrder.SOFT_OFF)
    if soft_off is None or delay_s is None or delay_s < soft_off.enter_timeout_s:
        return
    patience = duration_text(int(soft_off.enter_timeout_s))
    message = f"programs may delay its shutdown by {duration_text(int(delay_s))}; offpeak waits {patience}"
    hint = "it stays closed to jobs until it is off; an upgrade may have set InhibitDelayMaxSec of logind.conf"
    yield Finding("ssh", machine.node, CheckVerdict.DOUBTFUL, message, hint)


async def check_pdu(pdu: Pdu, wire: Transport) -> list[Finding]:
    """Return the findings about the PDU, which is only read."""
    try:
        meter = pdu_meter(pdu, wire)
        try:
            readings = await meter.read()
        finally:
            await meter.close()
    except OffpeakError as problem:
        return [failed_finding("pdu", pdu.name, problem)]
    doubted = [_doubtful_reading(reading) for reading in readings if reading.why and _is_checked(reading)]
    return doubted or [Finding("pdu", pdu.name, CheckVerdict.GOOD, _pdu_summary(readings))]


def _is_checked(reading: Reading) -> bool:
    return reading.part == TOTAL_PART or reading.node is not None


def _doubtful_reading(reading: Reading) -> Finding:
    """Return the finding for a reading with a note or without a value."""
    if reading.power_w is not None:
        part, hint = f"{reading.part} {watts_text(reading.power_w)}", "compare with the PDU's own display"
    else:
        part, hint = reading.part, NO_TOTAL_HINT if reading.part == TOTAL_PART else NO_OUTLET_HINT
    return Finding("pdu", reading.meter, CheckVerdict.DOUBTFUL, f"{part}: {reading.why}", hint)


def _pdu_summary(readings: Sequence[Reading]) -> str:
    total_w = [reading.power_w for reading in readings if reading.part == TOTAL_PART and reading.power_w is not None]
    outlets = sum(reading.part.startswith("outlet") for reading in readings)
    metered = f", {outlets} outlets metered" if outlets else ""
    return f"{watts_text(sum(total_w))}{metered}" if total_w else f"no total{metered}"


async def check_wake_path(inventory: Inventory, nodes: Iterable[str], state_folder: Path | None) -> list[Finding]:
    """Query the first of these nodes that has an IPMI BMC; return no finding if there is none.

    These BMCs have just accepted the login: a second attempt with a wrong one might lock the account.
    """
    ways = await asyncio.to_thread(_read_wake_list, inventory, state_folder)
    found = next(((node, ways[node]) for node in nodes if ways.get(node, {}).get("way") == "ipmi"), None)
    if found is None:
        return []
    if shutil.which(IPMITOOL) is None:
        return [
            Finding(
                WAKE_PART,
                IPMITOOL,
                CheckVerdict.BAD,
                "is not installed: no node can be woken without the agent",
                NO_IPMITOOL_HINT,
            )
        ]
    return [await asyncio.to_thread(_query_by_ipmitool, *found)]


def ipmitool_command(way: Mapping[str, Any]) -> list[str]:
    """Return the command that queries the power state, as the resume program runs it."""
    place = ["-I", "lanplus", "-H", way["host"], "-p", str(way["port"]), "-N", "2", "-R", "3"]
    login = ["-U", way["user"], "-f", way["password_file"], "-C", str(way["cipher_suite"])]
    level = {"admin": "ADMINISTRATOR"}.get(way["privilege"], way["privilege"].upper())
    return [IPMITOOL, *place, *login, "-L", level, "chassis", "power", "status"]


def _read_wake_list(inventory: Inventory, state_folder: Path | None) -> Mapping[str, Any]:
    """Return the wake list that the agent has written, or the one that it would write if none can be read."""
    try:
        expected = make_wake_list(inventory)
    except OffpeakError:
        return {}
    try:
        listed = json.loads((state_folder / FILE).read_bytes()) if state_folder else {}
        of_agent = {node: way for node, way in listed.items() if way.get("host") == expected.get(node, {}).get("host")}
    except (AttributeError, OSError, ValueError):
        of_agent = {}
    return {**expected, **of_agent}


def _query_by_ipmitool(node: str, way: Mapping[str, Any]) -> Finding:
    command = ipmitool_command(way)
    hint = f"try it as the agent's user: {' '.join(command)}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IPMITOOL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        message = f"its BMC gives ipmitool no answer within {IPMITOOL_TIMEOUT_S:g} s"
        return Finding(WAKE_PART, node, CheckVerdict.BAD, message, hint)
    state = done.stdout.strip()
    if done.returncode or not state.endswith((" is on", " is off")):
        lines = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        return Finding(
            WAKE_PART, node, CheckVerdict.BAD, f"ipmitool, which wakes it without the agent, says: {lines[-1]}", hint
        )
    return Finding(WAKE_PART, node, CheckVerdict.GOOD, "its BMC answers ipmitool, which wakes nodes without the agent")


async def check_site(
    inventory: Inventory,
    machines: Iterable[InventoryNode],
    pdus: Iterable[Pdu],
    wire: Transport,
    scheduler: Callable[[], list[Finding]],
    *,
    state_folder: Path | None = None,
) -> list[Finding]:
    """Return the findings about the logins, the scheduler, these nodes and PDUs. Dead devices delay no others.

    `scheduler` blocks while it queries the scheduler. The agent keeps the wake list in `state_folder`.
    """
    machines = tuple(machines)
    checks: list[Coroutine[Any, Any, list[Finding]]] = [
        *(check_bmc(machine, wire) for machine in machines if machine.bmc),
        *(check_node(machine, wire) for machine in machines if machine.ssh),
        *(check_pdu(pdu, wire) for pdu in pdus),
    ]
    answer = asyncio.to_thread(scheduler)
    try:
        found = await asyncio.gather(*checks)
        of_devices = [one for each in found for one in each]
        bad = {
            finding.subject for finding in of_devices if finding.part == "bmc" and finding.verdict is CheckVerdict.BAD
        }
        answering = [machine.node for machine in machines if machine.bmc and machine.node not in bad]
        of_devices += await check_wake_path(inventory, answering, state_folder)
        return [*check_credentials(inventory.credentials), *await answer, *of_devices]
    finally:
        await wire.close()


@dataclass(frozen=True)
class EnrolmentResult:
    """The enrolment of one node, or the error. `same` if the inventory already contains it; `proof` is that of the
    pair of node and BMC, "" for none.
    """

    node: str
    enrolled: Enrolment | None = None
    error: OffpeakError | None = None
    same: bool = False
    proof: str = ""


@dataclass(frozen=True)
class EnrolmentRules:
    """The date of the enrolment, whether a changed identity is accepted, all nodes of the inventory, and what nodes
    read from their firmware.
    """

    date: str
    replace: bool = False
    nodes: frozenset[str] = frozenset()
    firmware: Mapping[str, NodeFirmware] = field(default_factory=dict)


async def probe_bmcs(
    machines: Iterable[InventoryNode], wire: Transport, rules: EnrolmentRules
) -> tuple[EnrolmentResult, ...]:
    """Query all BMCs at the same time and return the results. A BMC of another node, or one whose identity has changed,
    is an error.
    """
    try:
        return tuple(await asyncio.gather(*(_probe_bmc(machine, wire, rules) for machine in machines)))
    finally:
        await wire.close()


async def _probe_bmc(machine: InventoryNode, wire: Transport, rules: EnrolmentRules) -> EnrolmentResult:
    try:
        driver = driver_of(machine, wire)
        seen = await driver.query()
        if seen.error is not None and not isinstance(seen.error, NotSupported):
            raise seen.error
        identity = await driver.identity()
        if identity is None:
            hint = "offpeak can measure such a node, but never switches it off"
            raise NotSupported(f"{machine.node}: its BMC reports no identity", hint=hint)
        proof = prove_pair(machine, await read_claims(machine, identity, wire), rules.nodes, rules.firmware)
        can = [*sorted(map(str, driver.orders)), *([METERED] if await _has_power_meter(machine, wire) else [])]
    except OffpeakError as problem:
        return EnrolmentResult(machine.node, error=problem)
    known = machine.enrolled
    if known is not None and known.identity != identity and not rules.replace:
        return EnrolmentResult(machine.node, error=_identity_error(machine, known, identity))
    kept = filter(is_standby_proof, known.capabilities) if known and known.identity == identity else ()
    capabilities = tuple(dict.fromkeys((*can, *kept)))
    if known is not None and (known.identity, known.capabilities) == (identity, capabilities):
        return EnrolmentResult(machine.node, known, same=True, proof=proof)
    return EnrolmentResult(machine.node, Enrolment(identity, capabilities, rules.date), proof=proof)


def _identity_error(machine: InventoryNode, known: Enrolment, identity: str) -> WrongDevice:
    message = f"{machine.node}: its BMC is {identity}, but {known.identity} was enrolled on {known.date}"
    hint = f"does the address belong to this node? if its board was replaced: offpeak enroll --replace {machine.node}"
    return WrongDevice(message, hint=hint)


async def _has_power_meter(machine: InventoryNode, wire: Transport) -> bool:
    meter = bmc_meter(machine, wire)
    if meter is None:
        return False
    try:
        return any(reading.power_w is not None for reading in await meter.read())
    except DeviceError:
        return False
    finally:
        await meter.close()
