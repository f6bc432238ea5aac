"""Generate the reference pages of commands, settings, price files, PDUs and rules for schedulers: `make reference`.

The page of the commands comes from the commands themselves.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple, Self

from offpeak.model.zones import zone_text
from offpeak.plugin.contract.pbs import OPENPBS_RULES, TORQUE_RULES
from offpeak.plugin.contract.rules import Rule
from offpeak.plugin.contract.slurm import SLURM_RULES
from offpeak.power.meters.snmp.family import ColumnSpec, RowSource, bundled_family, bundled_names
from offpeak.prices.exports import Export, known_exports
from offpeak.settings.file import example_toml, toml
from offpeak.settings.kinds import Setting
from offpeak.settings.table import SECTIONS, SETTINGS
from offpeak.ui.manual import Command, command_tree, option_records

_COMMANDS_HEAD = """\
# Commands

All commands with their own options, as in `--help` and [the man pages](../how-to/shell.md). Options that are
[settings](settings.md) are listed by name. Each command has `--help`, and `--config FILE` if it reads settings. The
output of a command is described on its own page. These options are those of several commands:
"""
_EVERYWHERE = {"--help", "--config"}
_OFTEN = 3
"""An option of so many commands is explained once, at the top."""


def commands_page() -> str:
    """Return the page, as Markdown."""
    commands = {path: _Options.of(path, command) for path, command in command_tree().items()}
    often = [line for line, uses in Counter(chain(*(each.own for each in commands.values()))).items() if uses >= _OFTEN]
    sections = [options.section(" ".join(path), often) for path, options in commands.items()]
    return "\n".join([_COMMANDS_HEAD, *often, "", *sections])


class _Options(NamedTuple):
    """The help of a command, its own options as lines of Markdown, and the names of those that are settings."""

    help: str
    own: list[str]
    settings: list[str]

    @classmethod
    def of(cls, path: tuple[str, ...], command: Command) -> Self:
        context = command.make_context(" ".join(path), [], resilient_parsing=True)
        doc_of = {setting.flag: setting.doc for setting in SETTINGS}
        own, settings = [], []
        for term, meaning in option_records(command, context):
            flags = set(re.findall(r"--[a-z][a-z0-9-]*", term))
            # Some commands have an option of their own with the name of a setting, such as `check --cycle NODE`.
            if found := [flag for flag in sorted(flags & doc_of.keys()) if meaning.startswith(doc_of[flag])]:
                settings += found
            elif not flags & _EVERYWHERE:
                own.append(f"- `{term}`: {_cell(meaning)}")
        return cls(_cell(command.help or ""), own, settings)

    def section(self, title: str, often: Sequence[str]) -> str:
        """Return the section of the command; options that occur often, and settings, have their names alone."""
        lines = [f"## {title}", "", self.help, "", *(line for line in self.own if line not in often), ""]
        names = [line[: line.index("`:") + 1].removeprefix("- ") for line in self.own if line in often]
        for what, found in (("Also", names), ("Settings", [f"`{flag}`" for flag in self.settings])):
            if found:
                lines += [f"{what}: {', '.join(found)}", ""]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


_SETTINGS_HEAD = """\
# Settings

Each setting belongs to a section of the settings file ([offpeak.toml](offpeak.toml) is a commented example), and has a
command line option: the one that follows its name, else the name with `-` for `_`. The command line takes precedence
over the file, and the file over the default; `offpeak show-config` shows each value and its origin.

