"""The offpeak agent on such a cluster: its inventory, logins and settings, and its process."""

import json
import os
import signal
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import tomlkit

from benchmarks.local_slurm.ipmi_sim import PORT
from benchmarks.local_slurm.meters import MeteredRacks
from benchmarks.local_slurm.node import BOOT_W, BUSY_W, IDLE_W, OFF_W, LocalCluster
from benchmarks.local_slurm.plan import REPOSITORY
from benchmarks.local_slurm.processes import OFFPEAK, start_server
from offpeak.ledger.ledger import open_ledger_to_write
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Enrolment
from offpeak.plugin.slurm.configuration import traits_of_text
from offpeak.power.live.cycle_watch import CycleWatch, watch_to_json
from offpeak.services.agent.node_memory import WATCH_KEY
from offpeak.settings.ledger import LedgerSettings
from offpeak.sim_backend.virtual.room_plan import OUTLETS

NODE_CLASS = """\
idle = "{idle_w}W"
running = [[0.0, "{idle_w}W"], [1.0, "{busy_w}W"]]

[off]
power = "{off_w}W"
enter = {{ duration = "{down_s}s", power = "{idle_w}W", failure_probability = 0.0 }}
leave = {{ duration = "{boot_s}s", power = "{boot_w}W", failure_probability = 0.0 }}
"""

SHOW_PARTITIONS = ("--all", "--oneliner", "show", "partitions")
Tables = Mapping[str, Mapping[str, Any]]
"""Settings by table and key."""


def write_site(
    cluster: LocalCluster,
    changes: Tables | None = None,
    *,
    racks: MeteredRacks | None = None,
    port: int = PORT,
) -> Path:
    """Write all and return the settings file; `changes` are settings by table and key, `racks` the meters.

    The agent reaches the BMCs at `port`.
    """
    folder = cluster.folder
    (folder / "agent").mkdir(exist_ok=True)
    _secret(folder / "bmc.password", "secret")
    _secret(folder / "pdu.community", "public")
    watts = {"idle_w": IDLE_W, "busy_w": BUSY_W, "off_w": OFF_W, "boot_w": BOOT_W}
    seconds = {"down_s": max(1, round(cluster.plan.shutdown_s)), "boot_s": max(1, round(cluster.plan.boot_s))}
    (folder / "node_class.toml").write_text(NODE_CLASS.format_map(watts | seconds))
    settings = _settings(cluster)
    for tables in (cluster.settings, changes or {}):
        for table, values in tables.items():
            settings[table] = {**settings.get(table, {}), **values}
    inventory = Path(settings["hardware"]["inventory"])
    inventory.write_text(tomlkit.dumps(_inventory(cluster, racks, port)))
    known = {name: Enrolment(node.bmc.guid, (), "2026-11-21") for name, node in cluster.nodes.items()}
    write_enrolments(inventory, known)
    file = folder / "offpeak.toml"
    file.write_text(tomlkit.dumps(settings))
    return file


def write_proof(cluster: LocalCluster, settings: Path) -> None:
    """Write into the ledger that a node has gone through a whole cycle, so that nodes sleep at once."""
    if cluster.kind != "slurm":
        return
    url = tomllib.loads(settings.read_text())["ledger"]["url"]
    config, partitions = (cluster.run("scontrol", *show).encode() for show in (("show", "config"), SHOW_PARTITIONS))
    watch = CycleWatch(terms=traits_of_text(config, partitions).power_terms or "")
    with open_ledger_to_write(LedgerSettings(url=url)) as ledger:
        ledger.remember(WATCH_KEY, json.dumps(watch_to_json(watch)))


def _inventory(cluster: LocalCluster, racks: MeteredRacks | None, port: int) -> dict[str, Any]:
    nodes = tuple(cluster.nodes)
    bmcs = [node.bmc for node in cluster.nodes.values()]
    way_down = {"wake": ["bmc"], "enter_timeout": "10s", "wake_timeout": f"{cluster.plan.resume_timeout_s}s"}
    kind = {"driver": "ipmi", "credential": "bmc", "port": port, "cipher_suite": 3}
    # ipmi_sim tells its watts to nobody else.
    kind |= {"cap_by": "bmc", "cap_curve": "v100"}
    kind |= {"privilege": "admin", "node_class": str(cluster.folder / "node_class.toml"), "soft_off": way_down}
    machines = {"nodes": ",".join(nodes), "hardware": "compute", "bmc": ",".join(bmc.host for bmc in bmcs)}
    return {
        "credentials": {
            "bmc": {"user": "admin", "password_file": "bmc.password"},
            "pdu": {"password_file": "pdu.community"},
        },
        "hardware": {"compute": kind},
        "machines": [machines],
        "pdus": {} if racks is None else {name: _pdu(racks, name, nodes) for name in racks.pdus},
    }


