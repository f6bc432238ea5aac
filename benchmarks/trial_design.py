"""The on/off days of a trial in simulated years: how often the interval covers the true saving, and excludes 0.

`python -m benchmarks.trial_design` prints a row for each case: 60 days, a true saving of 6 %, a daily variation of 15 %
of which load and outside temperature explain nine tenths of the variance. `--seeds` sets the number of trials.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date

import numpy as np

from benchmarks.bars import Measured, machine
from offpeak.model.arrays import Float64
from offpeak.services.accounts.trials import TrialEffect, draw_blocks, estimate_effect, make_covariates
from offpeak.settings.agent import AgentSettings

VARIATION, EXPLAINED = 0.15, 0.9


@dataclass(frozen=True)
class TrialCase:
    """A kind of simulated trial: `persistence` is the correlation of the errors of neighbouring days.

    Each of several partitions draws three times as much as the one before. They have loads of their own, the weather is
    that of all, and half of the variance of their errors is the same.
    """

    name: str
    days: int = 60
    block: str = "day"
    saving: float = 0.06
    persistence: float = 0.0
    uneven: bool = False
    knows_weather: bool = True
    knows_load: bool = True
    partitions: int = 1


BAR = TrialCase("load and temperature known")
TWO_PARTITIONS = replace(BAR, name="two partitions", partitions=2)
CASES = (
    BAR,
    replace(BAR, name="the errors of neighbouring days correlate by 0.6", persistence=0.6),
    replace(BAR, name="errors twice as large on days on", uneven=True),
    replace(BAR, name="half-days", block="half-day"),
    replace(BAR, name="no saving", saving=0.0),
    replace(BAR, name="temperature not known", knows_weather=False),
    replace(BAR, name="neither load nor temperature known", knows_weather=False, knows_load=False),
    replace(BAR, name="28 days", days=28),
    TWO_PARTITIONS,
    replace(TWO_PARTITIONS, name="two partitions, errors of neighbouring days correlate by 0.6", persistence=0.6),
    replace(
        TWO_PARTITIONS, name="two partitions, neither load nor temperature known", knows_weather=False, knows_load=False
    ),
    replace(TWO_PARTITIONS, name="two partitions, 28 days", days=28),
)


@dataclass(frozen=True)
class TrialScore:
    """The shares of trials whose interval covers the truth, and excludes 0, and the interval's mean half-width [%]."""

    covers: float
    excludes_zero: float
    half_width_percent: float


def simulate_effect(case: TrialCase, seed: int) -> TrialEffect:
    """Draw the days of a trial by the seed, simulate their energy, and return the analysis."""
    chance = np.random.default_rng(seed)
    parts = case.partitions
    names = tuple(f"p{number}" for number in range(parts)) if parts > 1 else None
    settings = AgentSettings(trial="simulated", trial_days=case.days, trial_block=case.block, trial_partitions=names)
    blocks = draw_blocks(settings, f"{seed}", first=date(2026, 1, 5), zone=UTC, drawn_unix_s=0.0)
    is_on, count = np.array([block.is_on for block in blocks], np.float64), len(blocks)
    part = np.sqrt(EXPLAINED / 2)
    load = _by_partition(_persistent(chance, count // parts, 0.5) for _ in range(parts))
    weather, shared = (_persistent(chance, count // parts, each).repeat(parts) for each in (0.8, case.persistence))
    own = _by_partition(_persistent(chance, count // parts, case.persistence) for _ in range(parts))
    error = (shared if parts == 1 else (shared + own) / np.sqrt(2)) * np.sqrt(1 - EXPLAINED)
    if case.uneven:
        # Twice as large on days on, and of the same variance over all.
        error *= np.where(is_on > 0, 2, 1) / np.sqrt(2.5)
    logs = VARIATION * (part * load + part * weather + error) + is_on * np.log(1 - case.saving)
    size = 3.0 ** np.tile(np.arange(parts), count // parts)
    covariates: Mapping[str, Float64] = make_covariates(
        blocks,
        UTC,
        load=size * (5 + load) if case.knows_load else np.full(count, np.nan),
        outside_c=weather if case.knows_weather else np.full(count, np.nan),
    )
    effect = estimate_effect(size * np.exp(logs), is_on, covariates)
    assert isinstance(effect, TrialEffect)
    return effect


def _by_partition(series: Iterable[Float64]) -> Float64:
    return np.column_stack(list(series)).ravel()


def _persistent(chance: np.random.Generator, count: int, persistence: float) -> Float64:
    """Return a series of standard normal values, neighbours of which correlate."""
    values = chance.standard_normal(count)
    for at in range(1, count):
        values[at] = persistence * values[at - 1] + np.sqrt(1 - persistence**2) * values[at]
    return values


def score_case(case: TrialCase, seeds: int) -> TrialScore:
    """Return the shares over so many simulated trials."""
    effects = [simulate_effect(case, seed) for seed in range(seeds)]
    low, high = np.array([(each.low_percent, each.high_percent) for each in effects]).T
    truth = 100 * case.saving
    covers = (low <= truth) & (truth <= high)
    return TrialScore(covers.mean(), ((low > 0) | (high < 0)).mean(), ((high - low) / 2).mean())


def trial_design_benchmarks() -> Iterator[Measured]:
    """Measure the cases of the bars."""
    score, data = score_case(BAR, 1000), "60 days, saving 6 %, variation 15 %, nine tenths explained, 1,000 seeds"
    yield Measured("on/off days: intervals that cover the truth", 100 * score.covers, "%", 93.0, True, data)
    yield Measured("the same: at most", 100 * score.covers, "%", 97.0, False, data)
    yield Measured("the same: intervals that exclude 0", 100 * score.excludes_zero, "%", 95.0, True, data)
    covers = 100 * score_case(TWO_PARTITIONS, 1000).covers
    yield Measured("on/off days of two partitions: intervals that cover the truth", covers, "%", 93.0, True, data)
    yield Measured("the same: at most", covers, "%", 97.0, False, data)


def main() -> None:
    """Print the shares of all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    seeds = parser.parse_args().seeds
    print(machine())
    print(f"| case, {seeds:,} trials | covers the truth | excludes 0 | half-width |\n|---|---|---|---|")
    for case in CASES:
        score = score_case(case, seeds)
        print(f"| {case.name} | {score.covers:.1%} | {score.excludes_zero:.1%} | {score.half_width_percent:.1f} % |")


if __name__ == "__main__":
    main()
