"""GPUs from a real Prometheus server that scrapes what the exporters of GPUs answer, and from broken ones."""

import asyncio
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.local_slurm.processes import reserved_ports, wait_until
from offpeak.errors import AccessRefused, BadAnswer, DeviceError, NoAnswer, NotSupported
from offpeak.power.meters.gpu import HOLD_SCRAPES, PrometheusMeter, parse_gpu_matrix
from offpeak.power.meters.port import MeterResult, Reading
from offpeak.services.accounts.metering import make_meter_rows

# The format of dcgm-exporter 3.3; the host name of n002 is that of its container. The last GPU of n001 is divided.
DCGM = """\
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e{0}",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="{1}"}} 56.213000
DCGM_FI_DEV_POWER_USAGE{{gpu="1",UUID="GPU-0f1ac76c-d9cf-fef3-62e9-d92044ab6e{0}",pci_bus_id="00000000:0F:00.0",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",Hostname="{1}"}} 391.402000
DCGM_FI_DEV_POWER_USAGE{{gpu="2",UUID="GPU-1f1ac76c-d9cf-fef3-62e9-d92044ab6e{0}",pci_bus_id="00000000:47:00.0",device="nvidia2",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="{1}"}} 80.100000
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e{0}",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="{1}"}} 0
DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="GPU-0f1ac76c-d9cf-fef3-62e9-d92044ab6e{0}",pci_bus_id="00000000:0F:00.0",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",Hostname="{1}"}} 97
"""  # noqa: E501
# The format of nvidia_gpu_exporter 1.2.
SMI = """\
# HELP nvidia_smi_index index
# TYPE nvidia_smi_index gauge
nvidia_smi_index{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 0
# HELP nvidia_smi_power_draw_watts power.draw [W]
# TYPE nvidia_smi_power_draw_watts gauge
nvidia_smi_power_draw_watts{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 28.07
# HELP nvidia_smi_utilization_gpu_ratio utilization.gpu [%]
# TYPE nvidia_smi_utilization_gpu_ratio gauge
nvidia_smi_utilization_gpu_ratio{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 0.02
"""
NODES = frozenset({"n001", "n002", "n003"})


