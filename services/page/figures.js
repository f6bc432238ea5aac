// The two figures: what was saved in the chosen time, and what the next 24 hours bring. Drawn in the page's colours, and
// again when these change.
import { clock, counted, day, element, figure, kilowatts, local, number, say } from "./text.js";

const STEP_S = 300, HOUR_S = 3600, DAY_S = 24 * HOUR_S, CHEAPEST_S = 4 * HOUR_S, OVERDUE_S = 900, ROW_GAP = 0.065;
const BANDS = [
  ["with jobs", ["busy"], "--busy"], ["idle", ["on"], "--on"], ["booting or going down", ["booting", "going down"], "--booting"], ["standby", ["standby"], "--standby"],
  ["off", ["off"], "--off"], ["unknown", ["unknown"], "--unknown"],
];
const past = document.querySelector("#saved .plot"), ahead = document.querySelector("#ahead .plot");
const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };
const MARGIN = { l: 44, r: 12, t: 8, b: 24 };
const of = { prices: null, jobs: [], nodes: 0, asleep: 0, power: null, days: [], sinceS: 0, range: "day", by: "money", nowS: 0 };
const OF_PAST = ["power", "days", "sinceS", "range"], OF_AHEAD = ["prices", "jobs", "nodes", "asleep", "unit"];
const changed = new Set();
let isWaiting = false;
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

/** Takes new values of any of `of`, and draws the figures that show them, once for all that come together; else both. */
export async function draw(values = null) {
  for (const [name, value] of Object.entries(values ?? of)) if (!values || of[name] !== value) changed.add(name);
  Object.assign(of, values);
  await loaded;
  if (isWaiting || !changed.size) return;
  isWaiting = true;
  await new Promise((resolve) => requestAnimationFrame(resolve));
  isWaiting = false;
  const [isAhead, isPast] = [OF_PAST, OF_AHEAD].map((others) => [...changed].some((name) => !others.includes(name)));
  changed.clear();
  if (isAhead && (of.prices || of.jobs.length)) drawAhead();
  if (isPast && (of.power || of.days.length)) drawPast();
}

