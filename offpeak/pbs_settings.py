"""The settings of Torque and OpenPBS: how they are asked, and on whose behalf they are told."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.setting_kinds import DURATION, NAMES, PATH, choice
from offpeak.setting_row import row


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
