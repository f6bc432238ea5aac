"""All caps on power that a site's settings speak of."""

from dataclasses import dataclass
from datetime import tzinfo

from offpeak.errors import BadInput
from offpeak.model.facility import PowerCap
from offpeak.settings.plan import PlanSettings
from predictors.demand_response.events_file import read_events
from predictors.feeds.condition import Trouble
from predictors.feeds.open_adr import OpenAdr
from predictors.feeds.web import TIMEOUT_S


@dataclass(frozen=True)
class Caps:
    """What a file and a server say of caps; where one cannot be read, what it said last. `troubles` are sentences."""

    of_file: tuple[PowerCap, ...] = ()
    of_server: tuple[PowerCap, ...] = ()
    troubles: tuple[str, ...] = ()

    def ahead(self, now_s: int) -> tuple[PowerCap, ...]:
        """Return those that are not over, the first to begin first."""
        caps = {cap for cap in (*self.of_file, *self.of_server) if cap.until_s > now_s}
        return tuple(sorted(caps, key=lambda cap: (cap.from_s, cap.until_s, cap.cap_w)))


def asked_caps(plan: PlanSettings, zone: tzinfo, before: Caps, *, timeout_s: float = TIMEOUT_S) -> Caps:
    """Return what is said now; it asks a server. Never raises: a cap that was known holds on."""
    of_file, of_server, troubles = before.of_file, before.of_server, []
    try:
        of_file = read_events(plan.events, zone) if plan.events else ()
    except BadInput as problem:
        troubles.append(f"{problem}; {problem.hint}")
    answer = OpenAdr(plan.openadr, plan.openadr_token, timeout_s).fetch() if plan.openadr else ()
    if isinstance(answer, Trouble):
        troubles.append(f"{answer}; {answer.hint}")
    else:
        of_server = answer
    return Caps(of_file, of_server, tuple(troubles))
