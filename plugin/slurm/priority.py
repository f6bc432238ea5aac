"""Reads the order of Slurm's queue: the settings of priority/multifactor by `scontrol`, the shares by `sshare`.

Partitions and QOS have their parts in `scontrol show partitions` and `sacctmgr show qos`. A queue whose settings
slurmctld does not show has the priorities that the accounting records, if it records some.
"""

from collections.abc import Mapping

from offpeak.model.limits import PriorityOrder, PriorityWeights, ShareAccount, SitePriority
from plugin.slurm.commands import CannotAskSlurm, ask, count, limit_s, parse_config, parts

TIMEOUT_S = 60.0
MULTIFACTOR = "priority/multifactor"
SHARE_COLUMNS = ("Account", "User", "RawShares")
USES_PARENT = "parent"

_MODELLED_FLAGS = frozenset({"NO_FAIR_TREE", "FAIR_TREE", "SMALL_RELATIVE_TO_TIME", "CALCULATE_RUNNING"})
_NOT_MODELLED = ("PriorityWeightAssoc", "PriorityWeightTRES", "PrioritySiteFactorPlugin", "PriorityUsageResetPeriod")


def read_priority() -> SitePriority:
    """Return the order of Slurm's queue, with what could not be read among what is not modelled."""
    try:
        config = parse_config(ask("scontrol", "show", "config", timeout_s=TIMEOUT_S))
    except CannotAskSlurm as problem:
        return SitePriority(PriorityOrder.RECORDED, not_modelled=(f"Slurm's weights ({problem})",))
    found = parse_priority(config)
    return with_shares(found) if found.weights.fair_share else found


def parse_priority(config: Mapping[str, str]) -> SitePriority:
    """Return the order by the settings of `scontrol show config`, without the shares of accounts."""
    kind = config.get("PriorityType", "")
    if not kind:
        return SitePriority(PriorityOrder.RECORDED, not_modelled=("Slurm's weights (scontrol shows no PriorityType)",))
    if kind != MULTIFACTOR:
        return SitePriority(PriorityOrder.SUBMISSION)
    flags = frozenset(parts(config.get("PriorityFlags", "").upper()))
    default = PriorityWeights()
    weights = PriorityWeights(
        age=count(config.get("PriorityWeightAge", "")),
        fair_share=count(config.get("PriorityWeightFairShare", "")),
        job_size=count(config.get("PriorityWeightJobSize", "")),
        partition=count(config.get("PriorityWeightPartition", "")),
        qos=count(config.get("PriorityWeightQOS", "")),
        max_age_s=_time_s(config, "PriorityMaxAge", default.max_age_s) or default.max_age_s,
        favor_small=config.get("PriorityFavorSmall", "").lower() in ("yes", "true", "1"),
        small_relative_to_time="SMALL_RELATIVE_TO_TIME" in flags,
        half_life_s=_time_s(config, "PriorityDecayHalfLife", default.half_life_s),
        calc_period_s=_time_s(config, "PriorityCalcPeriod", default.calc_period_s) or default.calc_period_s,
        is_fair_tree="NO_FAIR_TREE" not in flags,
        dampening=float(count(config.get("FairShareDampeningFactor", "")) or 1),
    )
    given = [name for name in _NOT_MODELLED if config.get(name, "") not in ("", "0")]
    more = [f"PriorityFlags={flag}" for flag in sorted(flags - _MODELLED_FLAGS)]
    return _simplified(SitePriority(PriorityOrder.MULTIFACTOR, weights, not_modelled=(*given, *more)))


def _simplified(priority: SitePriority) -> SitePriority:
    """Return the priority; the order of submission if no factor has a weight: then all priorities are equal."""
    weights = priority.weights
    if any((weights.age, weights.fair_share, weights.job_size, weights.partition, weights.qos)):
        return priority
    return SitePriority(PriorityOrder.SUBMISSION, not_modelled=priority.not_modelled)


def _time_s(config: Mapping[str, str], name: str, default_s: int) -> int:
    seconds = limit_s(config.get(name, ""))
    return default_s if seconds is None else seconds


def with_shares(priority: SitePriority) -> SitePriority:
    """Return the priority with the accounts of `sshare`; without fair share if Slurm does not tell any shares."""
    columns = f"--format={','.join(SHARE_COLUMNS)}"
    try:
        answer = ask("sshare", "--all", "--parsable2", "--noheader", columns, timeout_s=TIMEOUT_S)
        accounts, reason = parse_shares(answer.decode(errors="replace")), "sshare lists no users"
    except CannotAskSlurm as problem:
        accounts, reason = (), str(problem)
    if any(account.users for account in accounts):
        return priority._replace(accounts=accounts)
    weights = priority.weights._replace(fair_share=0)
    not_modelled = (*priority.not_modelled, f"fair share ({reason})")
    return _simplified(priority._replace(weights=weights, not_modelled=not_modelled))


def parse_shares(text: str) -> tuple[ShareAccount, ...]:
    """Return the accounts of `sshare --all --parsable2` with SHARE_COLUMNS; a line with other columns is left out.

    Accounts are indented by their depth. The users of the account root stand beside the accounts below the root.
    """
    above: dict[int, str] = {}
    accounts: dict[str, ShareAccount] = {}
    users: dict[str, dict[str, int | None]] = {}
    for row in (line.split("|") for line in text.splitlines()):
        if len(row) != len(SHARE_COLUMNS) or not row[0].strip():
            continue
        name, user, shares = row[0].strip(), row[1].strip(), _shares(row[2])
        if user:
            # A user may have an association for each of several partitions, too.
            users.setdefault(name, {}).setdefault(user, shares)
            continue
        depth = len(row[0]) - len(row[0].lstrip())
        above[depth] = name
        parent = above.get(depth - 1, "") if depth else ""
        accounts.setdefault(name, ShareAccount(name, parent, shares if depth else None))
    listed = (accounts.get(name, ShareAccount(name)) for name in dict.fromkeys((*accounts, *users)))
    return tuple(each._replace(users=tuple(users.get(each.name, {}).items())) for each in listed)


def _shares(text: str) -> int | None:
    return None if text.strip().lower() == USES_PARENT else count(text.strip())
