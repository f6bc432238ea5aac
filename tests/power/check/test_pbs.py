"""What `offpeak check` says of a PBS server: by which way jobs change places, or why by none."""

from dataclasses import replace
from pathlib import Path

import pytest
from pbs_standin import installed, standin

from offpeak.settings.agent import PbsSettings
from plugin.pbs.jobs import PbsUser
from plugin.pbs.openpbs import OpenPbsScheduler
from plugin.pbs.torque import TorqueScheduler
from plugin.scheduler.node import NodeUse
from power.check.findings import CheckVerdict, check_pbs, check_reservations

SETTINGS = PbsSettings(timeout_s=300)


def test_torque(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "sched_priv" / "sched_config"
    config.parent.mkdir()
    config.write_text("sort_by: high_priority_first ALL\n")
    here = replace(SETTINGS, home=tmp_path)
    with standin("torque", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        found = check_pbs(TorqueScheduler(here))
        assert (found.subject, found.verdict) == ("torque 6.1.3", CheckVerdict.GOOD)
        assert found.message.startswith("answers; orders by qalter -p, as pbs_sched sorts by high_priority_first; ")
        config.write_text("sort_by: shortest_job_first ALL\n")
        found = check_pbs(TorqueScheduler(here))
        assert found.verdict is CheckVerdict.DOUBTFUL
        assert found.message == "pbs_sched sorts jobs by shortest_job_first: their order is not changed"
        assert "restart pbs_sched" in found.hint
        own = check_pbs(TorqueScheduler(replace(here, torque_order="swap")))
        assert own.message.startswith("answers; orders by qorder, as torque_order says; ")
    assert check_pbs(TorqueScheduler(here)).verdict is CheckVerdict.BAD


def test_openpbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin("openpbs", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        found = check_pbs(OpenPbsScheduler(SETTINGS))
        assert found.verdict is CheckVerdict.GOOD
        assert found.message.startswith("answers; orders by qalter -l offpeak_prio, a term of job_sort_formula; ")
        installed(running, tmp_path, "uninstall")
        found = check_pbs(OpenPbsScheduler(SETTINGS, user=PbsUser("root", "head")))
        assert found.verdict is CheckVerdict.DOUBTFUL
        assert "the server has no enabled hook offpeak_runjob: no job is deferred" in found.message
        assert found.hint == "run `deploy/openpbs/setup install` as root on the server's host"


def test_a_server_that_books_no_sleeping_node_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin("openpbs", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        (found,) = check_reservations(OpenPbsScheduler(SETTINGS))
        assert found.verdict is CheckVerdict.DOUBTFUL
        assert found.message == "pbs_rsub is denied where it needs nodes that sleep: the hook PBS_power is disabled"
        running.run("qmgr", "-c", "set pbshook PBS_power enabled = True")
        assert list(check_reservations(OpenPbsScheduler(SETTINGS))) == []


def test_nodes_that_are_never_switched_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin("openpbs", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        scheduler = OpenPbsScheduler(SETTINGS)
        view = scheduler.view()
        one, *others = view.nodes
        several = one._replace(use=NodeUse.UNKNOWN, native_state="free,several vnodes")
        monkeypatch.setattr(scheduler, "view", lambda: replace(view, nodes=(several, *others)))
        found = check_pbs(scheduler)
        assert found.verdict is CheckVerdict.DOUBTFUL
        assert found.message == f"1 node in the state 'free,several vnodes' ({one.name}): never switched off"
        monkeypatch.setattr(scheduler, "view", lambda: replace(view, nodes=()))
        assert check_pbs(scheduler).message == "pbsnodes shows no nodes"
