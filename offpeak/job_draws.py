"""Finds what the jobs of one log draw: as set, else as measured, else as assumed; by chance where a rule says so."""

from dataclasses import dataclass

from numpy.random import Generator

from offpeak.job_power import WITHOUT_READINGS, default_power_model, node_power_w, parse_power_model, power_notes
from offpeak.jobs import Float64, Jobs
from offpeak.node_class import NodeClass
from offpeak.power_models import Classes, Measured, PowerModel, Uniform
from offpeak.settings import PowerSettings


@dataclass(frozen=True)
class JobPower:
    """How the jobs' draw is found. `assumed` says that it was neither measured nor set."""

    model: PowerModel
    jobs: Jobs
    units_per_node: int
    assumed: bool
    notes: tuple[str, ...]

    @property
    def is_drawn(self) -> bool:
        """Whether chance has a part in it, so that another seed gives other draws."""
        return isinstance(self.model, Uniform | Classes)

    def draw_w(self, seed: int | Generator) -> Float64:
        """Return each job's draw per unit [W]; another seed is another draw where the rule leaves it to chance."""
        drawn_w = node_power_w(self.model, self.jobs, seed)
        return drawn_w if isinstance(self.model, Measured) else drawn_w / self.units_per_node


LEAST_UTILISATION = 0.5
"""Where nothing is known of a job but its kind of node, it is taken to use half of the node or more."""


def job_power_of(
    jobs: Jobs, power: PowerSettings, units_per_node: int, node_class: NodeClass | None = None
) -> JobPower:
    """Return the rule of the settings, else what the log measured, else an assumption for the class of the nodes."""
    if power.job:
        model, said = parse_power_model(power.job), power.job
    else:
        model = default_power_model(jobs, without_readings(node_class))
        said = "measured in the log" if model == Measured() else f"the log has none, assumed {_assumption(model)}"
    assumed = power.job is None and model != Measured()
    return JobPower(model, jobs, units_per_node, assumed, (f"power of jobs: {said}", *power_notes(model, jobs)))


def without_readings(node_class: NodeClass | None) -> Uniform:
    """Return what jobs are assumed to draw where nothing was measured or set."""
    if node_class is None:
        return WITHOUT_READINGS
    return Uniform(node_class.running_w(LEAST_UTILISATION), node_class.running_w(1.0))


def _assumption(model: PowerModel) -> str:
    assert isinstance(model, Uniform)
    return f"{model.low_w:g} to {model.high_w:g} W per node"
