"""The answer in a sentence: would another policy have been cheaper, and what would it have cost those who wait?"""

from collections.abc import Sequence

from sim_backend.outcome import PolicyOutcome
from sim_backend.replications import ReplicationSpread
from ui.clock_text import clock_text
from ui.figures_text import figure, length_text
from ui.report.subject import Subject

HARDLY_PCT = 0.05
"""Below this a saving is rounded to 0.0 %."""

SAME_WAIT_S = 1
WITHOUT_CENTS = 100


def answer(subject: Subject) -> str:
    """Return what the cheapest of the other policies would have come to, against the baseline.

    Its figures are those of the table below it: means over the replays where there are several.
    """
    baseline, *others = subject.figures
    if not others:
        return f"{_alone(subject, baseline)}{_asleep([baseline], told_of=baseline)}{_means(subject.spreads)}"
    cheapest = min(others, key=lambda outcome: outcome.cost)
    asleep = _asleep(subject.figures, told_of=cheapest)
    money = f"{_money(baseline, cheapest)}{_range(subject.spreads, cheapest.policy)}"
    return f"{money}; {_waiting(baseline, cheapest)}.{asleep}{_means(subject.spreads)}"


def _alone(subject: Subject, outcome: PolicyOutcome) -> str:
    length = length_text(subject.comparison.until_s - subject.comparison.begin_s)
    return (
        f"Under {outcome.policy} the electricity of {length} would have cost {outcome.currency} "
        f"{figure(outcome.cost)}, and jobs would have waited {clock_text(outcome.mean_wait_s)} h on average. "
        "A second policy, such as --policy easy,greedy, would show what can be saved."
    )


def _money(baseline: PolicyOutcome, other: PolicyOutcome) -> str:
    difference = abs(baseline.cost - other.cost)
    amount = f"{other.currency} {difference:,.{0 if difference >= WITHOUT_CENTS else 2}f}"
    share = f"{abs(other.saving_pct):.1f} %"
    of = f"of {figure(baseline.cost)}"
    if abs(other.saving_pct) < HARDLY_PCT:
        sign = "less" if other.cost <= baseline.cost else "more"
        return f"With {other.policy}, electricity would have cost as good as the same ({amount} {sign} {of})"
    if other.saving_pct < 0:
        return (
            f"No policy would have been cheaper than {baseline.policy}: with {other.policy}, electricity would have "
            f"cost {share} more ({amount} on top {of})"
        )
    return f"With {other.policy}, electricity would have cost {share} less than with {baseline.policy} ({amount} {of})"


def _range(spreads: tuple[ReplicationSpread, ...], policy: str) -> str:
    spread = next((spread for spread in spreads if spread.policy == policy), None)
    if spread is None:
        return ""
    saving = spread.figures["saving_pct"]
    what = "a difference that is noise: it saves" if spread.is_noise("cost") else "a saving of"
    return f", {what} {saving.low:z.2f} to {saving.high:z.2f} % in 19 of 20 replays"


def _means(spreads: tuple[ReplicationSpread, ...]) -> str:
    return f" Figures are means of {spreads[0].replays} replays." if spreads else ""


def _waiting(baseline: PolicyOutcome, other: PolicyOutcome) -> str:
    before_s, after_s = baseline.mean_wait_s, other.mean_wait_s
    verb = "fell" if after_s < before_s else "rose"
    wait = f"the mean wait {verb} from {clock_text(before_s)} to {clock_text(after_s)} h"
    if abs(after_s - before_s) < SAME_WAIT_S:
        wait = f"the mean wait stayed at {clock_text(after_s)} h"
    if other.worst_postponement_s <= 0:
        return f"{wait}; no job started later"
    return f"{wait}; the most postponed job started {clock_text(other.worst_postponement_s)} later"


def _asleep(outcomes: Sequence[PolicyOutcome], *, told_of: PolicyOutcome) -> str:
    """Return what sleeping nodes came to under the cheapest policy that lets nodes sleep, if one does."""
    sleepers = [outcome for outcome in outcomes if outcome.asleep_share]
    if not sleepers:
        return ""
    outcome = min(sleepers, key=lambda outcome: outcome.cost)
    saved_pct, delayed_share = outcome.idle_saved_pct or 0.0, outcome.delayed_share or 0.0
    saved = f"saved {saved_pct:.1f} % of the idle energy ({outcome.captured_pct:.0f} % of what was possible)"
    if saved_pct < 0:
        saved = f"drawn {-saved_pct:.1f} % more than idle ones"
    under = "Its" if outcome is told_of else f"Under {outcome.policy},"
    return f" {under} sleeping nodes would have {saved}; {_held_up(delayed_share, outcome.mean_sleep_delay_s or 0.0)}."


def _held_up(delayed_share: float, mean_delay_s: float) -> str:
    """Say how many jobs waited for nodes to wake, and how long these did; `mean_delay_s` is over all jobs."""
    if delayed_share == 0:
        return "no job would have waited for them"
    return (
        f"waiting for them would have held up {100 * delayed_share:.0f} % of the jobs, "
        f"these by {clock_text(mean_delay_s / delayed_share)} h on average, all jobs by {clock_text(mean_delay_s)}"
    )
