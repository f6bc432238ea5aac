"""`offpeak whatif` as an admin meets it: the curve, the decision, and what it says to files that cannot be used."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from installed_policy import install_policy

from ui.command import run

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]


@pytest.fixture
def state(repository: Path) -> Path:
    return repository / "docs" / "examples" / "state.json"


@pytest.fixture
def changed(state: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes the example with other values at its top."""

    def write(**values: object) -> Path:
        (tmp_path / "changed.json").write_text(json.dumps(json.loads(state.read_text()) | values))
        return tmp_path / "changed.json"

    return write


def test_the_decision_is_marked_and_named(offpeak: Offpeak, state: Path) -> None:
    lines = offpeak("whatif", state, "--sla", "2").stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("->")] == ["122"]
    assert "122 of 128 nodes on offer keep the SLA of 2." in lines
    assert "To wake now: 6 nodes." in lines


def test_whatif_table_fits_a_narrow_terminal(offpeak: Offpeak, state: Path) -> None:
    lines = offpeak("whatif", state, "--sla", "2").stdout.splitlines()[1:]
    assert max(len(line) for line in lines) <= 80


def test_fewer_nodes_keep_a_loose_sla(offpeak: Offpeak, state: Path) -> None:
    text = offpeak("whatif", state).stdout
    assert "79 of 128 nodes on offer keep the SLA of 5.\nUp and not needed on offer: 37 nodes.\n" in text
    assert "  49 nodes until more jobs come\n" in text


def test_an_sla_that_nothing_keeps_has_all_nodes_on_offer(offpeak: Offpeak, state: Path) -> None:
    text = offpeak("whatif", state, "--sla", "1").stdout
    assert "Not even all 128 nodes keep the SLA of 1: keep all of them on offer." in text


def test_json_has_the_figures_of_the_table(offpeak: Offpeak, state: Path) -> None:
    answer = json.loads(offpeak("whatif", state, "--sla", "2", "--json").stdout)
    assert (answer["nodes"], answer["units"], answer["met"], answer["policy"]) == (122, 122, True, "easy")
    assert [row["units"] for row in answer["curve"]] == [79, 104, 116, 122, 125, 127, 128]
    assert answer["curve"][3]["slowdown"] == pytest.approx(1.9149, abs=1e-4)
    assert answer["sleep"][-1] == {"nodes": 7, "until_s": None}


def test_disciplines_differ(offpeak: Offpeak, state: Path) -> None:
    answers = [offpeak("whatif", state, "--policy", name).stdout for name in ("easy", "fcfs")]
    assert answers[0] != answers[1].replace("fcfs", "easy")


@pytest.fixture
def with_power(state: Path, changed: Callable[..., Path]) -> Path:
    """The example at an expensive hour, with the draw of each queued job."""
    queued = json.loads(state.read_text())["queued"]
    jobs = [job | {"node_power_w": 100 + 50 * (at % 3)} for at, job in enumerate(queued)]
    return changed(queued=jobs, peaks=[{"from_s": 0, "peak": "on-peak"}])


def test_a_window_policy_orders_the_queued_jobs(offpeak: Offpeak, with_power: Path) -> None:
    answers = {
        name: json.loads(offpeak("whatif", with_power, "--policy", name, "--json").stdout)
        for name in ("easy", "greedy", "fcfs", "fcfs+greedy")
    }
    waits = {name: [row["mean_wait_s"] for row in answer["curve"]] for name, answer in answers.items()}
    assert answers["fcfs+greedy"]["policy"] == "fcfs+greedy"
    assert waits["easy"] != waits["greedy"]
    assert waits["fcfs"] != waits["fcfs+greedy"]


OWN = """
def order(view):
    assert (view.peak, list(view.job_id)[0]) == (2, 1)
    {answer}
"""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("return list(reversed(range(len(view.size))))", ""),
        ("raise ValueError('no such tariff')", "failed: ValueError: no such tariff (own_of_whatif.py, line 4)"),
        ("return [0, 0]", "returned [0, 0], which is no order of 7 jobs"),
    ],
)
def test_an_own_policy_orders_the_queued_jobs_without_prices_too(
    state: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    message: str,
) -> None:
    install_policy(tmp_path, "own_of_whatif", "own = own_of_whatif:order", OWN.format(answer=answer))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_of_whatif", raising=False)
    code = run(["whatif", str(state), "--policy", "fcfs+own"])
    output = capsys.readouterr()
    if message:
        assert (code, output.out) == (1, "")
        assert output.err.startswith(f"offpeak: error: the window policy 'own' {message}\n  hint: ")
    else:
        assert (code, output.err) == (0, "")
        assert "- fcfs+own starts the jobs" in output.out


def test_units_are_shown_as_nodes(offpeak: Offpeak, changed: Callable[..., Path]) -> None:
    text = offpeak("whatif", changed(units_per_node=4)).stdout
    assert "->              20 " in text


def test_a_machine_without_jobs_may_sleep(offpeak: Offpeak, changed: Callable[..., Path]) -> None:
    text = offpeak("whatif", changed(running=[], queued=[])).stdout
    assert "0 of 128 nodes on offer keep the SLA of 5.\n" in text
    assert "  128 nodes until more jobs come\n" in text


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("--sla", "0.5"), "no job has a slowdown of 0.5", "give 1 or more; 5 is usual"),
        (
            ("--policy", "greedy"),
            "policy 'greedy' orders jobs by power and price, and the snapshot does not have them",
            "add `peaks` and `node_power_w` of each queued job, or choose",
        ),
        (("--policy", "shortest"), "unknown policy 'shortest'", "known: bbf"),
        (("--policy", "conservative+greedy"), "what-if knows no discipline 'conservative+greedy'", ""),
        (("--policy", "conservative"), "what-if knows no discipline 'conservative'", "known: best-fit, easy"),
    ],
)
def test_bad_options_are_refused(offpeak: Offpeak, state: Path, arguments, message: str, hint: str) -> None:
    done = offpeak("whatif", state, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"offpeak: error: {message}\n  hint: {hint}")


def test_a_file_of_another_version_is_refused(offpeak: Offpeak, changed: Callable[..., Path]) -> None:
    done = offpeak("whatif", changed(version=2))
    assert done.returncode == 2
    assert "changed.json: version: the file is of version 2\n  hint: this offpeak reads version 1" in done.stderr


def test_jobs_that_need_failed_nodes_are_reported(offpeak: Offpeak, changed: Callable[..., Path]) -> None:
    nodes = [{"state": "active", "count": 80}, {"state": "failed", "count": 48}]
    done = offpeak("whatif", changed(nodes=nodes, queued=[{"size": 90, "submit_s": 0, "estimate_s": 60}]))
    assert done.returncode == 2
    assert done.stderr.startswith("offpeak: error: jobs need 90 units and 80 are usable\n  hint: ")


@pytest.mark.thorough
def test_the_example_is_what_its_program_makes(repository: Path, state: Path) -> None:
    program = "import example_state; print(example_state.snapshot_json(example_state.example()), end='')"
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=repository / "docs", capture_output=True, text=True, check=True
    )
    assert made.stdout == state.read_text()
