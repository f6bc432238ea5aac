"""Options made from the table of settings."""

from typing import Annotated

import typer
from typer.testing import CliRunner

from offpeak.model.node_class_file import bundled_node_classes
from power.capacity.registry import CAPACITY_POLICIES
from sim_backend.replay.policy import policy_docs
from ui.options import names_text, option

app = typer.Typer(rich_markup_mode=None)


@app.command()
def show(
    window: Annotated[int | None, option("scheduling.window")] = None,
    fill_gaps: Annotated[bool | None, option("prices.fill_gaps")] = None,
) -> None:
    typer.echo(f"{window} {fill_gaps}")


def output(*arguments: str) -> str:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).stdout


def test_flag_and_help_come_from_the_table() -> None:
    text = output("--help")
    assert "--window" in text
    assert "[default: 20 jobs]" in text


def test_an_option_that_is_not_given_is_none() -> None:
    assert output() == "None None\n"


def test_an_option_that_is_given() -> None:
    assert output("--window", "5", "--fill-gaps") == "5 True\n"
    assert output("--no-fill-gaps") == "None False\n"


def test_all_names_have_a_line() -> None:
    lines = [line.split(maxsplit=1) for line in names_text().splitlines() if line.startswith("  ")]
    known = [*policy_docs(), *(kind.example for kind in CAPACITY_POLICIES), *bundled_node_classes()]
    assert [name for name, _ in lines] == known
    assert all(what for _, what in lines)
