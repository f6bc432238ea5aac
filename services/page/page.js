// Follows the stream of events; each section of the page is drawn when there is something new of it.
import { redraw, setNow, showPowerSlots, showPrices } from "./figures.js";
import { showEvents, showForecasts, showJobs } from "./lists.js";
import { nodeRows, showNodes } from "./nodes.js";
import { setZone } from "./text.js";
import { showAge, showPower, showSaved, showStatus } from "./tiles.js";

const root = document.documentElement;
let status = null, nowS = 0, heardMs = Date.now();

const SECTIONS = {
  status(said) {
    if (said.zone && said.zone !== status?.zone) {
      setZone(said.zone);
      redraw();
    }
    status = said;
    heardMs = Date.now();
    showStatus(said);
    if (said.silent) return;
    nowS = said.at_unix_s;
    setNow(nowS);
    showForecasts(said.forecasts);
    showAge(status, heardMs);
  },
  prices: showPrices,
  nodes(said) {
    const rows = nodeRows(said);
    showNodes(rows, nowS);
    showPower(rows);
  },
  jobs: (said) => showJobs(said, nowS),
  events: (said) => showEvents(said, nowS),
  power: showPowerSlots,
  saved: showSaved,
};

const stream = new EventSource("/events");
for (const [name, show] of Object.entries(SECTIONS)) {
  stream.addEventListener(name, async ({ data }) => {
    const begunMs = performance.now();
    await show(JSON.parse(data));
    performance.measure(`offpeak ${name}`, { start: begunMs });
    root.dataset[name] = String(Number(root.dataset[name] ?? 0) + 1);
  });
}
stream.addEventListener("error", () => {
  const looked = document.getElementById("looked");
  looked.dataset.is = "late";
  looked.textContent = "the page's service does not answer; trying again";
});
setInterval(() => stream.readyState === EventSource.OPEN && showAge(status, heardMs), 5000);
