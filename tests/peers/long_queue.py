"""A private Slurm whose nodes are full, with a long queue: different requests and arrays, in many partitions."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

from slurm_queue import full

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import SlurmCluster, munge, slurmctld, slurmd, wait_for_nodes

NEEDED = ("slurmctld", "slurmd", "sinfo", "munged", "setpriv")
NODES, STREAMS = 2, 4
NAMES = ("hot", "cool")

REQUESTS, ARRAY_EVERY = 500, 50
USUAL = "PartitionName=batch Nodes=node[1-2] Default=YES State=UP"
# Nodes of its own, which never answer: the jobs of two partitions do not compete.
FAR_NODES = "NodeName=far[1-{count}] NodeAddr=127.0.0.1 CPUs=4 RealMemory=1000 State=DOWN"
PARTITION = "PartitionName=p{number} Nodes=far{number} MaxTime=7-0 State=UP OverSubscribe=EXCLUSIVE"
SUBMIT = (
    "sbatch --parsable --output=/dev/null --time={minutes} --job-name={name}_{number} --partition={partition}"
    " --mem={memory} {array} {script}"
)


@contextmanager
def long_queue(jobs: int, partitions: int) -> Iterator[SlurmCluster]:
    """Run it until the block ends. Hot and cool jobs stand by turns in the queue of each partition p1, p2, ...

    They have 500 different requests of memory, and one record in 50 is an array.
    """
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-queue-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        socket = servers.enter_context(munge(folder))
        port, *node_ports = servers.enter_context(reserved_ports(1 + NODES))
        queues = [f"p{number}" for number in range(1, partitions + 1)]
        lines = ["MaxJobCount=50000", USUAL, FAR_NODES.format(count=partitions)]
        lines += [PARTITION.format(number=number) for number in range(1, partitions + 1)]
        settings = "\n".join(lines)
        cluster = SlurmCluster(folder, socket, port, tuple(node_ports), settings)
        cluster.write_conf()
        servers.enter_context(slurmctld(cluster))
        for number in range(1, NODES + 1):
            servers.enter_context(slurmd(cluster, number))
        wait_for_nodes(cluster)
        servers.enter_context(full(cluster))
        _submit(cluster, jobs, queues)
        yield cluster


def _submit(cluster: SlurmCluster, jobs: int, partitions: Sequence[str]) -> None:
    """Submit in several streams: a job at a time is what sbatch takes."""
    script = cluster.folder / "job.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    script.chmod(0o755)
    streams = [_stream(cluster, range(first, jobs, STREAMS), partitions, script) for first in range(STREAMS)]
    for stream in streams:
        if stream.wait():
            raise RuntimeError("not all jobs were submitted")


def _stream(cluster: SlurmCluster, numbers: range, partitions: Sequence[str], script: Path) -> Popen[bytes]:
    file = cluster.folder / f"submit{numbers.start}.sh"
    file.write_text(
        "\n".join(["set -e", "exec >/dev/null", *(_line(number, partitions, script) for number in numbers)])
    )
    return Popen(("sh", file), env=cluster.environment, start_new_session=True)


def _line(number: int, partitions: Sequence[str], script: Path) -> str:
    arguments = {"number": number, "minutes": 60 + number % 2880, "script": script}
    arguments |= {"memory": 1 + number % REQUESTS, "array": "" if number % ARRAY_EVERY else "--array=1-5%2"}
    turn = number // len(partitions) % len(NAMES)
    return SUBMIT.format(name=NAMES[turn], partition=partitions[number % len(partitions)], **arguments)
