"""qsub, qstat and qdel of a site that has no PBS: they keep jobs in files, and answer in the shape of OpenPBS."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offpeak.plugin.scheduler.batch import BatchResult
from offpeak.services.broker.site_commands import LocalRoute

PROGRAM = """\
#!{python} -SE
import os, sys, time
name, folder, arguments = os.path.basename(sys.argv[0]), os.path.dirname(os.path.dirname(sys.argv[0])), sys.argv[1:]
jobs, refuse = os.path.join(folder, "jobs"), os.path.join(folder, "refuse")
if name == "qsub":
    script = sys.stdin.read()
    if os.path.exists(refuse):
        sys.exit("qsub: " + open(refuse).read())
    number = len(os.listdir(jobs)) + 1
    with open(os.path.join(jobs, "%d.head" % number), "w") as file:
        file.write(arguments[arguments.index("-v") + 1] + "\\n" + " ".join(arguments) + "\\n" + script)
    if os.path.exists(os.path.join(folder, "silent")):
        sys.exit("qsub: End of File")
    print("%d.head" % number)
elif name == "qstat" and arguments == ["-Bf"]:
    managers = os.path.join(folder, "managers")
    known = 0 if os.path.exists(os.path.join(folder, "forgets")) else len(os.listdir(jobs))
    print("Server: head\\n    server_state = Active\\n    managers = root@head,\\n\\toffpeak@*")
    print("    state_count = Transit:0 Queued:%d Running:0 \\n    query_other_jobs = True" % known)
    if os.path.exists(managers):
        print("    operators = " + open(managers).read())
elif os.path.exists(os.path.join(folder, "down")):
    sys.exit("Connection refused\\nqstat: cannot connect to server head (errno=111)")
elif name == "qstat" and not os.path.exists(os.path.join(folder, "forgets")):
    for job in sorted(os.listdir(jobs)):
        variables = open(os.path.join(jobs, job)).readline().strip()
        print("Job Id: %s\\n    job_state = Q" % job)
        print("    Variable_List = PBS_O_HOME=/home/ann,\\n\\t%s\\n" % variables)
elif name == "qdel":
    os.remove(os.path.join(jobs, arguments[0]))
"""


@dataclass(frozen=True)
class PbsStandIn:
    """A site below `folder`, and the way to it."""

    folder: Path

    @property
    def jobs(self) -> list[str]:
        """The jobs that it was given: variables, arguments and script of each."""
        return [file.read_text() for file in sorted((self.folder / "jobs").iterdir())]

    def set(self, what: str, text: str = "") -> None:
        """Let it `refuse` with that text, be `silent` after it has taken a job, `forget` all jobs, or be `down`."""
        (self.folder / what).write_text(text)

    def mend(self, what: str) -> None:
        """Let it be well again."""
        (self.folder / what).unlink()

    async def run(self, arguments: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Run a command with its programs before all others: implements the broker's SiteRoute."""
        path = f"PATH={self.folder}/bin:/usr/bin:/bin"
        return await LocalRoute().run(("env", path, *arguments), stdin=stdin, timeout_s=timeout_s)


def pbs_stand_in(folder: Path) -> PbsStandIn:
    """Make a site, or take up one that is there."""
    for name in ("jobs", "bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("qsub", "qstat", "qdel"):
        program = folder / "bin" / name
        if not program.exists():
            program.write_text(PROGRAM.format(python=sys.executable))
            program.chmod(0o755)
    return PbsStandIn(folder)
