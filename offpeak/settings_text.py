"""What is written about the settings from their table: the commented example file and the help of an option."""

import json
import textwrap
from collections.abc import Iterator

from offpeak.setting_row import Setting
from offpeak.settings import SECTIONS, SETTINGS

_HEAD = """\
# Settings of offpeak. Copy this file to /etc/offpeak/offpeak.toml, or name it with --config or $OFFPEAK_CONFIG,
# and uncomment what you change. An option on the command line wins over this file, this file over the defaults.
# A relative path counts from the directory in which offpeak is started.
"""


def example_toml() -> str:
    """Return the commented example file: every setting, commented out, with its default or else an example."""
    return "\n".join([_HEAD, *(line for section in SECTIONS for line in _section(section))])


def toml(written: object) -> str:
    """Return a setting's value as TOML writes it, or "none" where nothing is set."""
    return "none" if written is None else json.dumps(written, ensure_ascii=False)


def help_text(setting: Setting) -> str:
    """Return the setting's meaning with its default, in one line."""
    default = "none" if setting.default is None else " ".join([plain(setting.default), setting.unit]).strip()
    return f"{setting.doc} [default: {default}]"


def plain(written: object) -> str:
    """Return a value as an operator types it on the command line."""
    if isinstance(written, bool) or written is None:
        return toml(written)
    return ",".join(map(str, written)) if isinstance(written, list | tuple) else str(written)


def _section(section: str) -> Iterator[str]:
    yield f"# {SECTIONS[section].__doc__}"
    yield f"[{section}]\n"
    for setting in SETTINGS:
        if setting.section == section:
            yield from textwrap.wrap(setting.doc, 110, initial_indent="# ", subsequent_indent="# ")
            yield f"# {_facts(setting)}"
            yield f"#{setting.key} = {toml(setting.example)}\n"


def _facts(setting: Setting) -> str:
    kind = f"{setting.kind.name}, {setting.unit}" if setting.unit else setting.kind.name
    return f"{kind.capitalize()}. Default: {toml(setting.default)}. Option: {setting.flag}"
