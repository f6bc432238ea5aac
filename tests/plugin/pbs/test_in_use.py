"""The last question before an order is about one node: a long queue must not delay its answer."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pbs_standin import StandIn, standin
from pytest_mock import MockerFixture

from offpeak.model.orders import NodeChange
from offpeak.plugin.pbs import commands, openpbs
from offpeak.plugin.pbs.commands import CannotAskPbs
from offpeak.plugin.pbs.jobs import PbsUser, holders
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler, jobs_of_text
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.plugin.scheduler.port import Scheduler, in_use
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE, Pbs

SETTINGS = PbsSettings(timeout_s=300, torque_order="priority")
MAKERS = {TORQUE: TorqueScheduler, OPENPBS: OpenPbsScheduler}
PROGRAMS = ("qstat", "qselect", "pbsnodes")


class Site:
    """A server, its user, and the commands that were run."""

    def __init__(self, kind: str, running: StandIn, folder: Path) -> None:
        self.kind, self.running, self.folder, self.log = kind, running, folder / "first", folder / "log"
        self.folder.mkdir()
        self.scheduler: Scheduler = MAKERS[kind](SETTINGS, user=PbsUser("root", "head"))
        for name in PROGRAMS:
            self.wrap(name, "")

    @property
    def path(self) -> str:
        return f"{self.folder}:{self.running.path}"

    def wrap(self, name: str, before: str) -> None:
        """Have a program of the server do something else before."""
        program = self.folder / name
        real = self.running.programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{before}\nexec {real} "$@"\n')
        program.chmod(0o755)

    def submit(self, *options: str) -> str:
        return self.running.run("qsub", *options, user="bob", stdin="sleep 1000\n")

    def in_use(self, node: str = "node1") -> tuple[str, list[str]]:
        """Return the answer and the questions."""
        self.log.write_text("")
        answer = in_use(self.scheduler, node)
        return answer, self.log.read_text().splitlines()


@pytest.fixture(params=[TORQUE, OPENPBS])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with standin(request.param, tmp_path, nodes=2) as running:
        made = Site(request.param, running, tmp_path)
        monkeypatch.setenv("PATH", made.path)
        yield made


def test_the_records_of_several_nodes_are_parsed_once(site: Site, mocker: MockerFixture) -> None:
    """A parse for each node would take longer than the door waits: 10,000 records take a tenth of a second."""
    parser = mocker.spy(*{TORQUE: (commands, "xml_records"), OPENPBS: (openpbs, "parse_json")}[site.kind])
    site.scheduler.change_nodes(("node1",), NodeChange.CLOSE, reason="offpeak: a test")
    parser.reset_mock()
    uses = site.scheduler.find_uses(("node1", "node2", "node3"))
    assert uses["node1"] == ""
    assert "a job may start there" in str(uses["node2"])
    assert isinstance(uses["node3"], CannotAskPbs)
    assert sum(call.kwargs["source"].startswith("pbsnodes") for call in parser.call_args_list) == 2


def test_only_jobs_with_nodes_and_the_one_record_are_read(site: Site) -> None:
    tasks = "-t" if site.kind == TORQUE else "-J"
    array = site.submit(tasks, "1-3", "-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    first = array.replace("[]", "[1]")
    waiting = site.submit("-l", "nodes=2:ppn=8" if site.kind == TORQUE else "select=2:ncpus=8")
    answer, questions = site.in_use()
    assert answer == f"runs {first}"
    # The record is the last question, and none but the server's counts is about anything else.
    jobs, counts, record = questions[-3:]
    assert counts == "qstat -B -f"
    assert (jobs.split()[0], record.split()[0]) == ("qstat", "pbsnodes")
    assert jobs.split()[-2:] == [first, array.replace("[]", "[2]")]
    assert record.split()[-1] == "node1"
    assert "-a" not in record.split()
    assert not any(waiting in question for question in questions)


def test_a_suspended_job_has_its_node(site: Site) -> None:
    job = site.submit("-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    assert site.scheduler.change_nodes(["node1"], NodeChange.CLOSE, reason="offpeak: x") == {}

    def suspend(running: StandIn) -> None:
        running.do(lambda pbs: next(iter(pbs.cluster.jobs.values())).__setattr__("state", JobState.SUSPENDED))
        running.do(lambda pbs: pbs.cluster.nodes["node1"].used.clear())

    suspend(site.running)
    assert site.in_use()[0] == f"runs {job}"


def test_a_suspended_job_that_an_answer_leaves_out_makes_no_node_free(site: Site) -> None:
    """The server's own count shows that jobs are missing: the record of the node does not show a suspended job."""
    for _ in range(2):
        site.submit("-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    assert site.scheduler.change_nodes(["node1", "node2"], NodeChange.CLOSE, reason="offpeak: x") == {}

    def suspend(pbs: Pbs) -> None:
        next(job for job in pbs.cluster.jobs.values() if "node1" in job.placed).state = JobState.SUSPENDED
        pbs.cluster.nodes["node1"].used.clear()

    site.running.do(suspend)
    (site.folder / "qselect").write_text(f'#!/bin/sh\n{site.running.programs}/qselect "$@" | tail -n 1\n')
    with pytest.raises(CannotAskPbs, match="shows 1 jobs, and the server counts 2"):
        site.in_use()
    # The planner gets no answer, either, and closes no node.
    everything = f'{site.running.programs}/qstat "$@"'
    one = (
        "sed '/^\\t*\"1.head\":/,/^\\t\\t},/d'"
        if site.kind == OPENPBS
        else "sed 's:<Job><Job_Id>1.head.*</Job><Job>:<Job>:'"
    )
    (site.folder / "qstat").write_text(f'#!/bin/sh\ncase "$*" in *-t*) {everything} | {one};; *) {everything};; esac\n')
    with pytest.raises(CannotAskPbs, match="shows 1 jobs, and the server counts 2"):
        site.scheduler.view()


def test_a_job_that_ends_between_two_questions_is_no_error(site: Site) -> None:
    job = site.submit("-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    once = site.folder / "once"
    site.wrap("qselect", f"test -e {once} || {{ touch {once}; echo 99.head; }}")
    answer, questions = site.in_use()
    assert answer == f"runs {job}"
    assert [question.split()[0] for question in questions].count("qselect") == 2
    site.wrap("qselect", "echo 99.head")
    with pytest.raises(CannotAskPbs, match=r"Unknown Job Id.* 99\.head"):
        site.in_use()


def test_no_selected_job_where_the_server_counts_one_is_an_error(site: Site) -> None:
    site.submit("-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    site.wrap("qselect", "exit 0")
    with pytest.raises(CannotAskPbs, match="shows no job, and the server counts 1"):
        site.in_use()


def test_waiting_jobs_alone_leave_a_node_free(site: Site) -> None:
    site.submit("-h", "-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    assert site.scheduler.change_nodes(["node1"], NodeChange.CLOSE, reason="offpeak: x") == {}
    assert site.in_use()[0] == ""


def test_several_nodes_share_the_jobs_and_one_record(site: Site) -> None:
    """One has a job, one is free, one does not exist."""
    job = site.submit("-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    assert site.scheduler.change_nodes(["node1", "node2"], NodeChange.CLOSE, reason="offpeak: x") == {}
    site.log.write_text("")
    uses = site.scheduler.find_uses(["node1", "no-such-node", "node2"])
    programs = [question.split()[0] for question in site.log.read_text().splitlines()]
    assert (uses["node1"], uses["node2"]) == (f"runs {job}", "")
    assert isinstance(uses["no-such-node"], CannotAskPbs)
    assert (programs[-1], programs.count("pbsnodes"), programs.count("qselect")) == ("pbsnodes", 1, 1)


def test_a_node_that_does_not_exist_is_an_error(site: Site) -> None:
    with pytest.raises(CannotAskPbs, match="no-such-node"):
        site.in_use("no-such-node")


def test_a_job_that_starts_between_two_questions_wakes_no_node(site: Site) -> None:
    qmgr, asked = ("qmgr", "-c"), site.running.programs / "asked"
    site.scheduler.change_nodes(("node2",), NodeChange.CLOSE, reason="offpeak: a test")
    site.scheduler.change_nodes(("node2",), NodeChange.POWER_DOWN, reason="offpeak: a test")
    site.running.do(lambda pbs: pbs.cluster.goes_down("node2", time.time()))
    site.running.run(*qmgr, "set server scheduling = false")
    job = site.submit("-l", "nodes=1:ppn=8" if site.kind == TORQUE else "select=1:ncpus=8")
    start = f"[ ! -e {asked} ] || {site.running.programs}/qmgr -c 'set server scheduling = true'; touch {asked}"
    site.wrap("pbsnodes", start)
    site.wrap("qstat", f'case "$*" in *-t*) {start};; esac')
    view = site.scheduler.view()
    assert [each.state for each in view.jobs if each.job_id == job] == [JobState.RUNNING]
    used = {node.name: (node.use, node.cpus_used) for node in view.nodes}
    assert used == {"node1": (NodeUse.USED, 8), "node2": (NodeUse.FREE, 0)}


def test_lines_in_an_environment_hide_no_job() -> None:
    real = "Job Id: 1.head\n    job_state = S\n    exec_vnode = (n1:ncpus=8)+\n\t(n2:ncpus=8)\n"
    forged = "Job Id: 2[1].head\n    job_state = R\n    exec_vnode = (n3:ncpus=1)\n    Variable_List = A=1\n"
    forged += "    exec_vnode = (n9:ncpus=1)\nJob Id: 1.head\n    job_state = F\n    exec_vnode = (n4:ncpus=1)\n"
    for text in (real + forged, forged + real):
        found = holders(jobs_of_text(text.encode(), lambda _: 0.0))
        assert {node: {job.job_id for job in jobs} for node, jobs in found.items()} == {
            "n1": {"1.head"},
            "n2": {"1.head"},
            "n3": {"2[1].head"},
            "n4": {"1.head"},
            "n9": {"2[1].head"},
        }
