// The two figures: the price curve, and power by node state. Drawn in the page's colours, and again when these change.
import { clock, element, figure, local, number } from "./text.js";

const BEFORE_S = 12 * 3600, AFTER_S = 36 * 3600;
const BANDS = [
  ["with jobs", ["busy"], "--busy"], ["idle", ["on"], "--on"], ["booting or going down", ["booting", "going down"], "--booting"], ["standby", ["standby"], "--standby"],
  ["off", ["off"], "--off"], ["unknown", ["unknown"], "--unknown"],
];
const pricePlot = document.querySelector("#prices .plot");
const powerPlot = document.querySelector("#power .plot");
const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };
const MARGIN = { l: 42, r: 10, t: 8, b: 24 };
let prices = null, power = null, nowS = 0;
const loaded = new Promise((resolve) => {
  // After the first paint: it is by far the largest part of the page.
  requestAnimationFrame(() => setTimeout(() => {
    // Its maps would write a style sheet into the page, which the page's policy forbids: they get a template, which does nothing.
    const create = document.createElement;
    document.createElement = (name, ...more) => create.call(document, name === "style" ? "template" : name, ...more);
    const script = create.call(document, "script");
    script.src = "/static/plotly.min.js";
    script.onload = () => {
      document.createElement = create;
      resolve();
    };
    document.head.append(script);
  }));
});

export async function showPrices(said) {
  prices = said;
  await loaded;
  drawPrices();
}

export async function showPowerSlots(slots) {
  power = slots;
  await loaded;
  drawPower();
}

export function setNow(atS) {
  const moved = Math.abs(atS - nowS) >= 60;
  nowS = atS;
  if (moved && prices && window.Plotly) drawPrices();
}

export function redraw() {
  if (!window.Plotly) return;
  if (prices) drawPrices();
  if (power) drawPower();
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function layout(own, plot) {
  const axis = { gridcolor: colour("--grid"), linecolor: colour("--axis"), tickcolor: colour("--axis"), zeroline: false, fixedrange: true };
  const { xaxis, yaxis, ...rest } = own;
  return {
    width: plot.clientWidth, height: plot.clientHeight, margin: MARGIN, showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, hovermode: "x unified",
    font: { family: "system-ui, sans-serif", size: 12, color: colour("--muted") },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--axis"), font: { color: colour("--text") } },
    xaxis: { ...axis, type: "date", showgrid: false, showline: true, tickformat: "%H:%M", tickangle: 0, nticks: plot.clientWidth < 450 ? 5 : 9, ...xaxis },
    yaxis: { ...axis, nticks: 5, ...yaxis }, ...rest,
  };
}

function empty(plot, text) {
  Plotly.purge(plot);
  plot.replaceChildren(element("p", { className: "empty" }, text));
  plot.ariaLabel = text;
}

function ready(plot) {
  if (!plot.classList.contains("js-plotly-plot")) plot.replaceChildren();
}

/** The curve as steps, from the slots that are shown; each slot ends where the next one begins. */
function drawPrices() {
  const of = Object.fromEntries(prices.slot_fields.map((field, at) => [field, at]));
  const from = nowS - BEFORE_S, until = nowS + AFTER_S;
  const slots = prices.slots.map((slot, at) => [...slot, prices.slots[at + 1]?.[of.from_unix_s] ?? prices.prices_until_unix_s]);
  const shown = slots.filter((slot) => slot.at(-1) > from && slot[of.from_unix_s] < until);
  if (!shown.length) return empty(pricePlot, "no price is known");
  ready(pricePlot);
  const steps = (field, picked) => {
    const x = [], y = [];
    shown.forEach((slot) => {
      const value = picked(slot) ? slot[of[field]] : null;
      x.push(local(slot[of.from_unix_s]), local(slot.at(-1)));
      y.push(value, value);
    });
    return { x, y };
  };
  const guessed = (slot) => slot[of.basis].startsWith("forecast") || slot[of.basis].startsWith("arbiter") || slot[of.low] !== slot[of.high];
  const line = { mode: "lines", line: { color: colour("--accent"), width: 2 }, connectgaps: false, hovertemplate: "%{y:.1f}<extra></extra>" };
  const band = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", connectgaps: false };
  const traces = [
    { ...band, ...steps("low", guessed) },
    { ...band, ...steps("high", guessed), fill: "tonexty", fillcolor: colour("--accent-soft") },
    { ...line, ...steps("price", (slot) => !guessed(slot)) },
    { ...line, ...steps("price", guessed), line: { ...line.line, dash: "dot" } },
  ];
  const shapes = shown.filter((slot) => slot[of.on_peak]).map((slot) => ({
    type: "rect", layer: "below", yref: "paper", y0: 0, y1: 1, line: { width: 0 }, fillcolor: colour("--peak"),
    x0: local(slot[of.from_unix_s]), x1: local(slot.at(-1)),
  }));
  shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: local(nowS), x1: local(nowS), line: { color: colour("--text"), width: 1 } });
  const annotations = [{ x: local(nowS), y: 1, yref: "paper", yanchor: "bottom", xanchor: "center", showarrow: false, text: "now", font: { color: colour("--text"), size: 11 } }];
  Plotly.react(pricePlot, traces, layout({ shapes, annotations, margin: { ...MARGIN, t: 18 }, xaxis: { range: [local(from), local(Math.min(until, slots.at(-1).at(-1)))] }, yaxis: { rangemode: "tozero" } }, pricePlot), CONFIG);
  const at = shown.find((slot) => slot.at(-1) > nowS) ?? shown[0];
  const values = shown.map((slot) => slot[of.price]).filter((value) => value !== null);
  pricePlot.ariaLabel = `price of electricity: ${at[of.price] === null ? "not known" : figure(at[of.price])} now, from ${figure(Math.min(...values))} to ${figure(Math.max(...values))} between ${clock(from, nowS)} and ${clock(until, nowS)}`;
}

