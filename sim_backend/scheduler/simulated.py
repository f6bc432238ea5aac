"""The simulated scheduler behind the port of all schedulers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from offpeak.errors import SchedulerError
from offpeak.model.limits import PriorityOrder, SiteLimits, SitePriority
from offpeak.model.orders import NodeChange, PowerState
from offpeak.model.request import Request
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import (
    Ranking,
    RequeuePermit,
    SchedulerTraits,
    SchedulerView,
    change_refusal,
    is_change_done,
)
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster

BOOT_S = 600
JobValue = TypeVar("JobValue", int, str)


class SimulatedScheduler:
    """Asks and changes a cluster in memory, which its `clock` moves on; it wakes nodes for jobs, as Slurm does."""

    changes_lists = True

    def __init__(
        self, cluster: SimulatedCluster, *, clock: Callable[[], float], ranking: Ranking = Ranking.OFFSET
    ) -> None:
        self.cluster, self._clock, self._ranking = cluster, clock, ranking

    def traits(self) -> SchedulerTraits:
        """Return the capabilities."""
        return SchedulerTraits(
            "simulated",
            "1",
            self._ranking,
            power_saving=True,
            boot_s=BOOT_S,
            shared_nodes=True,
            cluster="simulated",
            partitions=tuple(self.cluster.partitions.values()),
            limits=SiteLimits(priority=SitePriority(PriorityOrder.SUBMISSION)),
        )

    def view(self) -> SchedulerView:
        """Return all jobs and all nodes."""
        now_s = self._step()
        jobs = tuple(self._job(job) for job in self.cluster.jobs.values())
        return SchedulerView(int(now_s), jobs, tuple(self._node(node) for node in self.cluster.nodes.values()), ())

    def find_uses(self, nodes: Sequence[str]) -> dict[str, str | SchedulerError]:
        """Return why each node is not free, "" if it is."""
        self._step()
        uses: dict[str, str | SchedulerError] = {}
        for name in nodes:
            node = self.cluster.nodes.get(name)
            if node is None:
                uses[name] = SchedulerError("there is no such node", hint="`offpeak nodes` shows them all")
            elif node.used:
                uses[name] = f"runs {', '.join(node.used)}"
            else:
                uses[name] = "" if node.shut else "is not closed: a job may start there"
        return uses

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set priorities or offsets; return why not, by job."""

        def set_value(job: SimJob, value: int) -> None:
            if self._ranking is Ranking.VALUE:
                job.priority = value
            else:
                job.offset = value

        return self._change(values, set_value)

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set when each job may start at the earliest, 0 for now; return why not, by job."""

        def set_begin(job: SimJob, at_s: int) -> None:
            job.begin_s = at_s or int(self._clock())

        return self._change(begin_s, set_begin)

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        """Return whether each of these running jobs may be requeued."""
        return {
            job.job_id: RequeuePermit(job.may_be_requeued, job.job_id, job.restarts)
            for job in self.cluster.jobs.values()
            if job.job_id in jobs and job.state is JobState.RUNNING
        }

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:
        """Have each running job write its checkpoint, at once; return why not, by job."""
        running = {job.job_id: job for job in self.cluster.jobs.values() if job.state is JobState.RUNNING}
        for name in signals.keys() & running.keys():
            running[name].may_be_requeued = True
        return dict.fromkeys(signals.keys() - running.keys(), "does not run")

    def requeue(self, names: Sequence[str]) -> dict[str, str]:
        """Put each running job that permits it back into the queue; return why not, by job."""
        now_s, permits = self._step(), self.requeue_permits(names)
        for job in self.cluster.jobs.values():
            if job.job_id in permits and permits[job.job_id].allowed:
                self.cluster.requeue(job, now_s)
                job.may_be_requeued = False
        return {name: "may not be requeued" for name in names if name not in permits or not permits[name].allowed}

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write what owners see, "" takes it away where there is any; return why not, by job."""
        has = {job.job_id for job in self.cluster.jobs.values() if job.attributes.get("offpeak")}
        comments = {job: text for job, text in comments.items() if text or job in has}

        def say(job: SimJob, text: str) -> None:
            job.attributes["offpeak"] = text

        return self._change(comments, say)

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:  # noqa: ARG002
        """Do nothing: each step has a cycle."""
        return {}

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Tell it of these nodes; return why not, by node."""
        now_s, refused = int(self._step()), {}
        for name in nodes:
            known = {each: self._node(node) for each, node in self.cluster.nodes.items()}
            refusal = change_refusal(name, known, change)
            if refusal:
                refused[name] = refusal
            if refusal or is_change_done(known[name], change):
                continue
            node = self.cluster.nodes[name]
            match change:
                case NodeChange.CLOSE | NodeChange.WITHDRAW:
                    node.shut, node.note, node.reason_s = {reason}, reason, now_s
                case NodeChange.OPEN:
                    node.shut, node.note, node.reason_s = set(), "", 0
                case NodeChange.POWER_DOWN:
                    node.power, node.power_s = PowerState.OFF, now_s
                case NodeChange.POWER_UP | NodeChange.RESUME:
                    node.power, node.power_s = PowerState.POWERING_ON, now_s
        return refused

    def _step(self) -> float:
        now_s = self._clock()
        self.cluster.step(now_s)
        return now_s

    def _change(self, wanted: Mapping[str, JobValue], change: Callable[[SimJob, JobValue], None]) -> dict[str, str]:
        """Change each job that still waits, of an array all tasks that do; those that have gone are left out."""
        jobs: dict[str, list[SimJob]] = {}
        for job in self.cluster.jobs.values():
            if job.state is not JobState.ENDED:
                jobs.setdefault(job.job_id, []).append(job)
                jobs.setdefault(f"{job.number}[]", []).append(job)
        refused: dict[str, str] = {}
        for name, value in wanted.items():
            waiting = [job for job in jobs.get(name, []) if job.state is JobState.PENDING]
            for job in waiting:
                change(job, value)
            if name in jobs and not waiting:
                refused[name] = f"is {jobs[name][0].state}"
        return refused

    def _job(self, job: SimJob) -> Job:
        held = job.state is JobState.PENDING and bool(job.holds)
        depends = job.state is JobState.PENDING and self.cluster.hangs(job)
        whole_nodes = self.cluster.takes_whole_nodes(job)
        return Job(
            job_id=job.job_id,
            state=JobState.HELD if held else job.state,
            native_state=str(job.state),
            reason=f"held by {','.join(sorted(job.holds))}" if held else "Dependency" if depends else "",
            user=job.user,
            account=job.attributes.get("account", ""),
            name=job.name,
            comment=job.comment,
            partitions=(job.queue,),
            request=Request((job.queue,), job.chunks, job.apart, whole_nodes),
            reservation="",
            qos="",
            priority=round(self.cluster.value(job)),
            offset=round(job.offset),
            nodes=len(job.placed) or job.nodes,
            cpus=job.cpus,
            whole_nodes=whole_nodes,
            limit_s=job.limit_s,
            submit_s=job.submit_s,
            begin_s=job.begin_s or None,
            start_s=None if job.start_s is None else int(job.start_s),
            end_s=None if job.end_s is None else int(job.end_s),
            hosts=",".join(job.placed) if job.state in HOLDING or job.state is JobState.ENDED else "",
            plain=not (job.after or job.index is not None),
            array_id="" if job.index is None else f"{job.number}[]",
            task_limit=job.task_limit,
        )

    def _node(self, node: SimNode) -> Node:
        late = node.power is PowerState.POWERING_ON and self._clock() - node.power_s > BOOT_S
        return Node(
            name=node.name,
            native_state="+".join([str(node.power), *(["closed"] if node.shut else [])]),
            use=NodeUse.USED if node.used else NodeUse.FREE,
            power=PowerState.OFF if late else node.power,
            closed=bool(node.shut),
            failed=late or (node.power is PowerState.ON and not node.alive),
            responds=node.alive,
            reserved=False,
            planned=False,
            reason=node.note,
            reason_by="",
            reason_s=node.reason_s or None,
            partitions=self.cluster.queues_of(node),
            features=node.features,
            cpus=node.cpus,
            cpus_used=node.cpus_used,
            memory_mib=node.memory_mib,
            boot_s=None,
            idle_since_s=node.last_used_s or None,
            gpus=node.gpus,
        )
