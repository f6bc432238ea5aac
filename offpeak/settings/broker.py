"""The settings of the broker of a federation: its sites, how old their answers may be, and whether it submits."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.settings.kinds import DURATION, PATH, choice, row


@dataclass(frozen=True)
class BrokerSettings:
    """How `offpeak choose`, `submit` and `broker` go about it."""

    sites: Path = row(
        PATH,
        "--sites",
        "File of the sites of the federation.",
        default="/etc/offpeak/sites.toml",
    )
    mode: str = row(
        choice("shadow", "active"),
        "--broker-mode",
        "shadow: it is only recorded where a job would have gone; active: it is submitted there.",
        default="shadow",
    )
    poll_s: int = row(
        DURATION,
        "--poll",
        "How often `offpeak broker` asks the sites how they are.",
        default="15s",
    )
    stale_s: int = row(
        DURATION,
        "--stale",
        "A site whose last answer is older than this is left out.",
        default="2min",
    )
    timeout_s: int = row(
        DURATION,
        "--site-timeout",
        "How long a site may take to say how it is.",
        default="5s",
    )
    token_file: Path | None = row(
        PATH,
        "--token-file",
        "File of mode 0600 with the token that portals show to `offpeak broker`.",
        example="/etc/offpeak/broker.token",
    )
    secret_file: Path | None = row(
        PATH,
        "--secret-file",
        "File of mode 0600 with the key by which `offpeak broker` signs what this site's agent says for other brokers.",
        example="/etc/offpeak/snapshot.key",
    )
