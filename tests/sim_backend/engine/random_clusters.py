"""Random small clusters with jobs: shared and whole nodes, GPUs of two types, tiers, arrays, limits, several chunks."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from plain_pools import PlainMixedJob

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.limits import DEFAULT_PREEMPTION, Allowance, PreemptionRules, PreemptMode, Qos
from offpeak.model.request import Chunk, Request
from offpeak.plugin.priority_bands import NO_BANDS
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.sim_backend.engine.case import EngineCase, RequestedJobs, engine_case
from offpeak.sim_backend.engine.rules import USER_ESTIMATE, EngineRules

PARTITIONS = ("a", "b", "c")
QOS = ("low", "high")
GPUS = ((), (), (("x", 2),), (("x", 1), ("y", 2)))
MANY = 100


@dataclass(frozen=True)
class RandomCase:
    """A case, its cluster, and its jobs as the plain scheduler takes them."""

    case: EngineCase
    cluster: Cluster
    jobs: list[PlainMixedJob]


class Draw:
    """Draws the parts of a case; hypothesis chooses the seed and the sizes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def one_of(self, *values):
        return values[self.random.integers(len(values))]

    def pool(self) -> Pool:
        kind = NodeType(self.one_of(0, 1, 4, 8, 8), self.one_of(0, 8, 16), self.one_of(*GPUS))
        names = frozenset(name for name in PARTITIONS if self.random.random() < 0.5)
        return Pool(kind, names or frozenset({self.one_of(*PARTITIONS)}), int(self.random.integers(1, 5)))

    def cluster(self, pools: int, *, in_turn: bool, preempts: bool, exempt_s: int) -> Cluster:
        tiers = (1, 1, 1) if in_turn else self.one_of((1, 2, 1), (3, 1, 2), *(() if preempts else ((1, 1, 1),)))
        modes = (*PreemptMode, PreemptMode.REQUEUE, PreemptMode.CANCEL)
        is_limited = not in_turn and self.random.random() < 0.5
        qos = {name: self.qos(name) for name in QOS} if is_limited else {}
        if preempts and self.random.random() < 0.5:
            qos = self.preempting_qos()
        by_name = {
            name: Partition(
                name,
                shared=self.random.random() < 0.6,
                priority_tier=tier,
                preempts=preempts and self.one_of(True, True, False),
                qos=self.one_of("", "", *QOS) if is_limited else "",
                preempt_mode=self.one_of(*modes) if preempts else PreemptMode.REQUEUE,
            )
            for name, tier in zip(PARTITIONS, tiers, strict=True)
        }
        licences = {"matlab": 2, "ansys": 5} if is_limited else {}
        rules = DEFAULT_PREEMPTION
        if preempts:
            rules = PreemptionRules(self.one_of(0, exempt_s), youngest_first=self.one_of(True, False))
        return Cluster(tuple(self.pool() for _ in range(pools)), by_name, licences=licences, qos=qos, preemption=rules)

    def preempting_qos(self) -> dict[str, Qos]:
        modes = (PreemptMode.REQUEUE, PreemptMode.REQUEUE, PreemptMode.CANCEL)
        low = self.qos("low")._replace(preempt_mode=self.one_of(*modes), priority=self.one_of(0, 1))
        high = self.qos("high")._replace(preempts=frozenset(["low"]))
        top = Qos("top", priority=3, preempts=self.one_of(frozenset(["low", "high"]), frozenset(["low"])))
        return {"low": low, "high": high._replace(priority=self.one_of(0, 2)), "top": top}

    def qos(self, name: str) -> Qos:
        return Qos(
            name,
            Allowance(self.one_of(None, 1, 3), self.one_of(None, None, 4), self.one_of(None, 8, 20)),
            Allowance(self.one_of(None, 1), cores=self.one_of(None, None, 8), gpus=self.one_of(None, 2)),
        )

    def chunk(self) -> Chunk:
        gpus = self.one_of(0, 0, 0, 1, 2)
        cores, memory_mib = self.one_of(0, 1, 1, 2, 3, 4, 8), self.one_of(0, 1, 5, 16)
        return Chunk(self.one_of(1, 1, 1, 2, 3, 6), cores, memory_mib, gpus, self.one_of("", "", "x"))

    def request(self, cluster: Cluster, chunks: int) -> Request:
        """Return a request that the cluster fits, if a few tries find one."""
        for _ in range(20):
            names = tuple(name for name in PARTITIONS if self.random.random() < 0.4) or (self.one_of(*PARTITIONS),)
            some = tuple(self.chunk() for _ in range(self.one_of(1, 1, chunks)))
            found = Request(
                names,
                some,
                self.one_of(True, False),
                self.one_of(False, False, True),
                qos=self.one_of(*(("",) if not cluster.qos_preempt else ()), *cluster.qos, "unknown"),
                licences=self.one_of((), (("matlab", 1),), (("ansys", 2), ("matlab", 1), ("unknown", 9))),
            )
            if not cluster.misfit(found):
                break
        return found


