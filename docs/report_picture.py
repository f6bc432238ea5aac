"""Draws docs/images/report.png: the upper part of the report of the bundled sacct dump, as Debian's Chromium shows it.

Run by `make reference`.
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
PICTURE = Path("docs", "images", "report.png")
OPTIONS = (
    *("--time-zone", "Europe/Berlin", "--policy", "easy,greedy,knapsack", "--replays", "10", "--anonymise"),
    *("--prices", SAMPLE / "sample_prices_eur_per_mwh.csv.gz"),
)
WIDTH = 1100
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
    """Make the report in the repository's root and take its picture."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder, "report.html")
        offpeak = Path(sys.executable).with_name("offpeak")
        command = (offpeak, "simulate", SAMPLE / "sample_sacct.txt.gz", *OPTIONS, "--report", report)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        # Chromium refuses to put its pages into a sandbox when root starts it.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        # The browser's own file would be three times as large.
        PICTURE.write_bytes(png(pixels(browser, screenshot(browser, report))))
        browser.close()


def screenshot(browser: Browser, report: Path) -> bytes:
    """Return what the page shows from its head to the end of the element LAST."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    return page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": end_of(page) + MARGIN})


def end_of(page: Page) -> int:
    """Return how far down the page the element LAST ends [px]."""
    end: int = page.eval_on_selector(LAST, "each => Math.ceil(each.getBoundingClientRect().bottom)")
    return end


def pixels(browser: Browser, taken: bytes) -> NDArray[np.uint8]:
    """Return the red, green and blue of each pixel, line by line."""
    encoded = browser.new_page().evaluate(PIXELS, base64.b64encode(taken).decode())
    return np.frombuffer(base64.b64decode(encoded), np.uint8).reshape(-1, WIDTH, 4)[..., :3]


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
