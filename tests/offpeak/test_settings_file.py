"""The settings file that is read, the precedence of values, and errors in a line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadSetting
from offpeak.settings.file import read_values, settings_path

pytestmark = pytest.mark.quick


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "offpeak.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(file: Path | None, **options: object) -> BadSetting:
    with pytest.raises(BadSetting) as caught:
        read_values(file, options={name.replace("__", "."): written for name, written in options.items()})
    return caught.value


def test_the_file_is_that_of_the_option_then_the_environment_then_the_system(tmp_path: Path) -> None:
    system_file = write(tmp_path, "")
    environment = {"OFFPEAK_CONFIG": "mine.toml"}
    assert settings_path(Path("a.toml"), environment, system_file=system_file) == Path("a.toml")
    assert settings_path(None, environment, system_file=system_file) == Path("mine.toml")
    assert settings_path(None, {"OFFPEAK_CONFIG": ""}, system_file=system_file) == system_file
    assert settings_path(None, {}, system_file=tmp_path / "absent.toml") is None


def test_command_line_over_file_over_default(tmp_path: Path) -> None:
    file = write(tmp_path, '[scheduling]\nwindow = 5\nperiod = "30s"\n\n[power]\nidle = "80W"\n')
    values = read_values(file, options={"scheduling.window": 7, "power.seed": None})
    window, period, seed = values["scheduling.window"], values["scheduling.period"], values["power.seed"]
    assert (window.written, window.parsed, window.origin) == (7, 7, "--window")
    assert (period.written, period.parsed, period.origin) == ("30s", 30, f"{file}:3")
    assert (seed.written, seed.parsed, seed.origin) == (1, 1, "default")
    assert values["power.idle"].origin == f"{file}:6"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[scheduling]\n\n# a remark\nwindow = 5\n", 4),
        ('["scheduling"] # ours\n"window" = 5\n', 2),
        ("\nscheduling.window = 5\n", 2),
        ("\nscheduling = {window = 5}\n", 2),
        ("[power]\nseed = 3\n[ scheduling ]\n  window=5\n", 4),
    ],
)
def test_finds_the_line_of_a_value(tmp_path: Path, text: str, line: int) -> None:
    file = write(tmp_path, text)
    assert read_values(file)["scheduling.window"].origin == f"{file}:{line}"


@given(st.lists(st.sampled_from(["", "# remark", "#window = 3", "seed = 3", "  "]), max_size=9, unique=True))
def test_remarks_and_blank_lines_are_counted(tmp_path_factory: pytest.TempPathFactory, before: list[str]) -> None:
    file = write(tmp_path_factory.mktemp("site"), "\n".join(["[power]", *before, "idle = '80W'"]))
    assert read_values(file)["power.idle"].origin == f"{file}:{len(before) + 2}"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[scheduling]\nwindw = 5", ":2: scheduling.windw is not a setting", "did you mean scheduling.window?"),
        ("[power]\nwindow = 5", ":2: power.window is not a setting", "write it as window below [scheduling]"),
        ("[schedulin]\nwindow = 5", ":1: [schedulin] is not a section", "did you mean [scheduling]?"),
        ("window = 5", ":1: window stands outside every section", "write it as window below [scheduling]"),
        ("[power]\n\nidle = 75", ":3: power.idle: 75 is not text", 'write it in quotes: "..."'),
        ("[power]\nidle = '75'", ":2: power.idle: '75' has no unit", "write it like 250W or 1.2kW"),
        ("[scheduling]\nwindow = 0", ":2: scheduling.window: 0 is out of range", "the range is 1 to 1000"),
        ("[scheduling]\nperiod = ", ":2: Invalid value", 'the file is TOML: text stands in quotes, as in idle = "75W"'),
        ("[scheduling]\na = [1,\n", ":2: Invalid value", 'the file is TOML: text stands in quotes, as in idle = "75W"'),
    ],
)
def test_names_the_line_the_fault_and_the_remedy(tmp_path: Path, text: str, message: str, hint: str) -> None:
    file = write(tmp_path, text)
    error = refused(file)
    assert str(error) == f"{file}{message}"
    assert error.hint == hint
    assert error.exit_code == 2


def test_an_option_is_named_by_its_flag() -> None:
    error = refused(None, scheduling__window=5000)
    assert str(error) == "--window: scheduling.window: 5000 is out of range"


def test_several_faults_are_reported_together(tmp_path: Path) -> None:
    file = write(tmp_path, "[scheduling]\nwindw = 5\npasses = 'twice'\n")
    error = refused(file, power__idle="75")
    assert str(error).splitlines() == [
        f"{file}:2: scheduling.windw is not a setting",
        f"{file}:3: scheduling.passes: 'twice' is not a choice",
        "--idle-power: power.idle: '75' has no unit",
    ]
    assert len(error.hint.splitlines()) == 3


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    error = refused(tmp_path / "absent.toml")
    assert str(error) == f"{tmp_path / 'absent.toml'}: cannot read the settings file: No such file or directory"
    assert "--config" in error.hint


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "offpeak.toml"
    file.write_bytes(b"[power]\nidle = \xff\n")
    assert str(refused(file)) == f"{file}: the settings file is not UTF-8 text"
