"""Whether a node's BMC answers, is the one that was enrolled, and measures."""

from offpeak.errors import DeviceError, NotSupported, OffpeakError
from offpeak.machines.inventory import InventoryNode
from power.check.finding import Finding, Verdict, failed
from power.drivers.ipmi.address import address_of
from power.drivers.ipmi.request import restore_policy
from power.drivers.port import PowerDriver
from power.drivers.registry import driver_of
from power.drivers.wire import Wire
from power.meters.registry import bmc_meter

ALWAYS_OFF_HINT = "nodes that start all at once after a power failure are a risk: ipmitool chassis policy always-off"

IPMI = ("ipmi", "ipmitool", "ipmipower")
SAFE_SUITE = 17
SUITES = {0: "no login and no encryption", 1: "no encryption", 2: "no encryption", 3: "SHA-1"}


async def check_bmc(machine: InventoryNode, wire: Wire) -> list[Finding]:
    """Return what there is to say of the node's BMC; it is only asked."""
    try:
        driver = driver_of(machine, wire)
        seen = await driver.query()
        if seen.trouble is not None:
            raise seen.trouble
        found = [await _who(machine, driver)]
        found += await _measured(machine, wire)
        found += await _after_an_outage(machine, wire)
        found += unsafe_transport(machine) + _fallen_back(machine, wire)
    except OffpeakError as problem:
        return [failed("bmc", machine.node, problem)]
    said = [each for each in found if each.verdict is not Verdict.GOOD]
    return said or [Finding("bmc", machine.node, Verdict.GOOD, f"{seen.state}, as enrolled, measures power")]


async def _who(machine: InventoryNode, driver: PowerDriver) -> Finding:
    identity = await driver.identity()
    if identity is None:
        hint = "such nodes are never switched off: an address may lead to another node since a repair"
        return Finding("bmc", machine.node, Verdict.DOUBTFUL, "does not say who it is", hint)
    if machine.enrolled is None:
        hint = "what is not enrolled is never switched off: offpeak enroll"
        return Finding("bmc", machine.node, Verdict.DOUBTFUL, "answers, but is not enrolled", hint)
    if identity != machine.enrolled.identity:
        said = f"is {identity}, but {machine.enrolled.identity} was enrolled on {machine.enrolled.date}"
        hint = f"look where its address leads; if its board was replaced: offpeak enroll --replace {machine.node}"
        return Finding("bmc", machine.node, Verdict.BAD, said, hint)
    return Finding("bmc", machine.node, Verdict.GOOD, "as enrolled")


async def _measured(machine: InventoryNode, wire: Wire) -> list[Finding]:
    meter = bmc_meter(machine, wire)
    if meter is None:
        return []
    try:
        readings = await meter.read()
    except NotSupported as problem:
        return [Finding("bmc", machine.node, Verdict.DOUBTFUL, "measures no power", problem.hint)]
    except DeviceError as problem:
        return [failed("bmc", machine.node, problem)]
    finally:
        await meter.close()
    return [
        Finding("bmc", machine.node, Verdict.DOUBTFUL, each.why, "meter the node at its PDU if that stays so")
        for each in readings
        if each.power_w is None
    ]


async def _after_an_outage(machine: InventoryNode, wire: Wire) -> list[Finding]:
    if machine.hardware.driver != "ipmi":
        return []
    bmc = address_of(machine)
    policy = await restore_policy(lambda request: wire.sessions.ask(bmc, request))
    if policy in ("always-off", "unknown"):
        return []
    return [Finding("bmc", machine.node, Verdict.DOUBTFUL, f"after a power failure: {policy}", ALWAYS_OFF_HINT)]


def unsafe_transport(machine: InventoryNode) -> list[Finding]:
    """Return what the inventory says against the way to the BMC: a password that anybody on the network can read."""
    said = hint = ""
    if (machine.bmc or "").startswith("http://"):
        said, hint = "is asked by http: its password travels unencrypted", "give its address as https://"
    elif machine.hardware.driver in IPMI and (suite := machine.hardware.cipher_suite) != SAFE_SUITE:
        said = f"cipher_suite = {suite}, {SUITES.get(suite, 'weaker than SHA-256')}"
        hint = f"set cipher_suite = {SAFE_SUITE} (SHA-256, AES) if the BMC takes it"
    return [Finding("bmc", machine.node, Verdict.DOUBTFUL, said, hint)] if said else []


def _fallen_back(machine: InventoryNode, wire: Wire) -> list[Finding]:
    """Return a finding where pyghmi proposed suite 17 and the BMC took 3 only."""
    if machine.hardware.driver != "ipmi":
        return []
    bmc = address_of(machine)
    suite = wire.sessions.cipher_suite(bmc)
    if suite is None or suite >= bmc.cipher_suite:
        return []
    said = f"refused cipher suite {bmc.cipher_suite}; its sessions use {suite}, {SUITES[suite]}"
    hint = f"update its firmware, or accept that with cipher_suite = {suite}"
    return [Finding("bmc", machine.node, Verdict.DOUBTFUL, said, hint)]
