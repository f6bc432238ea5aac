"""A long log takes little memory while it is read: no text, no second copy of its columns, no object for each job.

Arrow and the columns take their memory from the system itself, which tracemalloc does not see, so the peak of a process
is measured that reads nothing else.
"""

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import sys
from datetime import UTC
from pathlib import Path
from offpeak.errors import BadTrace
from offpeak.files import text_of_file
from offpeak.sim_backend.traces import gwf
from offpeak.sim_backend.traces.pbs.read import pbs_trace
from offpeak.sim_backend.traces.slurm import fields
from offpeak.sim_backend.traces.slurm.read import sacct_trace

gwf.BLOCK_BYTES = fields.BLOCK_BYTES = 1 << 18

def peak_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])

def read(path):
    reader = {"sacct": sacct_trace, "gwf": gwf.gwf_trace, "pbs": pbs_trace}[path.stem]
    return reader(text_of_file(path, BadTrace), path.name, lenient=False, zone=UTC)

read(Path(sys.argv[1]))  # what the first log of any length takes
before = peak_bytes()
trace = read(Path(sys.argv[2]))
print(len(trace.jobs), (peak_bytes() - before) / len(trace.jobs))
"""


SACCT_HEADER = "JobIDRaw|JobID|User|Account|Partition|State|Submit|Start|End|TimelimitRaw|AllocNodes|AllocCPUS\n"


def write_log(path: Path, jobs: int) -> None:
    """Write a log of that many jobs in the format that the file is named after."""
    line = {"sacct": sacct_line, "gwf": gwf_line, "pbs": pbs_lines}[path.stem]
    header = SACCT_HEADER if path.stem == "sacct" else ""
    path.write_text(header + "".join(line(number) for number in range(1, jobs + 1)))


def sacct_line(job: int) -> str:
    """Return a job of Slurm."""
    hour = f"2026-01-{job // 4000 + 1:02}T%02d:00:34"
    times = f"{hour % 1}|{hour % 2}|{hour % 3}"
    return f"{job}|{job}|u{job % 90}|g|q|COMPLETED|{times}|120|8|64\n"


def gwf_line(job: int) -> str:
    """Return a job of a grid."""
    return f"{job} {1_136_070_024 + job} 30 60 8 55.5 98652 8 600 -1 1 U12 G3 X{job % 50} Q0 -1 S1 S2 U{' -1' * 10}\n"


def pbs_lines(job: int) -> str:
    """Return the records of a job that is queued, starts and ends."""
    begin = f"11/20/2026 21:57:22;{{}};{job}.head;user=u{job % 90} group=g jobname=j{job % 50} queue=q"
    times = f"ctime={job} qtime={job} etime={job} start={job + 60} exec_host=n{job % 400}/0-7 end={job + 3600}"
    return f"{begin.format('Q')}\n{begin.format('S')}\n{begin.format('E')} {times} Exit_status=0\n"


@pytest.mark.parametrize(("log", "jobs"), [("sacct", 80_000), ("gwf", 60_000), ("pbs", 30_000)])
def test_reading_a_long_log_takes_few_bytes_a_job(tmp_path: Path, log: str, jobs: int) -> None:
    """A million jobs take 95 to 141 bytes each, these with the blocks of text up to 190; objects take 500 to 1,000."""
    short, long = tmp_path / "short" / f"{log}.txt", tmp_path / "long" / f"{log}.txt"
    for path, count in ((short, 1000), (long, jobs)):
        path.parent.mkdir()
        write_log(path, count)
    command = [sys.executable, "-c", CHILD, str(short), str(long)]
    count, bytes_a_job = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(count) == jobs
    assert float(bytes_a_job) < 350
