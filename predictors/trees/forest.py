"""A forest of regression trees as plain arrays, and the kernel that walks through it.

A prediction needs nothing of scikit-learn, which trains the forest and is loaded only then: from the latest outcomes
and on a schedule. Without it predictors keep their initial predictions, and commands name the missing package.

Histogram gradient boosting: Ke et al., "LightGBM: a highly efficient gradient boosting decision tree", NeurIPS 2017;
Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29, 2001.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, index
from offpeak.model.arrays import Float64
from offpeak.predictors.port import State, check_state, scalar_array

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
        raise ValueError("is not a forest of trees")
    return forest


def _walkable(forest: Forest, inner: NDArray[np.intp]) -> bool:
    trees, nodes = forest.trees, len(forest.trees.feature)
    children = np.stack([trees.left[inner], trees.right[inner]]) if len(inner) else np.empty((2, 0), np.int32)
    ahead = bool((children > inner).all() and (children < nodes).all())
    answer = trees.feature[inner]
    known = bool((answer >= 0).all() and (answer < forest.columns).all())
    rooted = bool((trees.roots >= 0).all() and (trees.roots < nodes).all())
    return ahead and known and rooted and bool(np.isfinite(trees.value).all()) and bool(np.isfinite(forest.baseline))


def can_grow() -> bool:
    """Whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def no_trees() -> str:
    """Return the basis text before the first forest."""
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
class TrainingData:
    """The training data of a forest: features float64[n, columns] with NaN where unknown, and targets float64[n]."""

    features: Float64
    target: Float64

    def __len__(self) -> int:
        return len(self.target)


def grow(lessons: TrainingData, growth: Growth) -> Forest:
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
        features = lessons.features
        empty = np.isnan(features).all(axis=0)
        return extract_forest(model.fit(np.where(empty, 0.0, features) if empty.any() else features, lessons.target))


def extract_forest(model: Any) -> Forest:
    """Return the trees of a fitted HistGradientBoostingRegressor without categorical features."""
    trees = [tree.nodes for (tree,) in model._predictors]
    first = np.cumsum([0, *map(len, trees)])
    nodes = np.concatenate(trees)
    shift = np.repeat(first[:-1], np.diff(first))
    leaf = nodes["is_leaf"].astype(bool)
    columns = TreeColumns(
        feature=np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int32),
        threshold=nodes["num_threshold"].astype(np.float64),
        left=(nodes["left"] + shift).astype(np.int32),
        right=(nodes["right"] + shift).astype(np.int32),
        missing_left=nodes["missing_go_to_left"].astype(np.bool_),
        value=nodes["value"].astype(np.float64),
        roots=first[:-1].astype(np.int32),
    )
    return Forest(columns, float(np.squeeze(model._baseline_prediction)), int(model.n_features_in_))


FIRST_ROWS = 1024


@dataclass(frozen=True)
class GrowthSchedule:
    """Forests are grown from `least` outcomes on, then after a `growth` by that share, within `least` and `most`."""

    least: int = 500
    growth: float = 0.2
    most: int = 50_000

    def next_after(self, outcomes: int) -> int:
        """Return at how many outcomes the next forest is due, if one was grown at `outcomes`."""
        return outcomes + min(self.most, max(self.least, int(self.growth * outcomes)))


LEARN_ONCE = GrowthSchedule(growth=1.0)
"""For a caller that learns a whole log and predicts once: most forests in between would never be used."""


class TrainingHistory:
    """A ring of the `most` latest rows of features and targets."""

    def __init__(self, columns: int, most: int) -> None:
        self._features = np.empty((min(FIRST_ROWS, most), columns))
        self._target = np.empty(len(self._features))
        self._most = most
        self.count = 0

    def add(self, features: Float64, target: float) -> None:
        """Add one row, float64[columns]."""
        if self.count == len(self._target) < self._most:
            self._widen(min(2 * self.count, self._most))
        at = self.count % len(self._target)
        self._features[at] = features
        self._target[at] = target
        self.count += 1

    def lessons(self) -> TrainingData:
        """Return a copy of the rows, from which another thread grows a forest."""
        held = min(self.count, len(self._target))
        return TrainingData(self._features[:held].copy(), self._target[:held].copy())

    def state(self) -> State:
        """Return the rows and the number of all rows so far."""
        lessons = self.lessons()
        return {"features": lessons.features, "target": lessons.target, "count": scalar_array(self.count)}

    def restore(self, state: State) -> None:
        """Restore rows."""
        features, target, count = state["features"], state["target"], int(state["count"])
        held, columns = min(count, self._most), self._features.shape[1]
        check_state(is_so=features.shape == (held, columns) and target.shape == (held,), what="rows of another shape")
        self._features, self._target = np.empty((0, columns)), np.empty(0)
        self._widen(max(held, min(FIRST_ROWS, self._most)))
        self._features[:held], self._target[:held] = features, target
        self.count = count

    def _widen(self, rows: int) -> None:
        more = rows - len(self._target)
        self._features = np.concatenate([self._features, np.empty((more, self._features.shape[1]))])
        self._target = np.concatenate([self._target, np.empty(more)])
