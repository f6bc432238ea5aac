"""Draws docs/images/report.png and page-light.png, as Debian's Chromium shows them; run by `make reference`.

The report is the upper part of that of the bundled sacct dump, the page is the upper part of that of the tests' site.
"""

import base64
import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, sync_playwright

SAMPLE = Path("sim_backend", "sample")
IMAGES = Path("docs", "images")
OPTIONS = (
    *("--time-zone", "Europe/Berlin", "--policy", "easy,greedy,knapsack", "--replays", "10", "--anonymise"),
    *("--prices", SAMPLE / "sample_prices_eur_per_mwh.csv.gz"),
)
REPORT_SIZE = {"width": 1100, "height": 800}
PAGE_SIZE = {"width": 1280, "height": 1152}
LAST = "#power"
MARGIN = 32
COLOURS = 256

# A picture that the browser has taken, as the bytes of its pixels in base 64.
PIXELS = """async (png) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const reader = new FileReader();
  reader.readAsDataURL(new Blob([canvas.getImageData(0, 0, image.width, image.height).data]));
  await new Promise((resolve) => { reader.onload = resolve; });
  return reader.result.split(",")[1];
}"""


def main() -> None:
    """Make report and page in the repository's root and take their pictures."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        # Chromium refuses to put its pages into a sandbox when root starts it.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        # The browser's own files would be three times as large.
        for name, taken in (("report", report(browser, Path(folder))), ("page-light", page(browser, Path(folder)))):
            (IMAGES / f"{name}.png").write_bytes(png(pixels(browser, taken)))
        browser.close()


def report(browser: Browser, folder: Path) -> bytes:
    """Return what the report shows from its head to the end of the element LAST."""
    file = folder / "report.html"
    offpeak = Path(sys.executable).with_name("offpeak")
    command = (offpeak, "simulate", SAMPLE / "sample_sacct.txt.gz", *OPTIONS, "--report", file)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    tab = browser.new_page(viewport=REPORT_SIZE, color_scheme="light")
    tab.goto(file.as_uri())
    tab.wait_for_selector("html[data-drawn]", state="attached")
    clip = {"x": 0, "y": 0, "width": REPORT_SIZE["width"], "height": end_of(tab) + MARGIN}
    return tab.screenshot(full_page=True, clip=clip)


def page(browser: Browser, folder: Path) -> bytes:
    """Return the first screen of the status page on today's saving."""
    sys.path[:0] = [str(Path.cwd()), str(Path("tests", "peers").resolve())]
    from page_site import make_snapshot, page_site
    from zygote import zygote_in

    with zygote_in(folder) as zygote, page_site(zygote, folder, make_snapshot()) as site:
        tab = browser.new_page(viewport=PAGE_SIZE, color_scheme="light")
        tab.goto(site.url)
        tab.wait_for_selector("html[data-status][data-nodes][data-events][data-saved][data-prices]", state="attached")
        tab.click("#range button[value=day]")
        tab.wait_for_selector("#saved .plot[aria-label^='power by node state']")
        tab.wait_for_timeout(1000)
        return tab.screenshot()


def end_of(tab: Page) -> int:
    """Return how far down the report the element LAST ends [px]."""
    end: int = tab.eval_on_selector(LAST, "each => Math.ceil(each.getBoundingClientRect().bottom)")
    return end


def pixels(browser: Browser, taken: bytes) -> NDArray[np.uint8]:
    """Return the red, green and blue of each pixel, line by line."""
    encoded = browser.new_page().evaluate(PIXELS, base64.b64encode(taken).decode())
    (height,) = struct.unpack_from(">I", taken, 20)
    return np.frombuffer(base64.b64decode(encoded), np.uint8).reshape(height, -1, 4)[..., :3]


def png(image: NDArray[np.uint8]) -> bytes:
    """Return a PNG file with the image's most frequent colours; others become the nearest of these."""
    colours, which, count = np.unique(image.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(-count, kind="stable")[:COLOURS]]
    distance = ((colours[:, None].astype(int) - palette) ** 2).sum(axis=2)
    lines = distance.argmin(axis=1).astype(np.uint8)[which].reshape(image.shape[:2])
    unfiltered = np.pad(lines, ((0, 0), (1, 0)))
    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", palette.tobytes()),
        (b"IDAT", zlib.compress(unfiltered.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, content) for kind, content in chunks)


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a part of a PNG file."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


if __name__ == "__main__":
    main()
