"""A user who does not see the jobs of others gets an error, and the agent decides nothing."""

import json
from pathlib import Path

import pytest
from pbs_standin import StandIn, standin
from recorded_pbs import recordings

from offpeak.model.orders import NodeChange
from offpeak.plugin.contract.rules import ManagedSite, check_contract
from offpeak.plugin.pbs.commands import CannotAskPbs
from offpeak.plugin.pbs.jobs import PbsUser, current_user, find_hidden_jobs
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler, assigned_of_json
from offpeak.plugin.pbs.torque import TorqueScheduler, assigned_of_xml
from offpeak.plugin.scheduler.port import Scheduler, in_use
from offpeak.power.check.findings import CheckVerdict, check_scheduler
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE
from offpeak.sim_backend.pbs_standin.server import USER_VARIABLE

SETTINGS = PbsSettings(timeout_s=300, torque_order="priority")
ANN = PbsUser("ann", "head.site.org")
RECORDINGS = dict(recordings(Path(__file__).parents[4] / "shared" / "data" / "captures"))


@pytest.mark.parametrize(
    ("attributes", "sees"),
    [
        ({}, False),
        ({"query_other_jobs": "False"}, False),
        ({"query_other_jobs": "True"}, True),
        ({"managers": "root@head,ann@head"}, True),
        ({"managers": "root@head, ann@head.site.org"}, True),
        ({"operators": "*@*.site.org"}, True),
        ({"managers": "ann"}, True),
        ({"managers": "ann@login"}, False),
        ({"managers": "ann@head.other.org"}, False),
        ({"managers": "anna@head", "operators": ""}, False),
    ],
)
def test_only_managers_and_operators_see_all_jobs(attributes: dict[str, str], *, sees: bool) -> None:
    assert (find_hidden_jobs("head", attributes, ANN) is None) is sees


def test_root_is_a_manager_at_the_servers_own_host_only() -> None:
    assert find_hidden_jobs("head", {}, PbsUser("root", "head.site.org")) is None
    assert find_hidden_jobs("pbs", {"server_host": "head.site.org"}, PbsUser("root", "head")) is None
    assert find_hidden_jobs("head", {"managers": "ann@head"}, PbsUser("root", "login")) is not None


@pytest.mark.parametrize("kind", [TORQUE, OPENPBS])
def test_nothing_is_read_if_only_own_jobs_are_shown(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin(kind, tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        if kind == OPENPBS:
            running.run("qmgr", "-c", "set server query_other_jobs = False")
        other, own = (submit(running, user) for user in ("bob", "ann"))
        assert [user_sees in running.run("qstat", user="ann") for user_sees in (other, own)] == [False, True]
        ann = PbsUser("ann", "head")
        monkeypatch.setenv(USER_VARIABLE, "ann")
        blind = scheduler(kind, ann)
        for ask in (blind.view, lambda: in_use(blind, "node1")):
            with pytest.raises(CannotAskPbs, match="ann sees no jobs of others") as refused:
                ask()
            assert refused.value.hint.startswith("make ann a manager: qmgr -c 'set server managers += ann@head'")
        (found,) = check_scheduler(kind, blind, ManagedSite())
        assert found.verdict is CheckVerdict.BAD
        assert found.message.startswith("ann is not a manager")
        monkeypatch.delenv(USER_VARIABLE)
        running.run("qmgr", "-c", "set server managers += ann@head")
        monkeypatch.setenv(USER_VARIABLE, "ann")
        assert {job.job_id for job in scheduler(kind, ann).view().jobs} == {other, own}
        assert check_scheduler(kind, scheduler(kind, ann), ManagedSite())[0].verdict is CheckVerdict.GOOD


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name.startswith("torque")])
def test_a_recorded_torque_shows_its_manager_everything_and_nobody_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    made = RECORDINGS[name].scheduler(tmp_path)
    assert not any("is not a manager" in found.what for found in check_contract(made.traits().contract, ManagedSite()))
    with pytest.raises(CannotAskPbs, match="alice is not a manager"):
        TorqueScheduler(SETTINGS, user=PbsUser("alice", "head")).view()


