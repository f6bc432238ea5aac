"""Two head nodes on such a cluster: an agent each, with a host name of its own, and one ledger in PostgreSQL.

Each agent reaches each server of the database by a link that can be cut. A probe in each agent writes when it takes the
lease, and every order directly before it is sent, on one clock that nobody can set.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.local_slurm.agent import write_site
from benchmarks.local_slurm.node import LocalCluster
from benchmarks.local_slurm.plan import REPOSITORY
from benchmarks.local_slurm.processes import start_server, wait_until
from offpeak.errors import OffpeakError
from services.agent.status import StatusReply, fetch_status

PROBE = """\
import json, os, time
from offpeak.door.door import Door
from offpeak.ledger.lease import DatabaseLease, boot_s
trace = open(os.environ["PAIR_TRACE"], "a", buffering=1)
guard, take = Door._guard, DatabaseLease._take

def note(at_s, what, text):
    trace.write(json.dumps([at_s, os.environ["PAIR_HOST"], os.getpid(), what, text]) + chr(10))

def noted_guard(door, effect, begun_s):
    guard(door, effect, begun_s)
    note(boot_s(), "order", f"{effect.order} {effect.subject}")

def noted_take(lease, row, *, stands_by):
    begun_s = boot_s()
    take(lease, row, stands_by=stands_by)
    note(begun_s, "take", str(lease._token))

Door._guard, DatabaseLease._take = noted_guard, noted_take
from ui.command import main
main()
"""
AS_HOST = ("unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"')
LEASE_IS_LOST = 75


@dataclass(frozen=True)
class TraceEntry:
    """What a probe wrote: `what` is take or order, `text` the token or the order."""

    at_s: float
    host: str
    pid: int
    what: str
    text: str


class Link:
    """Forwards connections to a port of this machine until it is cut; then nothing answers, as behind a dead switch.

    `delay_s` is how long all that is sent takes.
    """

    def __init__(self, to_port: int) -> None:
        self.delay_s = 0.0
        self._to, self._cut, self._mended = to_port, False, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let all connections hang, also new ones."""
        self._mended.clear()
        self._cut = True

    def mend(self) -> None:
        """End connections that hang and forward new ones."""
        self._cut = False
        self._mended.set()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as server:
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if self._cut:
                    self._mended.wait()
                    break
                time.sleep(self.delay_s)
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@dataclass
class HeadNode:
    """One of the two: its settings, its links to the servers of the database, and its agent."""

    name: str
    cluster: LocalCluster
    settings: Path
    socket: Path
    links: tuple[Link, ...]
    process: subprocess.Popen[bytes] | None = None

    @property
    def link(self) -> Link:
        """The link to the first server."""
        return self.links[0]

    @property
    def log(self) -> Path:
        """The log over all starts."""
        return self.settings.with_suffix(".log")

    @property
    def trace(self) -> Path:
        """What the probe writes."""
        return self.settings.with_suffix(".trace")

    def start(self) -> None:
        """Start the agent."""
        command = (*AS_HOST, self.name, sys.executable, "-c", PROBE, "agent", "--config", str(self.settings))
        own = {"PYTHONPATH": str(REPOSITORY), "PAIR_TRACE": str(self.trace), "PAIR_HOST": self.name}
        self.process = start_server(command, self.log, {**self.cluster.environment, **own})

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Return the output of `offpeak` on this head node."""
        command = (*self.cluster.offpeak, *arguments, "--config", str(self.settings))
        environment = {**self.cluster.environment, "PYTHONPATH": str(REPOSITORY)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the agent."""
        if self.process is not None:
            self.process.send_signal(number)

    def wait(self, seconds: float = 60.0) -> int:
        """Return the exit status of the agent once it has ended."""
        assert self.process is not None
        return self.process.wait(seconds)

    def status(self) -> StatusReply | None:
        """Return what the agent answers, None while it does not."""
        try:
            return fetch_status(self.socket, ask="status")
        except OffpeakError:
            return None

    @property
    def acts(self) -> bool:
        """Whether the agent holds the lease, by its own words."""
        reply = self.status()
        return reply is not None and reply.lease is not None and reply.lease.is_active

    @property
    def stands_by(self) -> bool:
        """Whether the agent stands by another one, by its own words."""
        reply = self.status()
        return reply is not None and reply.lease is not None and not reply.lease.is_active and reply.lease.has_peer

    def entries(self) -> list[TraceEntry]:
        """Return what the probe has written."""
        lines = self.trace.read_text().splitlines() if self.trace.exists() else []
        return [TraceEntry(*json.loads(line)) for line in lines if line.endswith("]")]


