"""Debian's Chromium for the tests that open a page."""

import os
import shutil
from collections.abc import Iterator

import pytest
from needed_programs import need
from playwright.sync_api import Browser, expect, sync_playwright

PATIENCE_MS = 300_000
"""A busy machine draws a page in many seconds."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser without a window. It runs an event loop in this thread: other tests of a module cannot have theirs."""
    need(["chromium"], packages="chromium")
    expect.set_options(timeout=PATIENCE_MS)
    # Chromium refuses to put its pages into a sandbox when root starts it.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        yield browser
        browser.close()
