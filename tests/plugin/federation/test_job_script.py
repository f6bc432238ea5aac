"""What scripts ask for is read from their lines, Slurm's and PBS's, and what cannot be chosen for is refused."""

import pytest

from offpeak.errors import BadInput
from offpeak.plugin.federation.job_script import ScriptRequest, parse_limit_s, parse_script

pytestmark = pytest.mark.quick


def asks(*lines: str) -> ScriptRequest:
    return parse_script("\n".join(["#!/bin/bash", *lines, "hostname", "#SBATCH --time=99", ""]))


@pytest.mark.parametrize(
    ("lines", "cores", "nodes", "limit_s"),
    [
        (("#SBATCH -n 8 -c 2 -t 30",), 16, None, 1800),
        (("#SBATCH --nodes=2-4", "#SBATCH --ntasks-per-node=12 --time=1-12"), 48, 4, 36 * 3600),
        (("#SBATCH -N2 --time=10:30",), None, 2, 630),
        (("#SBATCH --time=1:00:00 # short",), 1, None, 3600),
        (("#PBS -l nodes=2:ppn=8", "#PBS -l walltime=01:00:00"), 16, None, 3600),
        (("#PBS -l select=1:ncpus=4+2:ncpus=8:mem=4gb,walltime=90 -l place=free",), 20, None, 90),
        (("#PBS -l ncpus=6",), 6, None, None),
        ((), None, None, None),
    ],
)
def test_script_size_and_time_are_parsed(
    lines: tuple[str, ...], cores: int | None, nodes: int | None, limit_s: int | None
) -> None:
    found = asks(*lines)
    assert (found.cores, found.nodes, found.limit_s) == (cores, nodes, limit_s)


def test_other_script_options_are_parsed() -> None:
    found = asks('#SBATCH -A climate -C "gpu&infiniband" --comment="offpeak:delay=2h mine" -J md --mem=4G')
    assert (found.project, found.features, found.name) == ("climate", ("gpu", "infiniband"), "md")
    assert found.comment == "offpeak:delay=2h mine"
    assert asks("#PBS -v A=1,B=2 -N md").variables == "A=1,B=2"


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --array=1-10",
        "#PBS -J 1-10",
        "#SBATCH --ntasks=many",
        "#SBATCH --time=soon",
        "#SBATCH --ntasks",
        '#SBATCH --comment="',
        "#PBS -l nodes=0",
        f"#SBATCH --nodes={'9' * 5000}",
        f"#SBATCH --mem={'9' * 5000}",
        f"#SBATCH --time={'9' * 11}-0",
        f"#PBS -l walltime={'9' * 5000}",
        "#SBATCH --comment=offpeak:deadline=0001-01-01T00:00",
        "#PBS -v A=1,OFFPEAK=cap;deadline=0001-01-01T00:00",
    ],
)
def test_script_with_unsupported_options_is_rejected(line: str) -> None:
    with pytest.raises(BadInput):
        asks(line)


def test_text_that_is_no_script_is_rejected() -> None:
    with pytest.raises(BadInput, match="does not begin with #!"):
        parse_script("hostname\n")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("30:05", 1805), ("2:00:00", 7200), ("1-0", 86_400), ("1-1:30", 91_800), ("2-00:00:01", 172_801)],
)
def test_script_limits_are_parsed(text: str, seconds: int) -> None:
    assert parse_limit_s(text) == seconds
