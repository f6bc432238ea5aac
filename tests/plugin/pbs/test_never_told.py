"""What no PBS server is ever told by us, as it goes past all checks or outlives an agent that has died."""

import re
from pathlib import Path

import pytest

from offpeak.model.orders import NodeChange
from plugin.pbs.openpbs import qmgr_directives

ROOMS = ("plugin", "power", "ui", "deploy")


@pytest.mark.parametrize("word", ["qrun", "qhold", "qrls", "set server scheduling = (?!true)"])
def test_words_that_stand_in_no_program_of_ours(word: str, repository: Path) -> None:
    said = re.compile(word)
    files = [file for room in ROOMS for file in (repository / room).rglob("*") if file.suffix in (".py", "")]
    texts = {file: file.read_text(errors="replace") for file in files if file.is_file()}
    assert len(texts) > 100
    assert [str(file) for file, text in texts.items() if said.search(text)] == []


@pytest.mark.parametrize("change", NodeChange)
def test_nodes_of_openpbs_are_set_by_qmgr_and_never_offline(change: NodeChange) -> None:
    # Its pbsnodes -o was seen to fail, and what is offline the server does not open by itself.
    for sleeps in (True, False):
        for order in qmgr_directives("n1", change, "offpeak: x", 5, sleeps=sleeps):
            assert order.startswith(("set node n1 ", "unset node n1 "))
            assert "offline" not in order


@pytest.mark.parametrize("change", NodeChange)
def test_the_state_of_an_openpbs_node_is_never_written_over(change: NodeChange) -> None:
    # "state = sleep" and "state = free" would erase what the server has noticed itself, such as down.
    for sleeps in (True, False):
        said = " ".join(qmgr_directives("n1", change, "offpeak: x", 5, sleeps=sleeps))
        assert "state =" not in said
        assert not (sleeps and "state +=" in said)
        assert sleeps or "state -=" not in said
