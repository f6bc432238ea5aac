"""What sites said last and were sent, in a file that the poller keeps: who only chooses need not ask them all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offpeak.files import replacing
from plugin.federation.live_cycle import SentJob, SiteReply
from plugin.federation.site_report import parse_report, report_json

NAME = "federation.json"


@dataclass(frozen=True)
class Kept:
    """What was `heard` of sites, and the jobs that they were `sent`."""

    heard: Mapping[str, SiteReply]
    sent: tuple[SentJob, ...] = ()


def write_snapshots(folder: Path, kept: Kept, *, at_unix_s: float) -> None:
    """Replace the file in the state folder; CannotWrite where that fails."""
    sites = {name: {"said": _said(each), "trouble": each.trouble} for name, each in kept.heard.items()}
    sent = [vars(job) for job in kept.sent]
    with replacing(folder / NAME) as file:
        file.write(json.dumps({"at_unix_s": at_unix_s, "sites": sites, "sent": sent}).encode())


def read_snapshots(folder: Path, *, not_before_unix_s: float) -> Kept | None:
    """Return what the file says, None if there is none, if it is older than that, or makes no sense."""
    try:
        said = json.loads((folder / NAME).read_bytes())
        if said["at_unix_s"] < not_before_unix_s:
            return None
        heard = {name: _heard(each["said"], str(each["trouble"])) for name, each in said["sites"].items()}
        return Kept(heard, tuple(SentJob(**job) for job in said["sent"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _said(heard: SiteReply) -> object:
    return None if heard.said is None else report_json(heard.said)


def _heard(said: object, trouble: str) -> SiteReply:
    return SiteReply(None if said is None else parse_report(said), trouble)
