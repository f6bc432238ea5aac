"""What the port promises of what it reads, of every real PBS server that was recorded."""

from pathlib import Path

import pytest
from reading_promises import keeps_its_promises
from recorded_pbs import recordings

RECORDINGS = dict(recordings(Path(__file__).parents[4] / "shared" / "data" / "captures"))


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    keeps_its_promises(RECORDINGS[name].scheduler(tmp_path))
