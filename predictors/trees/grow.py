"""Grows forests by gradient boosting with scikit-learn, which is loaded only when a forest is grown.

Without it predictors go on with what they say before the first forest, and commands name what is missing.

Histogram gradient boosting: Ke et al., "LightGBM: a highly efficient gradient boosting decision tree", NeurIPS 2017;
Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29, 2001.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from offpeak.model.arrays import Float64
from predictors.trees.forest import LEAF, Forest


def can_grow() -> bool:
    """Whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def no_trees() -> str:
    """Return what answers rest on before the first forest."""
    return "no trees yet" if can_grow() else "no trees: scikit-learn is not installed"


@dataclass(frozen=True)
class Growth:
    """How a forest is grown; `loss` decides whether it answers with the mean or the median of like cases.

    Leaves of at least 40 outcomes, 16 a tree, err less than the library's 20 and 31 on all seven logs tried, for run
    times as for waits, and need two thirds of the time.
    """

    loss: Literal["squared_error", "absolute_error"] = "absolute_error"
    trees: int = 100
    leaves: int = 16
    rate: float = 0.1
    least_rows: int = 40


@dataclass(frozen=True, eq=False)
class Lessons:
    """What a forest is grown from: features float64[n, columns] with NaN where unknown, and targets float64[n]."""

    features: Float64
    target: Float64

    def __len__(self) -> int:
        return len(self.target)


def grow(lessons: Lessons, growth: Growth) -> Forest:
    """Return the forest of these lessons; the same lessons give the same forest. It may run in another process.

    It keeps to one processor, because a head node has other things to do and sums then have one order.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingRegressor(
        loss=growth.loss,
        learning_rate=growth.rate,
        max_iter=growth.trees,
        max_leaf_nodes=growth.leaves,
        min_samples_leaf=growth.least_rows,
        early_stopping=False,
        random_state=0,
    )
    with threadpool_limits(1):
        return forest_of(model.fit(_without_empty_columns(lessons.features), lessons.target))


def _without_empty_columns(features: Float64) -> Float64:
    """Return the features with 0 in columns that hold nothing but NaN, which scikit-learn cannot divide into bins."""
    empty = np.isnan(features).all(axis=0)
    return np.where(empty, 0.0, features) if empty.any() else features


def forest_of(model: Any) -> Forest:
    """Return the trees of a fitted HistGradientBoostingRegressor without categorical features."""
    trees = [tree.nodes for (tree,) in model._predictors]
    first = np.cumsum([0, *map(len, trees)])
    nodes = np.concatenate(trees)
    shift = np.repeat(first[:-1], np.diff(first))
    leaf = nodes["is_leaf"].astype(bool)
    return Forest(
        feature=np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int32),
        threshold=nodes["num_threshold"].astype(np.float64),
        left=(nodes["left"] + shift).astype(np.int32),
        right=(nodes["right"] + shift).astype(np.int32),
        missing_left=nodes["missing_go_to_left"].astype(np.bool_),
        value=nodes["value"].astype(np.float64),
        roots=first[:-1].astype(np.int32),
        baseline=float(np.squeeze(model._baseline_prediction)),
        columns=int(model.n_features_in_),
    )
