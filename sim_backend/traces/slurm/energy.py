"""What jobs drew, as Slurm measured it: their own energy, else that of their steps."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offpeak.model.arrays import Float64, Int64
from sim_backend.traces.slurm.columns import ENERGIES, first_of
from sim_backend.traces.slurm.ids import id_column, ids_of_parents
from sim_backend.traces.slurm.values import energy_j

HIGHEST_NODE_W = 20_000.0
"""No node draws more: failing sensors report such energies, 4294967294 J or 18446744073709551614 J."""


def energy_of(fields: pa.Table) -> Float64:
    """Return the energy [J] that each line tells, NaN where it tells none or a zero."""
    name = first_of(ENERGIES, tuple(fields.column_names))
    if name is None:
        return np.full(len(fields), np.nan)
    energy = energy_j(fields[name].combine_chunks())
    return np.where(energy > 0, energy, np.nan)


def step_lines(fields: pa.Table, row: Int64) -> pa.Table:
    """Return the steps with an energy: the `number` and `id` of their jobs (see ids), `row`, energy_j, is_extern."""
    energy = energy_of(fields)
    measured = np.flatnonzero(energy > 0)
    fields = fields.take(pa.array(measured))
    ids = ids_of_parents(fields)
    is_extern = pc.ends_with(fields[id_column(fields)], ".extern").combine_chunks()
    columns = {"number": ids.number, "id": ids.name, "row": row[measured], "energy_j": energy[measured]}
    return pa.table(columns | {"is_extern": is_extern})


def plausible(energy_j: Float64, *, nodes: Int64, runtime_s: Int64) -> Float64:
    """Return the energies [J], NaN for those that `nodes` cannot have used in that time."""
    return np.where(energy_j <= HIGHEST_NODE_W * nodes * runtime_s, energy_j, np.nan)


def room(columns: Mapping[str, Int64]) -> dict[str, Int64]:
    """Return on what and how long jobs can have used energy, for `plausible`."""
    nodes = columns["nodes"]
    return {
        "nodes": np.where(nodes > 0, nodes, columns["processors"]),
        "runtime_s": np.maximum(columns["runtime_s"], 1),
    }


def with_energy_of_steps(energy_j: Float64, number: Int64, row: Int64, steps: pa.Table, step_number: Int64) -> Float64:
    """Return the energies of jobs [J], where they are NaN the sum of their steps'.

    A step belongs to the last line of its job before it, as `sacct` writes them, else to the first after it. Where a
    job has an extern step that alone counts, as for Slurm itself: it lasts as long as the job, on all of its nodes.
    """
    if not len(steps) or not np.isnan(energy_j).any():
        return energy_j
    run = _run_of_step(number, row, steps["row"].to_numpy(), step_number)
    known, extern = run >= 0, steps["is_extern"].to_numpy()
    step_j, jobs = steps["energy_j"].to_numpy(), len(number)
    of_all = np.bincount(run[known], step_j[known], jobs)
    of_extern = np.bincount(run[known & extern], step_j[known & extern], jobs)
    sum_j = np.where(of_extern > 0, of_extern, of_all)
    return np.where(np.isnan(energy_j) & (sum_j > 0), sum_j, energy_j)


def _run_of_step(number: Int64, row: Int64, step_row: Int64, step_number: Int64) -> Int64:
    """Return the index of each step's job, -1 for steps of jobs that are not there."""
    order = np.lexsort((row, number))
    numbers, span = number[order], 1 + int(max(row.max(initial=0), step_row.max(initial=0)))
    first = np.searchsorted(numbers, step_number, side="left")
    last = np.searchsorted(numbers, step_number, side="right") - 1
    before = np.searchsorted(numbers * span + row[order], step_number * span + step_row) - 1
    place = np.clip(before, first, np.maximum(last, first))
    return np.where(last >= first, np.append(order, -1)[place], -1)
