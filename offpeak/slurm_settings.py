"""The settings of Slurm: how it is asked, and on whose behalf it is told."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.setting_kinds import DURATION, NAMES, PATH, TEXT, choice
from offpeak.setting_row import row


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
