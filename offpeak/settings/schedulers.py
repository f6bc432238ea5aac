"""The settings of the schedulers: how Slurm, Torque and OpenPBS are queried, and the user that gives them orders."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import DURATION, NAMES, PATH, TEXT, choice, row


@dataclass(frozen=True)
class SlurmSettings:
    """How the agent talks with Slurm."""

    read: str = row(
        choice("text", "json", "rest", "pyslurm"),
        "Source of jobs and nodes: the text of squeue and scontrol, which is the same in all versions; their JSON; "
        "slurmrestd; or pyslurm, if installed for this version.",
        default="text",
        flag="--slurm-read",
    )
    user: str = row(
        TEXT,
        "SlurmUser of slurm.conf, whose programs notify the agent which nodes Slurm needs.",
        default="slurm",
        flag="--slurm-user",
    )
    command: tuple[str, ...] | None = row(
        NAMES,
        "Prefix of scontrol commands, if the agent's user may not change jobs and nodes.",
        example=("sudo", "-n", "-u", "slurm"),
        flag="--slurm-command",
    )
    rest_url: str | None = row(TEXT, "Address of slurmrestd.", example="http://127.0.0.1:6820", flag="--slurm-rest")
    rest_token: Path | None = row(
        PATH,
        "File of mode 0600 with the token for slurmrestd.",
        example="/etc/offpeak/slurm.token",
        flag="--slurm-rest-token",
    )
    timeout_s: int = row(DURATION, "Time limit for a command of Slurm.", default="60s", flag="--slurm-timeout")


@dataclass(frozen=True)
class PbsSettings:
    """How the agent talks with a PBS server."""

    command: tuple[str, ...] | None = row(
        NAMES,
        "Prefix of qalter, pbsnodes and qmgr commands, if the agent's user is not a manager of PBS.",
        example=("sudo", "-n"),
        flag="--pbs-command",
    )
    timeout_s: int = row(DURATION, "Time limit for a command of PBS.", default="60s", flag="--pbs-timeout")
    boot_s: int = row(
        DURATION,
        "Time limit from the order to wake until the node's daemon registers; after it the wake-up counts as failed.",
        default="15min",
        unit="per node",
        flag="--pbs-boot",
    )
    torque_order: str = row(
        choice("auto", "priority", "swap", "none"),
        "Method to reorder jobs of Torque: priority (`qalter -p`), if the scheduler sorts by priority; swap "
        "(`qorder`), if it follows the order of the queue; none; auto: according to sched_config of pbs_sched.",
        default="auto",
    )
    home: Path = row(
        PATH, "Folder of Torque's server that contains sched_priv.", default="/var/spool/torque", flag="--pbs-home"
    )
