"""Controls a node by ssh: the commands of offpeak-node (probe, standby, meters), and the standby driver.

The login uses offpeak's private key and nothing else. The node's own kernel suspends it. The driver can observe that a
node is on, never that it is off: a silent node may hang, or be disconnected from the network.

A broker runs commands on the head node of another site, which may restrict the key to one command.
"""

import asyncio
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import asyncssh

from offpeak.door.door import Confirm, Guard
from offpeak.errors import (
    AccessRefused,
    BadAnswer,
    BadInventory,
    DeviceError,
    NoAnswer,
    NotSupported,
    OffpeakError,
    WrongDevice,
)
from offpeak.machines.credentials import Secret
from offpeak.machines.inventory import DEEP, InventoryNode, SleepMethod
from offpeak.model.constants import HOUR_S
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.plugin.scheduler.batch import BatchResult
from offpeak.power.drivers.logins import Logins
from offpeak.power.drivers.port import PowerObservation, confirm_at_once, confirm_by
from offpeak.tcp_delivery import bound_delivery
from offpeak.text import printable

if TYPE_CHECKING:
    from offpeak.plugin.federation.sites import Reach

MAX_ANSWER_CHARACTERS = 1_000_000
EXIT_NOT_SUPPORTED, EXIT_BUSY = 3, 4

DEAD_MAN_S = 12 * HOUR_S
"""A node that has been in standby for so long wakes by its own clock."""

MAX_OUTPUT_CHARACTERS = 16 * 1024 * 1024
NOT_STARTED = 255
"""The exit code of a command that certainly did not run."""


def read_private_key(file: Path) -> asyncssh.SSHKey:
    """Return the key. Raises BadInventory if it cannot be read, has a passphrase, or is readable by others."""
    try:
        private = file.stat().st_mode & 0o077 == 0
        key = asyncssh.read_private_key(file)
    except OSError as problem:
        hint = f"create one: ssh-keygen -t ed25519 -N '' -f {file}"
        raise BadInventory(f"{file}: cannot be read: {problem.strerror}", hint=hint) from None
    except asyncssh.KeyImportError:
        raise BadInventory(
            f"{file}: not a private key without a passphrase", hint=f"try: ssh-keygen -y -f {file}"
        ) from None
    if not private:
        raise BadInventory(f"{file}: readable by others than its owner", hint=f"chmod 600 {file}")
    return key


async def connect_by_key(
    host: str, port: int, user: str, *, key: asyncssh.SSHKey, known_hosts: Path
) -> asyncssh.SSHClientConnection:
    """Return a connection. Raises the errors of asyncssh and of the operating system."""
    return await asyncssh.connect(
        host,
        port,
        username=user,
        client_keys=[key],
        known_hosts=str(known_hosts),
        # Use only that key and that file: no ssh agent, no ~/.ssh, no password.
        config=None,
        agent_path=None,
        preferred_auth="publickey",
        gss_kex=False,
        gss_auth=False,
    )


@dataclass(frozen=True)
class NodeProbe:
    """What a node supports. `boot_id` changes with every boot; `wake_on_lan` holds pairs of network card and flags.

    `wake_clock` tells whether the node's clock can wake it. `gpus` is the number of GPUs that answer, None if its
    offpeak-node is of a release that does not count them. `goes_down` tells whether its operating system is about to
    shut down or to suspend, None if it does not say; `inhibit_delay_s` is how long a program may delay that.
    """

    version: str
    boot_id: str
    uptime_s: float
    power_states: tuple[str, ...]
    mem_sleep: tuple[str, ...]
    wake_clock: bool
    wake_on_lan: tuple[tuple[str, str], ...]
    gpus: int | None = None
    goes_down: bool | None = None
    inhibit_delay_s: float | None = None

    def can_stand_by(self, mem_sleep: str) -> bool:
        """Whether kernel and firmware offer that sleep state."""
        return "mem" in self.power_states and mem_sleep in self.mem_sleep


def check_standby(probe: NodeProbe, machine: InventoryNode, method: SleepMethod) -> None:
    """Raise NotSupported if the node does not offer the sleep state of its standby."""
    if probe.can_stand_by(method.mem_sleep):
        return
    place = f"[hardware.{machine.hardware.name}.standby]"
    others = ", ".join(probe.mem_sleep) if "mem" in probe.power_states else ""
    hint = f"it offers {others}: set mem_sleep below {place}, or leave out that table"
    raise NotSupported(
        f"{machine.node}: offers no standby by {method.mem_sleep}", hint=hint if others else f"leave out {place}"
    )