@contextmanager
def web_server(answers: dict[str, tuple[int, str]], wait_s: float = 0.0) -> Iterator[int]:
    """A server of these answers by path; it yields its port."""
    ended = threading.Event()

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ended.wait(wait_s)
            status, text = answers.get(self.path.partition("?")[0], (404, ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        ended.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, dict[str, tuple[int, str]]]]:
    """A Prometheus server with three nodes: its address, and what their exporters answer."""
    if not shutil.which("prometheus"):
        pytest.skip("prometheus is missing")
    answers = {
        "/1": (200, DCGM.format("52", "n001.site.example")),
        "/2": (200, DCGM.format("53", "7f3a9c1d2b4e")),
        "/3": (200, SMI),
    }
    with web_server(answers) as port, reserved_ports(1) as (own,):
        targets = "".join(
            f'      - targets: ["127.0.0.1:{port}"]\n'
            f'        labels: {{instance: "n00{n}:9400", __metrics_path__: "/{n}"}}\n'
            for n in (1, 2, 3)
        )
        text = f"scrape_configs:\n  - job_name: gpus\n    scrape_interval: 1s\n    static_configs:\n{targets}"
        (tmp_path / "prometheus.yml").write_text(text)
        server = subprocess.Popen(
            [
                *("prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb"),
                f"--web.listen-address=127.0.0.1:{own}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield f"http://127.0.0.1:{own}", answers
        finally:
            server.terminate()
            server.wait(300)


def read_when_scraped(meter: PrometheusMeter, parts: int) -> tuple[Reading, ...]:
    for _ in range(3000):
        try:
            if len(found := asyncio.run(meter.read())) >= parts:
                return found
        except DeviceError:
            pass
        time.sleep(0.1)
    raise AssertionError("the exporters were not scraped")


def test_gpus_come_from_prometheus_with_the_time_of_their_samples(
    prometheus: tuple[str, dict[str, tuple[int, str]]],
) -> None:
    url, answers = prometheus
    begun_s = time.time()
    meter = PrometheusMeter(url, NODES, timeout_s=120.0)
    found = read_when_scraped(meter, 16)
    known = {(each.node, each.part): each.power_w for each in found if each.power_w is not None}
    assert known == {
        ("n001", "GPU 0 idle"): 56.213,
        ("n001", "GPU 1 busy"): 391.402,
        ("n001", "GPU 2"): 80.1,
        ("n002", "GPU 0 idle"): 56.213,
        ("n002", "GPU 1 busy"): 391.402,
        ("n002", "GPU 2"): 80.1,
        ("n003", "GPU 0 busy"): 28.07,
    }
    assert all(begun_s - 1 <= each.at_unix_s <= time.time() for each in found)
    before, held_s = {(each.node, each.part): each for each in found}, 0.0
    while held_s < 1.7:
        time.sleep(0.2)
        later = asyncio.run(meter.read())
        held_s = later[0].at_unix_s - before[later[0].node, later[0].part].at_unix_s
    # Samples are a second apart, or more if Prometheus is late.
    assert later[0].holds_s >= HOLD_SCRAPES - 0.3
    last, rows = make_meter_rows({}, [MeterResult(meter.name, "gpu", found)], now_unix_s=0.0, longest_hold_s=1.0)
    last, rows = make_meter_rows(last, [MeterResult(meter.name, "gpu", later)], now_unix_s=0.0, longest_hold_s=1.0)
    idle = [row for row in rows if (row.node, row.part, row.power_w) == ("n001", "GPU 0 idle", 56.213)]
    # The first reading may come after the first scrape, when the time between two is not known yet.
    first_hold_s = before["n001", "GPU 0 idle"].holds_s
    assert sum(row.until_unix_s - row.from_unix_s for row in idle) == pytest.approx(min(held_s, first_hold_s), abs=0.3)
    # An exporter that fails: its last sample is not read as a new one.
    answers["/2"] = (500, "")
    wait_until(lambda: {each.node for each in asyncio.run(meter.read())} == {"n001", "n003"}, what="its silence")


def answer_of(*series: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": labels, "values": [[1000.0, value], [1015.0, value]]} for labels, value in series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def power(value: str, **labels: str) -> tuple[dict[str, str], str]:
    return {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "UUID": "GPU-A", "Hostname": "n001"} | labels, value


def use(value: str, **labels: str) -> tuple[dict[str, str], str]:
    return power(value, **({"__name__": "DCGM_FI_DEV_GPU_UTIL"} | labels))


@pytest.mark.parametrize(
    ("series", "parts"),
    [
        ([power("50"), use("NaN")], {"GPU 0": 50.0}),
        ([power("50"), use("9223372036854775794")], {"GPU 0": 50.0}),
        ([power("9223372036854775794"), use("0")], {}),
        ([power("50"), use("0"), use("3", GPU_I_ID="7")], {"GPU 0 idle": 50.0}),
        # The exporter of nvidia-smi runs beside that of DCGM.
        ([power("50"), use("0"), power("90", __name__="nvidia_smi_power_draw_watts", UUID="a")], {"GPU 0 idle": 50.0}),
        ([power("0"), use("0.99")], {"GPU 0 idle": 0.0}),
    ],
)
def test_what_an_exporter_does_not_know_is_not_known(
    series: list[tuple[dict[str, str], str]], parts: dict[str, float]
) -> None:
    found = parse_gpu_matrix(answer_of(*series), NODES, meter="p")
    assert {each.part: each.power_w for each in found if each.power_w is not None} == parts
    assert all(each.why for each in found if each.power_w is None)


@pytest.mark.parametrize(
    ("path", "status", "text", "error", "match"),
    [
        ("/api/v1/query", 200, "", BadAnswer, "not an answer of Prometheus"),
        ("/api/v1/query", 200, "<html>", BadAnswer, "not an answer of Prometheus"),
        ("/api/v1/query", 200, '{"data": {"result": [{}]}}', BadAnswer, "not an answer of Prometheus"),
        ("/api/v1/query", 200, '{"data": {"result": []}}', NotSupported, "has no power of a GPU"),
        (
            "/api/v1/query",
            200,
            answer_of(power("5", Hostname="x9")).decode(),
            NotSupported,
            "no GPU there is of a node",
        ),
        ("/api/v1/query", 401, "", AccessRefused, "refuses the login"),
        ("/nothing", 200, "", BadAnswer, "status 404"),
    ],
)
def test_a_server_that_is_no_prometheus_of_gpus_is_reported(
    path: str, status: int, text: str, error: type[DeviceError], match: str
) -> None:
    with web_server({path: (status, text)}) as port:
        meter = PrometheusMeter(f"http://ann:secret@127.0.0.1:{port}", NODES, timeout_s=120.0)
        assert "secret" not in meter.name
        with pytest.raises(error, match=match) as raised:
            asyncio.run(meter.read())
        assert raised.value.hint


def test_a_slow_or_absent_server_is_bounded_by_time() -> None:
    with web_server({}, wait_s=300.0) as port, pytest.raises(NoAnswer):
        asyncio.run(PrometheusMeter(f"http://127.0.0.1:{port}", NODES, timeout_s=0.3).read())
    with pytest.raises(NoAnswer):
        asyncio.run(PrometheusMeter(f"http://127.0.0.1:{port}", NODES, timeout_s=0.3).read())
