"""A node that is not there: an ssh server that runs the real offpeak-node on a tree of /sys and /proc of its own.

It really goes away when the script suspends it, and comes back when it is woken: by a packet to its network card, by
its own clock, or by whoever calls `wake`, as a virtual BMC does.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from node_tree import BOOT, SCRIPT, node_tree, write_tree

MAC = "52:54:00:12:34:56"
AWAKE_W, ASLEEP_W = 212.0, 11.0


@dataclass
class FakeNode:
    """A node with its faults; its own clock runs `speed` times as fast as real time."""

    root: Path
    port: int
    host_key: asyncssh.SSHKey
    authorized_keys: Path
    card: socket.socket
    script: Path = SCRIPT
    boots_on_wake: bool = False
    never_wakes: bool = False
    asleep_w: float = ASLEEP_W
    speed: float = 1.0
    asleep: bool = False
    boots: int = 1
    requested: list[str] = field(default_factory=list)
    _server: asyncssh.SSHAcceptor | None = None
    _connections: set[asyncssh.SSHServerConnection] = field(default_factory=set)
    _groups: list[int] = field(default_factory=list)

    @property
    def via(self) -> str:
        """Where packets for its network card go."""
        return f"127.0.0.1:{self.card.getsockname()[1]}"

    def write(self, name: str, text: str) -> None:
        """Write one file of its tree."""
        write_tree(self.root, {name: text})

    def read(self, name: str) -> str:
        """Return one file of its tree."""
        return (self.root / name).read_text()

    async def watts(self) -> float:
        """What it draws."""
        return self.asleep_w if self.asleep else AWAKE_W

    async def listen(self) -> None:
        """Take logins."""
        self._server = await asyncssh.create_server(
            lambda: _Connection(self._connections),
            "127.0.0.1",
            self.port,
            server_host_keys=[self.host_key],
            authorized_client_keys=str(self.authorized_keys),
            process_factory=self._run,
            encoding=None,
        )

    async def vanish(self) -> None:
        """Stop answering."""
        if self._server:
            self._server.close()
            await self._server.wait_closed()
            self._server = None
        for connection in list(self._connections):
            connection.abort()

    async def wake(self) -> None:
        """Come back, unless it never does."""
        if not self.asleep or self.never_wakes:
            return
        if self.boots_on_wake:
            self.boots += 1
            self.write("proc/sys/kernel/random/boot_id", BOOT.format(self.boots) + "\n")
        self.asleep = False
        await self.listen()

    async def live(self) -> None:
        """Suspend when the script says so, wake by packet or alarm; for ever."""
        while True:
            await asyncio.sleep(0.02)
            if self.read("sys/power/state") == "mem\n":
                self.write("sys/power/state", "freeze mem disk\n")
                self.asleep = True
                await self.vanish()
            elif self.asleep and (self._packet_came() or self._alarm_rings()):
                await self.wake()

    def end_processes(self) -> None:
        """End what the script has left behind."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _packet_came(self) -> bool:
        try:
            return self.card.recv(2000) == b"\xff" * 6 + bytes.fromhex(MAC.replace(":", "")) * 16
        except BlockingIOError:
            return False

    def _alarm_rings(self) -> bool:
        alarm = self.root / "sys/class/rtc/rtc0/wakealarm"
        if not alarm.is_file() or not alarm.read_text():
            return False
        return (time.time() - alarm.stat().st_mtime) * self.speed > int(alarm.read_text().split()[1])

    async def _run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        request = process.command or ""
        self.requested.append(request)
        child = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", f"{self.script} --root {self.root}"),
            env={"PATH": "/nowhere", "SSH_ORIGINAL_COMMAND": request},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._groups.append(child.pid)
        output, complaint = await child.communicate()
        with suppress(OSError):
            process.stdout.write(output)
            process.stderr.write(complaint)
            process.exit(child.returncode or 0)


class _Connection(asyncssh.SSHServer):
    def __init__(self, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, connection: asyncssh.SSHServerConnection) -> None:
        self._connection = connection
        self._connections.add(connection)

    def connection_lost(self, _problem: Exception | None) -> None:
        self._connections.discard(self._connection)


@asynccontextmanager
async def fake_node(folder: Path, port: int, **faults: object) -> AsyncIterator[FakeNode]:
    """Run a node in this event loop; below `folder` it makes `key`, `known_hosts` and its tree."""
    client, host = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    write_key(client, folder / "key")
    (folder / "authorized_keys").write_bytes(client.export_public_key())
    (folder / "known_hosts").write_text(known_host(port, host))
    root = folder / "root"
    write_tree(root, node_tree(root))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:
        card.bind(("127.0.0.1", 0))
        card.setblocking(False)
        node = FakeNode(root, port, host, folder / "authorized_keys", card, **faults)  # type: ignore[arg-type]
        await node.listen()
        living = asyncio.ensure_future(node.live())
        try:
            yield node
        finally:
            living.cancel()
            await node.vanish()
            node.end_processes()


def write_key(key: asyncssh.SSHKey, file: Path) -> None:
    """Write a private key that only its owner can read."""
    file.touch(mode=0o600)
    file.write_bytes(key.export_private_key())


def known_host(port: int, key: asyncssh.SSHKey) -> str:
    """Return the line of known_hosts for a node at that port."""
    return f"[127.0.0.1]:{port} {key.export_public_key().decode()}"
