"""Generate the reference pages of commands, settings and families of PDUs: `make reference`.

The page of the commands comes from the commands themselves.
"""

from pathlib import Path

from offpeak.settings.file import example_toml, toml
from offpeak.settings.kinds import Setting
from offpeak.settings.table import SECTIONS, SETTINGS
from ui.hardware.pdu_families_page import pdu_families_page
from ui.manual import Command, command_tree, option_records

_COMMANDS_HEAD = """\
# Commands

All commands with their options, as in `--help` and [the man pages](../how-to/shell.md). The output of each command is
described on its own page.
"""


def commands_page() -> str:
    """Return the page, as Markdown."""
    return "\n".join([_COMMANDS_HEAD, *(_command_section(path, command) for path, command in command_tree().items())])


def _command_section(path: tuple[str, ...], command: Command) -> str:
    context = command.make_context(" ".join(path), [], resilient_parsing=True)
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    lines = [f"## {' '.join(path)}", "", _cell(command.help or ""), "", f"    {usage}", ""]
    records = option_records(command, context)
    if records:
        lines += ["| option | |", "|---|---|", *(f"| `{term}` | {_cell(meaning)} |" for term, meaning in records), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


_HEAD = """\
# Settings

Each setting belongs to a section of the settings file ([offpeak.toml](offpeak.toml) is a commented example), and has a
command line option. The command line takes precedence over the file, and the file over the default; `offpeak
show-config` shows each value and its origin.

The settings file is that of `--config`, else of `$OFFPEAK_CONFIG`, else `/etc/offpeak/offpeak.toml`.
"""


def settings_page() -> str:
    """Return the reference page of all settings, as Markdown."""
    return "\n".join([_HEAD, *map(_section, SECTIONS)])


def pages() -> dict[str, str]:
    """Return the generated pages of docs/reference by file name."""
    return {
        "offpeak.toml": example_toml(),
        "settings.md": settings_page(),
        "commands.md": commands_page(),
        "pdu-families.md": pdu_families_page(),
    }


def main() -> None:
    """Write the pages below docs/reference of the repository in which this is run."""
    for name, text in pages().items():
        Path("docs", "reference", name).write_text(text, encoding="utf-8")


def _section(section: str) -> str:
    head = f"## [{section}]\n\n{SECTIONS[section].__doc__}\n\n| setting | option | kind | unit | default | meaning |"
    rows = [_row(setting) for setting in SETTINGS if setting.section == section]
    return "\n".join([head, "|---|---|---|---|---|---|", *rows, ""])


def _row(setting: Setting) -> str:
    default = "none" if setting.default is None else f"`{toml(setting.default)}`"
    cells = [f"`{setting.key}`", f"`{setting.flag}`", setting.kind.name, setting.unit, default, setting.doc]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