function drawPower() {
  if (!power.length) return empty(powerPlot, "nothing was measured in the last 24 hours");
  ready(powerPlot);
  const x = power.map(([at]) => local(at));
  const bands = BANDS.map(([name, states, colourName]) => ({
    name, colourName, y: power.map(([, byState]) => states.reduce((sum, state) => sum + (byState[state] ?? 0), 0) / 1000),
  })).filter(({ y }) => y.some((value) => value > 0));
  const stacked = bands.map(({ name, colourName, y }) => ({
    x, y, name, stackgroup: "nodes", mode: "lines", line: { width: 0, shape: "hv" }, fillcolor: colour(colourName), hovertemplate: `%{y:.2f} kW ${name}<extra></extra>`,
  }));
  const total = x.map((_, at) => bands.reduce((sum, { y }) => sum + y[at], 0));
  const withoutKw = power.map(([, , watts]) => watts / 1000);
  const saved = { x, y: withoutKw.map((each, at) => Math.max(0, each - total[at])), stackgroup: "nodes", mode: "lines", line: { width: 0, shape: "hv" }, fillcolor: colour("--saved"), hoverinfo: "skip" };
  const without = { x, y: withoutKw, mode: "lines", line: { color: colour("--text"), width: 1.5, shape: "hv" }, hovertemplate: "%{y:.2f} kW without offpeak<extra></extra>" };
  Plotly.react(powerPlot, [...stacked, saved, without], layout({ yaxis: { rangemode: "tozero" } }, powerPlot), CONFIG);
  const keys = bands.map(({ name, colourName }) => {
    const swatch = element("i");
    swatch.style.background = `var(${colourName})`;
    return element("li", {}, swatch, name);
  });
  document.querySelector("#power .legend").replaceChildren(...keys, element("li", { className: "key-without" }, "without offpeak"));
  const [, byState, watts] = power.at(-1);
  const drawn = Object.values(byState).reduce((sum, each) => sum + each, 0);
  powerPlot.ariaLabel = `power by node state: ${number(drawn / 1000, 1)} kW at last, ${number(watts / 1000, 1)} kW without offpeak`;
}

addEventListener("resize", () => requestAnimationFrame(redraw));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
