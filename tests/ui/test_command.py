"""The installed `offpeak` command, run as an operator runs it."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from offpeak.ui.command import TASKS
from offpeak.ui.examples import EXAMPLES
from offpeak.ui.manual import command_tree

pytestmark = pytest.mark.quick

OFFPEAK = Path(sys.executable).with_name("offpeak")
Run = subprocess.CompletedProcess[str]
EXAMPLES_BY_PATH = {tuple(name.split()): examples for name, examples in EXAMPLES.items()}


def offpeak(*arguments: str, cwd: Path | None = None, **environment: str) -> Run:
    return started([str(OFFPEAK), *arguments], cwd=cwd, **environment)


def probe(body: str, *options: str) -> list[str]:
    """Return the command line that runs one more subcommand, which does `body`."""
    program = f"import offpeak.ui.command as c\n@c.app.command()\ndef probe():\n    {body}\nc.main()\n"
    return [sys.executable, "-c", program, "probe", *options]


def started(command: list[str], *, cwd: Path | None = None, **environment: str) -> Run:
    kept = {name: value for name, value in os.environ.items() if name != "OFFPEAK_CONFIG"}
    return subprocess.run(command, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False)


def test_version_from_any_directory(tmp_path: Path) -> None:
    done = offpeak("--version", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("offpeak 0.")


def test_starts_without_the_heavy_libraries() -> None:
    program = (
        "import sys, offpeak.ui.command as c\n"
        "code = c.run(['--version'])\n"
        "print(code, {'numba', 'numpy', 'pyarrow', 'rich', 'holidays', 'sqlalchemy', 'alembic'} & set(sys.modules))\n"
    )
    assert started([sys.executable, "-c", program]).stdout.splitlines()[1] == "0 set()"


def test_a_subcommand_starts_without_the_others() -> None:
    program = (
        "import sys, offpeak.ui.command as c\n"
        "code = c.run(['status', '--help'])\n"
        "print(sorted(name for name in sys.modules if name.startswith('offpeak.ui.') and name.endswith('command')))\n"
        "print('numpy' in sys.modules)\n"
    )
    commands, has_numpy = started([sys.executable, "-c", program]).stdout.splitlines()[-2:]
    assert (commands, has_numpy) == ("['offpeak.ui.agent.command', 'offpeak.ui.command']", "False")


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_help_lists_the_subcommands_with_full_lines(arguments: tuple[str, ...]) -> None:
    done = offpeak(*arguments, COLUMNS="80")
    assert done.returncode == 0
    assert "show-config" in done.stdout
    assert done.stdout.count("...") == 1  # of the usage
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_long_help_explains_few_options_and_names_the_others() -> None:
    first, everything = offpeak("simulate", "-h").stdout, offpeak("simulate", "--help-all").stdout
    explained, _, named = first.partition("More options, explained by --help-all:")
    assert len(re.findall(r"^  -", explained, re.MULTILINE)) == 15
    assert "--node-class" in named
    assert "--node-class CLASS" in everything
    flags = re.findall(r"^  (--[\w-]+)", everything, re.MULTILINE)
    assert [flag for flag in flags if flag not in first] == []


@pytest.mark.parametrize("path", [path for path in command_tree() if len(path) > 1], ids=" ".join)
def test_help_is_short_and_has_examples_that_parse(path: tuple[str, ...]) -> None:
    command, name = command_tree()[path], " ".join(path)
    assert len(command.get_short_help_str(200)) <= 62
    explained = command.get_help(command.make_context(name, [], resilient_parsing=True))
    assert len(re.findall(r"^  -", explained, re.MULTILINE)) <= 15
    assert path in EXAMPLES_BY_PATH or hasattr(command, "commands")
    for example in EXAMPLES_BY_PATH.get(path, ()):
        words = shlex.split(example.partition(" >")[0])
        assert tuple(words[: len(path)]) == path
        command.make_context(name, words[len(path) :])


def test_there_are_few_commands() -> None:
    assert sum(map(len, TASKS.values())) == len([path for path in command_tree() if len(path) == 2]) <= 30


def test_no_example_is_of_a_command_that_is_gone() -> None:
    assert EXAMPLES_BY_PATH.keys() <= command_tree().keys()


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["show-confg"],
            [
                "offpeak: error: No such command 'show-confg'. Did you mean 'show-config'?",
                "  hint: offpeak --help shows its options",
            ],
        ),
        (
            ["show-config", "--jsn"],
            [
                "offpeak: error: No such option: --jsn (Possible options: --json)",
                "  hint: offpeak show-config --help shows its options",
            ],
        ),
    ],
)
def test_a_usage_error_is_one_line_and_a_hint(arguments: list[str], lines: list[str]) -> None:
    done = offpeak(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == lines


def test_a_bad_setting_is_one_line_and_a_hint(tmp_path: Path) -> None:
    (tmp_path / "offpeak.toml").write_text("[scheduling]\nwindw = 5\n", encoding="utf-8")
    done = offpeak("show-config", "--config", "offpeak.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "offpeak: error: offpeak.toml:2: scheduling.windw is not a setting",
        "  hint: did you mean scheduling.window?",
    ]


@pytest.mark.parametrize(
    "arguments", [["--debug", "show-config", "--config", "absent"], ["show-config", "--config", "absent", "--debug"]]
)
def test_debug_shows_the_traceback_before_the_line(arguments: list[str]) -> None:
    done = offpeak(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert "offpeak: error: absent: cannot read the settings file" in done.stderr


def test_an_internal_error_is_one_line_and_a_hint() -> None:
    done = started(probe("raise ValueError('two\\nlines')"))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "offpeak: internal error: ValueError: two lines",
        "  hint: --debug shows the traceback",
    ]
    assert "Traceback" in started(probe("1 / 0", "--debug")).stderr


def test_ctrl_c() -> None:
    done = started(probe("import signal; signal.raise_signal(signal.SIGINT)"))
    assert (done.returncode, done.stderr) == (130, "offpeak: interrupted\n")


@pytest.mark.parametrize("body", ["c.typer.echo('x')", "import sys; sys.stdout.write('x')"])
def test_a_reader_that_has_gone_is_no_news(body: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(probe(body), stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([OFFPEAK, "show-config"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "offpeak: error: No space left on device"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a site's settings file."""
    text = '[power]\nidle = "80W"\n\n[scheduling]\npolicies = ["easy"]\nmax_postponement = "6h"\n'
    (tmp_path / "offpeak.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_show_config_names_the_origin_of_every_value(site: Path, golden: Callable[[str, str], None]) -> None:
    golden("show_config.txt", offpeak("show-config", "--config", "offpeak.toml", cwd=site).stdout)


def test_show_config_as_json(site: Path, golden: Callable[[str, str], None]) -> None:
    text = offpeak("show-config", "--json", cwd=site, OFFPEAK_CONFIG="offpeak.toml").stdout
    assert json.loads(text)["power.idle"] == {"value": "80W", "unit": "per node", "origin": "offpeak.toml:2"}
    golden("show_config.json", text)


def test_show_config_example_is_the_reference_file(repository: Path) -> None:
    reference = repository / "docs" / "reference" / "offpeak.toml"
    assert offpeak("show-config", "--example").stdout == reference.read_text(encoding="utf-8")
