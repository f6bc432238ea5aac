"""The wait of a job at a site follows from its own request, and a request that fits no node names the reason."""

import json
import math
from dataclasses import replace

import pytest

from offpeak.model.request import Chunk, Request
from offpeak.plugin.federation.job_script import parse_script
from offpeak.plugin.federation.jobs import PlacementRequest
from offpeak.plugin.federation.live_cycle import SentJob, SiteReply, add_sent_jobs
from offpeak.plugin.federation.site_report import (
    Curve,
    NodePart,
    PartitionTerms,
    PartWaits,
    PoolWaits,
    SiteReport,
    WaitTable,
    expected_wait,
    parse_report,
    report_json,
)
from offpeak.plugin.federation.sites import Grid, Reach, Site
from tests.peers.one_choice import choose

pytestmark = pytest.mark.quick

NOW_S = 1_795_215_600
HOUR_S = 3600
LIMITS_S = (HOUR_S, 24 * HOUR_S)
PRICE = Curve((NOW_S,), NOW_S + 72 * HOUR_S, (80.0,), "EUR/MWh")
CARBON = replace(PRICE, value=(300.0,), unit="g/kWh")


def part(cores: int, memory_mib: int, gpus: int, *rows: tuple[int, float | None, float | None]) -> PartWaits:
    return PartWaits(NodePart(cores, memory_mib, gpus), tuple(row[0] for row in rows), tuple(row[1:] for row in rows))


CPU = PoolWaits(
    ("batch",), 4, 16, 64_000, {}, (), LIMITS_S, (part(1, 4000, 0, (4, 0, 0)), part(16, 64_000, 0, (4, 60, 600)))
)
GPU_PARTS = (
    part(16, 128_000, 1, (2, 5 * HOUR_S, 6 * HOUR_S)),
    part(32, 256_000, 2, (1, 25_000, 25_000), (2, 3e4, 4e4)),
)
GPU = PoolWaits(("gpu",), 2, 32, 256_000, {"a100": 2}, ("nvlink",), LIMITS_S, GPU_PARTS)
REPORT = SiteReport(
    at_unix_s=NOW_S,
    cluster="c",
    scheduler="slurm 24",
    cores=128,
    idle_cores=0,
    queued=3,
    running=4,
    waits=WaitTable((128,), (HOUR_S,), ((77.0,),)),
    price=PRICE,
    carbon=CARBON,
    pools=(CPU, GPU),
    partitions=(PartitionTerms("batch", is_default=True), PartitionTerms("gpu", limit_s=48 * HOUR_S, most_nodes=2)),
)
SITE = Site("s", 128, 10.0, reach=Reach("local"))


def slurm(*options: str, limit_s: int = HOUR_S) -> PlacementRequest:
    found = parse_script("\n".join(["#!/bin/sh", *(f"#SBATCH {option}" for option in options), ""]))
    return PlacementRequest(found.cores or 1, limit_s, request=found.request, submit="sbatch", features=found.features)


@pytest.mark.parametrize(
    ("options", "wait_s"),
    [
        (("-n 1",), 0),
        (("-n 4 --mem=100G", "-p batch,gpu"), 5 * HOUR_S),
        (("-N 4 --ntasks-per-node=16",), 60),
        (("-n 64",), 60),
        (("-n 2 --mem-per-cpu=20G",), 60),
        (("-p gpu --gres=gpu:1",), 5 * HOUR_S),
        (("-p gpu --gpus=a100:2 -n 2",), 25_000),
        (("-p gpu -N 2 --gpus-per-node=2 -n 2",), 30_000),
        (("-p gpu --gpus=3 -n 3",), 30_000),
        (("-p gpu --exclusive -n 1",), 25_000),
        (("-p gpu -C nvlink --gpus-per-task=1 -n 1",), 5 * HOUR_S),
    ],
)
def test_a_job_waits_for_the_nodes_that_its_own_request_fits(options: tuple[str, ...], wait_s: float) -> None:
    assert expected_wait(REPORT, SITE, slurm(*options)).wait_s == wait_s


def test_a_longer_job_waits_longer_and_sent_jobs_delay_it() -> None:
    request = slurm("-p gpu --gres=gpu:1", limit_s=10 * HOUR_S)
    assert expected_wait(REPORT, SITE, request).wait_s == 6 * HOUR_S
    sent = [SentJob("s", NOW_S, 128, HOUR_S)]
    assert expected_wait(add_sent_jobs(REPORT, sent), SITE, request).wait_s == 7 * HOUR_S


@pytest.mark.parametrize(
    ("options", "limit_s", "reason"),
    [
        (("--gres=gpu:1",), HOUR_S, "no node of partition batch has 1 core, 1 GPU"),
        (("-p gpu --gres=gpu:h100:1",), HOUR_S, "no node of partition gpu has 1 core, 1 h100 GPU"),
        (("-p gpu -N 1 -n 1 --mem=1T",), HOUR_S, "no node of partition gpu has 1 core, 1,024 GiB"),
        (("-p debug",), HOUR_S, "there is no partition debug"),
        (("-N 5",), HOUR_S, "partition batch has 4 of 5 nodes with 1 core"),
        (("-p gpu",), 50 * HOUR_S, "partition gpu admits no job with a time limit above 2 days"),
        (("-p gpu -N 3",), HOUR_S, "partition gpu admits no job of 3 nodes"),
        (("-C nvlink",), HOUR_S, "no node of partition batch has 1 core, nvlink"),
    ],
)
def test_a_request_that_fits_no_node_has_a_reason(options: tuple[str, ...], limit_s: int, reason: str) -> None:
    assert expected_wait(REPORT, SITE, slurm(*options, limit_s=limit_s)).misfit == reason


