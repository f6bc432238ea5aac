"""What a command says whose extra is not installed: it never goes on with other figures without a word."""

import sys
from pathlib import Path

import pytest

from offpeak.installation import install_hint
from ui.command import run

CASES = [
    ("page", "starlette", ["page"], "the page needs starlette, which is not installed"),
    ("png", "matplotlib", ["prices", "--plot", "x.png"], "--plot x.png needs matplotlib, which is not installed"),
]


@pytest.mark.parametrize(("extra", "module", "arguments", "said"), CASES)
def test_what_is_named_and_missing_is_an_error(
    extra: str, module: str, arguments: list[str], said: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err == f"offpeak: error: {said}\n  hint: {install_hint(extra)}\n"
    assert printed.out == ""
