"""Whether nodes wake while the agent is dead: one BMC is asked by ipmitool, as Slurm's resume program does."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from offpeak.errors import OffpeakError
from offpeak.machines.inventory import Inventory
from power.agent.wake_list import FILE, wake_list
from power.check.finding import Finding, Verdict

PART, IPMITOOL = "wake", "ipmitool"
PATIENCE_S = 20.0
MISSING_HINT = "apt install ipmitool, or dnf install ipmitool: the resume program needs it while the agent is dead"


async def check_wake_path(inventory: Inventory, nodes: Iterable[str], state_folder: Path | None) -> list[Finding]:
    """Ask the first of these nodes whose BMC is asked by IPMI; nothing to say where there is none.

    Their BMCs have just taken the login: another attempt with a wrong one might lock it.
    """
    ways = await asyncio.to_thread(_ways, inventory, state_folder)
    found = next(((node, ways[node]) for node in nodes if ways.get(node, {}).get("way") == "ipmi"), None)
    if found is None:
        return []
    if shutil.which(IPMITOOL) is None:
        return [
            Finding(PART, IPMITOOL, Verdict.BAD, "is not installed: no node is woken without the agent", MISSING_HINT)
        ]
    return [await asyncio.to_thread(_asked, *found)]


def command_of(way: Mapping[str, Any]) -> list[str]:
    """Return the question for its state, as the resume program asks it."""
    place = ["-I", "lanplus", "-H", way["host"], "-p", str(way["port"]), "-N", "2", "-R", "3"]
    login = ["-U", way["user"], "-f", way["password_file"], "-C", str(way["cipher_suite"])]
    level = {"admin": "ADMINISTRATOR"}.get(way["privilege"], way["privilege"].upper())
    return [IPMITOOL, *place, *login, "-L", level, "chassis", "power", "status"]


def _ways(inventory: Inventory, state_folder: Path | None) -> Mapping[str, Any]:
    """Return the list that the agent has written for the program; what it would write where there is none to read."""
    try:
        expected = wake_list(inventory)
    except OffpeakError:
        return {}
    try:
        listed = json.loads((state_folder / FILE).read_bytes()) if state_folder else {}
        of_agent = {node: way for node, way in listed.items() if way.get("host") == expected.get(node, {}).get("host")}
    except (AttributeError, OSError, ValueError):
        of_agent = {}
    return {**expected, **of_agent}


def _asked(node: str, way: Mapping[str, Any]) -> Finding:
    command = command_of(way)
    hint = f"try it as the agent's user: {' '.join(command)}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        said = f"its BMC gives ipmitool no answer within {PATIENCE_S:g} s"
        return Finding(PART, node, Verdict.BAD, said, hint)
    state = done.stdout.strip()
    if done.returncode or not state.endswith((" is on", " is off")):
        lines = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        return Finding(PART, node, Verdict.BAD, f"ipmitool, which wakes it without the agent, says: {lines[-1]}", hint)
    return Finding(PART, node, Verdict.GOOD, "its BMC answers ipmitool, which wakes nodes without the agent")
