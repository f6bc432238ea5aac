"""The functions of `import offpeak`, for notebooks: load a log, price it, replay it, compare the policies, plot.

They call what `offpeak simulate` calls, so the figures are those of the command. A keyword is an option of the command:
`node_class="server"` is --node-class.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from html import escape
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa

from offpeak.errors import BadInput, OffpeakError
from offpeak.settings.table import BY_NAME
from offpeak.sim_backend.case.replay_case import PreparedCase
from offpeak.text import counted, did_you_mean
from offpeak.ui.estimate.accounting_source import Accounting, log_on_cluster
from offpeak.ui.options import CommandSettings
from offpeak.ui.python_tables import ArrowTable, is_table, sacct_text, series_file, to_pandas
from offpeak.ui.replay.command import SIMULATED
from offpeak.ui.replay.comparison import basis_lines, policies_json, policy_table, rejected_remark
from offpeak.ui.replay.simulate import LogReplay, prepare_log, replay_log
from offpeak.ui.replay.unused import refuse_unused
from offpeak.ui.report.figure import layout
from offpeak.ui.report.subject import subject_of
from offpeak.ui.report.write import figures_of
from offpeak.ui.terminal import table_lines

if TYPE_CHECKING:
    import pandas

SECTIONS = {"load": "log machine", "price": "prices carbon plan power", "replay": "scheduling capacity"}
"""The sections of the settings whose options each function takes."""
KEYWORDS = {BY_NAME[name].flag[2:].replace("-", "_"): name for name in SIMULATED}
OFFERED = {
    function: {keyword: name for keyword, name in KEYWORDS.items() if BY_NAME[name].section in sections.split()}
    for function, sections in SECTIONS.items()
}
"""The setting of each keyword, by function."""
TABLES = {"prices.file": "prices", "carbon.source": "carbon"}
"""The settings that are files of series, and the options that set them."""
FEWEST_RANGES = 2
"""A range needs so many replays; the command asks for more, for ranges that say something."""


@dataclass(frozen=True, eq=False)
class LoadedLog:
    """A job log with the options so far; `prepared` is None before `price`, which maps it to the dates from `start`."""

    accounting: Accounting
    chosen: CommandSettings
    start: str | None = None
    prepared: PreparedCase | None = None

    def __repr__(self) -> str:
        trace = self.accounting.trace
        basis = basis_lines(self.prepared.basis) if self.prepared else ()
        notes = (f"- {note}" for note in self.notes)
        return "\n".join([f"{trace.name}: {counted(len(trace.jobs), 'job')}", *basis, *notes])

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed of the log, and which jobs were left out."""
        return (*self.accounting.trace.notes, *map(rejected_remark, self.accounting.trace.rejected))


class PolicyFigures(list[dict[str, Any]]):
    """The figures of each policy, as `offpeak simulate --json` has them; shown as the table of the command."""

    text = ""

    def __repr__(self) -> str:
        return self.text

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each policy."""
        return pa.Table.from_pylist(list(self))

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table of `to_arrow` as a DataFrame."""
        return to_pandas(self.to_arrow())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


@contextmanager
def _hint_as_note() -> Iterator[None]:
    """Show the hint of an error below its traceback; the command prints it by itself."""
    try:
        yield
    except OffpeakError as error:
        if error.hint:
            error.add_note(f"Hint: {error.hint}")
        raise


@_hint_as_note()
def load(
    source: str | PathLike[str] | ArrowTable,
    *,
    config: str | PathLike[str] | None = None,
    lenient: bool = False,
    **options: Any,
) -> LoadedLog:
    """Return the job log; options: nodes, cluster, time_zone and so on.

    `source` is a file of any format that `offpeak simulate` reads, or a DataFrame or Arrow table with the columns of
    sacct. `config` is a settings file, the one of the command by default. `lenient` skips malformed lines.
    """
    if not (isinstance(source, str | PathLike) or is_table(source)):
        raise BadInput(
            f"load() does not accept {_kind(source)}", hint="give a path, a DataFrame or an Arrow table of jobs"
        )
    if not isinstance(config, str | PathLike | None):
        raise BadInput(f"config cannot be of type {_kind(config)}", hint="give the path of a settings file")
    chosen = CommandSettings(None if config is None else Path(config), _settings("load", options))
    log = fspath(source) if isinstance(source, str | PathLike) else sacct_text(source)
    return LoadedLog(log_on_cluster(log, chosen.read(), lenient=lenient), chosen)


@_hint_as_note()
def price(log: LoadedLog, *, start: str | date | None = None, **options: Any) -> LoadedLog:
    """Return the log with prices and the power of its jobs; options: prices, tariff, carbon, node_class and so on.

    `prices` and `carbon` are files, or tables with a column or index of times. `start` is the date of the prices to
    which the log's start is mapped.
    """
    _check("price", log, LoadedLog, "load")
    if not isinstance(start, str | date | None):
        raise BadInput(f"start cannot be of type {_kind(start)}", hint='write it like "2023-01-09"')
    start = start.isoformat() if isinstance(start, date) else start
    priced = replace(log, chosen=_with(log.chosen, "price", options), start=start)
    return replace(priced, prepared=prepare_log(log.accounting, priced.chosen.read(), start=start))


