"""The page about inventories names every key that there is, and its example can be read."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from offpeak.machines import inventory_file as inventory_shape
from offpeak.machines.inventory_file import read_inventory

TABLES = [
    each
    for each in vars(inventory_shape).values()
    if isinstance(each, type) and issubclass(each, BaseModel) and each.model_fields
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_key_is_explained(repository: Path, table: type[BaseModel]) -> None:
    page = (repository / "docs" / "reference" / "inventory.md").read_text()
    missing = [
        key
        for key in table.model_fields
        if f"`{key}`" not in page and f"## [{key}" not in page and f"## [[{key}" not in page
    ]
    assert missing == []


def test_the_example_is_an_inventory(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "reference" / "inventory.md").read_text()
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example
    file = tmp_path / "inventory.toml"
    file.write_text(example[1])
    assert len(read_inventory(file).machines) == 64
