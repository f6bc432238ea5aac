"""The learned rule: gradient-boosted trees for needs, fitted to a replay in which no node sleeps."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.sleep_rules.needs import (
    FEATURES,
    HORIZONS_S,
    Float32,
    Memory,
    NodePrices,
    Queue,
    Trees,
    decide,
    describe,
    new_memory,
    observe,
    observed_needs,
    predict_needs,
)
from benchmarks.sleep_rules.replays import STEP_S, Decide, Part, run
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.engine.state import SLOTS, State

EVERY, MOST_ROWS = 4, 300_000
TREES, LEAVES, LEARNING_RATE = 50, 31, 0.15
HORIZON_COLUMN = 14
RANK_COLUMNS = (0, 1)


def queue_of(state: State, power: Power) -> Queue:
    """Return the engine's queue and running jobs."""
    now_s, group = state.scalars["now_s"][0], state.groups[0]
    return Queue(
        int(now_s), int(group["head"]), int(group["tail"]), int(group["listed"]),
        int(power.scalars[0]["units_per_node"]), state.waiting.size, state.slots.pieces, state.slots.expected_end_s,
        state.expected,
    )  # fmt: skip


@dataclass(frozen=True)
class Observations:
    """Features float32[n, FEATURES] of blocks at moments, and what came: the share used, and the jobs that ended."""

    features: Float32
    used: Float64
    tops: Float64


def observations(part: Part, seed: int) -> Observations:
    """Return what a replay without sleep shows, at every EVERY-th moment after two weeks."""
    memory = new_memory(part)
    blocks = len(memory.tops)
    rows: list[tuple[int, int, int, Float32]] = []
    first_s = int(part.jobs.submit_s[0]) + 14 * DAY_S
    last_s = int(part.jobs.submit_s[-1]) - int(HORIZONS_S[-1])

    def watch(state: State, power: Power) -> tuple[int, int]:
        queue = queue_of(state, power)
        needed = observe(memory, queue)
        if first_s <= queue.now_s <= last_s and memory.moments[0] % EVERY == 0:
            features = np.full((blocks, len(HORIZONS_S), FEATURES), np.nan, dtype=np.float32)
            describe(memory, queue, needed, features)
            rows.append((queue.now_s, needed, part.machine.size - int(state.free[SLOTS, 0]), features))
        return part.machine.nodes, part.machine.nodes

    schedule = run(part, Decide("timeout:10min", STEP_S, 0, watch))
    started = schedule.start_s >= 0
    start_s, end_s, size = schedule.start_s[started], schedule.end_s[started], part.jobs.size[started]
    at_s = np.concatenate([end_s, start_s])
    change = np.concatenate([-size, size])
    order = np.lexsort([change, at_s])
    moment_s, needed, units = (np.array([row[column] for row in rows], dtype=np.int64) for column in range(3))
    used, tops = observed_needs(
        at_s[order], change[order], moment_s, needed, units, memory.tops, part.machine.units_per_node
    )
    features = np.stack([row[3] for row in rows]).reshape(-1, FEATURES)
    exists = np.flatnonzero(~np.isnan(features[:, 0]))
    if len(exists) > MOST_ROWS:
        exists = np.sort(np.random.default_rng(seed).choice(exists, MOST_ROWS, replace=False))
    return Observations(features[exists], used.reshape(-1)[exists], tops.reshape(-1)[exists])


@dataclass(frozen=True)
class NeedModel:
    """The two fitted models: of the share of a block that is used, and of the jobs that end in it."""

    used: Trees
    tops: Trees


def fit(seen: Sequence[Observations], seed: int) -> NeedModel:
    """Return the models of the observations of one or several logs, each log with the same weight."""
    features = np.concatenate([each.features for each in seen])
    weight = np.concatenate([np.full(len(each.used), 1 / len(each.used)) for each in seen])
    weight *= len(weight) / weight.sum()
    rises = [0] * FEATURES
    rises[HORIZON_COLUMN] = 1
    falls = rises.copy()
    falls[RANK_COLUMNS[0]] = -1
    models = []
    for loss, wanted, monotonic in (
        ("squared_error", np.concatenate([each.used for each in seen]), falls),
        ("poisson", np.concatenate([each.tops for each in seen]), rises),
    ):
        model = HistGradientBoostingRegressor(
            loss=loss, max_iter=TREES, max_leaf_nodes=LEAVES, learning_rate=LEARNING_RATE, min_samples_leaf=200,
            monotonic_cst=monotonic, random_state=seed, early_stopping=False,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(features, wanted, sample_weight=weight)
        models.append(trees_of(model))
    return NeedModel(*models)


def trees_of(model: HistGradientBoostingRegressor) -> Trees:
    """Return a fitted model as arrays."""
    tables = [stage[0].nodes for stage in model._predictors]
    root = np.cumsum([0, *(len(table) for table in tables[:-1])])
    join = {
        name: np.concatenate([table[name] for table in tables]) for name in ("feature_idx", "num_threshold", "value")
    }
    leaf = np.concatenate([table["is_leaf"] for table in tables]).astype(bool)
    left, right = (
        np.concatenate([table[side].astype(np.int64) + begin for table, begin in zip(tables, root, strict=True)])
        for side in ("left", "right")
    )
    feature = np.where(leaf, -1, join["feature_idx"].astype(np.int64))
    baseline = float(np.ravel(model._baseline_prediction)[0])
    return Trees(root, feature, join["num_threshold"].astype(float), left, right, join["value"].astype(float), baseline)


def learned_rule(part: Part, model: NeedModel, prices: NodePrices, late: bool = True) -> Decide:
    """Return the rule for one replay of a part."""
    memory = new_memory(part)
    shape = (len(memory.tops), len(HORIZONS_S))
    features = np.zeros((*shape, FEATURES), dtype=np.float32)
    used, tops = np.zeros(shape), np.zeros(shape)

    def rule(state: State, power: Power) -> tuple[int, int]:
        queue = queue_of(state, power)
        needed = observe(memory, queue)
        blocks = describe(memory, queue, needed, features)
        predict_needs(model.used, model.tops, features, blocks, used, tops)
        return by_cost(memory, used, tops, blocks, needed, power, prices)

    return Decide("forecast-late" if late else "forecast", STEP_S, STEP_S, rule)


def by_cost(
    memory: Memory, used: Float64, tops: Float64, blocks: int, needed: int, power: Power, prices: NodePrices
) -> tuple[int, int]:
    """Return how many idle nodes stay awake, and how many must be awake."""
    free = len(memory.used_s) - needed
    idle = int(power.scalars[0]["idle_nodes"] + power.scalars[0]["rising_idle"])
    keep, reserve = decide(memory.tops, used, tops, blocks, free, idle, prices)
    return int(keep), int(reserve)
