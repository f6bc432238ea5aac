"""GPUs, each with its power and whether it is idle, from the node (nvidia-smi, amdgpu) or from a Prometheus server.

A GPU is idle while its utilisation is below `IDLE_BELOW_PERCENT`, the utilisation that the driver reports for the
sample: the share of time in which a kernel ran. Each GPU has two parts, "GPU 0 idle" and "GPU 0 busy", and its power is
that of the one that holds. So the time and the energy of both are sums of readings. A GPU that does not report its
utilisation (a divided one, MIG) is neither; its power is that of the part "GPU 0".

Prometheus scrapes the DCGM exporter or the nvidia_gpu_exporter of the nodes. A reading has the time of its sample, not
that of the query, and holds until the next scrape.
"""

import asyncio
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import requests

from offpeak.errors import AccessRefused, BadAnswer, NoAnswer, NotSupported
from offpeak.ledger.energy_use import GPU, GPU_BUSY, GPU_IDLE
from offpeak.power.meters.port import Reading
from offpeak.web_session import WebSession, read_body

IDLE_BELOW_PERCENT = 1.0
MOST_W, MOST_PERCENT = 10_000.0, 100.0
"""DCGM writes numbers of 19 digits for a value that it does not have."""

POWER_NAMES = ("DCGM_FI_DEV_POWER_USAGE", "nvidia_smi_power_draw_watts")
USE_FACTORS = {"DCGM_FI_DEV_GPU_UTIL": 1.0, "nvidia_smi_utilization_gpu_ratio": 100.0}
INDEX_NAME = "nvidia_smi_index"
FIRST_WINDOW_S = 300
"""Prometheus scrapes at least so often; later queries cover a few scrapes only."""
WINDOW_SCRAPES, HOLD_SCRAPES = 3, 2
MOST_BYTES = 64 * 1024 * 1024
EXPORTERS = "does it scrape the DCGM exporter or the nvidia_gpu_exporter of the nodes? docs/how-to/local-meters.md"


@dataclass(frozen=True)
class GpuSample:
    """The power of one GPU and its utilisation at an instant; None where it does not report one."""

    gpu: str
    power_w: float | None
    use_percent: float | None


def gpu_readings(
    node: str, sample: GpuSample, *, meter: str, at_unix_s: float, holds_s: float = 0.0
) -> tuple[Reading, ...]:
    """Return the readings of a GPU's parts: the idle and the busy one, and that of an unknown use if it has a power."""
    part, power_w, use = f"GPU {sample.gpu}", sample.power_w, sample.use_percent
    known = use is not None and power_w is not None
    is_idle = known and (use or 0.0) < IDLE_BELOW_PERCENT
    unknown = "its power is not known" if power_w is None else "its utilisation is not known"

    def reading(name: str, watts: float | None, why: str = "") -> Reading:
        return Reading(
            meter, GPU, name, watts, at_unix_s, node=node, holds_s=holds_s, why="" if watts is not None else why
        )

    halves = (
        reading(part + GPU_IDLE, power_w if is_idle else None, "it is busy" if known else unknown),
        reading(part + GPU_BUSY, power_w if known and not is_idle else None, "it is idle" if known else unknown),
    )
    return halves if known or power_w is None else (*halves, reading(part, power_w))


