"""What `offpeak submit --dry-run` counts of what was submitted before, where no broker keeps it at hand."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_socket import agent_socket

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SubmissionRecord
from offpeak.plugin.federation.site_report import SiteReport, WaitTable
from offpeak.services.broker.submission import TAKEN
from offpeak.settings.ledger import LedgerSettings
from offpeak.ui.command import run
from offpeak.ui.federation.without_daemon import submission_text

SITES = """\
[sites.north]
nodes = 8
cores_per_node = 4
core_power = "25W"
gflops_per_core = 9.0
pue = 1.5
time_zone = "UTC"
tariff = "on=90EUR/MWh,off=30EUR/MWh"
esc = "50g/kWh"
allocations = { climate = 6 }
reach = "local"
"""
SETTINGS = '[agent]\nsocket = "agent.sock"\nstate_folder = "."\n\n[broker]\nsites = "sites.toml"\n'
SCRIPT = "#!/bin/bash\n#SBATCH --ntasks=4 --time=60 --account=climate\nhostname\n"
REPLY = SiteReport(0.0, "c", "slurm 22", 32, 32, 0, 0, WaitTable((32,), (86_400,), ((0.0,),)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {
        "sites.toml": SITES,
        "offpeak.toml": f'{SETTINGS}\n[ledger]\nurl = "sqlite:///{tmp_path}/ledger.sqlite"\n',
        "job.sh": SCRIPT,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_jobs_of_the_ledger_count_and_one_that_cannot_be_read_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offpeak(*more: str) -> tuple[Any, str]:
        code = run(["submit", "--dry-run", "--config", "offpeak.toml", "--json", *more, "job.sh"])
        printed = capsys.readouterr()
        return json.loads(printed.out) if printed.out else code, printed.err

    monkeypatch.chdir(folder)
    with agent_socket(folder / "agent.sock") as agent:
        agent.site = replace(REPLY, at_unix_s=time.time())
        answer, complaint = offpeak()
        assert (answer["site"], complaint) == ("north", "")
        code, complaint = offpeak("--application", "gromacs")
        assert (code, "no site has a rank for the application 'gromacs'" in complaint) == (2, True)
        _submitted(folder, time.time())
        assert offpeak()[0]["misses"] == {"north": "climate has 2 of 6 core-hours left"}
        (folder / "ledger.sqlite").write_bytes(b"no ledger" * 1000)
        answer, complaint = offpeak()
        assert answer["site"] == "north"
        assert complaint.startswith("offpeak: jobs that were submitted before are not counted: ")


def _submitted(folder: Path, at_unix_s: float) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
    ledger.ready()
    answer = {"project": "climate", "expected": {"cores": 4, "run_s": 3600}}
    row = SubmissionRecord("k", at_unix_s, "ann", "digest", "north", "taken", at_unix_s, "1", "accepted", answer)
    assert ledger.change_submission(None, row)
    ledger.close()


def test_a_submission_says_why_a_site_was_left_out() -> None:
    misses = {"fjord": "its agent did not answer within 5 s"}
    answer = {"reason": "it is the cheapest of the rest", "second": None, "misses": misses}
    row = SubmissionRecord("k1", 0.0, "ann", "", "harbour", TAKEN, 0.0, job="7", answer=answer)
    assert "- fjord: its agent did not answer within 5 s" in submission_text(row, again=False).splitlines()
