"""What is varied: load, price spread, length of jobs, and how much slowdown is allowed."""

from dataclasses import dataclass

ALWAYS_ON, TIMEOUT, BLIND = "always-on", "timeout:10min", "blind"
SLAS = (1.5, 3.0, 10.0, 200.0)
FEW_SLAS = (1.5, 10.0)


def profile(sla: float) -> str:
    """Return the name of the profile policy with that SLA, planned anew each hour."""
    return f"profile:1h:{sla:g}"


EVERY_POLICY = (ALWAYS_ON, TIMEOUT, BLIND, *map(profile, SLAS))
FEW_POLICIES = (ALWAYS_ON, TIMEOUT, *map(profile, FEW_SLAS))


@dataclass(frozen=True)
class Setup:
    """How a stretch of a log, of about 30 days, is replayed under EASY. The defaults are the starting point.

    `load`: gaps between submissions are scaled to this share of the machine. `spread`: how many times as far prices lie
    from their mean. `length`: run times and estimates are multiplied by it before. `policies`: the first of them is
    what others are compared with, BLIND offers half of the nodes in the dearest six hours of each day.
    """

    load: float = 0.7
    spread: float = 1.0
    length: float = 1.0
    policies: tuple[str, ...] = EVERY_POLICY


@dataclass(frozen=True)
class Experiment:
    """One replay: all policies of a setup on a log, with the chances of the seed (`seed`, `replay`).

    Replay number i is of the i-th stretch of the log that fills 30 days, from the first again behind the last, and of
    the prices of its i-th month.
    """

    log: str
    seed: int
    replay: int
    setup: Setup


@dataclass(frozen=True)
class Factor:
    """A setup by what is made otherwise in it."""

    name: str
    value: str
    setup: Setup


FACTORS = (
    *(Factor("load", f"{load:.0%}", Setup(load=load, policies=FEW_POLICIES)) for load in (0.5, 0.9)),
    *(Factor("price spread", f"x {times:g}", Setup(spread=times, policies=FEW_POLICIES)) for times in (0.5, 2.0)),
    *(Factor("length", f"x {times:g}", Setup(length=times, policies=FEW_POLICIES)) for times in (0.1, 0.25, 4.0)),
    Factor("all three", "50%, x 2, x 0.25", Setup(load=0.5, spread=2.0, length=0.25, policies=FEW_POLICIES)),
)
