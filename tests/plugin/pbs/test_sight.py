"""Who is not shown everybody's jobs is told so, and decides nothing on what he sees."""

from pathlib import Path

import pytest
from pbs_standin import StandIn, standin
from recorded_pbs import recordings

from offpeak.pbs_settings import PbsSettings
from plugin.openpbs.scheduler import OpenPbsScheduler
from plugin.pbs.ask import CannotAskPbs
from plugin.pbs.sight import Asker, blindness, this_process
from plugin.scheduler.port import Scheduler
from plugin.torque.scheduler import TorqueScheduler
from power.check.finding import Verdict
from power.check.pbs import check_pbs
from sim_backend.pbs_standin.pbs import OPENPBS, TORQUE
from sim_backend.pbs_standin.program import USER_VARIABLE

SETTINGS = PbsSettings(timeout_s=20, torque_order="priority")
ANN = Asker("ann", "head.site.org")
RECORDINGS = dict(recordings(Path(__file__).parents[4] / "shared" / "data" / "captures"))


@pytest.mark.parametrize(
    ("told", "sees"),
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
def test_who_sees_all(told: dict[str, str], *, sees: bool) -> None:
    assert (blindness("head", told, ANN) is None) is sees


def test_root_is_a_manager_at_the_servers_own_host_only() -> None:
    assert blindness("head", {}, Asker("root", "head.site.org")) is None
    assert blindness("pbs", {"server_host": "head.site.org"}, Asker("root", "head")) is None
    assert blindness("head", {"managers": "ann@head"}, Asker("root", "login")) is not None


@pytest.mark.parametrize("kind", [TORQUE, OPENPBS])
def test_hands_off_where_only_own_jobs_are_shown(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin(kind, tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        if kind == OPENPBS:
            running.run("qmgr", "-c", "set server query_other_jobs = False")
        other, own = (submit(running, user) for user in ("bob", "ann"))
        assert [user_sees in running.run("qstat", user="ann") for user_sees in (other, own)] == [False, True]
        ann = Asker("ann", "head")
        monkeypatch.setenv(USER_VARIABLE, "ann")
        blind = scheduler(kind, ann)
        for ask in (blind.view, lambda: blind.in_use("node1")):
            with pytest.raises(CannotAskPbs, match="ann is shown no jobs of others") as refused:
                ask()
            assert refused.value.hint.startswith("make ann a manager: qmgr -c 'set server managers += ann@head'")
        found = check_pbs(blind)
        assert found.verdict is Verdict.DOUBTFUL
        assert found.said.startswith("ann is no manager")
        monkeypatch.delenv(USER_VARIABLE)
        running.run("qmgr", "-c", "set server managers += ann@head")
        monkeypatch.setenv(USER_VARIABLE, "ann")
        assert {job.job_id for job in scheduler(kind, ann).view().jobs} == {other, own}
        assert check_pbs(scheduler(kind, ann)).verdict is Verdict.GOOD


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name.startswith("torque")])
def test_a_recorded_torque_shows_its_manager_everything_and_nobody_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    made = RECORDINGS[name].scheduler(tmp_path)
    assert not any("is no manager" in what for what, _ in made.traits().troubles)
    with pytest.raises(CannotAskPbs, match="alice is no manager"):
        TorqueScheduler(SETTINGS, asker=Asker("alice", "head")).view()


def test_this_process_is_somebody() -> None:
    assert all(this_process())


def submit(running: StandIn, user: str) -> str:
    return running.run("qsub", user=user, stdin="sleep 100\n")


def scheduler(kind: str, asker: Asker) -> Scheduler:
    return TorqueScheduler(SETTINGS, asker=asker) if kind == TORQUE else OpenPbsScheduler(SETTINGS, asker=asker)
