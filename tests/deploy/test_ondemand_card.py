"""The card for Open OnDemand's dashboard, rendered by Ruby as the dashboard does, from what `offpeak status` prints."""

import copy
import html
import json
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_socket import agent_socket
from needed_programs import need
from page_site import ENVIRONMENT, OFFPEAK, make_snapshot

from benchmarks.local_slurm.processes import SEARCH_PATH

# Open OnDemand renders partials with this trim mode and escapes nothing that the card has escaped.
RENDER = "require 'erb'; print ERB.new(File.read(ARGV[0]), trim_mode: '-').result"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the cron job of the head node writes."""
    need(["ruby"], packages="ruby")
    with agent_socket(tmp_path_factory.mktemp("run") / "agent.sock") as agent:
        shown = make_snapshot().published
        price = replace(shown.price, until_unix_s=time.time() + 3600)
        agent.published = replace(shown, at_unix_s=time.time(), price=price)
        command = [*OFFPEAK, "status", "--json", "--socket", agent.path]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def status(printed: dict[str, Any]) -> dict[str, Any]:
    return {**copy.deepcopy(printed), "at_unix_s": time.time()}


def card(repository: Path, text: str | None, folder: Path) -> list[str]:
    """Return the paragraphs of the card for that file; None: no file."""
    file = folder / "status.json"
    if text is not None:
        file.write_text(text)
    template = repository / "deploy" / "ondemand" / "_offpeak.html.erb"
    environment = {"PATH": SEARCH_PATH, "OFFPEAK_STATUS": str(file), "TZ": "Europe/Berlin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["ruby", "-W", "-e", RENDER, template], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("<div") == done.stdout.count("</div>") == 2
    return [re.sub("<.*?>", "", each) for each in re.findall(r'<p class="card-text">(.*?)</p>', done.stdout)]


def test_it_shows_price_nodes_and_saving(repository: Path, status: dict[str, Any], tmp_path: Path) -> None:
    price, nodes, saving, hint = card(repository, json.dumps(status), tmp_path)
    assert re.fullmatch(r"Electricity is off-peak until \w{3} \d\d:\d\d: 52\.00 EUR/MWh\.", price)
    counts = dict(status["nodes"]["counts"])
    assert nodes.startswith(f"{counts['off'] + counts.get('standby', 0)} of 64 nodes are asleep. ")
    assert saving == "Saved today: 2.71 EUR."
    assert hint == "A job that can wait: sbatch --comment=offpeak:delay=12h job.sh"


def test_it_names_what_decides_if_that_is_not_the_price(
    repository: Path, status: dict[str, Any], tmp_path: Path
) -> None:
    status["price"] |= {"decided_by": "CO2", "on_peak": True, "until_unix_s": None}
    assert card(repository, json.dumps(status), tmp_path)[0] == "Electricity is on-peak by CO2: 52.00 EUR/MWh."


def test_it_claims_no_saving_in_shadow_mode(repository: Path, status: dict[str, Any], tmp_path: Path) -> None:
    shown = card(repository, json.dumps({**status, "mode": "shadow"}), tmp_path)
    assert shown[2] == "offpeak only watches for now (shadow mode)."
    assert not [line for line in shown if "Saved" in line]


def test_what_is_not_known_is_called_so(repository: Path, status: dict[str, Any], tmp_path: Path) -> None:
    unknown = "The state of offpeak is not known."
    for text in (
        None,
        "",
        "{",
        "[]",
        "null",
        json.dumps({"nodes": {"off": 3}, "trouble": "no agent"}),
        json.dumps({**status, "has_looked": False}),
    ):
        assert card(repository, text, tmp_path)[:-1] == [unknown], text
    old = json.dumps({**status, "at_unix_s": 1_794_490_200})
    assert card(repository, old, tmp_path)[0] == "The state of offpeak is not known since 2026-11-12 14:30."
    dark = {
        **status,
        "price": {"now": None, "unit": "EUR/MWh", "basis": ""},
        "nodes": {"counts": []},
        "saved_today": {},
    }
    assert card(repository, json.dumps(dark), tmp_path)[:-1] == ["The price of electricity is not known."]


def test_text_of_the_file_cannot_become_markup(repository: Path, status: dict[str, Any], tmp_path: Path) -> None:
    status["price"]["unit"] = "<script>alert(1)</script>"
    assert html.escape("<script>") in card(repository, json.dumps(status), tmp_path)[0]
