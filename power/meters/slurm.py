"""Slurm as a meter: the power and energy that Slurm has measured (AcctGatherEnergyType), from `scontrol show nodes`."""

import asyncio
import re
import time
from collections.abc import Callable

from offpeak.errors import NoAnswer, NotSupported
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent, ask
from offpeak.power.meters.port import Reading

_NODE = re.compile(r"^NodeName=(\S+)(.*)$", re.MULTILINE)
_STATE = re.compile(r" State=(\S+)")
_WATTS = re.compile(r" CurrentWatts=(\S+)")
_JOULES = re.compile(r" Consumed(?:Joules|Energy)=(\S+)")
_PLUGIN = re.compile(r"^AcctGatherEnergyType\s*=\s*(\S+)", re.MULTILINE)

# The figure of a node that does not answer is outdated.
SILENT_STATES = ("DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "NOT_RESPONDING", "UNKNOWN", "FUTURE")


class SlurmMeter:
    """Reads all nodes with one request to slurmctld of `cluster`.

    Slurm refreshes the figures every AcctGatherNodeFreq seconds; most plugins cover processors and memory only.
    """

    way = "slurm"

    def __init__(self, cluster: str, *, timeout_s: float = 60.0, now: Callable[[], float] = time.time) -> None:
        self.name = cluster
        self._timeout_s, self._now = timeout_s, now

    async def read(self) -> tuple[Reading, ...]:
        """Return a reading for each node. Raises NoAnswer while slurmctld is silent, NotSupported without Slurm."""
        try:
            nodes = await self._ask("--all", "--oneliner", "show", "nodes")
            config = await self._ask("show", "config")
        except SlurmIsSilent as silent:
            raise NoAnswer(f"{self.name}: {silent}", hint=silent.hint) from None
        except CannotAskSlurm as cannot:
            raise NotSupported(f"{self.name}: {cannot}", hint=cannot.hint) from None
        return parse_node_energy(nodes, config, meter=self.name, at_unix_s=self._now())

    async def close(self) -> None:
        """Do nothing: there is no login."""

    async def _ask(self, *arguments: str) -> str:
        answer = await asyncio.to_thread(ask, "scontrol", *arguments, timeout_s=self._timeout_s)
        return answer.decode(errors="replace")


def parse_node_energy(nodes: str, config: str, *, meter: str, at_unix_s: float) -> tuple[Reading, ...]:
    """Return the readings from the output of `scontrol --oneliner show nodes` and `show config`, one for each node."""
    gathered = gathers_energy(config)
    found = {match[1]: _reading(match[1], match[2], gathered, meter, at_unix_s) for match in _NODE.finditer(nodes)}
    return tuple(found.values())


def _reading(node: str, fields: str, measures: bool, meter: str, at_unix_s: float) -> Reading:
    watts = _parse_number(_WATTS, fields)
    why = _missing_reason(fields, watts, measures)
    return Reading(
        meter=meter,
        way=SlurmMeter.way,
        part=node,
        power_w=None if why else watts,
        at_unix_s=at_unix_s,
        energy_j=_parse_number(_JOULES, fields) if measures else None,
        node=node,
        why=why,
    )


def _missing_reason(fields: str, watts: float | None, measures: bool) -> str:
    state = _STATE.search(fields)
    flags = re.split(r"[+*~#!%$@^-]", state[1]) if state else []
    if not measures:
        return "Slurm measures nothing: AcctGatherEnergyType is not set in slurm.conf"
    if state is None or "*" in state[1] or set(flags) & set(SILENT_STATES):
        return f"the node does not answer Slurm: {state[1] if state else 'no state'}"
    # Slurm writes 0 for a missing value; a node that answers draws more.
    return "Slurm has no figure" if not watts else ""


def gathers_energy(config: str) -> bool:
    """Tell whether the output of `scontrol show config` names a plugin that gathers energy."""
    plugin = _PLUGIN.search(config)
    return plugin is not None and plugin[1] not in ("(null)", "acct_gather_energy/none")


def _parse_number(pattern: re.Pattern[str], fields: str) -> float | None:
    match = pattern.search(fields)
    return float(match[1]) if match and match[1].isascii() and match[1].isdigit() else None
