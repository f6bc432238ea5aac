"""Slurm behind the port of all schedulers."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from offpeak.model.orders import NodeChange
from offpeak.settings.schedulers import SlurmSettings
from plugin.scheduler.job import Job
from plugin.scheduler.port import Ranking, RequeuePermit, SchedulerTraits, SchedulerView
from plugin.slurm.changes import (
    ScontrolOptions,
    change_nodes,
    defer_jobs,
    notify_owners,
    rank_jobs,
    read_requeue_permits,
    requeue_jobs,
    signal_jobs,
)
from plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent, ask
from plugin.slurm.configuration import cached_rights, order_wait_s, read_limits, traits_of_text
from plugin.slurm.jobs import FACTORS_ARGUMENTS, with_set_priorities
from plugin.slurm.nodes import node_in_use
from plugin.slurm.readers import SlurmRest, SlurmSnapshot, read_json, read_pyslurm, read_text


class SlurmScheduler:
    """Slurm, read by the method of the settings and changed by scontrol; `clock` returns Unix seconds."""

    def __init__(self, settings: SlurmSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._timeout_s = float(settings.timeout_s)
        self._read = _reader(settings)
        self._scontrol = ScontrolOptions(settings.command or (), self._timeout_s)
        self._traits: SchedulerTraits | None = None
        self._rights = cached_rights(self._timeout_s)

    def traits(self) -> SchedulerTraits:
        """Return the settings of slurm.conf, as slurmctld has read them."""
        config = ask("scontrol", "show", "config", timeout_s=self._timeout_s)
        partitions = ask("scontrol", "--all", "--oneliner", "show", "partitions", timeout_s=self._timeout_s)
        traits = traits_of_text(config, partitions)
        self._scontrol = self._scontrol._replace(order_s=order_wait_s(config))
        limits = read_limits(config, timeout_s=self._timeout_s)
        self._traits = replace(traits, limits=limits, problems=(*self._rights().problems, *traits.problems))
        return self._traits

    def view(self) -> SchedulerView:
        """Return all jobs, also those that ended within MinJobAge, all nodes and all reservations."""
        at_s = int(self._clock())
        snapshot = self._read_all()
        if self._traits and self._traits.ranking is Ranking.OFFSET:
            snapshot = snapshot._replace(jobs=self._with_set_priorities(snapshot.jobs))
        return SchedulerView(at_s, *snapshot)

    def _read_all(self) -> SlurmSnapshot:
        """Return the snapshot. What PrivateData makes Slurm refuse is an error that says what to grant."""
        try:
            return self._read()
        except SlurmIsSilent:
            raise
        except CannotAskSlurm as problem:
            if not (hidden := self._rights().problems):
                raise
            ((message, hint),) = hidden
            raise CannotAskSlurm(f"{problem}: {message}", hint=hint) from None

    def _with_set_priorities(self, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        """Return the jobs with `priority_is_set`; without it if Slurm computes no factors any more."""
        try:
            return with_set_priorities(jobs, ask("sprio", *FACTORS_ARGUMENTS, timeout_s=self._timeout_s))
        except SlurmIsSilent:
            raise
        except CannotAskSlurm:
            return jobs

    def in_use(self, node: str) -> str:
        """Return why the node is not free, "" if it is."""
        return node_in_use(node, self._rights(), timeout_s=self._timeout_s)

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set priorities under priority/basic, else nice values, by the last known traits; return why not."""
        # The values were computed for these traits; the traits of now may differ.
        traits = self._traits or self.traits()
        return rank_jobs(values, traits.ranking, self._scontrol)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set when each job may start at the earliest, 0 for now; return why not, by job."""
        return defer_jobs(begin_s, self._scontrol)

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        """Return what Slurm shows of each of these running batch jobs."""
        return read_requeue_permits(jobs, self._timeout_s)

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:
        """Send each job's script its signal; return why not, by job."""
        return signal_jobs(signals, self._scontrol)

    def requeue(self, names: Sequence[str]) -> dict[str, str]:
        """Requeue these running jobs; return why not, by job."""
        return requeue_jobs(names, self._scontrol)

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write our part of each job's AdminComment, "" removes it; return why not, by job."""
        return notify_owners(comments, self._scontrol)

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Order the change of these nodes; return why not, by node."""
        return change_nodes(nodes, change, reason=reason, scontrol=self._scontrol)


def _reader(settings: SlurmSettings) -> Callable[[], SlurmSnapshot]:
    timeout_s = float(settings.timeout_s)
    match settings.read:
        case "json":
            return lambda: read_json(timeout_s)
        case "rest":
            return SlurmRest(settings.rest_url, settings.rest_token, timeout_s=timeout_s).read
        case "pyslurm":
            return lambda: read_pyslurm(timeout_s)
        case _:
            return lambda: read_text(timeout_s)