def parse_probe(text: str, who: str) -> NodeProbe:
    """Parse the answer to `probe`. Raises BadAnswer."""
    reply = parse_pairs(text)
    try:
        return NodeProbe(
            version=reply["version"],
            boot_id=_require_text(reply["boot_id"]),
            uptime_s=float(reply["uptime_s"]),
            power_states=tuple(reply["power_states"].split()),
            mem_sleep=tuple(term.strip("[]") for term in reply["mem_sleep"].split()),
            wake_clock=reply["wake_clock"] == "yes",
            wake_on_lan=tuple(_parse_card(term) for term in reply["wake_on_lan"].split()),
            gpus=int(reply["gpus"]) if "gpus" in reply else None,
            goes_down={"yes": True, "no": False}.get(reply.get("goes_down", "")),
            inhibit_delay_s=float(delay) if (delay := reply.get("inhibit_delay_s")) else None,
        )
    except (KeyError, ValueError):
        raise unexpected_answer(who, text) from None


def parse_pairs(text: str) -> dict[str, str]:
    """Return the lines "key=value" of an answer; other lines are ignored."""
    lines = (line.partition("=") for line in text.splitlines())
    return {key: value.strip() for key, sign, value in lines if sign}


def unexpected_answer(who: str, text: str) -> BadAnswer:
    """Return the error for an answer that offpeak-node never sends."""
    hint = "is its offpeak-node of this release? compare it with deploy/node/offpeak-node"
    return BadAnswer(f"{who}: an unexpected answer: {text[:60]!r}", hint=hint)


def _require_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _parse_card(term: str) -> tuple[str, str]:
    name, _, flags = term.rpartition(":")
    return name, flags


