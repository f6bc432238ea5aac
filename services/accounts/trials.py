"""The drawn days of a trial: when a lever is off, so that its saving can be measured.

Each day of the week, or half of it, is on in one and off in the other of two weeks; a hash of the seed draws in which
(a randomised switchback). Anybody can draw the same days again from the seed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, tzinfo
from hashlib import sha256
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from pydantic import TypeAdapter
from sqlalchemy import Connection, select, true

from offpeak.errors import BadInput
from offpeak.ledger.marks import read_memory, read_trial
from offpeak.ledger.node_energy import spans_energy
from offpeak.ledger.prices import mean_prices
from offpeak.ledger.records import savings_in
from offpeak.ledger.rows import TrialBlock
from offpeak.ledger.tables import jobs, series
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_MWH
from offpeak.model.step_series import IntegralCurve, Series, running_integral
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.account_of_savings import ORDER, SLEEP
from offpeak.settings.agent import AgentSettings
from offpeak.text import counted

LEVERS = (SLEEP, ORDER)
"""The levers that can be off: nodes that sleep; the order of the queue and the delays that owners permit."""
HALVES = {"day": (time(0),), "half-day": (time(0), time(12))}
"""The local times at which blocks begin."""


def draw_blocks(
    settings: AgentSettings, seed: str, *, first: date, zone: tzinfo, drawn_unix_s: float
) -> tuple[TrialBlock, ...]:
    """Return the blocks of all levers from the first day on, at local times: one may have an hour more or less."""
    halves, days = HALVES[settings.trial_block], settings.trial_days
    cells = [(number, half) for number in range(days) for half in range(len(halves))]
    begins = [datetime.combine(first + timedelta(days=number), halves[half], zone) for number, half in cells]
    end = datetime.combine(first + timedelta(days=days), time(0), zone)
    spans = list(pairwise(at.timestamp() for at in (*begins, end)))
    levers = LEVERS if settings.trial_lever == "both" else (settings.trial_lever,)
    drawn = [
        (lever, partition) for lever in levers for partition in sorted(set(settings.trial_partitions or ())) or ("",)
    ]

    def is_on(lever: str, partition: str, number: int, half: int) -> bool:
        # The last bit of the SHA-256 of "SEED/LEVER/NUMBER OF THE TWO WEEKS/DAY/HALF", each counted from 0, with the
        # partition after the lever, says whether the lever is on in the first of the two weeks.
        of = f"{lever}/{partition}" if partition else lever
        cell = f"{seed}/{of}/{number // 14}/{number % 7}/{half}"
        return bool(sha256(cell.encode()).digest()[-1] & 1) == (number % 14 < 7)

    return tuple(
        TrialBlock(
            settings.trial or "",
            lever,
            from_unix_s,
            until_unix_s,
            is_on=is_on(lever, partition, number, half),
            seed=seed,
            drawn_unix_s=drawn_unix_s,
            partition=partition,
        )
        for (number, half), (from_unix_s, until_unix_s) in zip(cells, spans, strict=True)
        for lever, partition in drawn
    )


def find_blocks(blocks: Iterable[TrialBlock], unix_s: float, *, is_on: bool | None = None) -> tuple[TrialBlock, ...]:
    """Return the block of each lever at that instant, only those that are on, or off, where `is_on` is given."""
    now = (block for block in blocks if block.from_unix_s <= unix_s < block.until_unix_s)
    return tuple(block for block in now if is_on is None or block.is_on is is_on)


LEAST_BLOCKS, LEAST_FREE = 14, 8
"""A result needs that many blocks, and that many more than the regression has coefficients."""
BLOCKS_PER_COLUMN = 5
"""The day of the week is left out while there are fewer blocks for each column."""
OUTSIDE = "outside temperature"
FILLED_SHARE = 0.1
"""A covariate that is missing in no more blocks than this has its mean there."""


@dataclass(frozen=True)
class TrialEffect:
    """The saving while the lever is on [%], with the bounds of its 95 % interval.

    `adjusted_for` names the covariates. `blocks_to_prove` is the number of blocks after which the interval of a saving
    of this size excludes 0; None if there is no saving.
    """

    saving_percent: float
    low_percent: float
    high_percent: float
    adjusted_for: tuple[str, ...]
    blocks_to_prove: int | None


def make_covariates(
    blocks: Sequence[TrialBlock], zone: tzinfo, *, load: Float64, outside_c: Float64
) -> dict[str, Float64]:
    """Return the covariates of the blocks by name, the most useful first; NaN is not known.

    The load of a partition is relative to its mean, because an equal load is another share of each.
    """
    of = np.array([block.partition for block in blocks])
    names = np.unique(of)
    if len(names) > 1:
        load = load / np.array([load[of == each].mean() or 1.0 for each in names])[np.searchsorted(names, of)]
    begins = [datetime.fromtimestamp(block.from_unix_s, zone) for block in blocks]
    days = [[at.weekday() == day for day in range(1, 7)] + [at.hour >= 12] for at in begins]
    partition = {"partition": (of[:, None] == names[1:]).astype(np.float64)} if len(names) > 1 else {}
    return partition | {"load": load, OUTSIDE: outside_c, "day of the week": np.array(days, np.float64)}


def estimate_effect(value: Float64, is_on: Float64, covariates: Mapping[str, Float64]) -> TrialEffect | str:
    """Return the effect of the lever, or why there is none yet.

    `value` is positive, `is_on` 0 or 1. A covariate has one or more columns with a row for each block; one that is not
    known, or that repeats others, is left out.
    """
    blocks, on = len(value), int(is_on.sum())
    if min(on, blocks - on) < LEAST_BLOCKS // 2:
        return f"{on} on and {blocks - on} off: a result needs {LEAST_BLOCKS // 2} of each"
    columns, adjusted_for = np.column_stack([np.ones(blocks), is_on]), tuple[str, ...]()
    for name, covariate in covariates.items():
        added = np.column_stack([columns, _filled(covariate.reshape(blocks, -1))])
        is_wide = covariate.ndim > 1 and blocks < BLOCKS_PER_COLUMN * added.shape[1]
        if added.shape[1] > columns.shape[1] and not is_wide and blocks - added.shape[1] >= LEAST_FREE:
            columns, adjusted_for = added, (*adjusted_for, name)
    inverse, logs = np.linalg.pinv(columns), np.log(value)
    effect = inverse @ logs
    leverage = np.minimum((columns * inverse.T).sum(axis=1), 1 - 1e-9)
    error = np.linalg.norm(inverse[1] * (logs - columns @ effect) / np.sqrt(1 - leverage))
    reach = student_quantile(blocks - columns.shape[1]) * float(error)
    saving, low, high = (-100 * math.expm1(effect[1] + shift) for shift in (0.0, reach, -reach))
    needed = math.ceil(blocks * (reach / effect[1]) ** 2) if effect[1] < 0 else None
    return TrialEffect(saving, low, high, adjusted_for, needed)


def _filled(covariate: Float64) -> Float64:
    """Return the columns that vary, standardised; none if too much is missing."""
    is_missing = np.isnan(covariate)
    if is_missing.any(axis=1).mean() > FILLED_SHARE:
        return covariate[:, :0]
    centred = np.where(is_missing, 0.0, covariate - np.nanmean(covariate, axis=0))
    spread = centred.std(axis=0)
    varies = spread > 1e-9 * (1 + np.abs(covariate[~is_missing]).max(initial=0.0))
    return np.asarray(centred[:, varies] / spread[varies])


def student_quantile(degrees: int, share: float = 0.975) -> float:
    """Return the quantile of Student's t (Abramowitz and Stegun, 26.7.5), from 8 degrees on correct to 0.001."""
    x = NormalDist().inv_cdf(share)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / float(degrees) ** power for power, term in enumerate(terms, 1))