The settings file is that of `--config`, else of `$OFFPEAK_CONFIG`, else `/etc/offpeak/offpeak.toml`.
"""


_PLAIN_KINDS = {"text", "path", "true or false"}
"""Kinds that the text or the default of a setting shows."""


def settings_page() -> str:
    """Return the reference page of all settings, as Markdown."""
    return "\n".join([_SETTINGS_HEAD, *map(_section, SECTIONS)])


def _section(section: str) -> str:
    entries = [_entry(setting) for setting in SETTINGS if setting.section == section]
    return "\n".join([f"## [{section}]", "", SECTIONS[section].__doc__ or "", "", *entries, ""])


def _entry(setting: Setting) -> str:
    flag = "" if setting.flag == f"--{setting.key.replace('_', '-')}" else f", `{setting.flag}`"
    kind = "" if setting.kind.name in _PLAIN_KINDS else f"{setting.kind.name} {setting.unit}".strip()
    default = "" if setting.default is None else f"default `{toml(setting.default)}`"
    brackets = ", ".join(filter(None, (kind, default)))
    return f"- `{setting.key}`{flag}{f' ({brackets})' if brackets else ''}: {setting.doc}"


_FAMILIES_HEAD = """\
# Families of PDUs

The values of `family` in the inventory. `auto` detects the family by the PDU's sysObjectID, else by trying each one.
The file of a family has its OIDs, the firmware that it was tested with, and the peculiarities of the models. [Read your
PDUs](../how-to/pdus.md) describes how to define a family.

If a family lists several sources of the total, the first with a value counts; its selected rows add up. Without a
total, the phases add up if each has a value, else the outlets if each has one. A negative number, "no such OID" and a
text that is not a number are missing values.

| family | models | MIB | phases | outlets | counter |
|---|---|---|---|---|---|"""
_FAMILIES = "../../power/meters/snmp/families"


def pdu_families_page() -> str:
    """Return the reference page of all bundled families, as Markdown."""
    return "\n".join([_FAMILIES_HEAD, *map(_family_row, bundled_names()), ""])


def _family_row(name: str) -> str:
    family = bundled_family(name)
    phases, outlets, energy = (
        ", ".join(_units(family.sources.get(kind, ()))) for kind in ("phase", "outlet", "energy")
    )
    counter = f"{energy}, {family.counters}" if energy else ""
    return f"| [{name}]({_FAMILIES}/{name}.toml) | {family.models} | {family.mib} | {phases} | {outlets} | {counter} |"


def _units(sources: tuple[RowSource, ...]) -> list[str]:
    """Return the units of the values, each once."""
    units = [_unit(column) for source in sources for column in (source.power, source.energy) if column]
    return list(dict.fromkeys(units))


def _unit(column: ColumnSpec) -> str:
    if column.units:
        return "as reported"
    return column.unit + (" with decimals" if column.digits else "")


_PRICES_HEAD = """\
# Price files

A price file is CSV, with commas, semicolons, tabs or bars, or JSON, plain or gzipped. These exports are read as they
come, without `--price-layout`. [`exports.toml`](../../offpeak/prices/exports.toml) has the names of their
columns. The last column here is that of the places, where a file has several.

| source | unit | clock | places |
|---|---|---|---|"""
_PRICES_FOOT = """
The unit is that of the file's name (`..._eur_per_mwh.csv`), of the column's name (`Price (EUR/MWh)`), or of the table.
Where the rows of several places are in one file, say which: `--price-layout area=DK1`.

Of any other file the first column that is no plain number has the times, and the price is the only column that its name
shows to be one, or the only one with numbers that is no load, no forecast and no part of the date. Where more than one
could be meant, none is read: the message lists them, and `--price-layout value=NAME` chooses. The output names the
column that was read. Beside a column of dates one of hours (0 to 23, or 1 to 24) or of clock times is read. Times in a
column such as `interval_end` are the ends.

What the names of the file and of the column, and columns such as `unit` and `currency`, say of the unit must agree with
one another and with the declared unit: `Cent/kWh`, `price_eur_kwh` or `kr/MWh` is not read as EUR/MWh. Prices of other
amounts (`EUR/GJ`, `mills/kWh`) and values that stand for none (`-9999`) are refused. Rows of two
areas, markets, sequences or resolutions by turns are refused, and so are numbers such as `1.040` or `1,040` where
nothing shows whether they are more than a thousand.

