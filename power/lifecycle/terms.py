"""What a node's life goes by: its kind of hardware, what such nodes take, and how persistent to be."""

import random
from dataclasses import dataclass

from offpeak.machines.inventory import Hardware
from offpeak.settings.agent import AgentSettings
from power.lifecycle.learned_times import NOTHING_LEARNED, LearnedTimes


@dataclass(frozen=True)
class Conduct:
    """How persistent to be with a node.

    After `tries` failures in a row, with pauses that double from `first_pause_s`, the operator gets it; a fault that
    was ours is tried again after `ours_again_s`. A change that nobody here ordered: hands off for `hands_off_s`; so
    many `surprises` within `surprises_within_s` are a fault, as is a node that nobody could see for `unseen_s`. A
    change may come `late_s` after its order. `cut_power` allows hard_off where soft_off was not followed.
    """

    tries: int = 3
    first_pause_s: float = 60.0
    longest_pause_s: float = 3600.0
    refused_pause_s: float = 30.0
    longest_refused_pause_s: float = 600.0
    ours_again_s: float = 3600.0
    hands_off_s: float = 1800.0
    surprises: int = 3
    surprises_within_s: float = 3600.0
    unseen_s: float = 900.0
    late_s: float = 3600.0
    cut_power: bool = False


@dataclass(frozen=True)
class Terms:
    """What one kind of node goes by; `chance` spreads the pauses of nodes that failed together."""

    hardware: Hardware
    chance: random.Random
    times: LearnedTimes = NOTHING_LEARNED
    conduct: Conduct = Conduct()

    def spread(self, pause_s: float) -> float:
        """Return the pause, up to a quarter shorter or longer."""
        return pause_s * (0.75 + 0.5 * self.chance.random())


def conduct_of(settings: AgentSettings) -> Conduct:
    """Return how persistent the settings want the agent to be."""
    return Conduct(tries=settings.tries, hands_off_s=settings.hands_off_s, cut_power=settings.cut_power)