@st.composite
def cases(draw, *, most_jobs=40, most_requests=6, in_turn=False, preempts=False, exempt_s=0) -> RandomCase:
    """A cluster of up to four pools, up to six or more requests, up to 40 jobs; some fit nowhere and are left out.

    `in_turn`: jobs go in the order of submission, have one chunk, belong to no array, have no limits and end by their
    estimates. `preempts`: jobs of some partitions or QOS may stop others, in some clusters only after `exempt_s`.
    """
    choose = Draw(draw(st.integers(0, 2**32)))
    cluster = choose.cluster(draw(st.integers(1, 4)), in_turn=in_turn, preempts=preempts, exempt_s=exempt_s)
    asked = [
        choose.request(cluster, 1 if in_turn else 2)
        for _ in range(draw(st.integers(max(1 + 5 * preempts, most_requests - 5), most_requests)))
    ]
    count = draw(st.integers(most_jobs // 2 if preempts else 1, most_jobs))
    random = choose.random
    run, estimate = random.integers(0, 20, count), random.integers(0, 25, count)
    request = random.integers(0, len(asked), count)
    priority, array = random.choice([0, 0, 0, 1, 5], count), random.choice([-1, -1, -1, 7, 8], count)
    user = random.choice([-1, 4, 4, 6], count)
    if preempts:
        run, estimate = 3 * run, 3 * estimate
    if in_turn:
        run, priority, array = np.minimum(run, estimate), 0 * priority, 0 * array - 1
    throttle = np.where(array == 7, 1, np.where(array == 8, 2, 0))
    jobs = RequestedJobs(
        job_id=np.arange(count),
        submit_s=np.cumsum(random.choice([0, 0, 1, 2, 9], count)),
        runtime_s=run,
        estimate_s=estimate,
        request=request,
        part_power_w=random.integers(1, 5, count).astype(float),
        priority=priority,
        array=array,
        throttle=throttle,
        user=user,
    )
    case = engine_case(cluster, asked, jobs)
    columns = (jobs.submit_s, run, estimate, request, priority, array, throttle, user)
    rows = zip(*(column[case.kept].tolist() for column in columns), strict=True)
    plain = [
        PlainMixedJob(submit_s, run_s, estimate_s, asked[number], *rest)
        for submit_s, run_s, estimate_s, number, *rest in rows
    ]
    return RandomCase(case, cluster, plain)


def rules(*, reservations=(0, 1, 1, 2, MANY), timed=False) -> st.SearchStrategy[EngineRules]:
    """Rules without a window policy, with Slurm's timing where `timed`."""
    return st.builds(
        EngineRules,
        reservations=st.sampled_from(reservations),
        policy=st.just(ARRIVAL),
        window=st.just(1),
        max_postponement_s=st.just(0),
        sched_interval_s=st.sampled_from([0, 7]) if timed else st.just(0),
        bf_interval_s=st.sampled_from([0, 5, 14]) if timed else st.just(0),
        completing_s=st.sampled_from([0, 3]) if timed else st.just(0),
        order_interval_s=st.just(0),
        end_window_s=st.sampled_from([0, 2, 6]) if timed else st.just(0),
        end_window_step_s=st.sampled_from([0, 3]) if timed else st.just(0),
        boot_check_s=st.sampled_from([0, 7]) if timed else st.just(0),
        requeue_s=st.sampled_from([0, 5]) if timed else st.just(0),
        bf_resolution_s=st.sampled_from([0, 1, 4]) if timed else st.just(0),
        ends_before=st.sampled_from([False, False, True]),
        widest_first=st.sampled_from([False, False, True]),
        estimates=st.just(USER_ESTIMATE),
        pass_per_event=st.just(False),
        widths=st.just(NO_BANDS),
        promises=st.just(False),
    )
