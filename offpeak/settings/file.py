"""The settings file: its path, its reader, and the commented example that is generated from the table.

The command line wins over the file, the file over the default. The texts of the table are also the help of an option.
"""

import json
import os
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from offpeak.errors import BadInput, BadSetting
from offpeak.files import is_there
from offpeak.settings.kinds import Setting, SettingValue
from offpeak.settings.table import BY_NAME, SECTIONS, SETTINGS
from offpeak.text import did_you_mean

SYSTEM_FILE = Path("/etc/offpeak/offpeak.toml")

_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*([\w."'-]+)\s*=""")


def settings_path(
    config: Path | None, environment: Mapping[str, str], *, system_file: Path = SYSTEM_FILE
) -> Path | None:
    """Return the settings file: `config`, else what $OFFPEAK_CONFIG names, else the system's if there is one."""
    if config is not None:
        return config
    if environment.get("OFFPEAK_CONFIG"):
        return Path(environment["OFFPEAK_CONFIG"])
    return system_file if is_there(system_file) else None


def users_settings_path(
    config: Path | None, environment: Mapping[str, str], *, system_file: Path = SYSTEM_FILE
) -> Path | None:
    """Return the same for a user who only queries the agent: the system's file counts if that user may read it.

    The system's file may hold a database's address; the agent's address is mostly the default.
    """
    named = config or environment.get("OFFPEAK_CONFIG")
    if not named and not os.access(system_file, os.R_OK):
        return None
    return settings_path(config, environment, system_file=system_file)


def read_values(
    path: Path | None, *, options: Mapping[str, object] | None = None, without: str = ""
) -> dict[str, SettingValue]:
    """Return one value per setting, by name, `options` first; the file may have a section `without` settings.

    Raises BadSetting with a line for each wrong one.
    """
    values = {setting.name: _value(setting, setting.default, "default") for setting in SETTINGS}
    problems: list[BadSetting] = []
    for name, written, origin in [*_file_entries(path, without), *_options(options or {})]:
        try:
            values[name] = _value(_find_setting(name, origin), written, origin)
        except BadSetting as problem:
            problems.append(problem)
    if problems:
        hints = dict.fromkeys(problem.hint for problem in problems)
        raise BadSetting("\n".join(map(str, problems)), hint="\n".join(hints))
    return values


def _value(setting: Setting, written: object, origin: str) -> SettingValue:
    if written is None:
        return SettingValue(None, None, origin)
    try:
        return SettingValue(written, setting.kind.read(written), origin)
    except BadInput as error:
        raise BadSetting(f"{origin}: {setting.name}: {error}", hint=error.hint) from error


def _options(options: Mapping[str, object]) -> Iterator[tuple[str, object, str]]:
    return ((name, written, BY_NAME[name].flag) for name, written in options.items() if written is not None)


def _file_entries(path: Path | None, without: str) -> Iterator[tuple[str, object, str]]:
    """Yield the name, the value and `file:line` of everything written in the settings file."""
    text = "" if path is None else _read(path)
    lines = _lines_of_keys(text)
    for section, content in _parse(text, str(path)).items():
        for name, written in _section_entries(section, content) if section != without else ():
            yield name, written, f"{path}:{lines.get(name) or lines.get(section, 1)}"


def _section_entries(section: str, content: object) -> Iterator[tuple[str, object]]:
    """Yield the values of a top-level entry of the file by setting name, or `[section]` for an unknown section."""
    if not isinstance(content, dict):
        yield section, content
    elif section not in SECTIONS:
        yield f"[{section}]", content
    else:
        yield from ((f"{section}.{key}", written) for key, written in content.items())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        hint = "name one with --config or $OFFPEAK_CONFIG; offpeak show-config --example prints one"
        raise BadSetting(f"{path}: cannot read the settings file: {error.strerror}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise BadSetting(f"{path}: the settings file is not UTF-8 text", hint="save it as UTF-8") from error


def _parse(text: str, file: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else len(text.splitlines())
        reason = re.sub(r" \(at .*\)$", "", str(error))
        hint = 'the file is TOML: text stands in quotes, as in idle = "75W"'
        raise BadSetting(f"{file}:{line}: {reason}", hint=hint) from error


def _lines_of_keys(text: str) -> dict[str, int]:
    """Return the line, from 1, of every section and key: tomllib keeps no lines."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if table := _TABLE.match(line):
            section = _bare(table[1])
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            name = f"{section}.{_bare(key[1])}".lstrip(".")
            lines.setdefault(name, number)
    return lines


def _bare(key: str) -> str:
    return re.sub(r"""["'\s]""", "", key)


def _find_setting(name: str, origin: str) -> Setting:
    if name in BY_NAME:
        return BY_NAME[name]
    what = "is not a setting" if "." in name else "is not a section" if "[" in name else "stands outside every section"
    raise BadSetting(f"{origin}: {name} {what}", hint=_hint_for_unknown(name))


def _hint_for_unknown(name: str) -> str:
    """Return the hint for an unknown name: the same key in another section, else the closest spelling."""
    for setting in SETTINGS:
        if setting.key == name.rpartition(".")[2]:
            return f"write it as {setting.key} below [{setting.section}]"
    return did_you_mean(name, BY_NAME if "." in name else [f"[{section}]" for section in SECTIONS])


_HEAD = """\
# Settings of offpeak. Copy this file to /etc/offpeak/offpeak.toml, or name it with --config or $OFFPEAK_CONFIG,
# and uncomment what you change. An option on the command line wins over this file, this file over the defaults.
# A relative path counts from the directory in which offpeak is started.
"""


def example_toml() -> str:
    """Return the commented example file: every setting, commented out, with its default or else an example."""
    return "\n".join([_HEAD, *(line for section in SECTIONS for line in _section(section))])


def toml(written: object) -> str:
    """Return a setting's value in TOML, or "none" if it is not set."""
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
