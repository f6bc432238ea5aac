"""A checkpoint and its requeue on the stand-ins of both PBS: the job permits its requeue with `qalter -r y`."""

from pathlib import Path

import pytest
from pbs_standin import standin

from offpeak.plugin.pbs.jobs import PbsUser
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import RequeuePermit
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE


@pytest.mark.parametrize(("kind", "adapter"), [(OPENPBS, OpenPbsScheduler), (TORQUE, TorqueScheduler)])
def test_only_a_job_that_permits_it_is_requeued(
    kind: str,
    adapter: type[OpenPbsScheduler] | type[TorqueScheduler],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with standin(kind, tmp_path) as server:
        monkeypatch.setenv("PATH", server.path)
        scheduler = adapter(PbsSettings(timeout_s=300), user=PbsUser("root", "head"))
        submission = ("-r", "n", "-v", "OFFPEAK=checkpoint=10min", "-l", "nodes=1")
        job = server.run("qsub", *submission, user="alice", stdin="sleep 1000\n")
        waits = server.run("qsub", "-h", user="alice", stdin="sleep 1000\n")
        assert scheduler.requeue_permits([job, waits]) == {job: RequeuePermit(allowed=False, name=job, restarts=0)}
        assert scheduler.signal({job: "USR1"}) == {}
        assert "rerunable" in scheduler.requeue([job])[job]
        server.run("qalter", "-r", "y", job, user="alice")
        assert scheduler.requeue_permits([job])[job].allowed
        server.run("qmgr", "-c", "set server scheduling = False")
        assert scheduler.requeue([job]) == {}
        assert {each.job_id: each.state for each in scheduler.view().jobs}[job] is JobState.PENDING
        assert "state" in scheduler.signal({job: "USR1"})[job]
