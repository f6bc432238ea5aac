"""Where the carbon intensity of a site comes from."""

from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.predictors.feeds.port import Window
from offpeak.predictors.site_sources import build_carbon_source, carbon_series
from offpeak.settings.replay import CarbonSettings, FeedSettings

WINDOW = Window(1_795_280_400, 1_795_287_600)


def test_one_figure_holds_for_all_hours() -> None:
    series, problems = carbon_series(
        build_carbon_source(FeedSettings(), CarbonSettings("0.4kg/kWh")), WINDOW, WINDOW.from_s
    )
    assert series is not None
    assert (series.value.tolist(), series.start_s.tolist(), series.end_s) == ([400.0], [WINDOW.from_s], WINDOW.until_s)
    assert problems == ()


def test_a_file_is_read_for_the_window(tmp_path: Path) -> None:
    file = tmp_path / "carbon_g_per_kwh.csv"
    rows = [f"{np.datetime64(at, 's')}Z,{300 + index}" for index, at in enumerate(range(WINDOW[0], WINDOW[1], 3600))]
    file.write_text("\n".join(["utc,carbon", *rows]) + "\n")
    source = build_carbon_source(FeedSettings(cache=tmp_path / "cache"), CarbonSettings(str(file)))
    series, _ = carbon_series(source, WINDOW, WINDOW.from_s)
    assert series is not None
    assert series.value.tolist() == [300.0, 301.0]


def test_without_a_source_nothing_is_known() -> None:
    assert carbon_series(build_carbon_source(FeedSettings(), CarbonSettings()), WINDOW, WINDOW.from_s) == (None, ())


def test_a_figure_without_a_unit_is_refused() -> None:
    with pytest.raises(BadInput):
        build_carbon_source(FeedSettings(), CarbonSettings("400"))
