"""The generated reference pages are those of the present table."""

from pathlib import Path

import pytest
from reference_pages import commands_page, main, pages


@pytest.mark.parametrize("name", pages())
def test_page_is_current(repository: Path, name: str) -> None:
    page = repository / "docs" / "reference" / name
    assert page.read_text(encoding="utf-8") == pages()[name], "make reference writes it anew"


def test_option_that_only_has_the_name_of_a_setting_is_explained() -> None:
    section = commands_page().partition("## offpeak check\n")[2].partition("\n## ")[0]
    own, _, settings = section.partition("Settings: ")
    assert "- `--cycle NODE`: " in own
    assert "--cycle" not in settings


def test_writes_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    main()
    assert {page.name for page in (tmp_path / "docs" / "reference").iterdir()} == set(pages())
