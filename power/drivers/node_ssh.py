"""A node, asked by ssh for the few things that its offpeak-node allows: probe, standby, clock governor, meters."""

import asyncio
from pathlib import Path

import asyncssh

from offpeak.door.door import Confirm
from offpeak.errors import AccessRefused, BadAnswer, BadInventory, DeviceError, NoAnswer, NotSupported, WrongDevice
from offpeak.machines.credentials import Credential, Secret
from offpeak.machines.inventory import InventoryNode
from offpeak.text import printable
from power.drivers.logins import Logins
from power.drivers.node_answers import Governors, NodeProbe, governors_of, pairs_of, probe_of, strange
from power.drivers.port import at_once
from power.drivers.ssh_key import logged_in, read_key

ENOUGH_CHARACTERS = 1_000_000
CAN_NOT, BUSY = 3, 4


class NodeSsh:
    """One node's offpeak-node. A call logs in, asks and logs out: each of the two takes at most `timeout_s`.

    Calls raise a DeviceError: NoAnswer from a silent node, AccessRefused for a refused key, WrongDevice where the host
    key is not the one in known_hosts, NotSupported for what the node cannot do, BadAnswer for what fails.
    """

    def __init__(self, machine: InventoryNode, *, logins: Logins, timeout_s: float = 10.0) -> None:
        self.node = machine.node
        self._host = machine.ssh or machine.node
        self._port = machine.hardware.ssh_port
        self._credential, self._key_file, self._known_hosts = _login(machine)
        self._logins, self._timeout_s = logins, timeout_s

    async def probe(self) -> NodeProbe:
        """Return what the node is and can do."""
        return probe_of(await self._ask("probe"), self.node)

    async def standby(self, dead_man_s: int, confirm: Confirm = at_once) -> bool:
        """Let the node suspend to memory a second later; tells whether its own clock will wake it after `dead_man_s`.

        BadAnswer while a job runs there. `confirm` is awaited after the login, its guard is called
        before the command.
        """
        text = await self._ask(f"standby {dead_man_s}", confirm)
        if not text.startswith("ok\n"):
            raise strange(self.node, text)
        return pairs_of(text).get("wake_clock") == "yes"

    async def governor(self, name: str) -> Governors:
        """Set the clock governor of all processors."""
        return governors_of(await self._ask(f"governor {name}"), self.node)

    async def meters(self) -> str:
        """Return the node's counters as its offpeak-node writes them."""
        return await self._ask("meters")

    async def _ask(self, request: str, confirm: Confirm = at_once) -> str:
        key = read_key(self._key_file)
        # Its public half tells a changed key, which may be tried, from the one that was refused.
        mark = Secret(key.public_data)
        connection = await self._logins.log_in(
            self._credential, f"{self._host}:{self._port}", lambda: self._connected(key), secret=mark
        )
        try:
            guard = await confirm()
            async with asyncio.timeout(self._timeout_s):
                guard()
                return await self._answer(connection, request)
        except (TimeoutError, OSError, asyncssh.Error):
            hint = f"try: ssh -i {self._key_file} {self._credential.user}@{self._host} {request}"
            raise NoAnswer(f"{self.node}: no answer to {request}", hint=hint) from None
        finally:
            connection.abort()

    async def _connected(self, key: asyncssh.SSHKey) -> asyncssh.SSHClientConnection:
        try:
            async with asyncio.timeout(self._timeout_s):
                user = self._credential.user or "root"
                return await logged_in(self._host, self._port, user, key=key, known_hosts=self._known_hosts)
        except (TimeoutError, OSError, asyncssh.Error) as problem:
            raise self._trouble(problem) from None

    async def _answer(self, connection: asyncssh.SSHClientConnection, request: str) -> str:
        async with connection.create_process(request, stdin=asyncssh.DEVNULL, errors="replace") as process:
            try:
                await process.stdout.readexactly(ENOUGH_CHARACTERS)
            except asyncio.IncompleteReadError as whole:
                text = str(whole.partial)
            else:
                raise BadAnswer(f"{self.node}: an endless answer to {request}", hint="look at the node")
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
        said = printable(lines[0].removeprefix("offpeak-node: "))
        if status == CAN_NOT:
            return NotSupported(f"{self.node}: {said}", hint="docs/how-to/standby.md tells what a node needs")
        hint = (
            "it is asked again later"
            if status == BUSY
            else "is /usr/local/sbin/offpeak-node there, as that key's command?"
        )
        return BadAnswer(f"{self.node}: {request.split()[0]}: {said}", hint=hint)

    def _trouble(self, problem: Exception) -> DeviceError:
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
            hint = f"if it is it: ssh-keyscan -p {self._port} {self._host} >>{self._known_hosts}"
            return WrongDevice(f"{self.node}: {self._known_hosts} has no host key of {name}", hint=hint)
        hint = f"if it was installed anew: ssh-keygen -R '{name}' -f {self._known_hosts}, then add its new key"
        return WrongDevice(f"{self.node}: its host key is not the one in {self._known_hosts}", hint=hint)


def _login(machine: InventoryNode) -> tuple[Credential, Path, Path]:
    kind, credential = machine.hardware.name, machine.hardware.ssh
    if credential is None:
        raise BadInventory(f"hardware.{kind}: has no ssh", hint=f'set ssh = "nodes" below [hardware.{kind}]')
    where = f"credentials.{credential.name}"
    # Without known_hosts asyncssh would believe anybody.
    if credential.known_hosts is None or credential.key_file is None:
        missing = "key_file" if credential.key_file is None else "known_hosts"
        raise BadInventory(f"{where}: has no {missing}", hint=f"add {missing} below [{where}]")
    if not credential.known_hosts.is_file():
        hint = f"make it: ssh-keyscan NODES >{credential.known_hosts}, and compare the fingerprints"
        raise BadInventory(f"{credential.known_hosts}: no such file", hint=hint)
    return credential, credential.key_file, credential.known_hosts