| times | |
|---|---|
| `2024-10-26T00:00Z`, `2024-10-26 00:00+02:00` | with their offset |
| `2024-10-26 00:00`, `26.10.2024 00:00`, `10/26/2024 1:00 PM`, `Oct 26, 2024 1:00 AM` | on the clock of `zone=` |
| `26/10/2025 02:00 (CEST) - 26/10/2025 02:15 (CEST)` | the first time, with the name of its clock |
| `2024-11-03 01:00 EDT` | with the name of its clock |
| `1729893600`, `1729893600000` | Unix seconds or milliseconds |

Rows may rise or fall in time. Without the name of a clock the order of the rows tells which hour of a repeated hour
they are. `n/e`, `N/A`, `-` and nothing are missing values. Units are a currency for a kWh or MWh (`EUR/MWh`,
`USD/kWh`), or a hundredth of it: `ct/kWh` of the euro, `p/kWh` of the pound, `öre/kWh` of the Swedish krona, and
`ctUSD/kWh`, `ctDKK/kWh` of any other. Carbon intensities are in `g/kWh`, `kg/MWh`, `t/MWh` or `lb/MWh`, also written
`gCO2eq/kWh` or `lbs/MWh`. Decimals follow a point or, as other columns show, a comma.
"""


def price_files_page() -> str:
    """Return the reference page of price files, as Markdown."""
    return "\n".join([_PRICES_HEAD, *map(_export_row, known_exports()), _PRICES_FOOT])


def _export_row(export: Export) -> str:
    unit = export.unit.replace("{currency}", "its currency")
    zone = zone_text(export.zone) if export.zone else ""
    return f"| {export.source} | {unit} | {zone} | {_code(export.area)} |"


def _code(pattern: str) -> str:
    return f"`{pattern.replace('|', chr(92) + '|')}`" if pattern else ""


_CONTRACT_HEAD = """\
# What the scheduler's configuration must promise

The rules for the configuration of Slurm, OpenPBS and Torque on whose nodes offpeak acts. `offpeak init`, `offpeak
check`, the agent at its start and in its rounds, `offpeak status` and the page report each broken rule in the same
words, with the line to change and its value. After a change of the configuration the agent reads it again within a
minute.

- A **danger** may cost a job or a node. In mode active offpeak puts none of the nodes concerned to sleep and switches
  none of them off; it still wakes them. `offpeak check` fails.
- With a **fault**, nodes do not sleep or wake, or jobs do not change places, as they should. `offpeak check` fails.
- **Advice**: all works, at a cost. `offpeak check` shows it as `look`.

If a rule excludes nodes, `offpeak init` leaves them out of `nodes`, with a comment. Where `nodes` is empty, only the
rules marked "queue" hold.
"""


def contract_page() -> str:
    """Return the reference page of the rules for schedulers, as Markdown."""
    lists = {"Slurm": SLURM_RULES, "OpenPBS": OPENPBS_RULES, "Torque": TORQUE_RULES}
    return "\n".join([_CONTRACT_HEAD, *(_rules_section(name, rules) for name, rules in lists.items())])


def _rules_section(scheduler: str, rules: Sequence[Rule]) -> str:
    lines = [f"## {scheduler}", ""]
    for severity, of_severity in groupby(sorted(rules, key=_rank), key=lambda rule: rule.severity):
        lines += [f"{str(severity).capitalize()}:", "", *map(_rule, of_severity), ""]
    return "\n".join(lines)


def _rank(rule: Rule) -> int:
    return list(type(rule.severity)).index(rule.severity)


def _rule(rule: Rule) -> str:
    mark = " (excludes nodes)" if rule.excludes else " (queue)" if rule.for_queue else ""
    return f"- **{rule.name}**{mark}: {rule.reason}"


def pages() -> dict[str, str]:
    """Return the generated pages of docs/reference by file name."""
    return {
        "offpeak.toml": example_toml(),
        "settings.md": settings_page(),
        "commands.md": commands_page(),
        "pdu-families.md": pdu_families_page(),
        "price-files.md": price_files_page(),
        "contract.md": contract_page(),
    }


def main() -> None:
    """Write the pages below docs/reference of the repository in which this is run."""
    for name, text in pages().items():
        Path("docs", "reference", name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
