"""Jobs in the queue of a private Slurm: all nodes are full, so that what is submitted waits."""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster

SLEEP = "--wrap=sleep 600"


def submit(cluster: SlurmCluster, *options: str) -> str:
    """Submit a job and return its number; it sleeps if the options say nothing else."""
    what = () if any(option.startswith("--wrap") for option in options) else (SLEEP,)
    return cluster.run("sbatch", "--parsable", "--output=/dev/null", *options, *what).strip()


@contextmanager
def full(cluster: SlurmCluster) -> Iterator[str]:
    """Fill all nodes with one job, whose number it gives, and empty the queue in the end."""
    filler = submit(cluster, "--exclusive", f"--nodes={len(cluster.node_ports)}", "--job-name=filler")
    try:
        state = ("squeue", "--noheader", "--format=%t", f"--jobs={filler}")
        wait_until(lambda: cluster.run(*state).strip() == "R", what="the nodes to be full")
        yield filler
    finally:
        empty(cluster)


def empty(cluster: SlurmCluster) -> None:
    """Cancel all jobs and wait until none is left in the queue."""
    queue = ("squeue", "--all", "--noheader", "--format=%A")
    if jobs := cluster.run(*queue).split():
        # A part of a heterogeneous job may go with another before its own turn, which scancel calls an error.
        cluster.run("sh", "-c", f"scancel --quiet {' '.join(sorted(set(jobs)))} || true")
    wait_until(lambda: not cluster.run(*queue).strip(), what="the queue to be empty")
