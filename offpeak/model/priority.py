"""In which order a site's jobs wait: by submission, by recorded priorities, or by Slurm's multifactor priority."""

from enum import StrEnum
from typing import NamedTuple

from offpeak.model.constants import DAY_S


class PriorityOrder(StrEnum):
    """What the jobs of one priority tier are ordered by; `RECORDED` is the priority that the log has of each job."""

    SUBMISSION = "submission"
    RECORDED = "recorded"
    MULTIFACTOR = "multifactor"


class PriorityWeights(NamedTuple):
    """The settings of priority/multifactor, with Slurm's defaults; times in seconds.

    `is_fair_tree` is False with PriorityFlags=NO_FAIR_TREE, `small_relative_to_time` is the flag of that name.
    `half_life_s` 0 lets no usage decay.
    """

    age: int = 0
    fair_share: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    max_age_s: int = 7 * DAY_S
    favor_small: bool = False
    small_relative_to_time: bool = False
    half_life_s: int = 7 * DAY_S
    calc_period_s: int = 300
    is_fair_tree: bool = True
    dampening: float = 1.0


class ShareAccount(NamedTuple):
    """An account with its shares and those of its users; `parent` is "" below the root.

    Shares of None are Slurm's fairshare=parent: what stands below such an account counts below its parent, and all such
    users of an account count as one.
    """

    name: str
    parent: str = ""
    shares: int | None = 1
    users: tuple[tuple[str, int | None], ...] = ()


class SitePriority(NamedTuple):
    """The order of a site, with the weights and accounts of `MULTIFACTOR`. A parent may stand behind its children.

    `not_modelled` names what else moves jobs there.
    """

    order: PriorityOrder
    weights: PriorityWeights = PriorityWeights()
    accounts: tuple[ShareAccount, ...] = ()
    not_modelled: tuple[str, ...] = ()
