"""What decisions weigh: the order, delays and plans the price or CO2 or both, sites time, cost, CO2 and energy.

Bills and savings always have the price itself.
"""

import math
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.text import did_you_mean

FORMS = ("price", "co2", "price+co2:80")
MOST_PER_T = 1e6


@dataclass(frozen=True)
class Weighing:
    """`co2_per_t` is what a tonne of CO2 costs [currency of the prices]; infinite where CO2 alone decides."""

    co2_per_t: float = 0.0

    @property
    def needs_carbon(self) -> bool:
        """Whether CO2 counts."""
        return self.co2_per_t > 0

    def __str__(self) -> str:
        """What counts, as users read it; "" for the price alone."""
        return {BY_PRICE: "", BY_CO2: "CO2"}.get(self, f"price and CO2 at {self.co2_per_t:g} a tonne")


BY_PRICE, BY_CO2 = Weighing(), Weighing(math.inf)


def parse_weighing(text: str) -> Weighing:
    """Return the weighing of "price", "co2" or "price+co2:80", 80 of the currency for a tonne. Raises BadInput."""
    name, _, per_t = text.partition(":")
    if text in ("price", "co2"):
        return BY_PRICE if text == "price" else BY_CO2
    if name != "price+co2":
        raise BadInput(f"unknown weighing {text!r}", hint=did_you_mean(text, FORMS))
    try:
        co2_per_t = float(per_t)
    except ValueError:
        co2_per_t = math.nan
    if not 0 < co2_per_t <= MOST_PER_T:
        raise BadInput(f"{text!r} has no price of a tonne of CO2", hint="write it like price+co2:80, above 0")
    return Weighing(co2_per_t)


def check_carbon(weighing: Weighing, *, is_known: bool) -> None:
    """Raise BadInput where CO2 counts and no source of its intensity is set."""
    if weighing.needs_carbon and not is_known:
        raise BadInput(
            "prices.decide_by weighs CO2, and no carbon intensity is set",
            hint="set carbon.source or feeds.carbon (--carbon, --carbon-feeds), or decide_by = price",
        )


WHOLE_PERCENT = 100.0
WEIGHTS_EXAMPLE = "time=25,cost=75"


@dataclass(frozen=True)
class Weights:
    """Shares of time, cost, CO2 and energy in what a job's place costs, in per cent of the whole.

    Murali and Vadhiyar chose time at 25 and cost at 75 for XSEDE (section 5.7.1); CO2 and energy are ours.
    """

    time: float = 25.0
    cost: float = 75.0
    co2: float = 0.0
    energy: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.time, self.cost, self.co2, self.energy)
        if min(shares) < 0 or abs(sum(shares) - WHOLE_PERCENT) > 1e-6:
            raise BadInput(f"weights of {sum(shares):g} %", hint="each is zero or more, and together they are 100")


PAPER_WEIGHTS = Weights()


def parse_weights(text: str) -> Weights:
    """Return the weights of "time=25,cost=75"; those that are not named are 0. Raises BadInput."""
    shares: dict[str, float] = dict.fromkeys(("time", "cost", "co2", "energy"), 0.0)
    named = set()
    for part in text.split(","):
        name, _, share = (each.strip() for each in part.partition("="))
        if name not in shares or name in named:
            problem = "stands there twice" if name in named else "is not a weight"
            raise BadInput(f"{name!r} {problem}", hint=f"write them like {WEIGHTS_EXAMPLE},co2=0,energy=0")
        named.add(name)
        try:
            shares[name] = float(share)
        except ValueError:
            shares[name] = math.nan
        if not math.isfinite(shares[name]):
            raise BadInput(f"{part.strip()!r} has no share in per cent", hint=f"write it like {WEIGHTS_EXAMPLE}")
    return Weights(**shares)


CO2_UNIT = "kgCO2/MWh"
