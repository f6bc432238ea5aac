"""Jobs of the simulated scheduler on nodes whose power is limited."""

from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.job import JobState
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster


def test_a_job_runs_longer_by_what_its_slowest_node_loses() -> None:
    cluster = SimulatedCluster({"n1": SimNode("n1", 8), "n2": SimNode("n2", 8)})
    job = cluster.submit(SimJob(1, "job", "ann", "batch", (Chunk(2, 8),), 1000.0, 0, limit_s=4000, whole_nodes=True))
    cluster.step(100.0)
    cluster.nodes["n2"].speed = 0.75
    for now_s in range(200, 601, 100):
        cluster.step(float(now_s))
    # Five hundred seconds at three quarters of the speed take away an eighth of the work.
    assert job.run_s == 1125.0
    cluster.nodes["n2"].speed = 1.0
    cluster.step(1224.0)
    assert job.state is JobState.RUNNING
    cluster.step(1226.0)
    assert (job.state, job.end_s) == (JobState.ENDED, 1225.0)
