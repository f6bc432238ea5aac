"""What a core-hour earns, by account and QOS: whoever is not named earns what is usual."""

import math
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.setting_kinds import NAMES, Kind

HINT = "write ACCOUNT=0.08, ACCOUNT/QOS=0.2 or /QOS=0.1, separated by commas"


@dataclass(frozen=True)
class Revenue:
    """What a core-hour earns of jobs of that account and QOS; "" stands for any."""

    account: str
    qos: str
    per_core_h: float


def revenue_per_core_h(revenues: tuple[Revenue, ...], account: str, qos: str, *, usual: float) -> float:
    """Return what a core-hour of such a job earns: what names both counts before its QOS, that before its account."""
    rates = {(each.account, each.qos): each.per_core_h for each in revenues}
    for named in ((account, qos), ("", qos), (account, "")):
        if named in rates and any(named):
            return rates[named]
    return usual


HIGHEST_PER_CORE_H = 1e6


def read_revenues(written: object) -> tuple[Revenue, ...]:
    """Return the revenues of `physics=0.08,physics/urgent=0.2,/urgent=0.1` or a list of such; BadInput."""
    revenues = tuple(_revenue(item) for item in NAMES.read(written))
    named = [(each.account, each.qos) for each in revenues]
    for who in named:
        if named.count(who) > 1:
            raise BadInput(f"{'/'.join(who).rstrip('/')!r} stands there twice", hint="leave one of the two")
    return revenues


def _revenue(item: str) -> Revenue:
    who, equals, amount = (part.strip() for part in item.partition("="))
    account, _, qos = (part.strip() for part in who.partition("/"))
    try:
        per_core_h = float(amount)
    except ValueError:
        per_core_h = math.nan
    if not equals or not (account or qos):
        raise BadInput(f"{item!r} names no account or QOS and what it earns", hint=HINT)
    if not 0 <= per_core_h <= HIGHEST_PER_CORE_H:
        raise BadInput(f"{item!r}: {amount!r} is no revenue", hint="a core-hour earns from 0 to 1,000,000")
    return Revenue(account, qos, per_core_h)


REVENUES = Kind("list of revenues", read_revenues)
