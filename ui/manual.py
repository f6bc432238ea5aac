"""Generate man pages and shell completion from the commands: `python -m offpeak.ui.manual FOLDER`.

Below that folder come `man1/offpeak-simulate.1`, a page for each command, and `completions/bash`, `zsh` and `fish`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer._completion_shared import get_completion_script

from offpeak.installation import installed_version
from offpeak.ui.command import COMPLETE, app

SHELLS = ("bash", "zsh", "fish")
STATUS = (("0", "done"), ("1", "failed"), ("2", "bad input"), ("130", "interrupted"))
FILES = (
    ("/etc/offpeak/offpeak.toml", "settings of the site; --config or $OFFPEAK_CONFIG names another file"),
    ("/etc/offpeak/inventory.toml", "nodes, BMCs, PDUs and logins"),
    ("/var/lib/offpeak", "the ledger, and learned data of the agent"),
    ("/run/offpeak/agent.sock", "the socket of the agent"),
)

Command = Any
"""A command of typer, whose classes are private."""


def manual_pages() -> dict[str, str]:
    """Return the page of each command by file name, such as "offpeak-ledger-energy.1"."""
    commands = command_tree()
    names = [_name(path) for path in commands]
    return {f"{_name(path)}.1": _page(command, path, names) for path, command in commands.items()}


def completions() -> dict[str, str]:
    """Return the completion script of each shell."""
    return {
        shell: get_completion_script(prog_name="offpeak", complete_var=COMPLETE, shell=shell) + "\n" for shell in SHELLS
    }


def command_tree() -> dict[tuple[str, ...], Command]:
    """Return each command by its path, ("offpeak",) first."""
    return dict(_commands(typer.main.get_command(app), ("offpeak",)))


def option_records(command: Command, context: Any) -> list[tuple[str, str]]:
    """Return the options and arguments of a command with their meanings."""
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    return [(term, " ".join(meaning.split())) for term, meaning in filter(None, records)]


def write_manual(folder: Path) -> None:
    """Write all pages and scripts."""
    for name, files in (("man1", manual_pages()), ("completions", completions())):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / name / file).write_text(text, encoding="utf-8")


def roff(text: str) -> str:
    """Return text in which no character is a request or an escape of roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in escaped.splitlines())


def _commands(command: Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Command]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _commands(below, (*path, name))


def _page(command: Command, path: tuple[str, ...], names: list[str]) -> str:
    context = command.make_context(" ".join(path), [], resilient_parsing=True)
    summary = " ".join((command.help or "").split())
    title = _name(path)
    below = getattr(command, "commands", {})
    sections = [
        f'.TH "{roff(title.upper())}" 1 "" "offpeak {roff(installed_version())}" "offpeak"',
        f".SH NAME\n{roff(title)} \\- {roff(summary)}",
        f".SH SYNOPSIS\n.B {roff(' '.join(path))}\n{roff(' '.join(command.collect_usage_pieces(context)))}",
        f".SH DESCRIPTION\n{roff(summary)}",
        _listed("COMMANDS", [(name, " ".join((each.help or "").split())) for name, each in below.items()]),
        _listed("OPTIONS", option_records(command, context)),
        _listed("EXIT STATUS", STATUS),
        _listed("FILES", FILES),
        f".SH SEE ALSO\n{roff(', '.join(f'{name}(1)' for name in _related(title, names)))}",
    ]
    return "\n".join(section for section in sections if section) + "\n"


def _listed(heading: str, terms: Any) -> str:
    listed = "".join(f"\n.TP\n.B {roff(term)}\n{roff(meaning)}" for term, meaning in terms)
    return f".SH {heading}{listed}" if listed else ""


def _related(title: str, names: list[str]) -> list[str]:
    """Return the related pages: parent, children and siblings."""
    parent = title.rpartition("-")[0]
    beside = [
        name for name in names if name.startswith(f"{title}-") or (parent != "offpeak" and name.startswith(parent))
    ]
    return sorted({"offpeak", *beside} - {title})


def _name(path: tuple[str, ...]) -> str:
    return "-".join(path)


if __name__ == "__main__":
    write_manual(Path(sys.argv[1]))