class NodeSsh:
    """Runs the commands of one node's offpeak-node. A call logs in, runs one command and logs out; login and command
    take at most `timeout_s` each.

    Calls raise a DeviceError: NoAnswer if the node is silent, AccessRefused if it refuses the key, WrongDevice if the
    host key is not the one in known_hosts, NotSupported if the node lacks the function, BadAnswer if the command fails.
    """

    def __init__(self, machine: InventoryNode, *, logins: Logins, timeout_s: float = 10.0) -> None:
        self.node = machine.node
        self._host = machine.ssh or machine.node
        self._port = machine.hardware.ssh_port
        kind, credential = machine.hardware.name, machine.hardware.ssh
        if credential is None:
            raise BadInventory(f"hardware.{kind}: has no ssh", hint=f'set ssh = "nodes" below [hardware.{kind}]')
        where = f"credentials.{credential.name}"
        # Without known_hosts asyncssh would accept any host.
        if credential.known_hosts is None or credential.key_file is None:
            missing = "key_file" if credential.key_file is None else "known_hosts"
            raise BadInventory(f"{where}: has no {missing}", hint=f"add {missing} below [{where}]")
        if not credential.known_hosts.is_file():
            hint = f"create it: ssh-keyscan NODES >{credential.known_hosts}, and compare the fingerprints"
            raise BadInventory(f"{credential.known_hosts}: no such file", hint=hint)
        self._credential, self._key_file, self._known_hosts = credential, credential.key_file, credential.known_hosts
        self._logins, self._timeout_s = logins, timeout_s

    async def probe(self) -> NodeProbe:
        """Return what the node supports."""
        return parse_probe(await self._ask("probe"), self.node)

    async def standby(self, dead_man_s: int, confirm: Confirm = confirm_at_once, *, mem_sleep: str = DEEP) -> bool:
        """Suspend the node a second later. Return whether its own clock will wake it after `dead_man_s`.

        Raises BadAnswer while a job runs there. `confirm` is awaited after the login, its guard is called before the
        command.
        """
        # Scripts of older releases know only ACPI S3, and take no name of it.
        state = "" if mem_sleep == DEEP else f" {mem_sleep}"
        text = await self._ask(f"standby {dead_man_s}{state}", confirm)
        if not text.startswith("ok\n"):
            raise unexpected_answer(self.node, text)
        return parse_pairs(text).get("wake_clock") == "yes"

    async def meters(self) -> str:
        """Return the node's counters as its offpeak-node writes them."""
        return await self._ask("meters")

    async def caps(self) -> str:
        """Return limits, ranges and draws of processors and GPUs as offpeak-node writes them."""
        return await self._ask("caps")

    async def cap(self, device: str, cap_w: int, for_s: int, guard: Guard) -> None:
        """Cap the processors ("cpu") or the GPUs ("gpu"), all together, until `uncap`, or for that time at most.

        `guard` is called after the login, directly before the command.
        """
        await self._ask(f"cap {device} {cap_w} {for_s}", confirm_by(guard))

    async def uncap(self, device: str, guard: Guard) -> None:
        """Bring back the limits from before the cap."""
        await self._ask(f"uncap {device}", confirm_by(guard))

    async def _ask(self, request: str, confirm: Confirm = confirm_at_once) -> str:
        key = read_private_key(self._key_file)
        # The public half distinguishes a changed key, which may be tried, from the refused one.
        mark = Secret(key.public_data)
        connection = await self._logins.log_in(
            self._credential, f"{self._host}:{self._port}", lambda: self._connected(key), secret=mark
        )
        try:
            guard = await confirm()
            async with asyncio.timeout(self._timeout_s):
                return await self._answer(connection, request, guard)
        except (TimeoutError, OSError, asyncssh.Error):
            hint = f"try: ssh -i {self._key_file} {self._credential.user}@{self._host} {request}"
            raise NoAnswer(f"{self.node}: no answer to {request}", hint=hint) from None
        finally:
            connection.abort()

    async def _connected(self, key: asyncssh.SSHKey) -> asyncssh.SSHClientConnection:
        try:
            async with asyncio.timeout(self._timeout_s):
                user = self._credential.user or "root"
                return await connect_by_key(self._host, self._port, user, key=key, known_hosts=self._known_hosts)
        except (TimeoutError, OSError, asyncssh.Error) as problem:
            raise self._device_error(problem) from None

    async def _answer(self, connection: asyncssh.SSHClientConnection, request: str, guard: Guard) -> str:
        def guarded() -> asyncssh.SSHClientProcess[str]:
            # asyncssh calls it when the node has opened the channel, and sends the command next.
            bound_delivery(connection.get_extra_info("socket"))
            guard()
            return asyncssh.SSHClientProcess()

        _, session = await connection.create_session(guarded, request, errors="replace")
        async with cast("asyncssh.SSHClientProcess[str]", session) as process:
            await process.redirect(asyncssh.DEVNULL)
            try:
                await process.stdout.readexactly(MAX_ANSWER_CHARACTERS)
            except asyncio.IncompleteReadError as whole:
                text = str(whole.partial)
            else:
                raise BadAnswer(f"{self.node}: the answer to {request} is too long", hint="look at the node")
            complaint = await process.stderr.read(1000)
            await process.wait_closed()
            status = process.exit_status
        if status is None:
            raise ConnectionError
        if status:
            raise self._refusal(request, status, complaint)
        return text

    def _refusal(self, request: str, status: int, complaint: str) -> DeviceError:
        lines = complaint.splitlines() or [f"ended with {status}"]
        message = printable(lines[0].removeprefix("offpeak-node: "))
        if status == EXIT_NOT_SUPPORTED:
            return NotSupported(f"{self.node}: {message}", hint="docs/how-to/standby.md lists what a node needs")
        hint = (
            "offpeak tries again later"
            if status == EXIT_BUSY
            else "is /usr/local/sbin/offpeak-node installed, and the command of that key?"
        )
        return BadAnswer(f"{self.node}: {request.split()[0]}: {message}", hint=hint)

    def _device_error(self, problem: Exception) -> DeviceError:
        at = f"{self._credential.user}@{self._host}"
        if isinstance(problem, asyncssh.PermissionDenied):
            hint = f"add {self._key_file}.pub to its authorized_keys, as docs/how-to/standby.md says"
            return AccessRefused(f"{self.node}: refuses the key {self._key_file} of {at}", hint=hint)
        if isinstance(problem, asyncssh.HostKeyNotVerifiable | asyncssh.KeyExchangeFailed):
            return self._unknown_host_key()
        if isinstance(problem, asyncssh.Error) and not isinstance(problem, asyncssh.ConnectionLost):
            return BadAnswer(f"{self.node}: ssh: {problem.reason}", hint=f"try: ssh -p {self._port} -v {at}")
        return NoAnswer(f"{self.node}: no ssh at {self._host}:{self._port}", hint=f"try: ssh -p {self._port} {at}")

    def _unknown_host_key(self) -> WrongDevice:
        name = self._host if self._port == 22 else f"[{self._host}]:{self._port}"
        keys = asyncssh.match_known_hosts(str(self._known_hosts), self._host, self._host, self._port)[0]
        if not keys:
            hint = f"if this is the right host: ssh-keyscan -p {self._port} {self._host} >>{self._known_hosts}"
            return WrongDevice(f"{self.node}: {self._known_hosts} has no host key of {name}", hint=hint)
        hint = f"if the node was reinstalled: ssh-keygen -R '{name}' -f {self._known_hosts}, then add its new key"
        return WrongDevice(f"{self.node}: its host key is not the one in {self._known_hosts}", hint=hint)


