"""What no PBS server is ever told by us, as it goes past all checks or outlives an agent that has died."""

import re
from pathlib import Path

import pytest

from plugin.openpbs.change_nodes import directives
from plugin.scheduler.port import NodeChange

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
    for order in directives("n1", change, "offpeak: x", 5):
        assert order.startswith(("set node n1 ", "unset node n1 "))
        assert "offline" not in order
