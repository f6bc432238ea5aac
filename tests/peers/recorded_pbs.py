"""PBS's commands that print what real servers once answered; all scenes are found, so a new version is a test."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from offpeak.plugin.pbs.jobs import PbsUser
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler, jobs_of_json
from offpeak.plugin.pbs.torque import TorqueScheduler, jobs_of_xml
from offpeak.plugin.scheduler.job import HOLDING
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.settings.agent import PbsSettings

SETTINGS = PbsSettings(timeout_s=300, torque_order="priority")
RECORDED_S = 1_795_214_200
"""About when all of it was recorded [Unix s]."""

PROGRAM = """\
#!/bin/sh
case "$1 $2" in
"-f "[0-9]*) exec cat '{places}';;
-B*) exec cat '{server}';;
-Q*) exec cat '{queues}';;
"-c list "*) exec cat '{resources}';;
*) exec cat '{answer}';;
esac
"""


@dataclass(frozen=True)
class Recording:
    """What one server said at one time: its jobs, nodes, queues and itself."""

    kind: str
    jobs: Path
    nodes: Path
    queues: Path
    server: Path

    def scheduler(self, folder: Path) -> Scheduler:
        """Write programs that print it into a folder that is to be first in PATH, and return who asks them."""
        # Nobody recorded a server with our resources and hooks.
        server = folder / "server"
        told = self.server.read_text()
        # The counts of another scene are those of other jobs.
        is_own = self.server.name[:2] == self.jobs.name[:2]
        server.write_text(told if is_own else re.sub(r"(?m)^ *state_count = .*(\n\t.*)*\n", "", told))
        reported = {"server": server, "queues": self.queues, "resources": "/dev/null"}
        recorded_jobs = self.jobs.read_bytes()
        jobs = jobs_of_xml(recorded_jobs) if self.kind == "torque" else jobs_of_json(recorded_jobs, lambda _: 0.0)
        selected = folder / "selected"
        selected.write_text("".join(f"{pbs_job.job.job_id}\n" for pbs_job in jobs if pbs_job.job.state in HOLDING))
        places = folder / "places"
        lines = (
            f"Job Id: {j.job_id}\n    job_state = {j.native_state}\n    exec_host = {j.hosts.replace(',', '+')}\n"
            for j, *_ in jobs
        )
        places.write_text("\n".join(lines))
        reported["places"] = str(places)
        answers = {"qstat": self.jobs, "qselect": selected, "pbsnodes": self.nodes, "qmgr": "/dev/null"}
        for name, answer in answers.items():
            program = folder / name
            program.write_text(PROGRAM.format(answer=answer, **reported))
            program.chmod(0o755)
        made = TorqueScheduler if self.kind == "torque" else OpenPbsScheduler
        return made(SETTINGS, clock=lambda: RECORDED_S, user=PbsUser("root", "head"))


def recordings(captures: Path) -> Iterator[tuple[str, Recording]]:
    """Give those of which both jobs and nodes were recorded, by kind and scene; the fullest list of jobs counts."""
    for kind, jobs, nodes in (
        ("torque", r"(.*?)qstat_xt\.xml", "pbsnodes_x.xml"),
        ("openpbs", r"(.*?)qstat_(?:xtf|f)\.json", "pbsnodes_a.json"),
    ):
        found = {}
        for file in sorted((captures / kind).rglob("*qstat_*")):
            match = re.fullmatch(jobs, file.name)
            if match and (other := file.with_name(f"{match[1]}{nodes}")).exists():
                found[f"{kind} {file.parent.name}/{match[1]}"] = Recording(
                    kind, file, other, _one_of(file.parent, "qstat_Qf.txt", "qstat_Q.txt"), _server(file.parent)
                )
        yield from found.items()


def _server(folder: Path) -> Path:
    return _one_of(folder, "qstat_Bf.txt", "qstat_B.txt")


def _one_of(folder: Path, *names: str) -> Path:
    return next(file for name in names for start in ("A_", "") if (file := folder / f"{start}{name}").exists())