def test_a_site_whose_nodes_do_not_fit_is_no_candidate() -> None:
    sites = Grid((replace(SITE, name="cpu"), replace(SITE, name="both")))
    replies = {"cpu": SiteReply(replace(REPORT, pools=(CPU,), partitions=())), "both": SiteReply(REPORT)}
    choice = choose(slurm("-p gpu --gres=gpu:1"), sites, replies, now_s=NOW_S, stale_s=60)
    assert choice.site == "both"
    assert choice.chosen is not None
    assert choice.chosen.delay_s == 5 * HOUR_S
    assert [(miss.site, miss.text) for miss in choice.misses] == [("cpu", "there is no partition gpu")]


def test_partitions_of_slurm_do_not_count_at_a_site_of_pbs() -> None:
    pbs = replace(SITE, reach=Reach("local", submit="qsub"))
    report = replace(REPORT, partitions=())
    assert expected_wait(report, pbs, slurm("-p elsewhere --gres=gpu:1")).wait_s == 5 * HOUR_S
    script = parse_script("#!/bin/sh\n#PBS -q gpu -l select=1:ncpus=1:ngpus=1:mem=4gb\n")
    request = PlacementRequest(1, HOUR_S, request=script.request, submit="qsub")
    assert expected_wait(report, pbs, request).wait_s == 5 * HOUR_S


def test_a_job_known_by_its_cores_takes_nodes_of_any_pool() -> None:
    anywhere = replace(REPORT, partitions=())
    assert expected_wait(anywhere, SITE, PlacementRequest(64, HOUR_S)).wait_s == 60
    assert expected_wait(anywhere, SITE, PlacementRequest(100, HOUR_S)).wait_s == 30_000
    assert "room for 128 of 129" in expected_wait(anywhere, SITE, PlacementRequest(129, HOUR_S)).misfit


def test_a_report_of_an_older_site_still_counts_with_its_one_table() -> None:
    message = json.loads(json.dumps(report_json(REPORT)))
    assert parse_report(message) == REPORT
    older = parse_report({key: value for key, value in message.items() if key not in ("pools", "partitions")})
    assert expected_wait(older, SITE, slurm("-p gpu --gres=gpu:1")).wait_s == 77
    empty = replace(older, waits=WaitTable())
    assert math.isnan(expected_wait(empty, SITE, slurm("-n 1")).wait_s)
    choice = choose(slurm("-n 1"), Grid((SITE,)), {"s": SiteReply(empty)}, now_s=NOW_S, stale_s=60)
    assert choice.reason == "no site can run it: s: its wait is not known"
    message["pools"][0]["parts"][0]["wait_s"] = []
    with pytest.raises(ValueError, match="not a table"):
        parse_report(message)


def test_a_wait_that_is_not_known_is_longer_than_those_that_are() -> None:
    """It stays unknown on its way through the report, and where the job could start otherwise it does not count."""
    unknown = part(16, 128_000, 1, (2, None, 6 * HOUR_S))
    gpu = replace(GPU, parts=(unknown, GPU_PARTS[1]))
    report = replace(REPORT, waits=WaitTable((128,), (HOUR_S,), ((None,),)), pools=(CPU, gpu))
    report = add_sent_jobs(parse_report(json.loads(json.dumps(report_json(report), allow_nan=False))), ())
    assert expected_wait(report, SITE, slurm("-p gpu --gres=gpu:1")).wait_s == 25_000
    assert expected_wait(report, SITE, slurm("-p gpu --gres=gpu:1", limit_s=24 * HOUR_S)).wait_s == 6 * HOUR_S
    gpu = replace(GPU, parts=(unknown, part(32, 256_000, 2, (2, None, None))))
    report = replace(report, pools=(CPU, gpu))
    assert math.isnan(expected_wait(report, SITE, slurm("-p gpu -n 40")).wait_s)
    assert expected_wait(report, SITE, slurm("-p batch,gpu -n 1")).wait_s == 0
    assert math.isnan(expected_wait(replace(report, pools=()), SITE, slurm("-n 1")).wait_s)


def test_parts_of_scripts() -> None:
    def chunk_of(*lines: str) -> tuple[Chunk, bool]:
        request = parse_script("\n".join(["#!/bin/sh", *lines, ""])).request
        assert isinstance(request, Request)
        return request.chunks[0], request.apart

    assert chunk_of("#SBATCH -n 8 -c 2 --mem-per-cpu=2G") == (Chunk(8, 2, 4096), False)
    assert chunk_of("#SBATCH -N 2 -n 8 --mem=16G --gpus=4") == (Chunk(2, 4, 16_384, 2), True)
    assert chunk_of("#SBATCH --gres=nvme:1,gpu:a100:2 --mem=soon") == (Chunk(1, 1, 0, 2, "a100"), True)
    assert chunk_of("#PBS -l nodes=2:ppn=8:gpus=1") == (Chunk(2, 8, 0, 1), True)
    assert chunk_of("#PBS -l ncpus=6,mem=4gb") == (Chunk(1, 6, 4096), True)
