"""What slurmrestd saves at rest if it is asked only for changes (`update_time`), on a private slurmctld.

`python -m benchmarks.unchanged_answers` takes three minutes and needs slurmctld and slurmrestd.
"""

import re
import tempfile
import time
from pathlib import Path

import requests

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.peers import peer

JOBS, READINGS, APART_S = 150, 8, 8.0
REQUEST = re.compile(r"^\s+REQUEST_(JOB|NODE)_INFO\s+\( *\d+\) count:(\d+) ", re.MULTILINE)


def print_unchanged_answers() -> None:
    """Print status, bytes and time of each answer, then the requests that slurmctld has counted for them."""
    slurm, server, queue = (peer(name) for name in ("slurm_fixtures", "slurmrestd_server", "slurm_queue"))
    with (
        tempfile.TemporaryDirectory() as folder,
        slurm.sleeping_slurm("priority/basic", settings_for=server.settings_with_key) as cluster,
        reserved_ports(1) as (port,),
        server.slurmrestd(cluster, port) as url,
        queue.full(cluster),
    ):
        token = server.token_file(cluster, Path(folder) / "token").read_text().strip()
        for _ in range(JOBS):
            queue.submit(cluster, "--begin=now+36000")
        time.sleep(20)
        for what in ("jobs", "nodes"):
            since: dict[str, int] = {}
            for _ in range(READINGS):
                began_s = time.time()
                headers = {"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": token}
                reply = requests.get(f"{url}/slurm/v0.0.38/{what}", headers=headers, params=since, timeout=60)
                took_ms = 1000 * (time.time() - began_s)
                print(f"{what:5} {reply.status_code} {len(reply.content):9,} bytes {took_ms:6.0f} ms")
                since = {"update_time": int(began_s)}
                time.sleep(APART_S)
        print("requests that slurmctld counted:", dict(REQUEST.findall(cluster.run("sdiag"))))


if __name__ == "__main__":
    print_unchanged_answers()
