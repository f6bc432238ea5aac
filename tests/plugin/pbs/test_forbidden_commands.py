"""Commands that offpeak never gives to a PBS server: they bypass all checks, or outlive an agent that has died."""

import re
from pathlib import Path

import pytest

from offpeak.model.orders import NodeChange
from offpeak.plugin.pbs.openpbs import qmgr_directives

pytestmark = pytest.mark.quick

FOLDERS = ("plugin", "power", "ui", "deploy")


@pytest.mark.parametrize("command", ["qrun", "qhold", "qrls", "set server scheduling = (?!true)"])
def test_no_program_of_ours_contains_the_command(command: str, repository: Path) -> None:
    pattern = re.compile(command)
    files = [file for folder in FOLDERS for file in (repository / folder).rglob("*") if file.suffix in (".py", "")]
    texts = {file: file.read_text(errors="replace") for file in files if file.is_file()}
    assert len(texts) > 100
    assert [str(file) for file, text in texts.items() if pattern.search(text)] == []


@pytest.mark.parametrize("change", NodeChange)
def test_nodes_of_openpbs_are_set_by_qmgr_and_never_offline(change: NodeChange) -> None:
    # OpenPBS's pbsnodes -o was seen to fail, and the server does not open an offline node by itself.
    for sleeps in (True, False):
        for order in qmgr_directives("n1", change, "offpeak: x", 5, sleeps=sleeps):
            assert order.startswith(("set node n1 ", "unset node n1 "))
            assert "offline" not in order


@pytest.mark.parametrize("change", NodeChange)
def test_the_state_of_an_openpbs_node_is_never_written_over(change: NodeChange) -> None:
    # "state = sleep" and "state = free" would erase states that the server has set itself, such as down.
    for sleeps in (True, False):
        directives = " ".join(qmgr_directives("n1", change, "offpeak: x", 5, sleeps=sleeps))
        assert "state =" not in directives
        assert not (sleeps and "state +=" in directives)
        assert sleeps or "state -=" not in directives
