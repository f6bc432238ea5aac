"""The settings of the schedulers: how Slurm, Torque and OpenPBS are queried, and the user that gives them orders."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import DURATION, NAMES, PATH, TEXT, choice, row


@dataclass(frozen=True)
class SlurmSettings:
    """How the agent talks with Slurm."""

    read: str = row(
        choice("text", "json", "rest", "pyslurm"),
        "--slurm-read",
        "How jobs and nodes are read: the text of squeue and scontrol, which every version prints alike; their JSON;"
        " slurmrestd; or pyslurm, where it is installed and made for this version.",
        default="text",
    )
    user: str = row(
        TEXT,
        "--slurm-user",
        "SlurmUser of slurm.conf, whose programs tell the agent which nodes Slurm wants up.",
        default="slurm",
    )
    command: tuple[str, ...] | None = row(
        NAMES,
        "--slurm-command",
        "What is put before scontrol where the agent's own user may not change jobs and nodes.",
        example=("sudo", "-n", "-u", "slurm"),
    )
    rest_url: str | None = row(
        TEXT,
        "--slurm-rest",
        "Address of slurmrestd.",
        example="http://127.0.0.1:6820",
    )
    rest_token: Path | None = row(
        PATH,
        "--slurm-rest-token",
        "File of mode 0600 with the token for slurmrestd.",
        example="/etc/offpeak/slurm.token",
    )
    timeout_s: int = row(
        DURATION,
        "--slurm-timeout",
        "How long one of Slurm's commands may take.",
        default="60s",
    )


@dataclass(frozen=True)
class PbsSettings:
    """How the agent talks with a PBS server."""

    command: tuple[str, ...] | None = row(
        NAMES,
        "--pbs-command",
        "What is put before qalter, pbsnodes and qmgr where the agent's own user is no manager of PBS.",
        example=("sudo", "-n"),
    )
    timeout_s: int = row(
        DURATION,
        "--pbs-timeout",
        "How long one of PBS's commands may take.",
        default="60s",
    )
    boot_s: int = row(
        DURATION,
        "--pbs-boot",
        "How long a node may take from the order to wake until its daemon registers; then it counts as failed.",
        default="15min",
        unit="per node",
    )
    torque_order: str = row(
        choice("auto", "priority", "swap", "none"),
        "--torque-order",
        "How Torque's jobs change places: priority, by `qalter -p`, where the scheduler sorts by it; swap, by `qorder`,"
        " where it follows the queue's own order; none; auto: as sched_config of pbs_sched says.",
        default="auto",
    )
    home: Path = row(
        PATH,
        "--pbs-home",
        "Folder of Torque's server, in which sched_priv is.",
        default="/var/spool/torque",
    )
