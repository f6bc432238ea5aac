"""What an agent is told of a powered cluster: inventory, logins, node class and settings, in the cluster's folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from power_meter import OUTLETS, MeteredRacks
from powered_node import BOOT_W, BUSY_W, IDLE_W, OFF_W
from powered_stage import PoweredStage, as_table

from offpeak.machines.inventory import Enrolled
from offpeak.machines.inventory_text import write_enrolled

NODE_CLASS = """\
idle = "{idle_w}W"
running = [[0.0, "{idle_w}W"], [1.0, "{busy_w}W"]]

[off]
power = "{off_w}W"
enter = {{ duration = "{down_s}s", power = "{idle_w}W", failure_probability = 0.0 }}
leave = {{ duration = "{boot_s}s", power = "{boot_w}W", failure_probability = 0.0 }}
"""

Tables = Mapping[str, Mapping[str, Any]]


def write_site(cluster: PoweredStage, changes: Tables | None = None, *, racks: MeteredRacks | None = None) -> Path:
    """Write all and return the settings file; `changes` are settings by table and key, `racks` the meters."""
    folder = cluster.folder
    (folder / "agent").mkdir(exist_ok=True)
    _secret(folder / "bmc.password", "secret")
    _secret(folder / "pdu.community", "public")
    watts = {"idle_w": IDLE_W, "busy_w": BUSY_W, "off_w": OFF_W, "boot_w": BOOT_W}
    seconds = {"down_s": max(1, round(cluster.plan.shutdown_s)), "boot_s": max(1, round(cluster.plan.boot_s))}
    (folder / "node_class.toml").write_text(NODE_CLASS.format_map(watts | seconds))
    inventory = folder / "inventory.toml"
    inventory.write_text(tomlkit.dumps(_inventory(cluster, racks)))
    known = {name: Enrolled(node.bmc.guid, (), "2026-11-21") for name, node in cluster.nodes.items()}
    write_enrolled(inventory, known)
    settings = as_table((_settings(cluster), cluster.settings, changes or {}))
    file = folder / "offpeak.toml"
    file.write_text(tomlkit.dumps(settings))
    return file


def _inventory(cluster: PoweredStage, racks: MeteredRacks | None) -> dict[str, Any]:
    nodes = tuple(cluster.nodes)
    bmcs = [node.bmc for node in cluster.nodes.values()]
    way_down = {"wake": ["bmc"], "enter_patience": "10s", "wake_patience": f"{cluster.plan.resume_timeout_s}s"}
    kind = {"driver": "ipmi", "credential": "bmc", "port": bmcs[0].port, "cipher_suite": 3}
    # ipmi_sim tells its watts to nobody else.
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


def _settings(cluster: PoweredStage) -> dict[str, Any]:
    """An agent that is quick and may do everything."""
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
