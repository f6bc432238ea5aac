"""The settings of the broker of a federation: its sites, how old their answers may be, and whether it submits."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import DURATION, PATH, choice, row


@dataclass(frozen=True)
class BrokerSettings:
    """The sites of a federation, and how `offpeak choose`, `submit` and `broker` use them."""

    sites: Path = row(
        PATH,
        "--sites",
        "File of the sites of the federation.",
        default="/etc/offpeak/sites.toml",
    )
    mode: str = row(
        choice("shadow", "active"),
        "--broker-mode",
        "shadow: only record the selected site of a job; active: submit the job there.",
        default="shadow",
    )
    poll_s: int = row(
        DURATION,
        "--poll",
        "Interval at which `offpeak broker` polls the sites.",
        default="15s",
    )
    stale_s: int = row(
        DURATION,
        "--stale",
        "Maximum age of a site's last response: a site with an older one is left out.",
        default="2min",
    )
    timeout_s: int = row(
        DURATION,
        "--site-timeout",
        "Time limit for a response of a site.",
        default="5s",
    )
    token_file: Path | None = row(
        PATH,
        "--token-file",
        "File of mode 0600 with the token that portals present to `offpeak broker`.",
        example="/etc/offpeak/broker.token",
    )
    secret_file: Path | None = row(
        PATH,
        "--secret-file",
        "File of mode 0600 with the key with which `offpeak broker` signs the state of this site's agent for other "
        "brokers.",
        example="/etc/offpeak/snapshot.key",
    )
