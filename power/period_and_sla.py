"""What a capacity policy that plans anew each period is written with: "1h", or "1h:50" with an SLA of its own."""

from offpeak.errors import BadInput
from offpeak.model.units import parse_duration_s
from power.online_simulation import check_sla

DEFAULT_PERIOD = "1h"


def period_and_sla(name: str, argument: str, sla: float) -> tuple[int, float]:
    """Return the period [s] and the SLA of the policy's argument, an hour and `sla` where it has none.

    BadInput, which names the policy, if one of them cannot be.
    """
    period, _, own_sla = (argument or DEFAULT_PERIOD).partition(":")
    return _period_s(name, period), _sla(name, own_sla) if own_sla else sla


def _period_s(name: str, text: str) -> int:
    try:
        period_s = parse_duration_s(text)
    except BadInput as problem:
        raise BadInput(f"capacity policy {name!r}: {problem}", hint=f"write it like {name}:1h") from None
    if period_s == 0:
        raise BadInput(f"capacity policy {name!r}: a period of no time", hint=f"write it like {name}:1h")
    return period_s


def _sla(name: str, text: str) -> float:
    try:
        sla = float(text)
    except ValueError:
        hint = f"write it like {name}:1h:50"
        raise BadInput(f"capacity policy {name!r}: {text!r} is no slowdown", hint=hint) from None
    check_sla(sla)
    return sla
