"""The page of safety rules names every rule, files that are there, and tests that are there."""

import ast
import re
from pathlib import Path

import pytest
from guarded_room import ALL_OPEN
from memory_journal import MemoryJournal

from offpeak.machines.inventory import Hardware, Inventory, InventoryNode
from offpeak.power.door.node_orders import InterlockContext, make_node_orders
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport

ROW = re.compile(r"^\| (.+) \| `([\w/]+\.py)` \| `(tests/[\w/]+\.py)::(test_\w+)` \|$", re.MULTILINE)


def rows(repository: Path) -> list[tuple[str, str, str, str]]:
    return ROW.findall((repository / "docs" / "explanation" / "safety.md").read_text(encoding="utf-8"))


def test_files_and_tests_are_there(repository: Path) -> None:
    found = rows(repository)
    assert len(found) > 20
    for _, file, test_file, test in found:
        assert (repository / file).is_file(), file
        tree = ast.parse((repository / test_file).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


@pytest.mark.parametrize("page", ["safety.md", "when-things-break.md"])
def test_each_row_names_a_test_that_is_there(repository: Path, page: str) -> None:
    text = (repository / "docs" / "explanation" / page).read_text(encoding="utf-8")
    rows_of_page = re.findall(r"^\| (?!test \|)[^-\n].*`(tests/[\w/]+\.py)::(test_\w+)` \|$", text, re.MULTILINE)
    bodies = [line for line in text.splitlines() if line.startswith("| ") and "tests/" in line]
    assert len(rows_of_page) == len(bodies) > 15
    for file, test in rows_of_page:
        tree = ast.parse((repository / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_every_rule_of_the_door_is_on_the_page(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = {name for row in rows(repository) for name in re.findall(r"`(\w+)`", row[0].partition(" | ")[0])}
    requested: dict[str, tuple[tuple[str, object], ...]] = {}
    monkeypatch.setattr("offpeak.power.door.node_orders.Door", lambda _mode, **parts: requested.update(parts))
    inventory = Inventory(Path("none"), tuple(InventoryNode(f"n{at}", Hardware("compute")) for at in range(1, 7)))
    site = InterlockContext(
        inventory, DriverPool({}, Transport()), {}.get, lambda: 0.0, {}.get, lambda nodes: dict.fromkeys(nodes, "")
    )
    make_node_orders(ALL_OPEN, site, MemoryJournal())
    names = {name for kind in ("limits", "rules", "last") for name, _ in requested[kind]}
    assert names | {"mode", "ledger", "too_late", "consent", "cap"} == reported
