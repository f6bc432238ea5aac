"""A node behind an ipmi_sim: it follows the orders that its BMC has logged, in its own time, and has jobs."""

import random

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.plugin.scheduler.node import SchedulerState

DOWN_S, UP_S, JOB_S, IDLE_S = (20.0, 200.0), (60.0, 500.0), (60.0, 900.0), (0.0, 300.0)
FOLLOWS_NOTHING = 1_000_000
"""The BMC changes no power by itself: the node does, when it has shut down."""


class CycledNode:
    """The true state of a node. `fault` is the fault of it or its BMC, "" for none; `cycles` are completed cycles."""

    def __init__(self, name: str, bmc: SimulatedBmc, chance: random.Random) -> None:
        self.name, self.bmc, self._chance = name, bmc, chance
        self.on = self.up = True
        self.job = self.pending = False
        self.until_s = 0.0
        self.fault = ""
        self.cycles = 0
        self._going, self._due_s, self._slept, self._read = "", 0.0, False, 0
        bmc.write("drops", str(FOLLOWS_NOTHING))

    @property
    def reachable(self) -> bool:
        """Whether its own BMC can hear an order."""
        return self.fault not in ("frozen", "dead", "exchanged")

    @property
    def stays_on(self) -> bool:
        """Whether it is on and no order will switch it off."""
        return self.up and self._going != "down"

    @property
    def scheduler_state(self) -> SchedulerState:
        """Its state in the scheduler."""
        if self.job:
            return SchedulerState.BUSY
        return SchedulerState.UP if self.up else SchedulerState.DOWN

    def new_orders(self) -> list[str]:
        """Return the orders that its BMC has logged since they were last asked for."""
        lines: list[str] = self.bmc.lines("orders")[self._read :]
        self._read += len(lines)
        return lines

    def follow(self, order: str, now_s: float) -> None:
        """Start to follow the order."""
        if self.fault == "drops orders":
            return
        if order == "on" and not self.on and self._going != "down":
            self._power(on=True)
            self._going, self._due_s = "up", now_s + self._chance.uniform(*UP_S)
        elif order != "on" and self.on and self.fault != "stays on":
            self._going, self._due_s = "down", now_s + self._chance.uniform(*DOWN_S)

    def advance(self, now_s: float) -> None:
        """Do what is due by now; jobs begin and end."""
        if self._going and now_s >= self._due_s and not (self._going == "up" and self.fault == "hangs in its boot"):
            self._arrive()
        if self.job and now_s >= self.until_s:
            self.job = False
            self.until_s = now_s + self._chance.uniform(*IDLE_S)

    def begin_job(self, now_s: float) -> None:
        """Begin a job, where one can begin."""
        if self.stays_on and not self.job:
            self.job, self.pending = True, False
            self.until_s = now_s + self._chance.uniform(*JOB_S)

    def switched_by_hand(self) -> None:
        """Switch off or on at once, as by its power button."""
        self._power(on=not self.on)
        self.up, self._going, self._slept = self.on, "", False

    def _arrive(self) -> None:
        if self._going == "down":
            self._power(on=False)
            self.up, self._slept = False, True
        else:
            self.up = True
            self.cycles += self._slept
            self._slept = False
        self._going = ""

    def _power(self, *, on: bool) -> None:
        self.on = on
        self.bmc.write("power", "on" if on else "off")