WASH_OUT_S = 2 * HOUR_S
"""The begin of each block that does not count: nodes wake, and jobs that were delayed start."""
ENOUGH = 0.9
"""The share of a block in which the agent must obey, and nodes, price and temperature must be known."""
NOT_OBEYED = "the agent did not run in mode active, or a cap on power held"
NOT_MEASURED, NOT_PRICED = "nodes were not measured", "the price is not known, or not above 0"
RESULTS = "trial results of "
"""The ledger remembers the results of a trial under this and its name."""


@dataclass(frozen=True)
class TrialInputs:
    """For how long the agent obeyed in each block, by its begin, and the outside temperature, None if not known.

    `nodes_of` are the nodes of each partition of the trial.
    """

    now_unix_s: float
    zone: tzinfo
    obeyed_s: Mapping[float, float]
    outside: Series | None = None
    nodes_of: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialResult:
    """The measured effect of one lever, by `used` of the `blocks` that are over, or `why` there is none.

    `excluded` counts the other blocks by reason. `modelled_percent` is the saving by the model on the days on.
    """

    trial: str
    lever: str
    at_unix_s: float
    blocks: int
    used: int
    excluded: Mapping[str, int]
    effect: TrialEffect | None = None
    why: str = ""
    modelled_percent: float | None = None
    partitions: int = 0

    @property
    def text(self) -> str:
        """The result in one line."""
        share, known = f"{self.used:,} of {counted(self.blocks, 'block')}", self.effect
        if known is None:
            return f"not measured yet, {share}: {self.why}"
        bounds = f"{known.saving_percent:.1f} ({known.low_percent:.1f} to {known.high_percent:.1f}) %"
        adjusted = f"adjusted for {', '.join(known.adjusted_for) or 'nothing'}"
        weather = "" if OUTSIDE in known.adjusted_for else ", not for weather"
        model = "" if self.modelled_percent is None else f"; by the model {self.modelled_percent:.1f} %"
        proof = f": about {known.blocks_to_prove:,} blocks would" if known.blocks_to_prove else ""
        doubt = f"; this does not prove a saving{proof}" if known.low_percent <= 0 else ""
        of = "energy" if self.lever == SLEEP else "the price paid"
        of += f" (mean of {counted(self.partitions, 'partition')})" if self.partitions else ""
        return f"measured by on/off days: {bounds} of {of}, {share}, {adjusted}{weather}{model}{doubt}"


