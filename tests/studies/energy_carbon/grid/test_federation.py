"""The part as a whole, all of its results known from before."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from offpeak.errors import BadInput
from studies.energy_carbon.federation import FederationResult, SelectionCase
from studies.energy_carbon.federation_study import federation, key_of
from studies.energy_carbon.federation_tables import planned
from studies.report import markdown
from studies.resumable import JOURNAL, StudyOrder

KNOWN = FederationResult(7500.0, 3.0, 100.0, 112.0, 1800.0, (400, 500, 600), (2500.0, 2500.0, 2500.0))


def test_the_tables_are_whole(tmp_path: Path) -> None:
    lines = []
    for each in planned(1, 1):
        normal = isinstance(each.case, SelectionCase) and not each.case.asleep and each.case.selection == "round-robin"
        result = replace(KNOWN, energy_kwh=10_000.0, co2_kg=6.0) if normal else KNOWN
        lines.append(json.dumps({"key": key_of(each), "of": asdict(each), "result": asdict(result)}))
    (tmp_path / JOURNAL).write_text("\n".join(lines) + "\n")
    report = federation(StudyOrder(None, tmp_path, 1, 1, 1), lambda _done, _total: None)
    tables = {table.name: table for table in report.tables}
    assert list(tables) == ["energy", "co2", "waits", "limits", "table-ix"]
    assert all(len(row) == len(table.headers) for table in tables.values() for row in table.rows)
    assert [cell.mean for cell in tables["energy"].rows[1][2:]] == [25.0] * 5
    assert [cell.mean for cell in tables["co2"].rows[1][2:]] == [50.0] * 5
    assert [row[4] for row in tables["table-ix"].rows] == ["16, 57, 62", "5, 25, 106", "11, 61, 63", "43, 45, 47"]
    assert tables["table-ix"].rows[1][8] == pytest.approx(21.6, abs=0.05)
    assert "| FP | 27000000.00 | 6182.00 |" in markdown(report)
    figure = ElementTree.fromstring(report.figures["federation.svg"])
    drawn = [each.tag.rpartition("}")[2] for each in figure.iter()]
    assert drawn.count("circle") == 2 + 15
    assert max(at for at, tag in enumerate(drawn) if tag == "rect") < min(
        at for at, tag in enumerate(drawn) if tag == "line"
    )


def test_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="energy-carbon replays no logs"):
        federation(StudyOrder(tmp_path, tmp_path, 1, 1, 1), lambda _done, _total: None)
