"""Energy of nodes that are switched off: `python -m benchmarks.off_nodes [FILE]` books a day of readings of BMCs.

The day is that of Harvard's cluster on which its room was down for maintenance: the sensors of node, enclosure and
power supply of 1,724 nodes, each minute. The readings go through the agent's rounds, and the energy of the rows that it
books is compared with the medians of the sensors times the booked time.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from offpeak.machines.inventory import Enclosure
from offpeak.model.constants import HOUR_S, J_PER_KWH
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeState
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters.plausibility import DrawBound, find_draw_bound
from offpeak.power.meters.port import MeterResult, Reading
from offpeak.services.accounts.metering import MeteredSite, Metering, Pace, after_round

FILE = Path("../shared/data/modern/idle_nodes/harvard_powered_down_2025-06-03.parquet")
SENSORS = {"node": "sys_power_w", "enclosure": "chassis_power_w", "supply": "psu_power_w"}
PACE = Pace(period_s=60.0, timeout_s=10.0)
_NODE = find_draw_bound(bundled_node_class("server"), NodeState.OFF)
OFF = dict.fromkeys(SENSORS, _NODE)
"""The bound of each sensor: that of one node that is off, also where it is that of an enclosure."""
UP_W = {"node": 60.0, "enclosure": 1000.0, "supply": 600.0}
"""A sensor that shows more in twentieth of its readings or more is of nodes that were up in a part of the day."""
UP_SHARE = 0.05


@dataclass(frozen=True)
class SensorDay:
    """The readings of a sensor of a node: Unix seconds and watts."""

    node: str
    at_unix_s: np.ndarray
    power_w: np.ndarray


@dataclass(frozen=True)
class Booking:
    """What the sensors of one kind came to: booked energy and time, and their medians times that time."""

    energy_j: float
    covered_s: float
    median_j: float
    refused: int

    @property
    def error(self) -> float:
        """The booked energy against the medians, as a share."""
        return self.energy_j / self.median_j - 1


def read_days(file: Path, sensor: str) -> list[SensorDay]:
    """Return the days of a sensor on nodes that were off all day."""
    table = pq.read_table(file, columns=["node", "time_utc", SENSORS[sensor]]).drop_null()
    names = table["node"].combine_chunks().dictionary_decode().to_numpy(zero_copy_only=False)
    at_unix_s = table["time_utc"].cast("int64").to_numpy() / 1000
    power_w = table[SENSORS[sensor]].to_numpy().astype(float)
    order = np.lexsort((at_unix_s, names))
    names, at_unix_s, power_w = names[order], at_unix_s[order], power_w[order]
    first = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
    found = zip(names[first], np.split(at_unix_s, first[1:]), np.split(power_w, first[1:]), strict=True)
    days = [SensorDay(*day) for day in found]
    return [day for day in days if np.mean((day.power_w > UP_W[sensor]) & _lasts(day.power_w)) < UP_SHARE]


def _lasts(power_w: np.ndarray) -> np.ndarray:
    """Return which values are like those beside them: a spike is a real draw only if it lasts."""
    beside = np.minimum(np.r_[power_w[0], power_w[:-1]], np.r_[power_w[1:], power_w[-1]])
    return np.asarray(power_w <= 2 * beside)


def book(days: list[SensorDay], bound: DrawBound | None) -> Booking:
    """Return what the agent books for these days; without checks if `bound` is None."""
    state, energy_j, median_j, covered_s = Metering(), 0.0, 0.0, 0.0
    median_w = {day.node: float(np.median(day.power_w)) for day in days}
    for at_s, taken in _rounds(days):
        if bound is None:
            # A reading without a history is never doubtful.
            state = replace(state, histories={})
        done = after_round(
            state, taken, pace=PACE, now=Instant(at_s, at_s), site=MeteredSite(lambda _: bound or DrawBound())
        )
        state = done.after
        for row in done.rows:
            if row.power_w is not None:
                row_s = row.until_unix_s - row.from_unix_s
                energy_j += row.power_w * row_s
                median_j += median_w[row.meter] * row_s
                covered_s += row_s
    return Booking(energy_j, covered_s, median_j, sum(history.refused for history in state.histories.values()))


def _rounds(days: list[SensorDay]) -> Iterator[tuple[float, list[MeterResult]]]:
    by_minute: dict[int, list[MeterResult]] = {}
    for day in days:
        for at_s, power_w in zip(day.at_unix_s.tolist(), day.power_w.tolist(), strict=True):
            reading = Reading(day.node, "dcmi", "total", power_w, at_s, node=day.node)
            by_minute.setdefault(int(at_s // 60), []).append(MeterResult(day.node, "dcmi", (reading,)))
    for minute, taken in sorted(by_minute.items()):
        yield 60.0 * minute, taken


def enclosure_powers_w(file: Path) -> tuple[int, list[float]]:
    """Return the number of enclosures whose nodes report both, and their mean powers.

    These are by the nodes' own sensors, by their supplies counted once, and counted on each node. The enclosure of a
    node is the beginning of its name.
    """
    own, supplied = ({day.node: day for day in read_days(file, sensor)} for sensor in ("node", "enclosure"))
    members: dict[str, list[str]] = {}
    for node in sorted(own.keys() & supplied.keys()):
        members.setdefault(node[:-2], []).append(node)
    enclosures = [Enclosure(name, tuple(nodes), by_bmc=True) for name, nodes in members.items()]
    enclosure_of = {node: each for each in enclosures for node in (each.name, *each.nodes)}
    nodes = [node for each in enclosures for node in each.nodes]
    sites = (MeteredSite(), MeteredSite(enclosure_of=enclosure_of), MeteredSite())
    means_w = []
    for days, site in zip((own, supplied, supplied), sites, strict=True):
        state, power_w, rounds = Metering(), dict.fromkeys(nodes, 0.0), dict.fromkeys(nodes, 0.0)
        for at_s, taken in _rounds([days[node] for node in nodes]):
            done = after_round(state, taken, pace=PACE, now=Instant(at_s, at_s), site=site)
            state = done.after
            for row in done.rows:
                if row.power_w is not None and row.node:
                    row_s = row.until_unix_s - row.from_unix_s
                    power_w[row.node] += row.power_w * row_s
                    rounds[row.node] += row_s
        means_w.append(sum(power_w[node] / rounds[node] for node in nodes) / len(enclosures))
    return len(enclosures), means_w


def main() -> None:
    """Print a row for each sensor: without checks, by the sensor's history, and by the class and state of its nodes."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    for sensor in SENSORS:
        days = read_days(file, sensor)
        print(f"{sensor}: {len(days)} sensors, {sum(len(day.power_w) for day in days):,} readings")
        for name, bound in {
            "without checks": None,
            "by its history": DrawBound(),
            "by class and state": OFF[sensor],
        }.items():
            done = book(days, bound)
            kwh, hours = done.energy_j / J_PER_KWH, done.covered_s / HOUR_S
            print(
                f"  {name}: {kwh:.1f} kWh in {hours:,.0f} h, {done.error:+.2%} of the medians; {done.refused} refused"
            )
    count, (own_w, once_w, each_w) = enclosure_powers_w(file)
    print(
        f"{count} enclosures: {own_w:.0f} W by nodes, {once_w:.0f} W counted once, {each_w:.0f} W counted on each node"
    )


if __name__ == "__main__":
    main()
