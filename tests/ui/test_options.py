"""Options made from the table of settings."""

from typing import Annotated

import typer
from typer.testing import CliRunner

from ui.options import option

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
