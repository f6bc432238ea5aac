"""The cluster that the site's scheduler reports: read for an estimate, without an answer, and written to a file."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from offpeak.errors import SchedulerError
from offpeak.files import LongText
from offpeak.model.cluster import Partition
from offpeak.model.cluster_file import cluster_text, parse_cluster
from offpeak.model.limits import PriorityOrder, PriorityWeights, Qos, ShareAccount, SiteLimits, SitePriority
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.plugin.slurm.configuration import traits_of_text
from offpeak.plugin.slurm.nodes import nodes_of_text, reservations_of_text
from offpeak.settings.replay import LogSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.traces.slurm.read import sacct_trace
from offpeak.ui.estimate import accounting_source
from offpeak.ui.estimate.accounting_source import Accounting, site_cluster, with_site_cluster

NODES = b"""\
NodeName=t1 CPUTot=64 RealMemory=256000 AvailableFeatures=ib,rack1 Gres=(null) State=IDLE Partitions=cpu
NodeName=t2 CPUTot=64 RealMemory=256000 AvailableFeatures=ib,rack2 Gres=(null) State=DOWN+DRAIN Partitions=cpu
NodeName=g1 CPUTot=48 RealMemory=512000 AvailableFeatures=ib Gres=gpu:a100:4(S:0-1) State=MIXED Partitions=gpu
"""
PARTITIONS = b"""\
PartitionName=cpu MaxNodes=UNLIMITED MaxTime=1-00:00:00 Nodes=t[1-2] PriorityTier=1 OverSubscribe=NO PreemptMode=OFF
PartitionName=gpu MaxNodes=1 MaxTime=UNLIMITED Nodes=g1 PriorityTier=5 OverSubscribe=EXCLUSIVE PreemptMode=OFF
PartitionName=empty MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=(null) PriorityTier=1 OverSubscribe=NO PreemptMode=OFF
"""
RESERVATIONS = b"ReservationName=maint StartTime=0 EndTime=9 Nodes=t1 NodeCnt=1 Flags=MAINT\n"
PRIORITY = SitePriority(
    PriorityOrder.MULTIFACTOR,
    PriorityWeights(age=10, fair_share=100, qos=5),
    (ShareAccount("physics", "", 3, (("anna", 1),)), ShareAccount("lasers", "physics", 1, (("bob", None),))),
)
SACCT = (
    "JobIDRaw;Partition;State;Submit;Start;End;AllocNodes;AllocCPUS;ReqTRES;QOS\n"
    "1;cpu;COMPLETED;2023-01-02T00:00:00;2023-01-02T00:00:00;2023-01-02T01:00:00;1;8;cpu=8,node=1;secret\n"
)


class Scheduler:
    """A Slurm that answers as above, or not at all."""

    def __init__(self, answers: tuple[bytes, bytes, bytes] | None) -> None:
        self._answers = answers

    def view(self) -> SchedulerView:
        if self._answers is None:
            raise SchedulerError("scontrol: no answer within 60 s", hint="")
        nodes, _, reservations = self._answers
        return SchedulerView(0, (), nodes_of_text(nodes), reservations_of_text(reservations))

    def traits(self) -> object:
        assert self._answers is not None
        config = b"SelectType = select/cons_tres\nSchedulerType = sched/backfill\n"
        return replace(traits_of_text(config, self._answers[1]), limits=SiteLimits({"matlab": 3}))


Reports = Callable[..., None]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    """Lets the site's scheduler report these answers."""

    def let(answers: tuple[bytes, bytes, bytes] | None = (NODES, PARTITIONS, RESERVATIONS)) -> None:
        monkeypatch.setattr(accounting_source, "scheduler_of", lambda _: Scheduler(answers))
        monkeypatch.setattr(accounting_source, "scheduler_name", lambda _: "slurm")
        monkeypatch.setattr(accounting_source, "read_qos", lambda: {"normal": Qos("normal")})
        monkeypatch.setattr(accounting_source, "read_priority", lambda: PRIORITY)

    return let


def accounting() -> Accounting:
    trace = sacct_trace(LongText(SACCT.encode()), "sacct", lenient=False, zone=UTC)
    return Accounting(trace, logged_names=trace.names)


