"""A powered cluster may have accounting."""

from powered_fixtures import StartPowered

from benchmarks.local_slurm.plan import PoweredPlan


def test_sacct_tells_of_jobs(start_powered: StartPowered) -> None:
    cluster = start_powered(PoweredPlan(nodes=1, accounting=True, priority="multifactor", files={"own.txt": "own\n"}))
    (job,) = cluster.jobs.submit("--job-name=archive", seconds=0.1)
    command = ("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=JobName,State")
    cluster.wait(lambda: cluster.run(*command).strip() == "archive|COMPLETED", what="the job in the accounting")
    assert (cluster.folder / "own.txt").read_text() == "own\n"
    assert "priority/multifactor" in cluster.run("scontrol", "show", "config")
