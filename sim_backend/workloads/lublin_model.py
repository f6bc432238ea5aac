"""The parameters of the Lublin and Feitelson workload model, one frozen value for each kind of job."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gamma:
    """A gamma distribution."""

    shape: float
    scale: float


@dataclass(frozen=True)
class Lublin:
    """The model's parameters for one kind of job.

    Log2 sizes of parallel jobs are uniform in lowest..medium (with `small` probability) or medium..highest, where
    highest lies `highest_below` the machine's log2 size and medium `medium_below` highest. Log run times [ln s] are
    `short` with probability `short_slope * size + short_at_0`, else `long`. Log gaps [ln s] are `gap`, half hours of
    arrival are `half_hour`.
    """

    serial: float
    power_of_two: float
    lowest: float
    medium_below: float
    highest_below: float
    small: float
    short: Gamma
    long: Gamma
    short_slope: float
    short_at_0: float
    gap: Gamma
    half_hour: Gamma


BATCH = Lublin(
    serial=0.2927,
    power_of_two=0.6686,
    lowest=1.2,
    medium_below=2.0,
    highest_below=0.0,
    small=0.875,
    short=Gamma(6.57, 0.823),
    long=Gamma(639.1, 0.0156),
    short_slope=-0.003,
    short_at_0=0.6986,
    gap=Gamma(6.0415 * 1.0519, 0.8531),
    half_hour=Gamma(6.1271, 5.2740),
)
INTERACTIVE = Lublin(
    serial=0.1541,
    power_of_two=0.625,
    lowest=1.0,
    medium_below=2.5,
    highest_below=1.5,  # 45 of the program's 128 nodes
    small=0.705,
    short=Gamma(3.8351, 0.6605),
    long=Gamma(7.073, 0.6856),
    short_slope=-0.0118,
    short_at_0=0.9156,
    gap=Gamma(6.5510 * 0.9797, 0.6621),
    half_hour=Gamma(8.9186, 3.6680),
)
# Batch and interactive jobs together: what the model's program makes when it does not tell them apart.
TYPELESS = Lublin(
    serial=0.244,
    power_of_two=0.576,
    lowest=0.8,
    medium_below=2.5,
    highest_below=0.0,
    small=0.86,
    short=Gamma(4.2, 0.94),
    long=Gamma(312.0, 0.03),
    short_slope=-0.0054,
    short_at_0=0.78,
    gap=Gamma(10.2303 * 1.0225, 0.4871),
    half_hour=Gamma(8.1737, 3.9631),
)
