"""The part as a whole, all of its results known from before."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from drawings import drawn_groups, drawn_marks

from offpeak.executor import LocalProcesses
from offpeak_studies.energy_carbon.federation import FederationResult, SelectionCase
from offpeak_studies.energy_carbon.federation_study import RUN, federation, planned
from offpeak_studies.harness import JOURNAL, Replays, StudyOrder, result_key
from offpeak_studies.report import BAND, markdown

KNOWN = FederationResult(7500.0, 3.0, 100.0, 1800.0, (400, 500, 600), (2500.0, 2500.0, 2500.0))


def test_the_tables_are_whole(tmp_path: Path) -> None:
    lines = []
    for experiment in planned(Replays(1, 1)):
        normal = (
            isinstance(experiment.case, SelectionCase)
            and not experiment.case.asleep
            and experiment.case.selection == "round-robin"
        )
        result = replace(KNOWN, energy_kwh=10_000.0, co2_kg=6.0) if normal else KNOWN
        lines.append(
            json.dumps({"key": result_key(RUN, experiment), "of": asdict(experiment), "result": asdict(result)})
        )
    (tmp_path / JOURNAL).write_text("\n".join(lines) + "\n")
    report = federation(StudyOrder(None, tmp_path, 1, 1, LocalProcesses(1)), lambda _done, _total: None)
    tables = {table.name: table for table in report.tables}
    assert list(tables) == ["energy", "co2", "waits", "limits", "table-ix"]
    assert all(len(row) == len(table.headers) for table in tables.values() for row in table.rows)
    assert [cell.mean for cell in tables["energy"].rows[1][2:]] == [25.0] * 5
    assert [cell.mean for cell in tables["co2"].rows[1][2:]] == [50.0] * 5
    assert [row[4] for row in tables["table-ix"].rows] == ["16, 57, 62", "5, 25, 106", "11, 61, 63", "43, 45, 47"]
    assert tables["table-ix"].rows[1][8] == pytest.approx(21.6, abs=0.05)
    assert "| FP | 27000000.00 | 6182.00 |" in markdown(report)
    figure = report.figures["federation.svg"]
    assert drawn_marks(figure) == {"panel-1-energy": 12, "panel-1-CO2": 3}
    drawn = list(drawn_groups(figure)["panel-1"].iter())
    last_band = max(at for at, part in enumerate(drawn) if BAND in part.attrib.get("style", ""))
    first_mark = min(at for at, part in enumerate(drawn) if part.attrib.get("id") == "panel-1-energy")
    assert last_band < first_mark
