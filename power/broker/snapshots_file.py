"""What sites said last and were sent, in a file that the poller keeps: who only chooses need not ask them all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offpeak.files import replacing
from plugin.federation.live_cycle import Heard
from plugin.federation.sent import Sent
from plugin.federation.site_said import said_json, said_of

NAME = "federation.json"


@dataclass(frozen=True)
class Kept:
    """What was `heard` of sites, and the jobs that they were `sent`."""

    heard: Mapping[str, Heard]
    sent: tuple[Sent, ...] = ()


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
        return Kept(heard, tuple(Sent(**job) for job in said["sent"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _said(heard: Heard) -> object:
    return None if heard.said is None else said_json(heard.said)


def _heard(said: object, trouble: str) -> Heard:
    return Heard(None if said is None else said_of(said), trouble)
