"""What one user writes into a job, as the schedulers print it, costs no round of the agent and changes no other job."""

import asyncio
import json
import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_scheduler import RecordingScheduler
from scheduler_values import node_of, record_of

from offpeak.ledger.ledger import Ledger
from offpeak.model.facility import PowerCap
from offpeak.model.flexibility import parse_user_hints
from offpeak.plugin.federation.site_report import ExpectedWaits
from offpeak.plugin.pbs import openpbs, torque
from offpeak.plugin.pbs.demand import with_demand
from offpeak.plugin.pbs.jobs import PbsJob
from offpeak.plugin.pbs.openpbs_server import parse_formula
from offpeak.plugin.queue_hook.queue_plan import QueuePlan
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from offpeak.plugin.slurm.jobs import SQUEUE_COLUMNS, jobs_of_text, separator
from offpeak.power.expected_waits import simulate_waits
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.live.power_plan import PowerPlan
from offpeak.services.agent import site_context
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.reports import make_site_report, make_snapshot
from offpeak.settings.agent import AgentSettings, HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings

NOW_S = 1_795_215_600 + 18 * 3600
"""On-peak, and four hours before the prices fall."""
OURS, THEIRS = "batch", "other"
"""The partitions of the other jobs, and of the hostile one."""
OUR_JOBS = ("1", "2", "3")
HOSTILE, EVE = "9", "eve"
BERLIN = ZoneInfo("Europe/Berlin")
END = "\x1efuzz"
TARIFF = "on=90EUR/MWh,off=30EUR/MWh,hours=06:00-22:00,zone=Europe/Berlin"
CAP = PowerCap(NOW_S + 600, NOW_S + 7200, 1500, "the grid asks", "test")
INVENTORY = """
[credentials.bmc]
user = "admin"
password_file = "bmc.password"

[hardware.compute]
driver = "ipmi"
credential = "bmc"
node_class = "server"

[hardware.compute.soft_off]

[[machines]]
nodes = "n[1-8]"
hardware = "compute"
bmc = "127.9.9.[1-8]"
"""


@dataclass(frozen=True, repr=False)
class Round:
    """What a round of the queue and one of the nodes have decided, and what the status says of each job."""

    queue: QueuePlan
    power: PowerPlan
    why: Mapping[str, str]

    @property
    def of_ours(self) -> tuple[object, ...]:
        """All that concerns the other jobs and their nodes."""
        changes = (self.queue.rank, self.queue.begin_s, self.queue.tell)
        states = {node: state for node, state in self.power.desired_states.items() if node in NODES_OF[OURS]}
        orders = [each for each in self.power.changes if each.node in NODES_OF[OURS]]
        return *map(only_ours, changes), states, orders, only_ours(self.why)


NODES_OF = {OURS: frozenset(("n1", "n2", "n3", "n4")), THEIRS: frozenset(("n5", "n6", "n7", "n8"))}


def only_ours(by_job: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in by_job.items() if key.partition(".")[0] in OUR_JOBS}


def nodes() -> tuple[Node, ...]:
    return tuple(
        node_of(name, partitions=(partition,), cpus=8, memory_mib=64_000, idle_since_s=NOW_S - 10_000)
        for partition, names in NODES_OF.items()
        for name in sorted(names)
    )


class OffsetScheduler(RecordingScheduler):
    """A scheduler whose own priorities stay, as those of Slurm's multifactor plugin and of OpenPBS's formula."""

    def traits(self) -> SchedulerTraits:
        return replace(super().traits(), ranking=Ranking.OFFSET)


