"""A site's head node on loopback: an ssh server that runs commands here, with an environment of its own."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from fake_node import known_host, write_key

from benchmarks.local_slurm.processes import reserved_ports


@dataclass
class HeadNode:
    """Below `folder` are `key` and `known_hosts` for who logs in.

    `hangs_up` are words: a command with one of them is run, and then the connection breaks before anybody hears of it.
    """

    folder: Path
    port: int
    environment: Mapping[str, str]
    hangs_up: tuple[str, ...] = ()
    requested: list[str] = field(default_factory=list)

    @property
    def reach(self) -> str:
        """The lines of a file of sites."""
        return f'reach = "ssh offpeak@127.0.0.1:{self.port}"\n{self.login}'

    @property
    def login(self) -> str:
        """Key and host key, as a file of sites names them."""
        return f'key_file = "{self.folder}/key"\nknown_hosts = "{self.folder}/known_hosts"\n'

    async def run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        """Run one command in a shell, as sshd does."""
        command = process.command or ""
        self.requested.append(command)
        child = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command),
            env={**self.environment, "SSH_ORIGINAL_COMMAND": command},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, complaint = await child.communicate(await process.stdin.read())
        if any(term in command for term in self.hangs_up):
            process.channel.get_connection().abort()
            return
        process.stdout.write(output)
        process.stderr.write(complaint)
        process.exit(child.returncode or 0)


@contextmanager
def head_node(folder: Path, environment: Mapping[str, str]) -> Iterator[HeadNode]:
    """Take logins until the block ends."""
    folder.mkdir()
    client, host = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    write_key(client, folder / "key")
    (folder / "authorized_keys").write_bytes(client.export_public_key())
    with reserved_ports(1) as (port,):
        (folder / "known_hosts").write_text(known_host(port, host))
        node, begun = HeadNode(folder, port, environment), threading.Event()
        loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

        async def serve() -> None:
            closing = asyncio.Event()
            server = await asyncssh.create_server(
                asyncssh.SSHServer,
                "127.0.0.1",
                port,
                server_host_keys=[host],
                authorized_client_keys=str(folder / "authorized_keys"),
                process_factory=node.run,
                encoding=None,
                reuse_address=True,
            )
            loops.append((asyncio.get_running_loop(), closing))
            begun.set()
            async with server:
                await closing.wait()

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        begun.wait(300)
        try:
            yield node
        finally:
            loop, closing = loops[0]
            loop.call_soon_threadsafe(closing.set)
            thread.join()