@_hint_as_note()
def replay(log: LoadedLog, *, replays: int | None = None, **options: Any) -> LogReplay:
    """Replay the log; options: policy=["easy", "greedy"], capacity, max_postponement and so on.

    `replays` replays each policy so often with shifted submit times, to give ranges. A log without `price` gets the
    prices of the settings.
    """
    _check("replay", log, LoadedLog, "load")
    replays = replays.item() if isinstance(replays, np.generic) else replays
    if replays is not None and not (isinstance(replays, int) and replays >= FEWEST_RANGES):
        raise BadInput(f"replays={replays!r} is not a number of replays", hint=f"at least {FEWEST_RANGES}")
    chosen = _with(log.chosen, "replay", options)
    settings = chosen.read()
    refuse_unused(chosen.given, settings, log.accounting, is_repeated=replays is not None)
    return replay_log(log.accounting, settings, start=log.start, replays=replays)


@_hint_as_note()
def compare(replayed: LogReplay) -> PolicyFigures:
    """Return the figures of each policy. Savings are against the first policy."""
    _check("compare", replayed, LogReplay, "replay")
    figures = PolicyFigures(policies_json(replayed.comparison))
    figures.text = "\n".join(table_lines(policy_table(replayed.comparison.outcomes)))
    return figures


@_hint_as_note()
def plot(replayed: LogReplay, figure: str = "cost", *, choice: str | None = None) -> go.Figure:
    """Return a figure of the report: cost, power, hours or wait; if nodes sleep nodes, trade, weeks, delays or cycles.

    `choice` is the policy of the figures that show one at a time, and of trade its horizontal axis.
    """
    _check("plot", replayed, LogReplay, "replay")
    makers = figures_of(subject_of(replayed.trace, replayed.prepared, replayed.comparison, replayed.spreads))
    if figure not in makers:
        raise BadInput(f"no figure {figure!r} of this replay", hint=did_you_mean(str(figure), makers))
    made = makers[figure]()
    if choice is not None and choice not in made.choices:
        raise BadInput(f"{figure}: no choice {choice!r}", hint=did_you_mean(str(choice), made.choices))
    shown = made.choices.index(choice) if choice is not None else made.shown
    traces = [trace for trace in made.data if trace.get("meta", {"choice": shown})["choice"] == shown]
    # The legend of the report is a part of its page.
    first = {trace.get("name"): number for number, trace in reversed([*enumerate(traces)])}
    traces = [trace | {"showlegend": "name" in trace and first[trace["name"]] == at} for at, trace in enumerate(traces)]
    look = {"title": made.heading, "showlegend": True, "paper_bgcolor": "var(--card)"}
    own = made.layout | (made.choice_layouts[shown] if made.choice_layouts else {})
    return go.Figure(_coloured({"data": traces, "layout": layout(own) | look}))


def _with(chosen: CommandSettings, function: str, options: Mapping[str, Any]) -> CommandSettings:
    return replace(chosen, options={**chosen.options, **_settings(function, options)})


def _settings(function: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options by the names of their settings; raise BadInput for one that the function does not take."""
    offered = OFFERED[function]
    for keyword in options:
        if keyword not in offered:
            other = next((each for each, keywords in OFFERED.items() if keyword in keywords), None)
            hint = f"it is an option of {other}()" if other else did_you_mean(keyword, offered)
            raise BadInput(f"{function}() has no option {keyword!r}", hint=hint)
    return {offered[key]: _plain(offered[key], value) for key, value in options.items()}


def _plain(setting: str, value: Any) -> Any:
    """Return the value of an option as the command has it: a path as text, a table as the path of its file."""
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    if not is_table(value):
        return value
    if setting not in TABLES:
        flag = BY_NAME[setting].flag
        raise BadInput(
            f"{flag} does not accept a table", hint=f"tables are taken as {' and '.join(sorted(TABLES.values()))}"
        )
    return str(series_file(value, TABLES[setting]))


def _check(function: str, value: object, kind: type, maker: str) -> None:
    if not isinstance(value, kind):
        raise BadInput(f"{function}() does not accept {_kind(value)}", hint=f"give what {maker}() returns")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _coloured(value: Any) -> Any:
    """Return a figure with the colours of the bright page for their names."""
    if isinstance(value, dict):
        return {key: _coloured(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_coloured(each) for each in value]
    return _palette()[value[6:-1]] if isinstance(value, str) and value.startswith("var(--") else value


@cache
def _palette() -> dict[str, str]:
    bright = files("offpeak.services.page").joinpath("palette.css").read_text(encoding="utf-8").partition("@media")[0]
    return dict(re.findall(r"--([\w-]+): ([^;]+);", bright))
