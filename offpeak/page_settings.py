"""The settings of the status page: where it listens, and the token that it wants to be shown."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.setting_kinds import PATH, TEXT
from offpeak.setting_row import row


@dataclass(frozen=True)
class PageSettings:
    """Who can open the page and read the metrics."""

    listen: str = row(
        TEXT,
        "--listen",
        "Address and port of the status page and the metrics; without a token on loopback only.",
        default="127.0.0.1:8017",
    )
    token_file: Path | None = row(
        PATH,
        "--page-token-file",
        "File of mode 0600 with the token that whoever opens the page has to show; when not set: nobody has to.",
        example="/etc/offpeak/page.token",
    )
