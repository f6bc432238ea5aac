"""The status page: its load without viewers, and how fast a browser shows a large site."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.agent_at_rest import used_by
from benchmarks.bars import Measured
from benchmarks.peers import peer

NODES, JOBS = 1000, 5000
REST_S, UPDATES = 60.0, 5
DATA = f"{NODES:,} nodes, {JOBS:,} jobs"
DRAWN = "html[data-status][data-nodes][data-jobs][data-prices][data-power]"
PATIENCE_MS = 120_000
PAINT_MS = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
UPDATES_MS = "performance.getEntriesByType('measure').filter(at => at.startTime > {since}).map(at => at.duration)"


class Installed:
    """Starts the installed command: a process that the tests fork has the memory of all that they import."""

    def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start `offpeak` with these words; it writes into the log."""
        command = [str(Path(sys.executable).with_name("offpeak")), *arguments]
        with log.open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, env=dict(environment))


def page_benchmarks() -> Iterator[Measured]:
    """Measure; what a browser does only where there is Chromium."""
    sites = peer("page_site")
    shown = sites.make_snapshot(NODES, JOBS)
    with tempfile.TemporaryDirectory() as folder, sites.page_site(Installed(), Path(folder), shown, hours=3) as site:
        before, began_s = used_by(site.process.pid), time.monotonic()
        time.sleep(REST_S)
        after = used_by(site.process.pid)
        share = (after.cpu_s - before.cpu_s) / (time.monotonic() - began_s)
        yield Measured("page and metrics while nobody looks", 100 * share, "% of a core", 1.0, False, f"{REST_S:g} s")
        yield Measured("their memory", after.rss_mib, "MiB", 60.0, False, "")
        if shutil.which("chromium"):
            paint_ms, update_ms = _shown(site)
            yield Measured("first paint of the page", paint_ms, "ms", 1000.0, False, DATA)
            yield Measured("an update of the page, all of it", update_ms, "ms", 100.0, False, DATA)


def _shown(site: Any) -> tuple[float, float]:
    """Return the time to the first paint, and the median time that a browser takes for a cycle's changes [ms]."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.goto(site.url)
        page.wait_for_selector(DRAWN, state="attached", timeout=PATIENCE_MS)
        paint_ms = float(page.evaluate(PAINT_MS))
        took_ms = sorted(_updated_ms(page, site) for _ in range(UPDATES))
        browser.close()
        return paint_ms, took_ms[UPDATES // 2]


def _updated_ms(page: Any, site: Any) -> float:
    count, since = page.get_attribute("html", "data-jobs"), page.evaluate("performance.now()")
    site.change()
    page.wait_for_selector(f"html:not([data-jobs='{count}'])", state="attached", timeout=PATIENCE_MS)
    return float(sum(page.evaluate(UPDATES_MS.format(since=since))))