class SshDriver:
    """Suspends a node. `orders` holds STANDBY once the node has reported that it offers the inventory's sleep state."""

    name = "ssh"

    def __init__(
        self,
        machine: InventoryNode,
        *,
        logins: Logins,
        timeout_s: float = 10.0,
        dead_man_s: int = DEAD_MAN_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._node = NodeSsh(machine, logins=logins, timeout_s=timeout_s)
        self._method = machine.hardware.sleep_method(NodeOrder.STANDBY)
        self._dead_man_s, self._now = dead_man_s, now
        self._is_probed = False
        self.orders = frozenset[NodeOrder]()

    async def query(self) -> PowerObservation:
        """Return ON for a node that answers, else UNKNOWN: a silent node may hang, or be disconnected from the
        network.
        """
        try:
            await self._probed()
        except DeviceError as error:
            return PowerObservation(PowerState.UNKNOWN, self._now(), error)
        return PowerObservation(PowerState.ON, self._now())

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Suspend the node. Raises NoAnswer if the node is silent, also if it is already in standby."""
        if order is NodeOrder.STANDBY and not self._is_probed:
            await self._probed()
        if self._method is None or order not in self.orders:
            hint = "docs/how-to/standby.md lists what a node needs"
            raise NotSupported(f"{self._node.node}: does not support {order} by ssh", hint=hint)
        await self._node.standby(self._dead_man_s, confirm, mem_sleep=self._method.mem_sleep)

    async def identity(self) -> None:
        """Return None: the host key proves the identity at each login."""

    async def close(self) -> None:
        """Do nothing: every call logs out."""

    async def _probed(self) -> NodeProbe:
        probe = await self._node.probe()
        can = self._method is not None and probe.can_stand_by(self._method.mem_sleep)
        self.orders, self._is_probed = frozenset({NodeOrder.STANDBY} if can else ()), True
        return probe


class SshRoute:
    """Runs commands on the head node of another site: it logs in, runs one command and logs out."""

    def __init__(self, site: str, reach: "Reach") -> None:
        self._site, self._reach = site, reach

    async def run(self, command: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return the result of the command. Its code is None if the command started and its end is unknown."""
        connection: asyncssh.SSHClientConnection | None = None
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connected()
                return await _run_command(connection, shlex.join(command), stdin)
        except OffpeakError as problem:
            return BatchResult(NOT_STARTED, "", str(problem))
        except (TimeoutError, OSError, asyncssh.Error) as problem:
            return BatchResult(NOT_STARTED if connection is None else None, "", self._describe_problem(problem))
        finally:
            if connection is not None:
                connection.abort()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        reach = self._reach
        assert reach.key_file is not None
        assert reach.known_hosts is not None
        key = read_private_key(reach.key_file)
        return await connect_by_key(reach.host, reach.port, reach.user, key=key, known_hosts=reach.known_hosts)

    def _describe_problem(self, problem: Exception) -> str:
        at = f"ssh {self._reach.user}@{self._reach.host}:{self._reach.port}"
        if isinstance(problem, asyncssh.PermissionDenied):
            return f"{at}: refuses the key {self._reach.key_file}"
        if isinstance(problem, asyncssh.HostKeyNotVerifiable):
            return f"{at}: its host key is not in {self._reach.known_hosts}"
        if isinstance(problem, TimeoutError):
            return f"{at}: no answer in time"
        return f"{at}: {problem}"


async def _run_command(connection: asyncssh.SSHClientConnection, command: str, stdin: str | None) -> BatchResult:
    # asyncssh does not send end-of-file for an empty input.
    source = {"stdin": asyncssh.DEVNULL} if not stdin else {"input": stdin}
    done = await connection.run(command, check=False, errors="replace", **source)
    output, complaint = str(done.stdout or ""), str(done.stderr or "")
    if len(output) > MAX_OUTPUT_CHARACTERS:
        return BatchResult(None, "", "an endless answer")
    return BatchResult(done.exit_status, output, complaint)
