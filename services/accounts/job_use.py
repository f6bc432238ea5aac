"""The energy of a job and its cost: measured on its nodes, by its share of them, and modelled for the rest.

A job's GPUs are idle, busy, or not known to be either. Meters know the GPUs of a node, and not which of them a job has
that shares the node. Of such a job's GPU-seconds those are idle for certain that the other GPUs cannot account for:
with two of four GPUs, of which three are idle all the time, one is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from offpeak.errors import BadInput
from offpeak.ledger.energy_use import EnergySums, EnergyUse, UsePeriod
from offpeak.ledger.meter_choice import gpu_series
from offpeak.ledger.node_energy import spans_energy, sum_series
from offpeak.ledger.prices import MeanPrice, mean_prices, slot_intensities
from offpeak.ledger.rows import JobGpus, JobUse
from offpeak.machines.node_sets import expand
from offpeak.model.constants import J_PER_KWH, J_PER_MWH
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import Job
from offpeak.services.accounts.ended_jobs import EndedJob
from offpeak.services.accounts.job_draws import JobDraw, shares

GpuSums = dict[str, dict[str, list[EnergySums]]]
"""The GPUs of a node by meter, and "idle" or "busy"."""
PRICED = 0.9
"""The least priced share of the time of a job with a cost; the rest is charged at the mean price. CO2 likewise."""
ALL, NONE = 0.995, 0.005


@dataclass(frozen=True)
class BookedJob:
    """A job in the accounts, and the measured share of its time on its nodes, 0..1."""

    ended: EndedJob
    use: JobUse
    measured: float

    @property
    def node_w(self) -> float | None:
        """The power of the job per node [W], its own share; None unless most of it was measured."""
        job, seconds = self.ended.job, self.use.ended_unix_s - self.use.started_unix_s
        if self.measured < PRICED or self.use.energy_j is None or seconds <= 0:
            return None
        return self.use.energy_j / seconds / max(1, job.nodes)


def measure_jobs(
    connection: Connection, ended: Sequence[EndedJob], cpus: Mapping[str, int], expected: Mapping[str, JobDraw]
) -> list[BookedJob]:
    """Return the use of jobs that have ended by the ledger; time without readings counts with the `expected` power.

    Raises BadInput if prices of that time are in two currencies, or a node set cannot be read.
    """
    ran = [ended_job for ended_job in ended if _node_s(ended_job.job) > 0]
    spans = [TimeRange(float(ended_job.job.start_s or 0), float(ended_job.job.end_s or 0)) for ended_job in ran]
    share_of = [shares(ended_job.job, expand(ended_job.job.hosts), cpus) for ended_job in ran]
    known = zip(ran, share_of, spans_energy(connection, spans, share_of), mean_prices(connection, spans), strict=True)
    found = [
        _measure_job(ended_job, of_job, used, expected[ended_job.job.job_id], price)
        for ended_job, of_job, used, price in known
    ]
    return found + [
        BookedJob(ended_job, job_row(ended_job.job, 0.0, basis="did not run for a second"), 0.0)
        for ended_job in ended
        if _node_s(ended_job.job) <= 0
    ]


def _measure_job(
    ended: EndedJob, share_of: Mapping[str, float], used: Mapping[str, EnergyUse], expected: JobDraw, price: MeanPrice
) -> BookedJob:
    """Return the job with its share of what its nodes have used, and the expected power for the rest of its time."""
    known = [(share, used[node]) for node, share in share_of.items() if node in used]
    covered = sum(use.covered or 0.0 for _, use in known) / len(share_of)
    modelled_j = expected.node_w * _node_s(ended.job) * (1 - covered if covered < ALL else 0.0)
    cost = carbon_g = None
    if price.price_per_mwh is not None and price.known >= PRICED:
        unpriced_j = sum(share * use.unpriced_j for share, use in known) + modelled_j
        cost = sum(share * (use.cost or 0.0) for share, use in known) + unpriced_j * price.price_per_mwh / J_PER_MWH
    if price.carbon_g_per_kwh is not None and price.carbon_known >= PRICED:
        rest_j = sum(share * use.without_carbon_j for share, use in known) + modelled_j
        carbon_g = sum(share * (use.carbon_g or 0.0) for share, use in known)
        carbon_g += rest_j * price.carbon_g_per_kwh / J_PER_KWH
    basis = f"measured {covered:.0%}, the rest modelled: {expected.basis}"
    if covered >= ALL:
        basis = "measured"
    elif covered <= NONE:
        basis = f"modelled: {expected.basis}"
    share = sum(share_of.values()) / len(share_of)
    by_cpus = f"{share:.3g} of its nodes by processors held" if share < 1 else ""
    basis = "; ".join(text for text in (basis, by_cpus, ended.unseen) if text)
    energy_j = sum(share * use.energy_j for share, use in known) + modelled_j
    return BookedJob(ended, job_row(ended.job, energy_j, cost, price.currency, carbon_g, basis=basis), covered)


def model_job(ended: EndedJob, expected: JobDraw, why: str) -> BookedJob:
    """Return a job without figures of the ledger, and why; it has no cost."""
    job = ended.job
    energy_j = expected.node_w * _node_s(job)
    return BookedJob(ended, job_row(job, energy_j, basis=f"modelled: {expected.basis}; {why}"), 0.0)


def _node_s(job: Job) -> int:
    return ((job.end_s or 0) - (job.start_s or 0)) * max(1, job.nodes)


def job_row(
    job: Job,
    energy_j: float | None,
    cost: float | None = None,
    currency: str = "",
    carbon_g: float | None = None,
    *,
    basis: str,
) -> JobUse:
    """Return the row of a job."""
    started, ended = float(job.start_s or 0), float(job.end_s or 0)
    partition = job.partitions[0] if job.partitions else ""
    return JobUse(
        job=job.job_id,
        started_unix_s=started,
        ended_unix_s=ended,
        user=job.user,
        account=job.account,
        partition=partition,
        nodes=job.hosts,
        energy_j=energy_j,
        cost=cost,
        currency=currency,
        carbon_g=carbon_g,
        basis=basis,
        submitted_unix_s=float(job.submit_s),
        limit_s=None if job.limit_s is None else float(job.limit_s),
        node_count=job.nodes,
        cpus=job.cpus,
    )


def measure_job_gpus(connection: Connection, ended: Sequence[EndedJob], node_gpus: Mapping[str, int]) -> list[JobGpus]:
    """Return the GPU-seconds of the jobs that had GPUs; `node_gpus` are the GPUs of nodes as the scheduler knows them.

    A job whose request is not known, and that shares its nodes, is left out. If prices of that time are in two
    currencies, no cost is known.
    """
    held = [(each.job, _gpus_held(each.job, node_gpus)) for each in ended if _node_s(each.job) > 0]
    held = [(job, its) for job, its in held if its]
    spans = [UsePeriod("", float(job.start_s or 0), float(job.end_s or 0)) for job, _ in held]
    if not held:
        return []
    nodes, (choice, parts) = [its.keys() for _, its in held], gpu_series(connection)
    try:
        found, currency = sum_series(connection, spans, choice, nodes)
    except BadInput:
        found, currency = sum_series(connection, spans, choice, nodes, read_prices=slot_intensities)
    measured: dict[tuple[int, str], GpuSums] = {}
    for (number, of_series), sums in found.items():
        (meter, state), meters = parts[of_series], measured.setdefault((number, choice.node_of[of_series]), {})
        meters.setdefault(meter, {}).setdefault(state, []).append(sums)
    rows = []
    for number, (job, its) in enumerate(held):
        row = JobGpus(job.job_id, spans[number].from_unix_s, spans[number].until_unix_s, currency=currency)
        for node, gpus in its.items():
            row = _with_node(row, measured.get((number, node), {}), gpus, node_gpus.get(node, 0))
        rows.append(row if row.idle_s + row.busy_s else replace(row, idle_cost=None))
    return rows


def _gpus_held(job: Job, node_gpus: Mapping[str, int]) -> dict[str, float]:
    """Return the GPUs that the job has of each of its nodes; all of a node that it does not share."""
    try:
        names = expand(job.hosts)
    except BadInput:
        return {}
    each = job.request.gpus / len(names) if job.request and names else 0.0
    choose = max if job.whole_nodes else min
    held = {name: choose(each, node_gpus.get(name) or each) for name in names}
    return {name: gpus for name, gpus in held.items() if gpus}


def _with_node(row: JobGpus, measured: GpuSums, gpus: float, node_gpus: int) -> JobGpus:
    """Return the row with the job's GPUs of one more node, by the meter that covers most of the time."""
    length_s, idle, busy = row.ended_unix_s - row.started_unix_s, EnergySums(), EnergySums()
    meters = [measured[meter] for meter in sorted(measured)]
    states = max(meters, key=lambda each: sum(gpu.covered_s for gpus in each.values() for gpu in gpus), default={})
    for whole, state in ((idle, "idle"), (busy, "busy")):
        for gpu in states.get(state, ()):
            whole.add(gpu)
    others_s = (max(node_gpus, *(len(gpus_there) for gpus_there in states.values()), gpus) - gpus) * length_s
    idle_s, busy_s = (min(max(each.covered_s - others_s, 0.0), gpus * length_s) for each in (idle, busy))
    share = idle_s / idle.covered_s if idle_s else 0.0
    has_cost = not share or (row.currency and idle.unpriced_j <= (1 - PRICED) * idle.energy_j)
    return replace(
        row,
        allocated_s=row.allocated_s + gpus * length_s,
        idle_s=row.idle_s + idle_s,
        busy_s=row.busy_s + busy_s,
        idle_j=row.idle_j + share * idle.energy_j,
        idle_cost=row.idle_cost + share * idle.cost if has_cost and row.idle_cost is not None else None,
    )