@dataclass
class HeadNodePair:
    """Both head nodes."""

    nodes: tuple[HeadNode, HeadNode]

    @property
    def active(self) -> HeadNode:
        """The head node whose agent acts; waits until there is one."""
        wait_until(lambda: any(node.acts for node in self.nodes), what="an active agent", every_s=0.2)
        return next(node for node in self.nodes if node.acts)

    def other(self, node: HeadNode) -> HeadNode:
        """Return the other head node."""
        return self.nodes[1 - self.nodes.index(node)]

    def revive(self) -> None:
        """Start an agent again that has lost its lease, as systemd does; RuntimeError if it ended in another way."""
        for node in self.nodes:
            if node.process is not None and node.process.poll() is not None:
                if node.process.returncode != LEASE_IS_LOST:
                    raise RuntimeError(f"{node.name}: the agent ended with {node.process.returncode}: see {node.log}")
                node.start()

    def trace(self) -> list[TraceEntry]:
        """Return what both probes have written, by time."""
        return sorted((entry for node in self.nodes for entry in node.entries()), key=lambda entry: entry.at_s)

    def orders_without_lease(self) -> list[TraceEntry]:
        """Return the orders that were sent by an agent although another one had begun to take the lease."""
        holder, found = 0, []
        for entry in self.trace():
            if entry.what == "take":
                holder = entry.pid
            elif entry.pid != holder:
                found.append(entry)
        return found

    def tokens(self) -> list[int]:
        """Return the tokens in the order in which they were taken."""
        return [int(entry.text) for entry in self.trace() if entry.what == "take"]


@contextmanager
def head_node_pair(
    cluster: LocalCluster,
    database: str,
    ports: Sequence[int],
    changes: Mapping[str, Mapping[str, Any]],
    *,
    lease: str = "5s",
) -> Iterator[HeadNodePair]:
    """Write the settings of two agents of one cluster, and end the agents after the block. None is started.

    `ports` are those of the servers of the database: a primary server and its replicas.
    """
    nodes = []
    for number, name in enumerate(("head1", "head2"), 1):
        links, suffix = tuple(map(Link, ports)), "" if number == 1 else "2"
        state, own_socket = cluster.folder / f"agent{suffix}", cluster.folder / f"agent{suffix}.sock"
        state.mkdir(exist_ok=True)
        hosts = "&".join(f"host=127.0.0.1:{link.port}" for link in links)
        url = f"postgresql://offpeak@/{database}?{hosts}&target_session_attrs=read-write"
        ledger = {"url": url, "lease": lease}
        own = {"state_folder": str(state), "socket": str(own_socket)}
        tables = {**changes, "agent": {**changes.get("agent", {}), **own}, "ledger": ledger}
        settings = write_site(cluster, tables).rename(cluster.folder / f"{name}.toml")
        nodes.append(HeadNode(name, cluster, settings, own_socket, links))
        nodes[-1].trace.unlink(missing_ok=True)
    made = HeadNodePair((nodes[0], nodes[1]))
    try:
        yield made
    finally:
        for node in made.nodes:
            for link in node.links:
                link.delay_s = 0.0
                link.mend()
            if node.process is not None and node.process.poll() is None:
                node.send(signal.SIGCONT)
                node.process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    node.process.wait(30)
                node.process.kill()
