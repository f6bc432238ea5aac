"""The paper's figures: Tables 4, 5, 7 and 8 for XSEDE; response in minutes, cost in dollars over 10,000 jobs."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """Mean response [min] and what all jobs cost [USD]."""

    response_min: float
    cost_usd: float


TABLE_4: Mapping[tuple[str, float], Row] = {
    ("mcmf", 25.0): Row(477.5, 224_021.6),
    ("two-price", 25.0): Row(473.3, 232_557.3),
    ("mcmf", 0.0): Row(1095.4, 187_298.9),
    ("inst", 25.0): Row(3460.8, 205_876.5),
    ("baseline", 25.0): Row(633.7, 230_985.6),
}
TABLE_5: Mapping[float, Row] = {
    0.0: Row(458.5, 228_500.0),
    1.0: Row(457.9, 229_000.0),
    3.0: Row(457.4, 230_500.0),
    6.0: Row(462.3, 230_400.0),
    12.0: Row(493.6, 230_200.0),
    24.0: Row(518.5, 229_800.0),
}
"""By the perturbation of waits [h]; the table has the mean cost of a job."""
TABLE_6 = {
    "0-10": (21.83, 83.67, -0.10),
    "10-20": (25.57, 88.23, -0.07),
    "20-30": (25.62, 88.47, -0.28),
    "30-50": (28.81, 87.36, -0.18),
    "50-100": (27.63, 85.48, -0.24),
    "100-200": (29.82, 87.69, -0.46),
    "> 200": (34.56, 90.18, -0.35),
}
"""By the error of the estimated run time [%]: how much shorter the response is than under baseline, INST, TWOPRICE."""
TABLE_7: Mapping[tuple[str, float], Row] = {
    ("mcmf", 25.0): Row(518.2, 229_784.7),
    ("baseline", 25.0): Row(678.4, 225_085.7),
    ("mcmf", 20.0): Row(640.7, 220_479.4),
    ("two-price", 25.0): Row(499.0, 234_341.7),
    ("inst", 25.0): Row(1172.5, 201_411.5),
}
TABLE_8 = {
    "lower than HPL": (220_766.14, 197_803.79, 230_634.33, 225_568.33),
    "average HPL": (225_085.79, 199_142.72, 233_869.51, 228_040.67),
    "higher than HPL": (229_355.91, 201_035.58, 236_758.28, 231_575.37),
}
"""Cost [USD] of baseline, INST, TWOPRICE and MCMF by the jobs' power."""
ERROR_EDGES_PCT = (10, 20, 30, 50, 100, 200)
SIZE_EDGES_CORE_H = (512, 4096)
"""Section 5.4: small, medium and large jobs."""