def parse_gpu_number(text: str, most: float) -> float | None:
    """Return a value of a GPU, None for `[N/A]`, `[Unknown Error]`, `NaN` and what no GPU has."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number <= most else None


class PrometheusMeter:
    """Reads the GPUs of these nodes from a Prometheus server with one query."""

    way = GPU

    def __init__(self, url: str, nodes: frozenset[str], *, timeout_s: float = 10.0) -> None:
        # The address may have a password.
        self.name = urlsplit(url).netloc.rpartition("@")[2]
        self._url, self._nodes = f"{url.rstrip('/')}/api/v1/query", nodes
        self._timeout_s, self._window_s = timeout_s, FIRST_WINDOW_S

    async def read(self) -> tuple[Reading, ...]:
        """Return the readings of all GPUs. Raises a DeviceError if there is none."""
        try:
            found = parse_gpu_matrix(await asyncio.to_thread(self._query), self._nodes, meter=self.name)
        except BaseException:
            self._window_s = FIRST_WINDOW_S
            raise
        self._window_s = min(FIRST_WINDOW_S, math.ceil(WINDOW_SCRAPES * found[0].holds_s / HOLD_SCRAPES) or 1)
        return found

    async def close(self) -> None:
        """Do nothing: each query has a connection of its own."""

    def _query(self) -> bytes:
        names = "|".join((*POWER_NAMES, *USE_FACTORS, INDEX_NAME))
        query, wait_s = {"query": f'{{__name__=~"{names}"}}[{self._window_s}s]'}, self._timeout_s
        try:
            with WebSession() as session, session.within(wait_s):
                answer = session.get(self._url, params=query, timeout=wait_s, stream=True, allow_redirects=False)
                body = read_body(answer, most_bytes=MOST_BYTES)
        except (requests.RequestException, OSError, ValueError) as problem:
            what = f"{self.name}: no answer: {type(problem).__name__}"
            raise NoAnswer(what, hint=f"try: curl {self.name}/api/v1/query?query=up") from None
        if answer.status_code in (401, 403):
            raise AccessRefused(f"{self.name}: refuses the login", hint="[hardware] prometheus may have user:password@")
        if answer.status_code != requests.codes.ok or body is None:
            said = "a too long answer" if body is None else f"status {answer.status_code}: {body[:80]!r}"
            raise BadAnswer(f"{self.name}: {said}", hint="is [hardware] prometheus the address of a Prometheus server?")
        return body


@dataclass(frozen=True)
class _Series:
    """The labels of a series, the time and the text of its last sample, and the time between samples."""

    labels: Mapping[str, str]
    at_unix_s: float
    text: str
    every_s: float | None


def parse_gpu_matrix(body: bytes, nodes: frozenset[str], *, meter: str) -> tuple[Reading, ...]:
    """Return the readings from the answer to a query of a range, those of GPUs of `nodes`.

    Raises BadAnswer for another answer, NotSupported if it has no GPU, or none of these nodes.
    """
    try:
        found = list(_series(json.loads(body)))
    except (ValueError, KeyError, TypeError, IndexError):
        raise BadAnswer(f"{meter}: not an answer of Prometheus: {body[:60]!r}", hint=EXPORTERS) from None
    indexes = {_uuid(each): each.text for each in found if each.labels["__name__"] == INDEX_NAME}
    powers, uses = dict[tuple[str, str], _Series](), dict[tuple[str, str], _Series]()
    # The first name wins where two exporters report one GPU, then the latest sample.
    for names, chosen in ((POWER_NAMES, powers), (tuple(USE_FACTORS), uses)):
        its = [each for each in found if each.labels["__name__"] in names]
        for each in sorted(its, key=lambda its: (-names.index(its.labels["__name__"]), its.at_unix_s)):
            # Instances of a divided GPU report the utilisation of the whole one, or none.
            if chosen is powers or not each.labels.get("GPU_I_ID"):
                chosen[_node(each, nodes), _uuid(each)] = each
    if not powers:
        raise NotSupported(f"{meter}: has no power of a GPU", hint=EXPORTERS)
    steps = [each.every_s for each in powers.values() if each.every_s]
    holds_s = HOLD_SCRAPES * (median(steps) if steps else FIRST_WINDOW_S / WINDOW_SCRAPES)
    readings = list[Reading]()
    for (node, uuid), each in sorted(powers.items()):
        if node:
            name, use = each.labels.get("gpu") or indexes.get(uuid) or uuid, _use(each, uses.get((node, uuid)))
            sample = GpuSample(name, parse_gpu_number(each.text, MOST_W), use)
            readings += gpu_readings(node, sample, meter=meter, at_unix_s=each.at_unix_s, holds_s=holds_s)
    if not readings:
        hosts = ", ".join(sorted({_hosts(each)[0] or _hosts(each)[1] for each in powers.values()})[:3])
        what = f"{meter}: no GPU there is of a node in the inventory"
        raise NotSupported(what, hint=f"its label Hostname or instance is {hosts}")
    return tuple(readings)


def _series(answer: Any) -> Iterator[_Series]:
    for each in answer["data"]["result"]:
        samples = [(float(at_unix_s), str(value)) for at_unix_s, value in each["values"]]
        labels = {str(key): str(value) for key, value in each["metric"].items()}
        every_s = (samples[-1][0] - samples[0][0]) / (len(samples) - 1) if len(samples) > 1 else None
        yield _Series({"__name__": labels["__name__"], **labels}, *samples[-1], every_s)


def _uuid(series: _Series) -> str:
    """Return the identity of a GPU: DCGM writes GPU-604AC76C, the other exporter 604ac76c."""
    labels = series.labels
    return (labels.get("UUID") or labels.get("uuid") or labels.get("gpu", "")).lower().removeprefix("gpu-")


def _hosts(series: _Series) -> tuple[str, str]:
    return series.labels.get("Hostname", ""), series.labels.get("instance", "").rpartition(":")[0]


def _node(series: _Series, nodes: frozenset[str]) -> str:
    """Return the node of the labels, "" if it is none of these; the host name may be that of a container."""
    names = (name for host in _hosts(series) for name in (host, host.partition(".")[0]))
    return next((name for name in names if name in nodes), "")


def _use(power: _Series, use: _Series | None) -> float | None:
    """Return the utilisation [%] of the same scrape, None if it has none."""
    if use is None or use.at_unix_s != power.at_unix_s:
        return None
    number = parse_gpu_number(use.text, MOST_PERCENT)
    return None if number is None else number * USE_FACTORS[use.labels["__name__"]]
