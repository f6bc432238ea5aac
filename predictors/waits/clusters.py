"""Clusters among the jobs most like a job: DBSCAN over distance and wait, and what the tight ones say.

Source of the method: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.1.
The paper gives no numbers: those here are of the authors' published program (mcmf-metascheduler-predictors).
"""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64

REACH = 0.04
"""Two points of a cluster are so near: difference in distance plus difference in wait over the range of waits."""
NEAR = 0.2
STRAY_SHARE = 0.3
STEP = 0.04
STRAY = -1
NO_ANSWER = -1.0


@kernel
def clustered_wait_s(distance: Float64, wait_s: Float64) -> float:
    """Return the weighted mean wait of the jobs most like the asked one, NO_ANSWER unless they are alike and agree."""
    extent_s = wait_s.max() - wait_s.min()
    limit = np.partition(distance, len(distance) // 100)[len(distance) // 100]
    near = np.flatnonzero(distance <= limit)[: len(distance) // 100 + 1]
    label = clusters(distance[near], wait_s[near] / (extent_s if extent_s > 0 else 1.0))
    if not _tight(distance[near].mean(), label):
        return NO_ANSWER
    told = np.ones(len(distance), dtype=np.bool_)
    told[near[label == STRAY]] = False
    return _steadiest_mean(distance[told], wait_s[told], distance.min())


@kernel
def clusters(distance: Float64, share: Float64) -> Int64:
    """Return the cluster of each point, STRAY for those alone: DBSCAN with two points to a core, so that all that are
    linked by steps within REACH belong together."""
    label = np.full(len(distance), STRAY)
    unseen = np.empty(len(distance), dtype=np.int64)
    for first in range(len(distance)):
        if label[first] == STRAY:
            unseen[0] = first
            left = 1
            while left > 0:
                left -= 1
                left = _link(unseen, left, first, label, np.abs(distance - distance[unseen[left]]), share)
    return label


@kernel
def _link(unseen: Int64, left: int, first: int, label: Int64, apart: Float64, share: Float64) -> int:
    """Label the strays within reach of the point at `left` of `unseen` and list them; return how many are listed."""
    point = unseen[left]
    for other in range(len(label)):
        if other != point and label[other] == STRAY and apart[other] + abs(share[other] - share[point]) <= REACH:
            label[point] = label[other] = first
            unseen[left] = other
            left += 1
    return left


@kernel
def _tight(mean_distance: float, label: Int64) -> bool:
    """Say whether the nearest jobs are alike, the less so the fewer strays are among them."""
    strays = (label == STRAY).sum()
    if strays == 0:
        return bool(mean_distance < NEAR + 0.1)
    found = max(len(np.unique(label)) - 1, 1)
    return bool(mean_distance <= NEAR and strays < STRAY_SHARE * (len(label) - strays) / found)


@kernel
def _steadiest_mean(distance: Float64, wait_s: Float64, nearest: float) -> float:
    """Return the weighted mean of the ring of width STEP whose waits spread least; NO_ANSWER if none holds two jobs."""
    answer, least = NO_ANSWER, np.inf
    for ring in range(int(np.ceil((NEAR - STEP - nearest) / STEP))):
        begin = nearest + ring * STEP
        inside = (distance >= begin) & (distance < begin + STEP)
        if inside.sum() > 1 and wait_s[inside].std() < least:
            least = wait_s[inside].std()
            weight = np.exp(-(distance[inside] ** 2))
            answer = (weight * wait_s[inside]).sum() / weight.sum()
    return float(answer)
