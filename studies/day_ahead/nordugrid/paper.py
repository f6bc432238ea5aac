"""The paper's figures for NorduGrid: Table 4, and what Figure 9 is said to show."""

from collections.abc import Mapping
from dataclasses import dataclass

TIME_PCT = 92.5
"""The weight of time that the paper chose for NorduGrid [%]: section 5.7.1."""
JOBS = 126_344


@dataclass(frozen=True)
class Row:
    """Mean response [min] and what all jobs cost [EUR]."""

    response_min: float
    cost: float


TABLE_4: Mapping[str, Row] = {
    "baseline": Row(1900.3, 16_608.3),
    "MCMF, w_t = 92.5 %": Row(1678.6, 12_819.6),
    "TWOPRICE, w_t = 92.5 %": Row(1724.4, 12_991.7),
    "INST": Row(5210.2, 14_613.6),
}
