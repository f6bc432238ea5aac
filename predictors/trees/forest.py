"""A forest of regression trees as plain arrays, and the kernel that walks through it.

A prediction needs nothing of the library that trained the forest.
"""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, index
from offpeak.model.arrays import Float64
from predictors.port import State

Int32 = NDArray[np.int32]


class TreeColumns(NamedTuple):
    """The nodes of all trees and the root of each, as the kernel takes them: see `Forest`."""

    feature: Int32
    threshold: Float64
    left: Int32
    right: Int32
    missing_left: NDArray[np.bool_]
    value: Float64
    roots: Int32


@in_place
def add_tree_answers(trees: TreeColumns, features: Float64, answer: Float64) -> None:
    """Add to `answer` float64[n] the value of each tree at the `features` float64[n, columns], tree by tree."""
    feature, threshold, left, right, missing_left, value, roots = trees
    for row in range(len(features)):
        for root in roots:
            node = index(root)
            while feature[node] >= 0:
                at_node = features[row, index(feature[node])]
                goes_left = missing_left[node] if np.isnan(at_node) else at_node <= threshold[node]
                node = index(left[node] if goes_left else right[node])
            answer[row] += value[node]


LEAF = -1
ARRAYS = ("feature", "threshold", "left", "right", "missing_left", "value", "roots")


@dataclass(frozen=True, eq=False)
class Forest:
    """The nodes of all trees in one row of columns; children stand behind their parent, so that every walk ends.

    A node compares column `feature` with `threshold` and continues at `left` if it is not greater, else at `right`; for
    NaN `missing_left` decides. `feature` is LEAF where the tree ends in `value`. An answer is `baseline` plus the final
    value of each tree from its node in `roots`. `columns` is the number of features of a question.
    """

    feature: Int32
    threshold: Float64
    left: Int32
    right: Int32
    missing_left: NDArray[np.bool_]
    value: Float64
    roots: Int32
    baseline: float
    columns: int

    def answer(self, features: Float64) -> Float64:
        """Return float64[n] for questions float64[n, columns]."""
        found = np.full(len(features), self.baseline)
        trees = TreeColumns(
            feature=self.feature,
            threshold=self.threshold,
            left=self.left,
            right=self.right,
            missing_left=self.missing_left,
            value=self.value,
            roots=self.roots,
        )
        add_tree_answers(trees, features, found)
        return found


DTYPES = {"threshold": np.float64, "value": np.float64, "missing_left": np.bool_}


def forest_state(forest: Forest | None) -> State:
    """Return the forest as a state, an empty one if there is none."""
    return {column.name: np.asarray(getattr(forest, column.name)) for column in fields(Forest)} if forest else {}


def restore_forest(state: State, columns: int) -> Forest | None:
    """Return what `state_of` returned. Raises ValueError unless a walk through it can neither leave the arrays nor go
    on for ever, and a question has so many `columns`."""
    if not state:
        return None
    arrays: dict[str, Any] = {name: np.array(state[name], DTYPES.get(name, np.int32)) for name in ARRAYS}
    forest = Forest(**arrays, baseline=float(state["baseline"]), columns=int(state["columns"]))
    nodes = len(forest.feature)
    same_length = all(arrays[name].shape == (nodes,) for name in ARRAYS if name != "roots")
    inner = np.flatnonzero(forest.feature != LEAF) if same_length else None
    if inner is None or forest.columns != columns or not _walkable(forest, inner):
        raise ValueError("is no forest of trees")
    return forest


def _walkable(forest: Forest, inner: NDArray[np.intp]) -> bool:
    nodes = len(forest.feature)
    children = np.stack([forest.left[inner], forest.right[inner]]) if len(inner) else np.empty((2, 0), np.int32)
    ahead = bool((children > inner).all() and (children < nodes).all())
    answer = forest.feature[inner]
    known = bool((answer >= 0).all() and (answer < forest.columns).all())
    rooted = bool((forest.roots >= 0).all() and (forest.roots < nodes).all())
    return ahead and known and rooted and bool(np.isfinite(forest.value).all()) and bool(np.isfinite(forest.baseline))