def _pdu(racks: MeteredRacks, name: str, nodes: Sequence[str]) -> dict[str, Any]:
    here = nodes[(int(name.removeprefix("rack")) - 1) * OUTLETS :][:OUTLETS]
    place = {"host": racks.hosts[name], "port": racks.port, "family": "apc", "credential": "pdu"}
    return {**place, "outlets": {f"1-{len(here)}": ",".join(here)}}


def _settings(cluster: LocalCluster) -> dict[str, Any]:
    """The settings of an agent with short periods and all permissions."""
    folder, many = cluster.folder, 100_000
    agent = {
        "mode": "active",
        "nodes": ",".join(cluster.nodes),
        "cycle": "1s",
        "capacity": "timeout:2s",
        "socket": str(folder / "agent.sock"),
        "state_folder": str(folder / "agent"),
        "fresh": "20s",
        "nodes_per_sweep": many,
        "nodes_per_hour": many,
        "wakes_per_min": many,
        "rack_nodes_per_min": many,
        "cycles_per_day": many,
        "min_on": 0,
        "breaker_pause": "2s",
        "hands_off": "2s",
    }
    return {
        "agent": agent,
        "hardware": {"inventory": str(folder / "inventory.toml"), "timeout": "3s"},
        "ledger": {"url": f"sqlite:///{folder / 'ledger.sqlite'}"},
        "power": {"idle": f"{IDLE_W:g}W", "node_class": str(folder / "node_class.toml")},
    }


def _secret(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(f"{text}\n")


STOP_S = 120.0


class Process(Protocol):
    """A running program: subprocess.Popen has all of these methods."""

    pid: int

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""

    def kill(self) -> None:
        """Send SIGKILL."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status when it has ended."""


Start = Callable[[Sequence[str], Path, Mapping[str, str]], Process]
"""Starts `offpeak` with these arguments, a log and an environment."""


def start_offpeak(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start it as a shell does."""
    return start_server((*OFFPEAK, *arguments), log, environment)


def run_offpeak(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the output of `offpeak` with these arguments and the settings that `write_site` has written."""
    settings = cluster.folder / "offpeak.toml"
    environment = {**cluster.environment, "PYTHONPATH": str(REPOSITORY), "OFFPEAK_CONFIG": str(settings)}
    return subprocess.run((*cluster.offpeak, *arguments), env=environment, capture_output=True, text=True, check=False)


@dataclass
class RunningAgent:
    """One agent, now running or not. `starts` counts how often it was started.

    `proven`: before its first start its ledger gets the proof that nodes may sleep at once.
    """

    cluster: LocalCluster
    arguments: tuple[str, ...]
    start_process: Start = start_offpeak
    process: Process | None = None
    starts: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    proven: bool = True

    @property
    def log(self) -> Path:
        """The log over all starts."""
        return self.cluster.folder / "agent.log"

    @property
    def runs(self) -> bool:
        """Whether the agent runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> Process:
        """Start it and return its process; RuntimeError if it runs."""
        if self.runs:
            raise RuntimeError("the agent runs")
        if self.proven and not self.starts and "--config" in self.arguments:
            write_proof(self.cluster, Path(self.arguments[self.arguments.index("--config") + 1]))
        arguments = {**self.cluster.environment, "PYTHONPATH": str(REPOSITORY), **self.environment}
        self.process = self.start_process(self.arguments, self.log, arguments)
        self.starts += 1
        return self.process

    def kill9(self) -> None:
        """Kill the agent."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)

    def stop(self) -> None:
        """Terminate the agent, and kill it if it does not end."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill9()

    def reread(self) -> None:
        """Let the agent read its settings again; ProcessLookupError if it has ended."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGHUP)

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill9()
        self.start()


@contextmanager
def agent(
    cluster: LocalCluster, settings: Path, *arguments: str, by: Start = start_offpeak, proven: bool = True
) -> Iterator[RunningAgent]:
    """Run `offpeak agent --config SETTINGS` with further arguments until the block ends."""
    made = RunningAgent(cluster, ("agent", "--config", str(settings), *arguments), by, proven=proven)
    made.start()
    try:
        yield made
    finally:
        made.stop()