def test_current_user_has_a_name_and_a_host() -> None:
    assert all(current_user())


def submit(running: StandIn, user: str) -> str:
    return running.run("qsub", user=user, stdin="sleep 100\n")


def scheduler(kind: str, user: PbsUser) -> Scheduler:
    return TorqueScheduler(SETTINGS, user=user) if kind == TORQUE else OpenPbsScheduler(SETTINGS, user=user)


@pytest.mark.parametrize("kind", [TORQUE, OPENPBS])
def test_a_node_whose_record_shows_a_job_that_is_not_listed_is_not_free(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What qstat leaves out, since a right was lost in between or by a fault of the server, the node's record shows."""
    with standin(kind, tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        made = scheduler(kind, PbsUser("root", "head"))
        job = submit(running, "bob")
        assert made.change_nodes(["node1"], NodeChange.CLOSE, reason="offpeak: x") == {}
        assert in_use(made, "node1") == f"runs {job}"
        running.do(lambda pbs: pbs.cluster.jobs.clear())
        with pytest.raises(CannotAskPbs, match="but qstat shows no job there") as refused:
            in_use(made, "node1")
        assert str(job) in str(refused.value)
        assert "lost its right to see all jobs" in refused.value.hint
        running.do(lambda pbs: pbs.cluster.nodes["node1"].used.clear())
        assert in_use(made, "node1") == ""


FREE = {"state": "sleep", "resources_assigned": {"ncpus": 0, "mem": "0kb"}}


@pytest.mark.parametrize(
    ("record", "given"),
    [
        (FREE, []),
        (FREE | {"resources_assigned": {}}, []),
        (FREE | {"resources_assigned": {"ncpus": 0, "mem": "4kb"}}, ["resources_assigned.mem 4kb"]),
        (FREE | {"resources_assigned": {"ngpus": 1}}, ["resources_assigned.ngpus 1"]),
        (FREE | {"state": "job-busy,sleep"}, ["state job-busy"]),
        (FREE | {"state": "resv-exclusive,sleep"}, ["state resv-exclusive"]),
        (FREE | {"jobs": ["7.head"]}, ["jobs ['7.head']"]),
    ],
)
def test_what_an_openpbs_record_shows_as_assigned(record: dict[str, object], given: list[str]) -> None:
    assert assigned_of_json(json.dumps({"nodes": {"n1": record}}).encode(), ["n1"]) == {"n1": given}


@pytest.mark.parametrize("record", [{"state": "sleep"}, {"state": "odd", "resources_assigned": {}}, {}])
def test_an_openpbs_record_that_is_not_clear_is_no_free_node(record: dict[str, object]) -> None:
    assigned = assigned_of_json(json.dumps({"nodes": {"n1": record}}).encode(), ["n1"])["n1"]
    assert isinstance(assigned, CannotAskPbs)
    assert str(assigned).startswith("pbsnodes: shows n1")


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ("<state>offline</state>", []),
        ("<state>down,offline</state><jobs></jobs>", []),
        ("<state>offline</state><jobs>0-3/31.head</jobs>", ["jobs 0-3/31.head"]),
        ("<state>offline</state><jobs>31.head</jobs>", ["jobs 31.head"]),
        ("<state>job-exclusive,offline</state>", ["state job-exclusive"]),
        ("<state>offline,reserve</state>", ["state reserve"]),
    ],
)
def test_what_a_torque_record_shows_as_assigned(fields: str, given: list[str]) -> None:
    assert assigned_of_xml(f"<Data><Node><name>n1</name>{fields}</Node></Data>".encode(), ["n1"]) == {"n1": given}


@pytest.mark.parametrize("fields", ["", "<state></state>", "<state>offline,odd</state>"])
def test_a_torque_record_that_is_not_clear_is_no_free_node(fields: str) -> None:
    assigned = assigned_of_xml(f"<Data><Node><name>n1</name>{fields}</Node></Data>".encode(), ["n1"])["n1"]
    assert isinstance(assigned, CannotAskPbs)
    assert str(assigned).startswith("pbsnodes: shows n1 in the state")
