"""The plan of a cluster with power, and its slurm.conf."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offpeak.model.cluster import NodeType
from offpeak.model.constants import DAY_S

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = REPOSITORY / "deploy" / "slurm"
PROGRAMS = {"Suspend": "offpeak-suspend", "Resume": "offpeak-resume", "ResumeFail": "offpeak-resume-fail"}
YEAR_S = 365 * DAY_S

CONF = """\
SuspendTime={year_s}
SuspendTimeout={suspend_timeout_s}
ResumeTimeout={resume_timeout_s}
SuspendRate=0
ResumeRate=0
SuspendProgram={folder}/Suspend
ResumeProgram={folder}/Resume
ResumeFailProgram={folder}/ResumeFail
SchedulerParameters=batch_sched_delay=0,bf_interval=3,sched_interval=5
PriorityType=priority/{priority}
PrologFlags=Alloc,Contain
SlurmdTimeout={slurmd_timeout_s}
MinJobAge=300
{partitions}
{settings}
"""

WRAPPER = """\
#!/bin/sh
# Slurm calls this program. What it says is kept, then the program itself does its work.
said=
[ -z "${{SLURM_RESUME_FILE:-}}" ] || said=$(cat "$SLURM_RESUME_FILE")
echo "$(date +%s.%N) {program} $1 $said" >>"{folder}/programs.log"
export SLURM_CONF="{folder}/slurm.conf" OFFPEAK_SOCKET="{folder}/agent.sock"
export OFFPEAK_STATE_FOLDER="{folder}/agent" OFFPEAK_SLURM_LOG="{folder}/programs.said"
{command}
"""

WAKES_BY_ITSELF = """\
for node in $(scontrol show hostnames "$1"); do
    echo on >>"{folder}/bmcs/bmc${{node#node}}/orders"
done
"""


@dataclass(frozen=True)
class PoweredPlan:
    """`boot_s` and `shutdown_s` are the nodes'. `priority` is basic or multifactor. `exclusive`: one job a node.

    Slurm counts whole seconds, and looks for requests once a second, on a busy machine less often: a boot of a second
    may end before Slurm has noticed that it was asked for, and then never counts. So long after a node has lost its
    power a scheduler counts it as up: Slurm `slurmd_timeout_s`, the stand-in of PBS `notice_s`. `partitions` are lines
    of slurm.conf in the place of the usual one, `settings` further lines.
    `node_types` is the equipment of each node, () for equal nodes.
    `debug` are nodes that are in a partition, or queue, of that name too.
    `programs` are what Slurm calls to Suspend, to Resume and on ResumeFail: those of the repository where it has them,
    else nothing happens. `wakes_by_itself`: the ResumeProgram tells the BMCs, without an agent. `accounting`: sacct has
    a slurmdbd and a database, which take seconds to start. `files` are written beside slurm.conf, by their names.
    """

    nodes: int = 16
    boot_s: float = 2.0
    shutdown_s: float = 0.5
    suspend_timeout_s: int = 2
    resume_timeout_s: int = 20
    slurmd_timeout_s: int = 300
    notice_s: float = 0.0
    priority: str = "basic"
    exclusive: bool = True
    partitions: str = ""
    debug: str = ""
    settings: str = ""
    node_types: tuple[NodeType, ...] = ()
    programs: Mapping[str, Path] = field(
        default_factory=lambda: {name: SCRIPTS / file for name, file in PROGRAMS.items() if (SCRIPTS / file).exists()}
    )
    wakes_by_itself: bool = False
    accounting: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    def conf(self, folder: Path) -> str:
        """Return the lines of slurm.conf that depend on the plan."""
        share = "EXCLUSIVE" if self.exclusive else "NO"
        usual = f"PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 State=UP OverSubscribe={share}"
        lines = [self.partitions or usual]
        if self.debug:
            lines.append(f"PartitionName=debug Nodes={self.debug} MaxTime=1-0 State=UP OverSubscribe={share}")
        values = vars(self) | {"folder": folder, "year_s": YEAR_S, "partitions": "\n".join(lines)}
        return CONF.format_map(values)

    def write_files(self, folder: Path) -> None:
        """Write what Slurm calls, and the plan's own files, into the folder."""
        for name, text in self.files.items():
            (folder / name).write_text(text)
        for program in PROGRAMS:
            command = self._command(program).format(folder=folder)
            text = WRAPPER.format_map({"program": program, "folder": folder, "command": command})
            file = folder / program
            file.write_text(text)
            file.chmod(0o755)

    def _command(self, program: str) -> str:
        if program == "Resume" and self.wakes_by_itself:
            return WAKES_BY_ITSELF
        return f'exec "{self.programs[program]}" "$@"' if program in self.programs else "true"