def measure_trial(connection: Connection, blocks: Sequence[TrialBlock], inputs: TrialInputs) -> tuple[TrialResult, ...]:
    """Return the result of each lever so far."""
    over = [block for block in blocks if block.until_unix_s <= inputs.now_unix_s]
    is_on = {
        lever: np.array([+block.is_on for block in over if block.lever == lever], np.float64)
        for lever in dict.fromkeys(block.lever for block in over)
    }
    results = []
    for lever in is_on:
        own = [block for block in over if block.lever == lever]
        edges_s = np.array([(block.from_unix_s + WASH_OUT_S, block.until_unix_s) for block in own])
        try:
            values, power_w, excluded = _block_values(connection, own, edges_s, inputs)
        except BadInput as problem:
            results.append(TrialResult(own[0].trial, lever, inputs.now_unix_s, len(own), 0, {}, why=str(problem)))
            continue
        used = ~np.isnan(values)
        outside_c, load = _outside_c(inputs.outside, edges_s), _core_hours(connection, own, edges_s)
        covariates = make_covariates(own, inputs.zone, load=load, outside_c=outside_c)
        covariates |= {f"lever {other}": on for other, on in is_on.items() if other != lever}
        effect = estimate_effect(values[used], is_on[lever][used], {name: of[used] for name, of in covariates.items()})
        result = TrialResult(own[0].trial, lever, inputs.now_unix_s, len(own), int(used.sum()), excluded)
        result = replace(result, partitions=len({block.partition for block in own} - {""}))
        if isinstance(effect, str):
            results.append(replace(result, why=effect))
            continue
        on_w = {block: watts for block, watts in zip(own, power_w, strict=True) if block.is_on and watts > 0}
        modelled = _modelled_percent(connection, on_w) if lever == SLEEP and not result.partitions else None
        results.append(replace(result, effect=effect, modelled_percent=modelled))
    return tuple(results)


def _block_values(
    connection: Connection, blocks: Sequence[TrialBlock], edges_s: Float64, inputs: TrialInputs
) -> tuple[Float64, Float64, Counter[str]]:
    """Return the value and the mean power [W] of each block, NaN if it is excluded, and the reasons."""
    spans = [TimeRange(*edges) for edges in edges_s.tolist()]
    nodes = connection.execute(select(series.c.node).where(series.c.node != "").distinct()).scalars().all()
    within = {"": nodes} | {each: sorted(its.intersection(nodes)) for each, its in inputs.nodes_of.items()}
    uses = spans_energy(connection, spans, [within.get(block.partition, ()) for block in blocks])
    measured = {(block.partition, node) for block, use in zip(blocks, uses, strict=True) for node in use}
    most = Counter(partition for partition, _ in measured)
    values, power_w, excluded = np.full(len(blocks), np.nan), np.full(len(blocks), np.nan), Counter[str]()
    for number, (block, by_node, price) in enumerate(zip(blocks, uses, mean_prices(connection, spans), strict=True)):
        covered = sum(use.covered or 0.0 for use in by_node.values()) / max(most[block.partition], 1)
        energy_j = sum(use.energy_j for use in by_node.values())
        priced_j = energy_j - sum(use.unpriced_j for use in by_node.values())
        paid = sum(use.cost or 0.0 for use in by_node.values())
        if inputs.obeyed_s.get(block.from_unix_s, 0.0) < ENOUGH * (block.until_unix_s - block.from_unix_s):
            excluded[NOT_OBEYED] += 1
        elif covered < ENOUGH or energy_j <= 0:
            excluded[NOT_MEASURED] += 1
        elif block.lever != SLEEP and (priced_j < ENOUGH * energy_j or min(paid, price.price_per_mwh or 0.0) <= 0):
            excluded[NOT_PRICED] += 1
        else:
            power_w[number] = energy_j / covered / (edges_s[number, 1] - edges_s[number, 0])
            paid_per_mwh = paid * J_PER_MWH / max(priced_j, 1.0)
            values[number] = power_w[number] if block.lever == SLEEP else paid_per_mwh / (price.price_per_mwh or 1.0)
    return values, power_w, excluded


