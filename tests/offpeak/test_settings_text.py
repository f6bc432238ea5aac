"""What is written about the settings: the example file and the help of an option."""

import re
import tomllib
from pathlib import Path

from offpeak.settings.file import example_toml, help_text, read_values
from offpeak.settings.table import BY_NAME, SETTINGS, Settings


def test_the_example_as_it_stands_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "offpeak.toml"
    file.write_text(example_toml(), encoding="utf-8")
    assert Settings.of(read_values(file)) == Settings()


def test_the_example_uncommented_sets_every_setting(tmp_path: Path) -> None:
    text = re.sub(r"^#(?=\w+ = )", "", example_toml(), flags=re.MULTILINE)
    file = tmp_path / "offpeak.toml"
    file.write_text(text, encoding="utf-8")
    assert {name for name, value in read_values(file).items() if value.origin != "default"} == set(BY_NAME)
    assert sum(map(len, tomllib.loads(text).values())) == len(SETTINGS)


def test_help_ends_with_the_default() -> None:
    assert help_text(BY_NAME["scheduling.window"]).endswith("[default: 20 jobs]")
    assert help_text(BY_NAME["scheduling.policies"]).endswith("[default: easy,greedy,knapsack]")
    assert help_text(BY_NAME["scheduling.kill_at_estimate"]).endswith("[default: false]")
    assert help_text(BY_NAME["prices.file"]).endswith("[default: none]")
