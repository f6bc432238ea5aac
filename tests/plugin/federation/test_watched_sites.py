"""A change of the file takes effect without restart, a mistake in it does not."""

from pathlib import Path

import pytest

from offpeak.errors import BadSites
from offpeak.plugin.federation.sites_file import EXAMPLE, WatchedSites


def test_a_change_takes_effect_and_a_mistake_does_not(tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    with pytest.raises(BadSites):
        WatchedSites(file)
    text = EXAMPLE.read_text()
    file.write_text(text)
    watched = WatchedSites(file)
    first = watched.grid()
    assert watched.grid() is first
    file.write_text(text.replace("pue = 1.5", "pue = 1.45"))
    assert [site.pue for site in watched.grid().sites] == [1.45, 1.8, 1.08]
    file.write_text(text.replace("pue = 1.5", "pue = 0.45"))
    assert [site.pue for site in watched.grid().sites] == [1.45, 1.8, 1.08]
    assert "pue: 0.45 is below 1" in str(watched.problem)
    file.unlink()
    assert [site.pue for site in watched.grid().sites] == [1.45, 1.8, 1.08]
    assert "there is no file" in str(watched.problem)
    file.write_text(text)
    assert watched.grid() == first
    assert watched.problem is None