def _core_hours(connection: Connection, blocks: Sequence[TrialBlock], edges_s: Float64) -> Float64:
    """Return the core-hours per hour of jobs in each span, of the block's partition, NaN if cores are not known."""
    found = np.full(len(blocks), np.nan)
    columns = (jobs.c.started_unix_s, jobs.c.ended_unix_s, jobs.c.cpus)
    for partition in {block.partition for block in blocks}:
        own = [number for number, block in enumerate(blocks) if block.partition == partition]
        ran = (jobs.c.ended_unix_s > edges_s[own].min()) & (jobs.c.started_unix_s < edges_s[own].max())
        ran &= jobs.c.partition == partition if partition else true()
        rows = [tuple(row) for row in connection.execute(select(*columns).where(ran))]
        started_s, ended_s, cores = np.array(rows, np.float64).reshape(-1, 3).T
        if rows and not np.isnan([started_s, ended_s, cores]).any():
            at_s = np.concatenate([started_s, ended_s])
            order = np.argsort(at_s)
            in_use = np.cumsum(np.concatenate([cores, -cores])[order])[:-1]
            found[own] = _means(at_s[order], in_use, edges_s[own])
    return found


def _outside_c(outside: Series | None, edges_s: Float64) -> Float64:
    """Return the mean temperature of each span, NaN where less than most of it is known."""
    if outside is None:
        return np.full(len(edges_s), np.nan)
    at_s = np.append(outside.start_s, outside.end_s).astype(np.float64)
    known = _means(at_s, outside.known.astype(np.float64), edges_s)
    means = _means(at_s, np.where(outside.known, outside.value, 0.0), edges_s)
    return np.where(known >= ENOUGH, means / np.maximum(known, ENOUGH), np.nan)


def _means(at_s: Float64, value: Float64, edges_s: Float64) -> Float64:
    curve = IntegralCurve(at_s, running_integral(at_s, value))
    return curve.between(edges_s[:, 0], edges_s[:, 1]) / (edges_s[:, 1] - edges_s[:, 0])


def _modelled_percent(connection: Connection, on_w: Mapping[TrialBlock, float]) -> float | None:
    """Return the booked saving of sleeping nodes on these days; None if none is booked, or for half-days."""
    begins = [block.from_unix_s for block in on_w]
    span = TimeRange(min(begins), max(begins) + DAY_S)
    used_j = {
        (each.from_unix_s, each.until_unix_s): watts * (each.until_unix_s - each.from_unix_s)
        for each, watts in on_w.items()
    }
    saved_j = {
        (row["from_unix_s"], row["until_unix_s"]): row["baseline_energy_j"] - row["energy_j"]
        for row in savings_in(connection, span)
        if row["lever"] == SLEEP and not row["is_shadow"] and row["energy_j"] is not None
    }
    saved, used = (sum(each[day] for day in used_j.keys() & saved_j.keys()) for each in (saved_j, used_j))
    return 100 * saved / (saved + used) if used else None


def trial_results(connection: Connection) -> tuple[TrialResult, ...]:
    """Return the results of the trial that was drawn last, as the agent stored them; none before its first day."""
    blocks = read_trial(connection)
    stored = read_memory(connection, f"{RESULTS}{blocks[0].trial}") if blocks else None
    return STORED_RESULTS.validate_json(stored) if stored else ()


STORED_RESULTS = TypeAdapter(tuple[TrialResult, ...])
