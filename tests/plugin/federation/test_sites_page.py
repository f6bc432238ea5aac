"""The page about sites names every key and source of energy that there is, and its example is the bundled one."""

import re
from pathlib import Path

from offpeak.plugin.federation.sites import EMISSIONS_G_PER_KWH
from offpeak.plugin.federation.sites_file import EXAMPLE, LinkTable, SiteTable


def test_every_key_and_every_source_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "sites.md").read_text()
    assert [key for key in (*SiteTable.model_fields, *LinkTable.model_fields) if f"| `{key}`" not in page] == []
    assert [name for name, grams in EMISSIONS_G_PER_KWH.items() if f"`{name}` {grams:g}" not in page] == []


def test_the_example_is_the_bundled_one(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "sites.md").read_text()
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example
    assert example[1] == EXAMPLE.read_text()
