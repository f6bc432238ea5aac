"""Man pages and completion scripts as those programs read them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from needed_programs import need

from offpeak.settings.table import SETTINGS
from offpeak.ui.manual import manual_pages, roff, write_manual
from offpeak.ui.options import NAMED, completion


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual")
    write_manual(folder)
    return folder


def test_every_command_has_a_page_with_all_its_options() -> None:
    pages = manual_pages()
    assert {"offpeak.1", "offpeak-agent.1", "offpeak-report.1", "offpeak-ledger.1", "offpeak-ledger-energy.1"} <= set(
        pages
    )
    assert "\\-\\-month" in pages["offpeak-report.1"]
    assert "offpeak\\-ledger\\-energy(1)" in pages["offpeak-ledger.1"]
    for name, page in pages.items():
        assert page.splitlines()[2].startswith(f"{roff(name.removesuffix('.1'))} \\- "), name
        assert ".SH OPTIONS" in page, name


def test_roff_of_hostile_text() -> None:
    assert roff(".so /etc/passwd\n\\fBx") == "\\&.so /etc/passwd\n\\efBx"


def test_mandoc_finds_nothing_wrong(folder: Path) -> None:
    need(["mandoc"], packages="mandoc")
    pages = sorted((folder / "man1").iterdir())
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True, text=True, check=False
    )
    # A page without a date is the same whenever it is made.
    wrong = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert wrong == []


def test_a_page_as_it_is_read(folder: Path) -> None:
    need(["mandoc"], packages="mandoc")
    page = folder / "man1" / "offpeak-why.1"
    done = subprocess.run(["mandoc", "-T", "ascii", page], capture_output=True, text=True, check=True)
    text = "".join(char for at, char in enumerate(done.stdout) if char != "\b" and done.stdout[at + 1 : at + 2] != "\b")
    assert "offpeak-why - Show why a job waits" in " ".join(text.split())
    assert "offpeak why [OPTIONS] {JOBID}" in text


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("offpeak led", ["ledger"]),
        ("offpeak ledger sa", ["savings"]),
        ("offpeak report --mo", ["--month"]),
        ("offpeak simulate --policy easy,gr", ["easy,greedy", "easy,greedy-slide"]),
        ("offpeak simulate --capacity always-on,tim", ["always-on,timeout"]),
        ("offpeak simulate --node-class ser", ["server"]),
        ("offpeak agent --agent-capacity tim", ["timeout"]),
        ("offpeak agent --queue kn", ["knapsack"]),
        ("offpeak init --scheduler open", ["openpbs"]),
        ("offpeak virtual --node-class ser", ["server"]),
    ],
)
def test_bash_completes(folder: Path, typed: str, offered: list[str]) -> None:
    typed_arguments = typed.split()
    script = (
        f"source {folder / 'completions' / 'bash'}; COMP_WORDS=({typed}); COMP_CWORD={len(typed_arguments) - 1}; "
        '_offpeak_completion offpeak; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    bash = shutil.which("bash") or "bash"
    done = subprocess.run(
        [bash, "-c", script], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == offered


@pytest.mark.parametrize(("shell", "shown"), [("zsh", '(("timeout":"a node idle'), ("fish", "timeout\ta node idle")])
def test_zsh_and_fish_show_what_a_name_does(shell: str, shown: str) -> None:
    typed = {"_OFFPEAK_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "offpeak agent --agent-capacity tim"}
    environment = os.environ | typed | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    command = Path(sys.executable).with_name("offpeak")
    done = subprocess.run([command], env=environment, capture_output=True, text=True, check=True)
    assert shown in done.stdout
    assert done.stdout.count("a node idle") == 1


def test_no_option_for_a_policy_a_capacity_a_node_class_or_a_scheduler_lacks_completion() -> None:
    about = re.compile(r"\b(polic(y|ies)|capacity|node class|scheduler)\b", re.IGNORECASE)
    of_text = {each.name for each in SETTINGS if each.kind.name in {"text", "list of names"} and about.search(each.doc)}
    assert of_text | {"power.node_class"} == NAMED
    for setting in SETTINGS:
        assert (completion(setting.name) is not None) == (
            setting.name in NAMED or setting.kind.name.startswith("one of")
        )