export function setNow(atS) {
  if (Math.abs(atS - of.nowS) >= 60) draw({ nowS: atS });
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function textSize() {
  return 0.75 * parseFloat(getComputedStyle(document.documentElement).fontSize);
}

function axis(own = {}) {
  return { gridcolor: colour("--grid"), linecolor: colour("--axis"), tickcolor: colour("--axis"), zeroline: false, fixedrange: true, nticks: 5, rangemode: "tozero", ...own };
}

function layout(plot, { xaxis, ...rest }) {
  return {
    width: plot.clientWidth, height: plot.clientHeight, margin: MARGIN, showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, hovermode: "x unified",
    font: { family: "system-ui, sans-serif", size: textSize(), color: colour("--muted") },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--axis"), font: { color: colour("--text") } },
    xaxis: axis({ type: "date", showgrid: false, showline: true, tickformat: "%H:%M", hoverformat: "%-d %b %H:%M", tickangle: 0, nticks: plot.clientWidth < 450 ? 5 : 9, ...xaxis }),
    yaxis: axis(), ...rest,
  };
}

function plotInto(plot, traces, shape, label) {
  if (!plot.classList.contains("js-plotly-plot")) plot.replaceChildren();
  Plotly.react(plot, traces, layout(plot, shape), CONFIG);
  plot.ariaLabel = label;
}

function empty(plot, text) {
  Plotly.purge(plot);
  plot.replaceChildren(element("p", { className: "empty" }, text));
  plot.ariaLabel = text || "no figure yet";
  plot.parentElement.querySelector(".legend").replaceChildren();
}

/** A legend of what is drawn: [name, class or colour]. */
function legend(plot, keys) {
  plot.parentElement.querySelector(".legend").replaceChildren(...keys.map(([name, key]) => {
    if (!key.startsWith("--")) return element("li", { className: key }, name);
    const swatch = element("i");
    swatch.style.background = `var(${key})`;
    return element("li", {}, swatch, name);
  }));
}

function rowTitle(text, y, yshift = 0) {
  return { text, yshift, x: 0, xref: "paper", xanchor: "left", y, yref: "paper", yanchor: "bottom", showarrow: false, font: { size: textSize(), color: colour("--muted") } };
}

/** The slots of the next day as rows with their end, of the price or of the CO2. */
function slotsAhead() {
  if (!of.prices) return [];
  const { slot_fields: fields, slots, prices_until_unix_s: untilS } = of.prices;
  const rows = slots.map((slot, at) => ({ ...Object.fromEntries(fields.map((field, each) => [field, slot[each]])), until: slots[at + 1]?.[0] ?? untilS }));
  return rows.filter((slot) => slot.until > of.nowS && slot.from_unix_s < of.nowS + DAY_S).map((slot) => ({
    ...slot, from: Math.max(slot.from_unix_s, of.nowS), until: Math.min(slot.until, of.nowS + DAY_S),
    value: of.by === "carbon" ? slot.carbon ?? null : slot.price,
    guessed: of.by === "money" && (slot.basis.startsWith("forecast") || slot.basis.startsWith("arbiter") || slot.low !== slot.high),
  }));
}

/** The cheapest or cleanest hours: a quarter of the known time, at most CHEAPEST_S; none where all cost the same. */
function cheapest(slots) {
  const known = slots.filter((slot) => slot.value !== null).sort((one, other) => one.value - other.value || one.from - other.from);
  if (!known.length || known[0].value === known.at(-1).value) return [];
  const mostS = Math.min(CHEAPEST_S, known.reduce((sum, slot) => sum + slot.until - slot.from, 0) / 4);
  const chosen = [];
  for (let sumS = 0, at = 0; sumS < mostS && at < known.length; at += 1) {
    chosen.push(known[at]);
    sumS += known[at].until - known[at].from;
  }
  return chosen;
}

/** What is expected of the jobs that run or whose start is known: nodes and power over time, and the starts by hour. */
function jobsAhead() {
  const endS = of.nowS + DAY_S, changes = new Map([[of.nowS, [0, 0]], [endS, [0, 0]]]), starts = new Map();
  // Five minutes are less than the picture shows, and thousands of jobs take long to draw.
  const add = (exact, nodes, watts) => {
    const at = of.nowS + STEP_S * Math.round((exact - of.nowS) / STEP_S), before = changes.get(at) ?? [0, 0];
    changes.set(at, [before[0] + nodes, before[1] + watts]);
  };
  let unknownStarts = 0, unknownPowers = 0;
  for (const job of of.jobs) {
    const start = job.would_start_unix_s, runs = start === null && job.ends_unix_s;
    if (!runs && start === null) {
      unknownStarts += job.place !== null;
      continue;
    }
    const from = runs ? of.nowS : Math.max(start, of.nowS), until = job.ends_unix_s ? Math.max(job.ends_unix_s, from + OVERDUE_S) : endS;
    if (from >= endS) continue;
    unknownPowers += job.watts_per_node === null;
    const watts = job.nodes * (job.watts_per_node ?? 0);
    add(from, job.nodes, watts);
    if (until < endS) add(until, -job.nodes, -watts);
    if (!runs) {
      const hour = Math.floor(from / HOUR_S) * HOUR_S;
      starts.get(hour)?.push(job) ?? starts.set(hour, [job]);
    }
  }
  let nodes = 0, watts = 0;
  const steps = [...changes].sort(([one], [other]) => one - other).map(([at, [more, moreW]]) => {
    nodes += more;
    watts += moreW;
    return { at, nodes, watts: Math.max(0, watts) };
  });
  return { steps, starts: [...starts].sort(([one], [other]) => one - other), unknownStarts, unknownPowers };
}

/** The planned power of the next day [time, W]: that of jobs, and of the nodes that are idle now; empty without a plan. */
function plannedAhead() {
  const steps = of.prices?.planned_w ?? [], endS = of.nowS + DAY_S;
  const ahead = steps.filter(([at], each) => at < endS && (steps[each + 1]?.[0] ?? endS) > of.nowS).map(([at, watts]) => [Math.max(at, of.nowS), watts]);
  return ahead.length ? [...ahead, [endS, ahead.at(-1)[1]]] : [];
}

/** How many of the nodes that are asleep now no job needs until then: a node that is woken is not counted again. */
function asleepAhead(free) {
  let least = of.asleep;
  return free.map((nodes) => (least = Math.min(least, nodes)));
}

function drawAhead() {
  const slots = slotsAhead(), known = slots.filter((slot) => slot.value !== null), { steps, starts, unknownStarts, unknownPowers } = jobsAhead();
  const carbon = of.by === "carbon", name = carbon ? "CO2" : "price", planned = plannedAhead(), hasJobs = steps.some(({ nodes }) => nodes) || planned.length > 0, note = document.getElementById("ahead-note");
  const unpriced = known.length ? "" : `No ${carbon ? "CO2 intensity" : "price"} is known: it appears here once the agent has read it; offpeak prices says what is missing.`;
  if (unpriced && !hasJobs) {
    say(note, "");
    return empty(ahead, `${unpriced} Jobs appear when they run or their start is known.`);
  }
  const unit = carbon ? "g CO2/kWh" : of.unit ?? "";
  const from = local(of.nowS), until = local(of.nowS + DAY_S), best = cheapest(slots);
  const curve = (field, picked) => {
    const x = [], y = [];
    slots.forEach((slot) => {
      const value = picked(slot) ? slot[field] : null;
      x.push(local(slot.from), local(slot.until));
      y.push(value, value);
    });
    return { x, y };
  };
  const line = { mode: "lines", line: { color: colour(carbon ? "--co2" : "--price"), width: 2.5 }, connectgaps: false, hovertemplate: `%{y:.1f} ${unit}<extra></extra>` };
  const band = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", connectgaps: false };
  const guessed = known.some((slot) => slot.guessed), traces = [];
  if (guessed) {
    traces.push({ ...band, ...curve("low", (slot) => slot.guessed) }, { ...band, ...curve("high", (slot) => slot.guessed), fill: "tonexty", fillcolor: colour("--price-soft") });
    traces.push({ ...line, ...curve("value", (slot) => slot.guessed), line: { ...line.line, dash: "dot" } });
  }
  traces.push({ ...line, ...curve("value", (slot) => !slot.guessed) });
  const x = steps.map(({ at }) => local(at)), all = of.nodes;
  const free = steps.map(({ nodes }) => Math.max(0, all - nodes));
  const area = { mode: "lines", fill: "tozeroy", x };
  traces.push({ ...area, yaxis: "y2", y: steps.map(({ watts }) => watts / 1000), line: { color: colour("--busy"), width: 1.5, shape: "hv" }, fillcolor: colour("--busy-soft"), hovertemplate: "%{y:.2f} kW of jobs<extra></extra>" });
  traces.push({ ...area, yaxis: "y3", y: free, line: { color: colour("--standby"), width: 1.5, shape: "hv" }, fillcolor: colour("--standby-soft"), hovertemplate: "%{y} nodes free to sleep<extra></extra>" });
  const asleep = asleepAhead(free);
  if (planned.length) {
    traces.push({ mode: "lines", yaxis: "y2", x: planned.map(([at]) => local(at)), y: planned.map(([, watts]) => watts / 1000), line: { color: colour("--text"), width: 1.5, dash: "dash", shape: "hv" }, hovertemplate: "%{y:.2f} kW planned<extra></extra>" });
    traces.push({ ...area, yaxis: "y3", y: asleep, line: { width: 0, shape: "hv" }, fillcolor: colour("--standby"), hovertemplate: "%{y} of them asleep and to sleep on<extra></extra>" });
  }
  traces.push({
    type: "bar", yaxis: "y4", x: starts.map(([hour]) => local(hour + HOUR_S / 2)), y: starts.map(([, jobs]) => jobs.length), width: 0.8 * HOUR_S * 1000, marker: { color: colour("--busy") },
    customdata: starts.map(([, jobs]) => `${counted(jobs.length, "job")} on ${counted(jobs.reduce((sum, job) => sum + job.nodes, 0), "node")}`), hovertemplate: "%{customdata} to start<extra></extra>",
  });
  const shade = (slot, yref, more) => ({ type: "rect", layer: "below", xref: "x", yref, y0: 0, y1: 1, line: { width: 0 }, x0: local(slot.from), x1: local(slot.until), ...more });
  const peaks = carbon ? [] : slots.filter((slot) => slot.on_peak);
  const shapes = [
    ...best.map((slot) => shade(slot, "paper", { fillcolor: colour("--cheap") })),
    ...best.map((slot) => shade(slot, "paper", { y0: 1.005, y1: 1.02, fillcolor: colour("--saved") })),
    ...peaks.map((slot) => shade(slot, "y domain", { fillcolor: colour("--peak") })),
  ];
  const rows = [
    known.length && { y: "y", height: 0.42, title: `${name}, ${unit}`, nticks: 6 },
    hasJobs && { y: "y2", height: 0.15, title: "power of jobs, kW" }, hasJobs && { y: "y3", height: 0.135, title: "nodes without a job" },
    starts.length && { y: "y4", height: 0.095, title: "jobs that start", tickformat: "d", nticks: 2 },
  ].filter(Boolean);
  const scale = (1 - ROW_GAP * (rows.length - 1)) / rows.reduce((sum, { height }) => sum + height, 0), axes = {}, titles = [];
  let top = 1;
  for (const { y, height, title, ...own } of rows) {
    axes[y.replace("y", "yaxis")] = axis({ domain: [Math.max(0, top - scale * height), top], nticks: 3, ...own });
    titles.push(rowTitle(title, top, top === 1 ? 6 : 0));
    top -= scale * height + ROW_GAP;
  }
  const least = known.length ? Math.min(...known.map((slot) => slot.value)) : 0, most = known.length ? Math.max(...known.map((slot) => slot.value)) : 0;
  const now = known.find((slot) => slot.from <= of.nowS);
  const label = [
    known.length ? `${name}: ${now ? figure(now.value) : "not known"} now, from ${figure(least)} to ${figure(most)} ${unit} until ${clock(of.nowS + DAY_S, of.nowS)}` : `${name}: not known`,
    best.length ? `${carbon ? "cleanest" : "cheapest"}: ${spans(best).map(([one, other]) => `${clock(one, of.nowS)} to ${clock(other, of.nowS)}`).join(", ")}` : "",
    ...(!hasJobs ? [] : [`power of jobs ${kilowatts(steps[0].watts)} now, ${kilowatts(steps.at(-1).watts)} at the end`, `${free[0]} to ${free.at(-1)} of ${all} nodes without a job`]),
    ...(!planned.length ? [] : [`planned power, with idle nodes, ${kilowatts(planned[0][1])} now, at most ${kilowatts(Math.max(...planned.map(([, watts]) => watts)))}`, `${asleep.at(-1)} of ${of.asleep} nodes that are asleep are planned to sleep on`]),
    `${counted(starts.reduce((sum, [, jobs]) => sum + jobs.length, 0), "job")} to start`,
  ].filter(Boolean).join("; ");
  plotInto(ahead, traces.filter(({ yaxis = "y" }) => rows.some(({ y }) => y === yaxis)), { shapes, annotations: titles, hoversubplots: "axis", margin: { ...MARGIN, t: 24 }, xaxis: { range: [from, until], anchor: rows.at(-1).y }, ...axes }, label);
  legend(ahead, [
    ...(known.some((slot) => !slot.guessed) ? [carbon ? ["CO2 intensity", "key-co2"] : ["published price", "key-known"]] : []), ...(guessed ? [["forecast, 80 % range", "key-forecast"]] : []),
    ...(best.length ? [[`${carbon ? "cleanest" : "cheapest"} ${number(best.reduce((sum, slot) => sum + slot.until - slot.from, 0) / HOUR_S)} h`, "key-cheap"]] : []),
    ...(peaks.length ? [["on-peak", "key-peak"]] : []),
    ...(planned.length ? [["planned power", "key-planned"], ...(asleep.some((nodes) => nodes) ? [["planned sleep", "--standby"]] : [])] : []),
  ]);
  say(note, [
    unpriced, hasJobs ? "Of jobs that run, to their expected end, and of those whose start is known." : "No job runs or has a known start.",
    planned.length ? "The planned power includes nodes that are idle now; planned sleep is that of nodes asleep now, until a job needs them." : "",
    unknownStarts ? `${counted(unknownStarts, "waiting job")} without a known start ${unknownStarts === 1 ? "is" : "are"} not drawn.` : "",
    unknownPowers ? `The power of ${counted(unknownPowers, "job")} is not known.` : "",
  ].filter(Boolean).join(" "));
}

/** The times of slots, neighbours joined. */
function spans(slots) {
  const joined = [];
  for (const slot of [...slots].sort((one, other) => one.from - other.from)) {
    if (joined.length && joined.at(-1)[1] === slot.from) joined.at(-1)[1] = slot.until;
    else joined.push([slot.from, slot.until]);
  }
  return joined;
}

function drawPast() {
  document.getElementById("past-title").textContent = of.range === "day" ? "Power by node state, kW, last 24 h" : "Mean power saved, kW, by day";
  if (of.range === "day") drawDay();
  else drawDays();
}

function drawDay() {
  if (!of.power?.length) return empty(past, "The power of the nodes appears here a quarter-hour after the first reading of a meter.");
  const power = of.power, x = power.map(([at]) => local(at));
  const bands = BANDS.map(([name, states, key]) => ({
    name, key, y: power.map(([, byState]) => states.reduce((sum, state) => sum + (byState[state] ?? 0), 0) / 1000),
  })).filter(({ y }) => y.some((value) => value > 0));
  const edge = { width: 1, color: colour("--card"), shape: "hv" };
  const stacked = bands.map(({ name, key, y }) => ({
    x, y, name, stackgroup: "nodes", mode: "lines", line: edge, fillcolor: colour(key), hovertemplate: `%{y:.2f} kW ${name}<extra></extra>`,
  }));
  const total = x.map((_, at) => bands.reduce((sum, { y }) => sum + y[at], 0));
  const without = power.map(([, , watts]) => watts / 1000), saved = without.map((each, at) => Math.max(0, each - total[at]));
  if (saved.some((each) => each > 0)) {
    stacked.push({ x, y: saved, name: "saved", stackgroup: "nodes", mode: "lines", line: { ...edge, width: 2 }, fillcolor: colour("--saved"), hovertemplate: "%{y:.2f} kW saved<extra></extra>" });
  }
  stacked.push({ x, y: without, mode: "lines", line: { color: colour("--text"), width: 1.5, shape: "hv" }, hovertemplate: "%{y:.2f} kW without offpeak<extra></extra>" });
  plotInto(past, stacked, {}, `power by node state: ${number(total.at(-1), 1)} kW at last, ${number(without.at(-1), 1)} kW without offpeak`);
  legend(past, [...bands.map(({ name, key }) => [name, key]), ...(saved.some((each) => each > 0) ? [["saved", "--saved"]] : []), ["without offpeak", "key-without"]]);
}

/** The days of the chosen time so far, also those without a saving. */
function daysOf() {
  const days = new Set();
  for (let at = of.sinceS + 0.75 * DAY_S; at < of.nowS; at += DAY_S) days.add(day(at));
  return [...days.add(day(of.nowS))];
}

function drawDays() {
  const known = of.days.filter((each) => each.energy_j !== null && each.priced_s !== undefined);
  if (!known.length) return empty(past, "");
  const hours = (each) => Math.max(1, each.length_s ?? DAY_S) / HOUR_S;
  const kw = known.map((each) => each.energy_j / 3.6e6 / hours(each));
  const texts = known.map((each) => [`${number(each.energy_j / 3.6e6, 1)} kWh`, each.cost === null ? "no price is known" : `${number(each.cost, 2)} ${each.currency}`, each.known, each.is_shadow ? "would have been saved" : "saved"].filter(Boolean).join(", "));
  const x = known.map((each) => day(each.until_unix_s - 1)), all = daysOf(), shadow = known.some((each) => each.is_shadow);
  const bars = { type: "bar", x, y: kw, customdata: texts, marker: { color: colour("--saved") }, hovertemplate: "%{y:.2f} kW: %{customdata}<extra></extra>" };
  plotInto(past, [bars], { bargap: 0.25, xaxis: { type: "category", categoryarray: all, range: [-0.5, all.length - 0.5], tickmode: "array", tickvals: all.filter((_, at) => (all.length - 1 - at) % Math.ceil((all.length * 55) / past.clientWidth) === 0), tickformat: "", hoverformat: "" } }, `saved by day: ${known.map((_, at) => `${x[at]} ${number(kw[at], 2)} kW, ${texts[at]}`).join("; ")}`);
  legend(past, shadow ? [["would have been saved", "--saved"]] : []);
}

// The size of a figure also depends on the texts and the legend above it.
const sizes = new ResizeObserver(() => draw());
[past, ahead].forEach((plot) => sizes.observe(plot));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