class HostileSite:
    """An agent in shadow mode whose scheduler shows these jobs; each round has an agent and a ledger of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "inventory.toml").write_text(INVENTORY)
        (folder / "bmc.password").write_text("secret")
        (folder / "bmc.password").chmod(0o600)
        self.scheduler = OffsetScheduler()
        ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/empty"))
        ledger.ready()
        ledger.close()
        self.curve = None

    def round(self, jobs: Sequence[Job], caps: Sequence[PowerCap] = ()) -> Round:
        shutil.copy(self.folder / "empty", self.folder / "ledger")
        agent_settings = AgentSettings(
            state_folder=self.folder, nodes="n[1-8]", capacity="timeout:1min", queue="greedy", min_on=0
        )
        settings = Settings(
            agent=agent_settings,
            hardware=HardwareSettings(inventory=self.folder / "inventory.toml"),
            prices=PriceSettings(tariff=TARIFF),
            ledger=LedgerSettings(url=f"sqlite:///{self.folder}/ledger"),
        )
        self.scheduler.shows = SchedulerView(NOW_S, tuple(jobs), nodes(), ())
        ledger = Ledger(settings.ledger)
        try:
            return asyncio.run(self._round(settings, ledger, caps))
        finally:
            ledger.close()

    async def _round(self, settings: Settings, ledger: Ledger, caps: Sequence[PowerCap]) -> Round:
        log = ProblemLog()
        agent = SiteAgent(site_context.make_site_context(settings), ledger, log, lambda: float(NOW_S))
        if self.curve is None:
            await agent.prices.round()
            self.curve = agent.prices.curve
        agent.prices.curve = self.curve
        agent.caps.ahead = lambda: tuple(caps)  # type: ignore[method-assign]
        found: list[Any] = []
        plan_power, run_cycle = agent.power.plan, agent.queue.run_cycle

        async def keep_power(*arguments: Any) -> PowerPlan:
            found.append(await plan_power(*arguments))
            return found[-1]

        async def keep_queue(*arguments: Any, **options: Any) -> QueuePlan:
            found.append(await run_cycle(*arguments, **options))
            return found[-1]

        async def nothing(*_: Any) -> bool:
            return False

        agent.power.plan, agent.queue.run_cycle = keep_power, keep_queue  # type: ignore[method-assign]
        agent.power.poll_first = agent.power.carry_out = nothing  # type: ignore[method-assign]
        await agent.orders()
        names = [node.name for node in self.scheduler.shows.nodes]
        agent.power.records = NodeRecords({name: record_of(name) for name in names}, {})
        for loop in (agent.queue_loop, agent.power_loop):
            await loop.round()
        await agent.waits.finish(patience_s=300.0)
        snapshot, report = make_snapshot(agent, None), await make_site_report(agent)
        assert snapshot is not None
        for shown in (snapshot, report):
            json.dumps(asdict(shown), allow_nan=False)  # type: ignore[call-overload]
        await agent.close()
        queue, power = found
        return Round(queue, power, {job.job_id: job.why for job in snapshot.published.jobs})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileSite]:
    site = HostileSite(tmp_path_factory.mktemp("site"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_context, "scheduler_of", lambda _settings: site.scheduler)

        async def simulate(view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> ExpectedWaits:
            return simulate_waits(view, run_s, shared=traits.shared_nodes)

        patch.setattr("offpeak.services.agent.wait_forecast.simulate_apart", simulate)
        yield site


USUAL = {
    "JobID": HOSTILE, "JobArrayID": HOSTILE, "HetJobID": "N/A", "State": "PENDING", "Reason": "Priority",
    "UserName": EVE, "Account": "physics", "Partition": THEIRS, "PriorityLong": "4294901500", "Nice": "0",
    "NumNodes": "1", "NumCPUs": "8", "NumTasks": "1", "OverSubscribe": "OK", "TimeLimit": "1:00:00",
    "SubmitTime": str(NOW_S - 3600), "EligibleTime": str(NOW_S - 3600), "StartTime": "N/A", "EndTime": "N/A",
    "Dependency": "(null)", "Reservation": "(null)", "QOS": "normal", "MinCpus": "1", "MinMemory": "0",
    "tres-alloc": "cpu=8,mem=1G,node=1,billing=8", "Licenses": "(null)", "Feature": "(null)", "ReqNodes": "",
    "tres-per-job": "N/A", "tres-per-node": "N/A", "tres-per-socket": "N/A", "tres-per-task": "N/A",
    "Deadline": "N/A",
    "Comment": "(null)", "Name": "job", "NodeList": "", "SchedNodes": "(null)",
}  # fmt: skip


def squeue_record(**fields: str) -> bytes:
    values = USUAL | fields
    text = separator(END).join(values[column] for column in SQUEUE_COLUMNS)
    return f"{text}{END}\n".encode("utf-8", "surrogateescape")


def squeue(*records: bytes) -> tuple[Job, ...]:
    head = f"JOBID{separator(END)}STATE{END}\n".encode()
    return jobs_of_text(head + b"".join(records), END)


OTHERS = tuple(
    squeue_record(JobID=number, JobArrayID=number, Partition=OURS, UserName="ann", **fields)
    for number, fields in {
        "1": {"Comment": "offpeak:delay=12h", "TimeLimit": "2:00:00"},
        "2": {"NumNodes": "3", "NumCPUs": "24", "PriorityLong": "4294901700"},
        "3": {"NumNodes": "2", "PriorityLong": "4294901600", "Comment": "offpeak:deadline=2026-12-24T12:00"},
    }.items()
)


NUMBERS = st.one_of(
    st.integers(0, 20),
    st.sampled_from((2**15 - 1, 2**16 - 2, 2**31 - 1, 2**32 - 2, 2**32 - 1, 2**40, 2**53 + 1, 2**63 - 1, 2**63, 2**64)),
    st.integers(0, 2**64),
)
WORDS = st.one_of(
    st.text(max_size=20).map(lambda text: text.replace("\0", "")),
    st.sampled_from(("", "(null)", "N/A", "0", "-1", "nan", "inf", "1e999", "null", "true", "[]", "{}", "<x>")),
    st.sampled_from(("a" * 1024, "9" * 5000, "\x1b[2J", "\x1e", "\r\n", "\u202e", "\udcff", "n[1-", "9[1].s")),
)
YEARS = st.sampled_from(("0000", "0001", "1969", "1970", "2026", "2038", "2106", "2999", "3000", "9999"))
TIMES = st.builds(
    "{}-{}T{}{}".format,
    YEARS,
    st.sampled_from(("01-01", "02-29", "11-22", "12-31")),
    st.sampled_from(("00:00", "08:00", "23:59:59", "24:00")),
    st.sampled_from(("", "Z", "+14:00", "-12:00", "+99:99")),
)
UNITS = st.sampled_from(("s", "min", "m", "h", "d", "", "y"))
LENGTHS = st.builds("{}{}".format, st.one_of(NUMBERS, st.floats()), UNITS)
HINT = st.one_of(
    st.builds("deadline={}".format, TIMES),
    st.builds("{}={}".format, st.sampled_from(("delay", "checkpoint", "key", "dealy")), LENGTHS),
    st.builds("checkpoint={}@{}".format, st.sampled_from(("USR1", "KILL", "")), LENGTHS),
    st.sampled_from(("now", "cap", "delay=12h", "deadline=2026-11-22T08:00", "checkpoint=10min")),
    st.builds("{}={}".format, st.sampled_from(("deadline", "delay", "checkpoint", "cap")), WORDS),
)
HINTS = st.lists(HINT, max_size=3)
LISTS = st.lists(st.one_of(st.sampled_from((OURS, THEIRS, "gone", "", "*")), WORDS), max_size=3)
NODE_SETS = st.sampled_from(("n5", "n[5-6]", "n[1-9]", "n[5-8],n[5-8]", "m[1-1000]", "n5,,n6", "n[5", "(null)", "N/A"))
INSTANTS = st.one_of(
    st.integers(NOW_S - 10**7, NOW_S + 10**7).map(str),
    NUMBERS.map(str),
    TIMES,
    st.sampled_from(("N/A", "Unknown", "NONE")),
)
LIMITS = st.one_of(
    st.sampled_from(("UNLIMITED", "INVALID", "NOT_SET", "Partition_Limit", "0:00", "1:00", "365-00:00:00", "N/A")),
    st.builds("{}-{:02}:{:02}:{:02}".format, NUMBERS, st.integers(0, 23), st.integers(0, 59), st.integers(0, 59)),
    st.builds("{}:00".format, NUMBERS),
)
SIZES = st.one_of(NUMBERS, st.floats(0, 1e15).map("{:.2f}".format))
MEMORIES = st.builds("{}{}".format, SIZES, st.sampled_from((*"KMGTP", "")))
GRES = st.one_of(
    st.builds("gres{}gpu{}{}".format, st.sampled_from(":/"), st.sampled_from((":", "=", ":a100:", ":a100=")), NUMBERS),
    st.builds("{}:{}".format, WORDS, NUMBERS),
    WORDS,
)
ARRAYS = st.builds("{}_{}".format, st.sampled_from((HOSTILE, "8")), st.one_of(NUMBERS, st.just("[0-999999%1]")))
STATES = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "SPECIAL_EXIT", "COMPLETING", "STAGE_OUT")
REASONS = ("BeginTime", "Dependency", "JobHeldUser", "Resources", "DeadLine")
TRES = st.lists(GRES, max_size=3).map(",".join)
SLURM = st.fixed_dictionaries(
    {},
    optional={
        "JobArrayID": ARRAYS,
        "HetJobID": st.sampled_from(("N/A", HOSTILE)),
        "State": st.sampled_from(STATES),
        "Reason": st.one_of(st.sampled_from(REASONS), WORDS),
        "Account": WORDS,
        "Partition": LISTS.map(",".join),
        "PriorityLong": NUMBERS.map(str),
        "Nice": st.integers(-(2**31), 2**31).map(str),
        "NumNodes": st.one_of(NUMBERS.map(str), st.builds("{}-{}".format, NUMBERS, NUMBERS)),
        "NumCPUs": NUMBERS.map(str),
        "NumTasks": NUMBERS.map(str),
        "OverSubscribe": st.sampled_from(("OK", "NO", "YES", "USER", "MCS")),
        "TimeLimit": LIMITS,
        "SubmitTime": INSTANTS,
        "EligibleTime": INSTANTS,
        "StartTime": INSTANTS,
        "EndTime": INSTANTS,
        "Dependency": st.one_of(st.sampled_from(("(null)", "afterok:1(unfulfilled)", "singleton")), WORDS),
        "Reservation": WORDS,
        "QOS": WORDS,
        "MinCpus": NUMBERS.map(str),
        "MinMemory": MEMORIES,
        "Licenses": st.one_of(st.builds("{}:{}".format, WORDS, NUMBERS), st.just("a|b")),
        "Feature": st.one_of(st.sampled_from(("a&b", "a|b", "[a*2&b]", "(a|b)&c", "a*4", "[a|b", "!x")), WORDS),
        "ReqNodes": st.one_of(NODE_SETS, WORDS),
        "NodeList": NODE_SETS,
        "SchedNodes": NODE_SETS,
        "tres-alloc": st.builds("cpu={},mem={},node={}".format, NUMBERS, MEMORIES, NUMBERS),
        "tres-per-job": TRES,
        "tres-per-node": TRES,
        "tres-per-socket": TRES,
        "tres-per-task": TRES,
        "Comment": st.one_of(HINTS.map(lambda hints: ",".join(f"offpeak:{hint}" for hint in hints)), WORDS),
        "Name": WORDS,
    },
)


def slurm_jobs(fields: Mapping[str, str]) -> tuple[Job, ...]:
    """Return the jobs as squeue prints them; a user cannot write its separator."""
    left_out = ("NodeList", "EndTime") if fields.get("State", "PENDING") == "PENDING" else ()
    return squeue(*OTHERS, squeue_record(**{name: text for name, text in fields.items() if name not in left_out}))


def check_round(site: HostileSite, alone: Round, jobs: tuple[Job, ...], caps: Sequence[PowerCap]) -> None:
    """Check that a round with these jobs ends, and that one without caps decides of the others as without it."""
    found = site.round(jobs, caps)
    assert all(why.isprintable() for why in found.why.values())
    for job in (job for job in jobs if job.user == EVE):
        why = found.why.get(job.job_id)
        assert why is None or all(error in why for error in parse_user_hints(job.comment, BERLIN).errors)
        if job.partitions != (THEIRS,) or not NODES_OF[OURS].isdisjoint({*job.required_hosts, *job.known_hosts}):
            return
    assert caps or found.of_ours == alone.of_ours


PBS_WORDS = WORDS.map(lambda text: text.replace("\x1e", ""))
AMOUNTS = ("ncpus", "ppn", "mem", "ngpus", "gpus", "mpiprocs")
CHUNKS = st.lists(
    st.builds(
        "{}:{}".format,
        NUMBERS,
        st.lists(
            st.one_of(
                st.builds("{}={}".format, st.sampled_from(AMOUNTS), st.one_of(NUMBERS, MEMORIES)),
                st.builds(
                    "{}={}".format, st.sampled_from(("host", "vnode", "x")), st.sampled_from(("n5", "True", "99"))
                ),
                st.sampled_from(("fast", "n5", "excl", "")),
            ),
            max_size=3,
        ).map(":".join),
    ),
    min_size=1,
    max_size=3,
).map("+".join)
WALLTIMES = st.one_of(st.builds("{:02}:{:02}:{:02}".format, NUMBERS, st.integers(0, 59), st.integers(0, 59)), NUMBERS)
PBS_YEARS = st.sampled_from((0, 1, 1969, 1970, 2026, 2999, 3000, 9999, 10000))
CTIMES = st.builds("Sun Nov 22 0{}:00:00 {}".format, st.integers(0, 9), PBS_YEARS)
VARIABLES = st.dictionaries(
    st.sampled_from(("OFFPEAK", "PBS_O_HOST", "X", "OFFPEAK_KEY")),
    st.one_of(HINTS.map(";".join), PBS_WORDS, NUMBERS, st.floats()),
)
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "select": CHUNKS,
        "nodes": CHUNKS,
        "place": st.sampled_from(("free", "scatter:excl", "pack", "group=rack", "exclhost")),
        "ncpus": NUMBERS,
        "nodect": NUMBERS,
        "mem": st.one_of(MEMORIES.map(lambda text: f"{text.lower()}b"), NUMBERS),
        "walltime": WALLTIMES,
        "min_walltime": WALLTIMES,
        "max_walltime": WALLTIMES,
        "ngpus": NUMBERS,
        "software": PBS_WORDS,
        "procs": NUMBERS,
    },
)
OPENPBS = st.fixed_dictionaries(
    {},
    optional={
        "Job_Name": st.one_of(PBS_WORDS, NUMBERS, st.floats()),
        "Account_Name": st.one_of(PBS_WORDS, NUMBERS, st.floats()),
        "job_state": st.sampled_from(("Q", "H", "W", "R", "S", "B", "E", "T", "M")),
        "queue": st.sampled_from((THEIRS, OURS)),
        "Priority": st.integers(-1024, 1023),
        "depend": st.one_of(st.sampled_from(("afterok:1.head", "beforeok:1.head", "on:1")), PBS_WORDS),
        "Hold_Types": st.sampled_from(("n", "u", "us")),
        "Execution_Time": CTIMES,
        "ctime": CTIMES,
        "Variable_List": VARIABLES,
        "Resource_List": RESOURCES,
        "schedselect": CHUNKS,
        "array": st.just(True),
        "max_run_subjobs": NUMBERS,
        "project": PBS_WORDS,
        "comment": PBS_WORDS,
        "estimated": st.fixed_dictionaries({"start_time": CTIMES, "exec_vnode": st.just("(n5:ncpus=8)+(n6:ncpus=8)")}),
        "umask": NUMBERS,
    },
)
PBS_OTHERS = {
    "1.head": {"Variable_List": {"OFFPEAK": "delay=12h"}},
    "2.head": {"Resource_List": {"select": "3:ncpus=8", "walltime": "01:00:00"}},
    "3.head": {"Variable_List": {"OFFPEAK": "deadline=2026-12-24T12:00"}},
}
SUBMITTED = time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(NOW_S - 3600))


def openpbs_record(**fields: Any) -> dict[str, Any]:
    usual = {
        "Job_Name": "job",
        "Job_Owner": "ann@head",
        "job_state": "Q",
        "queue": OURS,
        "ctime": SUBMITTED,
        "Resource_List": {"select": "1:ncpus=8", "walltime": "02:00:00", "nodect": 1},
    }
    return usual | fields


def shown(jobs: Sequence[PbsJob]) -> tuple[Job, ...]:
    return with_demand(jobs, nodes(), NOW_S, patience_s=600).jobs


def qstat_json(jobs: Mapping[str, Any]) -> bytes:
    """Return the answer as OpenPBS writes it: a text that looks like a number has no quotes."""

    def written(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(f"{json.dumps(key)}:{written(each)}" for key, each in value.items()) + "}"
        if isinstance(value, float):
            return str(value) if math.isfinite(value) else "1e999"
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            return value
        return json.dumps(value, ensure_ascii=False)

    return f'{{"Jobs":{written(jobs)}}}'.encode("utf-8", "surrogateescape")


def openpbs_jobs(fields: Mapping[str, Any] | None, name: str = "9.head") -> tuple[Job, ...]:
    records = {job: openpbs_record(**record) for job, record in PBS_OTHERS.items()}
    if fields is not None:
        records[name] = openpbs_record(**({"queue": THEIRS, "Job_Owner": f"{EVE}@head"} | dict(fields)))
    formula = parse_formula("job_priority*10+walltime*1e-3+ncpus*ncpus+mem+offpeak_prio")
    return shown(openpbs.jobs_of_json(qstat_json(records), partial(formula.site_value, queue_priority={})))


TORQUE = st.fixed_dictionaries(
    {},
    optional={
        "Job_Name": PBS_WORDS,
        "Account_Name": PBS_WORDS,
        "job_state": st.sampled_from(("Q", "H", "W", "R", "S", "E", "T")),
        "queue": st.sampled_from((THEIRS, OURS)),
        "Priority": st.integers(-1024, 1023),
        "depend": PBS_WORDS,
        "Execution_Time": NUMBERS,
        "ctime": NUMBERS,
        "Variable_List": VARIABLES.map(lambda pairs: ",".join(f"{name}={value}" for name, value in pairs.items())),
        "Resource_List": RESOURCES,
        "req_information": st.dictionaries(
            st.sampled_from(("task_count.0", "lprocs.0", "maxtpn.0", "memory.0", "gpus.0", "node.0", "features.0")),
            st.one_of(NUMBERS, MEMORIES, PBS_WORDS, st.just("all")),
        ),
        "queue_rank": NUMBERS,
        "start_count": NUMBERS,
    },
)


def qstat_xml(jobs: Mapping[str, Any]) -> bytes:
    def written(value: Any) -> str:
        if isinstance(value, dict):
            return "".join(f"<{key}>{written(each)}</{key}>" for key, each in value.items())
        return escape(str(value))

    records = "".join(f"<Job>{written({'Job_Id': job, **record})}</Job>" for job, record in jobs.items())
    return f"<Data>{records}</Data>".encode("utf-8", "surrogateescape")


def torque_jobs(fields: Mapping[str, Any] | None, name: str = "9.head") -> tuple[Job, ...]:
    records = {
        job: {"Job_Name": "job", "job_state": "Q", "queue": OURS, "ctime": NOW_S - 3600, "Job_Owner": "ann@head"}
        | {"Resource_List": {"nodes": "1:ppn=8", "walltime": "02:00:00"}}
        | {"Variable_List": f"OFFPEAK={record.get('Variable_List', {}).get('OFFPEAK', '')}"}
        for job, record in PBS_OTHERS.items()
    }
    if fields is not None:
        records[name] = records["1.head"] | {"queue": THEIRS, "Job_Owner": f"{EVE}@head"} | dict(fields)
    return shown(torque.jobs_of_xml(qstat_xml(records)))


ON_SLURM = SLURM.map(slurm_jobs)
ON_OPENPBS = st.builds(openpbs_jobs, OPENPBS, st.sampled_from(("9.head", "9[].head", "9[1].head")))
ON_TORQUE = st.builds(torque_jobs, TORQUE, st.sampled_from(("9.head", "9[1].head")))
HOSTILE_JOBS = {
    "slurm": (ON_SLURM, lambda: squeue(*OTHERS)),
    "openpbs": (ON_OPENPBS, lambda: openpbs_jobs(None)),
    "torque": (ON_TORQUE, lambda: torque_jobs(None)),
}
CAPS = st.sampled_from(((), (CAP,)))


@pytest.fixture(scope="module", params=HOSTILE_JOBS)
def scheduler(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def alone(site: HostileSite, scheduler: str) -> Round:
    """What is decided without the hostile job."""
    return site.round(HOSTILE_JOBS[scheduler][1]())


@given(st.data(), CAPS)
def test_no_job_costs_a_round(
    site: HostileSite, scheduler: str, alone: Round, data: st.DataObject, caps: Sequence[PowerCap]
) -> None:
    check_round(site, alone, data.draw(HOSTILE_JOBS[scheduler][0]), caps)


def test_a_resource_with_a_very_long_name_hides_no_error_of_a_hint(site: HostileSite) -> None:
    jobs = slurm_jobs({"tres-per-node": f"{'9' * 5000}:1", "Comment": "offpeak:dealy=1h"})
    (eve,) = (job for job in jobs if job.user == EVE)
    (error,) = parse_user_hints(eve.comment, BERLIN).errors
    assert error in site.round(jobs).why[HOSTILE]


@pytest.mark.nightly
@settings(max_examples=3334)
@given(st.data(), CAPS)
def test_no_job_of_ten_thousand_costs_a_round(
    site: HostileSite, scheduler: str, alone: Round, data: st.DataObject, caps: Sequence[PowerCap]
) -> None:
    check_round(site, alone, data.draw(HOSTILE_JOBS[scheduler][0]), caps)
