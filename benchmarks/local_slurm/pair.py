"""Two head nodes on such a cluster: an agent each, with a host name of its own, and one ledger in PostgreSQL.

Each agent reaches each server of the database by a link that can be cut, and each BMC by a wire that notes its orders.
What stands before scontrol notes each change that an agent orders there, and can delay it, as a bad network would.
A probe in each agent writes from when it holds the lease, on the same clock, which nobody can set.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.local_slurm.agent import write_proof, write_site
from benchmarks.local_slurm.ipmi_sim import PORT
from benchmarks.local_slurm.node import LocalCluster
from benchmarks.local_slurm.plan import REPOSITORY
from benchmarks.local_slurm.processes import start_server, wait_until
from benchmarks.local_slurm.wire import Wire, wire
from offpeak.errors import OffpeakError
from offpeak.services.agent.status import StatusReply, fetch_status

PROBE = """\
import json, os
from offpeak.ledger.lease import DatabaseLease
trace = open(os.environ["PAIR_TRACE"], "a", buffering=1)
take = DatabaseLease._take

def noted_take(lease, row, *, stands_by):
    take(lease, row, stands_by=stands_by)
    # After a replica was promoted, an unknown holder may still act until then.
    trace.write(json.dumps([lease._from_s, os.environ["PAIR_HOST"], "take", str(lease._token)]) + chr(10))

DatabaseLease._take = noted_take
from offpeak.ui.command import main
main()
"""
SCONTROL = """\
#!/bin/sh
case "$*" in
*update* | "")
  [ -e "$0.slow" ] && echo "$*" >> "$0.waits" && sleep "$(cat "$0.slow")"
  read -r at_s _ < /proc/uptime
  echo "$at_s $*" >> "$0.orders"
  ;;
esac
exec {scontrol} "$@"
"""
AS_HOST = ("unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"')
LEASE_IS_LOST, FROZEN = 75, -signal.SIGALRM


@dataclass(frozen=True)
class TraceEntry:
    """A take of the lease, as the probe noted it, an order, as the wire did, or a change in Slurm: `text` is the token,
    the order or scontrol's arguments.
    """

    at_s: float
    host: str
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
    """One of the two: its settings, its links to the servers of the database, its wires to the BMCs, and its agent."""

    name: str
    cluster: LocalCluster
    settings: Path
    socket: Path
    links: tuple[Link, ...]
    wires: tuple[Wire, ...]
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

    @property
    def scontrol(self) -> Path:
        """What stands before scontrol."""
        return self.settings.with_suffix("") / "scontrol"

    def delay_changes(self, seconds: float) -> None:
        """Let each change by scontrol leave this host so much later, from now on."""
        slow = self.scontrol.with_suffix(".slow")
        if seconds:
            slow.write_text(f"{seconds:g}")
        else:
            slow.unlink(missing_ok=True)

    def start(self) -> None:
        """Start the agent."""
        command = (*AS_HOST, self.name, sys.executable, "-c", PROBE, "agent", "--config", str(self.settings))
        own = {"PYTHONPATH": str(REPOSITORY), "PAIR_TRACE": str(self.trace), "PAIR_HOST": self.name}
        own["PATH"] = f"{self.scontrol.parent}:{os.environ['PATH']}"
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

    @property
    def delays_a_change(self) -> bool:
        """Whether a change has been delayed, and may be still."""
        return self.scontrol.with_suffix(".waits").exists()

    def changes(self) -> list[TraceEntry]:
        """Return the changes that its agents ordered from scontrol, without those on its standard input."""
        noted = self.scontrol.with_suffix(".orders")
        lines = noted.read_text().splitlines() if noted.exists() else []
        each = (line.partition(" ") for line in lines)
        return [TraceEntry(float(at_s), self.name, "change", text) for at_s, _, text in each]

    def entries(self) -> list[TraceEntry]:
        """Return the takes, orders and changes of its agents."""
        lines = self.trace.read_text().splitlines() if self.trace.exists() else []
        takes = [TraceEntry(*json.loads(line)) for line in lines if line.endswith("]")]
        passed = [order for each in self.wires for order in each.orders]
        orders = [TraceEntry(order.at_s, self.name, "order", order.text) for order in passed]
        return sorted(takes + orders + self.changes(), key=lambda entry: entry.at_s)


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
                if node.process.returncode not in (LEASE_IS_LOST, FROZEN):
                    raise RuntimeError(f"{node.name}: the agent ended with {node.process.returncode}: see {node.log}")
                node.start()

    def trace(self) -> list[TraceEntry]:
        """Return the takes and orders of both, by time."""
        return sorted((entry for node in self.nodes for entry in node.entries()), key=lambda entry: entry.at_s)

    def orders_without_lease(self) -> list[TraceEntry]:
        """Return the orders that came from a head node although the other one held the lease."""
        holder, found = "", []
        for entry in self.trace():
            if entry.what == "take":
                holder = entry.host
            elif entry.host != holder:
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
    with ExitStack() as wires:
        pair = _made_pair(cluster, database, ports, changes, lease, wires)
        write_proof(cluster, pair.nodes[0].settings)
        try:
            yield pair
        finally:
            for node in pair.nodes:
                for link in node.links:
                    link.delay_s = 0.0
                    link.mend()
                if node.process is not None and node.process.poll() is None:
                    node.send(signal.SIGCONT)
                    node.process.terminate()
                    with suppress(subprocess.TimeoutExpired):
                        node.process.wait(30)
                    node.process.kill()


def _made_pair(
    cluster: LocalCluster,
    database: str,
    ports: Sequence[int],
    changes: Mapping[str, Mapping[str, Any]],
    lease: str,
    wires: ExitStack,
) -> HeadNodePair:
    nodes = []
    for number, name in enumerate(("head1", "head2"), 1):
        links, suffix = tuple(map(Link, ports)), "" if number == 1 else "2"
        state, own_socket = cluster.folder / f"agent{suffix}", cluster.folder / f"agent{suffix}.sock"
        state.mkdir(exist_ok=True)
        hosts = "&".join(f"host=127.0.0.1:{link.port}" for link in links)
        url = f"postgresql://offpeak@/{database}?{hosts}&target_session_attrs=read-write"
        ledger = {"url": url, "lease": lease}
        own = {"state_folder": str(state), "socket": str(own_socket)}
        hardware = {"inventory": str(cluster.folder / f"{name}.inventory.toml")}
        tables = {**changes, "agent": {**changes.get("agent", {}), **own}, "ledger": ledger, "hardware": hardware}
        settings = write_site(cluster, tables, port=PORT + number).rename(cluster.folder / f"{name}.toml")
        to_bmcs = [
            wires.enter_context(wire(node, (each.bmc.host, each.bmc.port), PORT + number, "secret"))
            for node, each in cluster.nodes.items()
        ]
        nodes.append(HeadNode(name, cluster, settings, own_socket, links, tuple(to_bmcs)))
        nodes[-1].trace.unlink(missing_ok=True)
        shutil.rmtree(nodes[-1].scontrol.parent, ignore_errors=True)
        nodes[-1].scontrol.parent.mkdir()
        nodes[-1].scontrol.write_text(SCONTROL.format(scontrol=shutil.which("scontrol")))
        nodes[-1].scontrol.chmod(0o755)
    return HeadNodePair((nodes[0], nodes[1]))
