"""Each option of a command changes its answer, or is refused with the reason why it cannot."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import OffpeakError
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.port import Ranking
from offpeak.power.capacity import levers
from offpeak.report_tables import Report
from offpeak.services.agent import site_context
from offpeak.sim_backend import estimate
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler
from offpeak.ui.command import run
from offpeak.ui.estimate import estimate as estimate_answer
from offpeak.ui.manual import command_tree
from offpeak_studies import registry
from offpeak_studies.harness import StudyOrder

Case = tuple[str | None, str]
"""A value, None for a flag, and options beside which it has an effect."""

FILE, SLEEP, DEMAND = "--prices prices_eur_per_mwh.csv", "--capacity always-on,forecast:1h", "--tariff tariff.toml"
REPLAYED: dict[str, Case] = {
    "--replays": ("10", ""),
    "--report": ("report.html", ""),
    "--json": (None, ""),
    "--lenient": (None, "sacct.txt"),
    "--config": ("site.toml", ""),
    "--prices": ("prices_eur_per_mwh.csv", ""),
    "--tariff": ("on=90EUR/MWh,off=10EUR/MWh,hours=06:00-22:00", ""),
    "--price-layout": ("unit=EUR/kWh", FILE),
    "--peak-rule": ("quantile:0.2", FILE),
    "--decide-by": ("co2", f"{FILE} --carbon carbon_g_per_kwh.csv"),
    "--fill-gaps": (None, FILE),
    "--carbon": ("400g/kWh", ""),
    "--devices": ("devices.toml", ""),
    "--peak-target": ("2kW", DEMAND),
    "--policy": ("easy,fcfs", ""),
    "--nodes": ("24", ""),
    "--processors-per-node": ("4", ""),
    "--cluster": ("cluster.toml", ""),
    "--node-class": ("dune", ""),
    "--power": ("constant:200W", ""),
    "--idle-power": ("50W", ""),
    "--seed": ("2", ""),
    "--time-zone": ("Asia/Tokyo", ""),
    "--anonymise": (None, "sacct.txt --lenient"),
}
CASES: dict[str, dict[str, Case]] = {
    "simulate": REPLAYED
    | {
        "--start": ("2023-01-11", FILE),
        "--by": ("user", ""),
        "--schedule": ("schedule.csv", ""),
        "--on": ("nowhere", "--replays 10"),
        "--anonymise": (None, "sacct.txt --lenient --by user"),
        "--peak-wait": ("10min", f"{DEMAND} --peak-target 2kW"),
        "--facility": ("air", ""),
        "--outside": ("35", "--facility air"),
        "--window": ("2", ""),
        "--period": ("1h", ""),
        "--max-postponement": ("10min", ""),
        "--estimates": ("exact", ""),
        "--kill-at-estimate": (None, ""),
        "--passes": ("event", ""),
        "--capacity": ("always-on,timeout:10min", ""),
        "--sla": ("2", SLEEP),
        "--depth": ("standby", SLEEP),
        "--keep-hot": ("12", SLEEP),
        "--wake-ahead": ("2h", SLEEP),
        "--min-awake": ("5h", SLEEP),
        "--min-asleep": ("5h", SLEEP),
        "--cycles-per-day": ("1", SLEEP),
        "--sleep-order": ("wear", SLEEP),
        "--sleep-rate": ("1", SLEEP),
        "--wake-rate": ("1", SLEEP),
        "--sleep-ramp": ("80W", SLEEP),
        "--wake-ramp": ("80W", SLEEP),
        "--cycle-cost": ("1", "--capacity always-on,priced"),
    },
    "estimate": REPLAYED
    | {
        "--days": ("1", ""),
        "--budget": ("1s", ""),
        "--on": ("nowhere", ""),
        "--write-cluster": ("written.toml", ""),
        "--peak-wait": ("10min", f"{DEMAND} --peak-target 2kW"),
        "--flexible-qos": ("a=delay=12h", ""),
        "--flexible-partitions": ("1=delay=12h", ""),
        "--inventory": ("absent.toml", ""),
    },
    "plan": {
        "--day": ("tomorrow", ""),
        "--report": ("plan.html", ""),
        "--apply": (None, ""),
        "--json": (None, ""),
        "--scheduler": ("slurm", ""),
        "--mode": ("active", "--apply"),
        "--window": ("1", ""),
        "--prices": ("prices_eur_per_mwh.csv", ""),
        "--tariff": ("on=90EUR/MWh,off=10EUR/MWh,hours=00:00-24:00", ""),
        "--devices": ("devices.toml", ""),
        "--facility": ("air", ""),
        "--outside": ("35", ""),
        "--revenue-per-core-hour": ("0", ""),
        "--revenues": ("hot=9", ""),
        "--events": ("events.toml", ""),
        "--openadr": ("https://127.0.0.1:1", ""),
        "--config": ("site.toml", ""),
    },
}


def options_of(command: str) -> set[str]:
    """Return the options of a command, by their longest names."""
    parameters = command_tree()["offpeak", command].params
    return {max(each.opts, key=len) for each in parameters if each.param_type_name == "option"} - {"--help-all"}


JOB = "{job} {submit} -1 {run} {size} -1 -1 {size} {limit} -1 1 {user} -1 -1 1 -1 -1 -1"
ACCOUNTED = "{job}|user{user}|physics|part{user}|COMPLETED|{submit}|{begin}|{end}|3600|120|{size}|{size}|a"
COLUMNS = "JobIDRaw|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|AllocCPUS|QOS"
TARIFF = """
currency = "EUR"
zone = "UTC"
energy = [{name = "all", price = "0.1EUR/kWh"}]
demand = [{name = "demand", price = "120EUR/kW", per = "month"}]
"""
DEVICES = '[battery]\ncapacity = "5kWh"\ncharge = "2kW"\ndischarge = "2kW"\nefficiency = 0.9\nstart = 0.5\nend = 0.5\n'
CLUSTER = "[node_types.thin]\ncount = 20\ncores = 1\n[partitions.all]\nnode_types = ['thin']\n"
SITE = """
[agent]
state_folder = "{folder}"
socket = "{folder}/agent.sock"
queue = "greedy"
[ledger]
url = "sqlite:///{folder}/ledger.sqlite"
[power]
classes = ["hot=400W", "cool=100W"]
[scheduling]
priority_band = 100
[prices]
tariff = "on={price}EUR/MWh,off=30EUR/MWh,hours={hours},zone=UTC"
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all that options name: jobs of which some reach their limits, and prices with a gap."""
    folder, rng = tmp_path_factory.mktemp("options"), np.random.default_rng(4)
    runs_s, submit_s = rng.integers(300, 9000, 40), np.sort(rng.integers(0, 60, 40)) * 900
    rows = [
        JOB.format(job=n + 1, submit=submit_s[n], run=runs_s[n], size=rng.integers(1, 13), limit=6000, user=n % 5)
        for n in range(40)
    ]
    accounted = []
    for n in range(24):
        day, hour = 2 + n // 12, 2 * n % 24
        submit, begin, end = (
            f"2023-01-0{day}T{at}:00" for at in (f"{hour:02}:00", f"{hour:02}:10", f"{hour + 1:02}:10")
        )
        accounted.append(ACCOUNTED.format(job=n + 1, user=n % 2, submit=submit, begin=begin, end=end, size=1 + n % 3))
    hours = [f"2023-01-{1 + hour // 24:02}T{hour % 24:02}:00Z" for hour in range(24 * 28)]
    prices, carbon = (
        [f"{at},{rng.normal(60, 40):.2f}" for number, at in enumerate(hours) if number // 5 != number_of_gap]
        for number_of_gap in (6, -1)
    )
    now_s = time.time() // 3600 * 3600
    first, last = (time.strftime("%H:00", time.gmtime(now_s + hour * 3600)) for hour in (0, 2))
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s + hour * 3600)) for hour in (1, 3))
    site = {"folder": folder, "hours": f"{first}-{last}"}
    texts = {
        "log.swf": "\n".join(["; MaxProcs: 16", "; UnixStartTime: 1672614000", *rows]),
        "sacct.txt": "\n".join([COLUMNS, *accounted, "no job"]),
        "prices_eur_per_mwh.csv": "\n".join(["time,price", *prices]),
        "carbon_g_per_kwh.csv": "\n".join(["time,carbon", *carbon]),
        "tariff.toml": TARIFF,
        "devices.toml": DEVICES,
        "cluster.toml": CLUSTER,
        "events.toml": f'[[event]]\nbegin = {begin}\nend = {end}\ncap_w = 300\nreason = "a cap"\n',
        "usual.toml": SITE.format(price=90, **site),
        "site.toml": SITE.format(price=70, **site),
    }
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    return folder


Answer = Callable[[str], str]


@pytest.fixture
def answer(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answer:
    """Runs a command line in the folder; returns its output, exit code and new files, without notes and times."""
    for module in (levers, estimate, estimate_answer):
        for name in ("REPLAYS", "MOST_REPLAYS"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(levers, "LEVERS", levers.LEVERS[:1])
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(files)
    given = {path.name for path in files.iterdir()}
    real = site_context.scheduler_of
    monkeypatch.setattr(site_context, "scheduler_of", lambda chosen: real(chosen) if chosen.agent.scheduler else busy())

    def answered(line: str) -> str:
        monkeypatch.setenv("OFFPEAK_CONFIG", "usual.toml" if line.startswith("plan") else "/dev/null")
        code = run(line.split())
        printed = capsys.readouterr()
        text = printed.out
        if text.startswith("{"):
            document = json.loads(text)
            document.pop("notes", None)
            text = re.sub(r'"simulate_s": [^,}]*', "", json.dumps(document))
        new = [path for path in files.iterdir() if path.name not in given and path.suffix not in (".sqlite", ".lock")]
        names = [path.name for path in new if path.is_file() and path.suffix in (".html", ".csv", ".toml")]
        for name in names:
            (files / name).unlink()
        return f"{code} {sorted(names)} {text or printed.err}"

    return answered


def busy() -> SimulatedScheduler:
    """A node that is taken, and two jobs that wait for it, of which one ends before the plan does."""
    now_s = int(time.time()) // 3600 * 3600
    made = SimulatedScheduler(SimulatedCluster({"n1": SimNode("n1", 8)}), clock=lambda: now_s, ranking=Ranking.VALUE)
    for at, name in enumerate(("first", "hot", "cool")):
        chunks, limit_s = (Chunk(1, 8),), 60 * 3600 if at else 3600
        job = SimJob(0, name, "ann", "batch", chunks, 9e5, now_s, limit_s, whole_nodes=True)
        job.attributes["account"] = name
        made.cluster.submit(job).priority = 1000 - at
        made.view()
    return made


@pytest.mark.parametrize("command", CASES)
def test_an_option_changes_the_answer_or_is_refused(answer: Answer, command: str) -> None:
    # It needs a cluster whose priorities are rights, as the tests of the mixed engine have.
    assert set(CASES[command]) == options_of(command) - {"--priority-band"}
    plain: dict[str, str] = {}

    def line(option: str, beside: str) -> str:
        log = "" if command == "plan" else "" if beside.startswith("sacct") else "log.swf"
        shape = "" if option == "--json" else "--json"
        return " ".join(f"{command} {log} {beside} {shape}".split())

    ignored = []
    for option, (value, beside) in CASES[command].items():
        for others in {beside, beside if beside.startswith("sacct") else ""}:
            base = line(option, others)
            before = plain.setdefault(base, answer(base) if base not in plain else "")
            after = answer(f"{base} {option} {value or ''}")
            if after == before or (others == beside and f"{option} changes nothing" in after):
                ignored.append((option, others))
    assert ignored == []


class Stopped(Exception):
    """The study has read its inputs."""


class NoExecutor:
    """Runs nothing."""

    def run(self, *_: object) -> None:
        raise Stopped


@dataclass(frozen=True)
class RecordedOrder(StudyOrder):
    """An order that records which of its inputs are read."""

    read: set[str] = field(default_factory=set)

    def __getattribute__(self, name: str) -> object:
        value = super().__getattribute__(name)
        if name in INPUTS.values():
            self.read.add(name)
        return value


INPUTS = {"--logs": "logs", "--prices": "prices", "--replays": "replays", "--search-time": "search_s"}
PARTED = {part: (name, study) for name, parts in registry.PARTS.items() for part, study in parts.items()}


@pytest.mark.parametrize("name", [*registry.STUDIES, *PARTED])
def test_a_study_has_the_options_that_it_reads(tmp_path: Path, name: str) -> None:
    order = RecordedOrder(None, tmp_path, 1, 1, NoExecutor())
    whole, study = PARTED.get(name) or (name, registry.STUDIES[name])
    with pytest.raises((Stopped, OffpeakError)) as stopped:
        study(order, lambda _done, _total: None)
    options = {option for option, field_ in INPUTS.items() if field_ in order.read}
    # A study whose data are not there has not read all.
    assert options == registry.OPTIONS[whole] if stopped.type is Stopped else options <= registry.OPTIONS[whole]


STUDY_OPTIONS = dict(zip(INPUTS, ("logs", "p.csv", "3", "7s"), strict=True)) | {
    "--out": "elsewhere",
    "--seed": "9",
    "--processes": "1",
    "--on": "nowhere",
    "--part": "single-site",
}


@pytest.mark.parametrize("name", ["sleeping", "profit-cooling", "price-capacity"])
def test_an_option_of_a_study_changes_its_order_or_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    assert set(STUDY_OPTIONS) == options_of("study")
    orders: list[str] = []

    def study(order: StudyOrder, _progress: object) -> Report:
        orders.append(f"{replace(order, executor=NoExecutor)} {vars(order.executor)}")
        raise Stopped

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.STUDIES, name, study)
    for option in ("--seed", *STUDY_OPTIONS):
        run(["study", name, option, "1" if not orders else STUDY_OPTIONS[option]])
        refused = capsys.readouterr().err
        orders += [refused] if option in refused else []
    assert len(set(orders)) == 1 + len(STUDY_OPTIONS)
