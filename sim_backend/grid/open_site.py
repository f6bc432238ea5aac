"""An engine that jobs are submitted to while it runs: the simulated cluster as a broker sees it.

The engine reads of a job only when its submission is due. So the workload has room for all jobs that may ever come, at
submissions that never come, and to submit one is to fill in the next row.
"""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from sim_backend.engine.advance import advance
from sim_backend.engine.advance_powered import LOG_FULL, advance_powered
from sim_backend.engine.power import Power, all_active
from sim_backend.engine.state import NEVER, NOT_YET, State, Workload, new_state
from sim_backend.grid.grid import SimulatedSite, SleepingNodes
from sim_backend.grid.late_data import hold_until, next_event_s
from sim_backend.nodes.node_log import NodeLog
from sim_backend.powered_replay import LogBook, depth_table
from sim_backend.replay import NO_PEAKS


@dataclass(frozen=True, eq=False)
class Submission:
    """Jobs as they are at the site, as columns in seconds, units and W per unit; `data_s` is when their data comes."""

    submit_s: Int64
    data_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    size: Int64
    unit_w: Float64


class OpenSite:
    """A running site. `workload` and `state` are to be read only; rows beyond `count` are empty."""

    def __init__(self, site: SimulatedSite, *, most_jobs: int, begin_s: int) -> None:
        self.site = site
        self.count = 0
        self.workload = _empty(most_jobs)
        self.state = new_state(self.workload, site.policy.rules, machine_size=site.site.units)
        self.state.scalars["now_s"] = begin_s
        self._data_s = np.zeros(most_jobs, dtype=np.int64)
        self._late = np.empty(0, dtype=np.int64)
        self._nodes = None if site.nodes is None else _RunningNodes(site.nodes, self.state, begin_s)

    def submit(self, jobs: Submission) -> None:
        """Add jobs behind those that came before; none is submitted before the second that was advanced to."""
        rows = slice(self.count, self.count + len(jobs.size))
        runtime_s = np.minimum(jobs.runtime_s, jobs.estimate_s) if self.site.policy.kill_at_estimate else jobs.runtime_s
        columns = (jobs.submit_s, runtime_s, jobs.estimate_s, jobs.estimate_s, jobs.size, jobs.unit_w)
        for column, value in zip(self.workload, columns, strict=False):
            column[rows] = value
        self._data_s[rows] = jobs.data_s
        self._late = np.append(self._late, self.count + np.flatnonzero(jobs.data_s > jobs.submit_s))
        self.count = rows.stop
        self.state.scalars["next_submit_s"] = self._next_submit_s()

    def _next_submit_s(self) -> int:
        at = int(self.state.scalars["next_job"][0])
        return int(self.workload.submit_s[at]) if at < self.count else NEVER

    def advance(self, until_s: int) -> None:
        """Handle all events up to and including that second."""
        if until_s < self.state.scalars["now_s"][0]:
            return
        if self._nodes is None:
            self._advance_awake(until_s)
        else:
            self._nodes.advance(self.workload, self.site, self.state, until_s)

    def _advance_awake(self, until_s: int) -> None:
        rules, units = self.site.policy.rules, self.site.site.units
        while len(self._late) and (next_s := next_event_s(self.state)) <= until_s:
            advance(self.workload, NO_PEAKS, rules, units, self.state, next_s)
            waits = self.held_s[self._late] == NOT_YET
            begun, self._late = self._late[~waits], self._late[waits]
            hold_until(self.state, begun, self._data_s[begun])
        if not len(self._late):
            advance(self.workload, NO_PEAKS, rules, units, self.state, until_s)

    @property
    def held_s(self) -> Int64:
        """Since when each job holds its units, by row; NOT_YET of those that wait."""
        return self.state.start_s[: self.count]

    def start_s(self, first: int = 0) -> Int64:
        """Return when each job starts to run, from the row `first` on: with its units and its data; NOT_YET of those
        that wait."""
        held_s = self.held_s[first:]
        return np.where(held_s == NOT_YET, NOT_YET, np.maximum(held_s, self._data_s[first : self.count]))

    def end_s(self, first: int = 0) -> Int64:
        """Return when each job that has started will have ended, from that row on, NOT_YET of those that wait."""
        start_s = self.start_s(first)
        return np.where(start_s == NOT_YET, NOT_YET, start_s + self.workload.runtime_s[first : self.count])

    @property
    def idle_units(self) -> int:
        """Units without a job, asleep ones too where jobs wake nodes."""
        return int(self.state.scalars["free"][0])

    @property
    def is_idle(self) -> bool:
        """Whether no job runs or waits."""
        now = self.state.scalars[0]
        return bool(now["running"] == 0 and now["waiting"] == 0 and now["next_submit_s"] == NEVER)

    @property
    def waiting(self) -> int:
        """The length of the queue."""
        return int(self.state.scalars["waiting"][0])

    def node_log(self) -> NodeLog | None:
        """Return what the nodes did, None where none can sleep; to be asked once, at the end."""
        return None if self._nodes is None else self._nodes.log()


class _RunningNodes:
    """The nodes of a site that sleep, beside its engine."""

    def __init__(self, nodes: SleepingNodes, state: State, begin_s: int) -> None:
        self._nodes = nodes
        self._depths = depth_table(nodes.machine.node_class, nodes.machine.seed)
        self._book = LogBook()
        self._power: Power = all_active(
            nodes.capacity.rules,
            machine_size=nodes.machine.size,
            units_per_node=nodes.machine.units_per_node,
            slots=len(state.slots.job),
            jobs=len(state.start_s),
            begin_s=begin_s,
            # Without a job they go on as far as they are asked to: another may come.
            rest_until_s=NEVER - 1,
        )

    def advance(self, workload: Workload, site: SimulatedSite, state: State, until_s: int) -> None:
        capacity, rules = self._nodes.capacity, site.policy.rules
        while (
            advance_powered(
                workload,
                NO_PEAKS,
                rules,
                capacity.rules,
                capacity.course,
                self._depths,
                site.site.units,
                state,
                self._power,
                until_s,
            )
            == LOG_FULL
        ):
            self._book.empty(self._power)

    def log(self) -> NodeLog:
        self._book.empty(self._power)
        return self._book.node_log(self._nodes.machine)


def _empty(most_jobs: int) -> Workload:
    def column() -> Int64:
        return np.zeros(most_jobs, dtype=np.int64)

    never = np.full(most_jobs, NEVER)
    return Workload(never, column(), column(), column(), column(), np.zeros(most_jobs), column())
