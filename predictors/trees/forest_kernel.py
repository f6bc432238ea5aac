"""The walk through the trees of a forest."""

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, index
from offpeak.model.arrays import Float64

Int32 = NDArray[np.int32]


@in_place
def add_up(
    feature: Int32,
    threshold: Float64,
    left: Int32,
    right: Int32,
    missing_left: NDArray[np.bool_],
    value: Float64,
    roots: Int32,
    questions: Float64,
    answer: Float64,
) -> None:
    """Add to `answer` float64[n] what each tree says to the `questions` float64[n, columns], tree by tree."""
    for row in range(len(questions)):
        for root in roots:
            node = index(root)
            while feature[node] >= 0:
                asked = questions[row, index(feature[node])]
                goes_left = missing_left[node] if np.isnan(asked) else asked <= threshold[node]
                node = index(left[node] if goes_left else right[node])
            answer[row] += value[node]
