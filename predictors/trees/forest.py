"""A forest of regression trees as plain arrays, and the kernel that walks through it.

A prediction needs nothing of the library that trained the forest.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, index
from offpeak.model.arrays import Float64
from predictors.port import State

Int32 = NDArray[np.int32]


class TreeColumns(NamedTuple):
    """The nodes of all trees in one row of columns; children stand behind their parent, so that every walk ends.

    A node compares column `feature` with `threshold` and continues at `left` if it is not greater, else at `right`; for
    NaN `missing_left` decides. `feature` is LEAF where the tree ends in `value`. `roots` are the first nodes of trees.
    """

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


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose final values, added to `baseline`, are an answer; a question has so many features as `columns`."""

    trees: TreeColumns
    baseline: float
    columns: int

    def answer(self, features: Float64) -> Float64:
        """Return float64[n] for questions float64[n, columns]."""
        found = np.full(len(features), self.baseline)
        add_tree_answers(self.trees, features, found)
        return found


DTYPES = {"threshold": np.float64, "value": np.float64, "missing_left": np.bool_}


def forest_state(forest: Forest | None) -> State:
    """Return the forest as a state, an empty one if there is none."""
    if forest is None:
        return {}
    return {**forest.trees._asdict(), "baseline": np.asarray(forest.baseline), "columns": np.asarray(forest.columns)}


def restore_forest(state: State, columns: int) -> Forest | None:
    """Return what `state_of` returned. Raises ValueError unless a walk through it can neither leave the arrays nor go
    on for ever, and a question has so many `columns`."""
    if not state:
        return None
    arrays: dict[str, Any] = {name: np.array(state[name], DTYPES.get(name, np.int32)) for name in TreeColumns._fields}
    trees = TreeColumns(**arrays)
    forest = Forest(trees, baseline=float(state["baseline"]), columns=int(state["columns"]))
    same_length = all(array.shape == (len(trees.feature),) for name, array in arrays.items() if name != "roots")
    inner = np.flatnonzero(trees.feature != LEAF) if same_length else None
    if inner is None or forest.columns != columns or not _walkable(forest, inner):
        raise ValueError("is no forest of trees")
    return forest


def _walkable(forest: Forest, inner: NDArray[np.intp]) -> bool:
    trees, nodes = forest.trees, len(forest.trees.feature)
    children = np.stack([trees.left[inner], trees.right[inner]]) if len(inner) else np.empty((2, 0), np.int32)
    ahead = bool((children > inner).all() and (children < nodes).all())
    answer = trees.feature[inner]
    known = bool((answer >= 0).all() and (answer < forest.columns).all())
    rooted = bool((trees.roots >= 0).all() and (trees.roots < nodes).all())
    return ahead and known and rooted and bool(np.isfinite(trees.value).all()) and bool(np.isfinite(forest.baseline))
