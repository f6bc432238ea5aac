"""The page about sites names every key and source of energy; its example is part of the bundled one."""

import re
from pathlib import Path

from offpeak.plugin.federation.sites import EMISSIONS_G_PER_KWH
from offpeak.plugin.federation.sites_file import EXAMPLE, LinkTable, SiteTable


def test_every_key_and_every_source_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "sites.md").read_text()
    assert [key for key in (*SiteTable.model_fields, *LinkTable.model_fields) if f"| `{key}`" not in page] == []
    assert [name for name, grams in EMISSIONS_G_PER_KWH.items() if f"`{name}` {grams:g}" not in page] == []


def test_the_example_is_part_of_the_bundled_one(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "sites.md").read_text()
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example
    tables = [table.strip() for table in EXAMPLE.read_text().split("\n\n")]
    assert [table for table in example[1].split("\n\n") if table.strip() not in tables] == []
    assert "plugin/federation/sites.example.toml" in page