def test_the_cluster_has_types_partitions_reservations_and_qos(reports: Reports) -> None:
    reports()
    cluster = site_cluster(Settings())
    assert [(pool.nodes, pool.node_type.gpus, pool.partitions) for pool in cluster.pools] == [
        (1, (), {"cpu"}),
        (1, (), {"cpu"}),
        (1, (("a100", 4),), {"gpu"}),
    ]
    assert cluster.partitions["cpu"] == Partition("cpu", shared=True, limit_s=86_400)
    assert cluster.partitions["gpu"] == Partition("gpu", priority_tier=5, most_nodes=1)
    assert (cluster.reservations, cluster.qos) == ({"maint": {"t1"}}, {"normal": Qos("normal")})
    assert cluster.licences == {"matlab": 3}
    assert cluster.timing.order_interval_s == Settings().agent.cycle_s
    assert cluster.timing.text.endswith("; offpeak orders the queue every 30 s")
    text = cluster_text(cluster)
    written = parse_cluster(text.encode(), "a.toml")
    assert written.pools == cluster.pools
    assert written.priority == cluster.priority == PRIORITY
    assert written.licences == cluster.licences
    assert list(written.partitions) == ["cpu", "gpu"]
    assert '# partition "empty" has no nodes and is left out' in text


def test_features_that_no_job_of_the_log_requests_make_no_pools(reports: Reports) -> None:
    reports()
    found = with_site_cluster(accounting(), Settings())
    assert found.cluster is not None
    assert [pool.nodes for pool in found.cluster.pools] == [2, 1]


def test_an_anonymous_estimate_knows_no_name_of_a_partition(reports: Reports) -> None:
    reports()
    plain = accounting()
    names = replace(plain.trace.names, queue=("queue1",))
    anonymous = replace(plain, trace=replace(plain.trace, names=names))
    found = with_site_cluster(anonymous, Settings(log=LogSettings(anonymise=True))).cluster
    assert found is not None
    assert sorted(found.partitions) == ["queue1", "queue2", "queue3"]
    assert (found.qos, found.reservations, found.licences) == ({}, {}, {})
    assert found.timing.bf_interval_s == 30
    assert found.priority is not None
    assert found.priority.weights == PriorityWeights(age=10, fair_share=100)
    names = repr(found.priority)
    assert [name for name in ("anna", "bob", "physics", "lasers") if name in names] == []


@pytest.mark.parametrize(
    ("answers", "reason"),
    [(None, "scontrol: no answer within 60 s"), ((b"", b"", b""), "the scheduler reports no nodes")],
)
def test_without_an_answer_all_nodes_count_as_equal(
    reports: Reports, answers: tuple[bytes, bytes, bytes] | None, reason: str
) -> None:
    reports(answers)
    found = with_site_cluster(accounting(), Settings())
    assert found.cluster is None
    assert found.trace.notes[-1] == f"the nodes of the cluster are not known ({reason}): all nodes count as equal"
    with pytest.raises(SchedulerError):
        site_cluster(Settings())


def test_nodes_of_unknown_size_are_not_replayed_as_pools(reports: Reports) -> None:
    reports((b"NodeName=n1 State=IDLE Partitions=cpu\n", PARTITIONS, b""))
    in_processors = replace(accounting(), trace=replace(accounting().trace, units_per_node=8))
    found = with_site_cluster(in_processors, Settings())
    assert found.cluster is None
    assert "the scheduler does not report their processors" in found.trace.notes[-1]


@pytest.mark.parametrize("version", ["23.02", "24.11", "25.11"])
def test_recorded_answers(shared: Path, reports: Reports, version: str) -> None:
    folder = shared / "data" / "captures" / "slurm" / version
    files = ("scontrol_show_node_o.txt", "scontrol_show_partition.txt", "scontrol_show_reservation.txt")
    reports(tuple((folder / name).read_bytes() for name in files))
    cluster = site_cluster(Settings())
    assert "batch" in cluster.partitions
    assert parse_cluster(cluster_text(cluster).encode(), "a.toml").pools == cluster.pools
