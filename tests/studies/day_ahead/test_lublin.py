"""Jobs of a site by the models: arrivals, load, sizes and estimates are the requested ones."""

import numpy as np
import pytest

from offpeak_studies.day_ahead.inputs import SiteDemand, draw, small_share

DAY_S = 86_400
SITE = SiteDemand(jobs=1500, load=0.7, mean_cores=160.0, cores=10_000, widest=1024, longest_s=2 * DAY_S)


def test_load_sizes_and_span_are_those_of_the_site() -> None:
    drawn = draw(SITE, 20.0 * DAY_S, np.random.default_rng(1))
    work = np.dot(drawn.size, drawn.runtime_s)
    assert work / (SITE.cores * 20 * DAY_S) == pytest.approx(SITE.load, rel=1e-3)
    assert drawn.size.mean() == pytest.approx(SITE.mean_cores, rel=0.1)
    assert drawn.size.max() <= SITE.widest
    assert drawn.submit_s[-1] - drawn.submit_s[0] == pytest.approx(20 * DAY_S, rel=0.01)
    assert (drawn.runtime_s <= drawn.estimate_s).all()
    assert drawn.estimate_s.max() <= SITE.longest_s
    for mean, share in [(1.0, 1.0), (1e6, 0.0)]:
        assert small_share(SiteDemand(1, 0.5, mean, 100, 64, DAY_S)) == share


def test_the_same_chance_draws_the_same_jobs() -> None:
    first, second = (draw(SITE, 20.0 * DAY_S, np.random.default_rng(7)) for _ in range(2))
    assert first.submit_s.tolist() == second.submit_s.tolist()
    assert first.estimate_s.tolist() == second.estimate_s.tolist()
