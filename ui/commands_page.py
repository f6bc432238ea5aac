"""The reference page of all commands, from the commands themselves."""

from ui.manual import Command, command_tree, option_records

_HEAD = """\
# Commands

Every command with what it takes, as `--help` and [its man page](../how-to/shell.md) say it. What a command
prints, and what that means, is on its own page.
"""


def commands_page() -> str:
    """Return the page, as Markdown."""
    return "\n".join([_HEAD, *(_section(words, command) for words, command in command_tree().items())])


def _section(words: tuple[str, ...], command: Command) -> str:
    context = command.make_context(" ".join(words), [], resilient_parsing=True)
    usage = " ".join([*words, *command.collect_usage_pieces(context)])
    lines = [f"## {' '.join(words)}", "", _cell(command.help or ""), "", f"    {usage}", ""]
    records = option_records(command, context)
    if records:
        lines += ["| option | |", "|---|---|", *(f"| `{term}` | {_cell(said)} |" for term, said in records), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
