// The queue, what was decided and done, and which forecasts are used.
import { clock, counted, duration, element, figure, kilowatts, number, say } from "./text.js";

const SHOWN = 100, LINES = 60;
const find = document.getElementById("find");
let jobs = [], nowS = 0;

export function showJobs(all, atS) {
  jobs = all;
  nowS = atS;
  fill();
}

function fill() {
  const focused = document.activeElement?.dataset.job;
  const words = find.value.trim().toLowerCase();
  const found = words ? jobs.filter((job) => `${job.job_id} ${job.user} ${job.partition} ${job.state} ${job.why}`.toLowerCase().includes(words)) : jobs;
  document.querySelector("#queue tbody").replaceChildren(...found.slice(0, SHOWN).flatMap(row));
  if (focused) document.querySelector(`#queue button[data-job="${CSS.escape(focused)}"]`)?.focus();
  const waiting = jobs.filter((job) => job.place !== null).length;
  say(document.getElementById("queue-count"), !jobs.length ? "" : `${number(waiting)} waiting, in the expected order of their starts; ${number(jobs.length - waiting)} running or held`);
  const rest = found.length - SHOWN;
  say(document.getElementById("more"), rest > 0 ? `${counted(rest, "more job")}: find narrows it down` : found.length ? "" : words ? "no such job" : "No job waits or runs. Jobs appear here within a cycle of the agent, in the order in which they are to start.");
  for (const part of [".scroll", ".search"]) document.querySelector(`#queue ${part}`).hidden = !jobs.length;
}

function row(job) {
  const place = job.place === null ? job.state.toLowerCase() : String(job.place);
  const moved = job.moved ? element("span", { className: "moved" }, ` ${job.moved.replace("up ", "▲").replace("down ", "▼")}`) : "";
  const cell = (text, className = "") => element("td", { className }, text);
  const button = element("button", { type: "button", className: "link", ariaExpanded: String(open === job.job_id) }, job.job_id);
  button.dataset.job = job.job_id;
  const line = element("tr", {},
    element("td", {}, place, moved), element("td", {}, button), cell(job.user), cell(number(job.nodes), "number"),
    cell(job.watts_per_node === null ? "" : kilowatts(job.watts_per_node).replace(" kW", ""), "number"),
    cell(clock(job.would_start_unix_s, nowS)), cell(clock(job.latest_start_unix_s, nowS)), cell(job.why, "why"));
  return open === job.job_id ? [line, element("tr", { className: "details" }, element("td", { colSpan: 8 }, details(job)))] : [line];
}

/** The expected start of a job that waits with its range, or what has to happen first; "" of one that runs. */
function starts(job) {
  if (job.would_start_unix_s === null) return job.start_condition ?? "";
  const [at, from, by] = [job.would_start_unix_s, job.starts_from_unix_s, job.starts_by_unix_s].map((each) => clock(each, nowS));
  return from === by ? `about ${at}` : `about ${at}; 80 % of such jobs between ${from} and ${by}`;
}

/** All that is known of a job, as `offpeak why` says it. */
function details(job) {
  const facts = [
    ["state", job.state.toLowerCase()], ["partition", job.partition],
    ["place", job.place === null ? "" : `${job.place} of ${job.of}${job.moved ? `, moved ${job.moved}` : ""}`],
    ["why", job.cause ? `${job.cause}: ${job.why}` : job.why], ["you can", job.remedy?.replaceAll("`", "") ?? ""],
    ["power", job.watts_per_node === null ? "not known" : `${kilowatts(job.watts_per_node)} a node, ${kilowatts(job.nodes * job.watts_per_node)} in all`],
    ["starts", starts(job)], ["latest start", clock(job.latest_start_unix_s, nowS)],
    ["ends", clock(job.ends_unix_s, nowS) && `${clock(job.ends_unix_s, nowS)}, expected`],
    ["saving", job.expected_saving === null ? "" : `${number(job.expected_saving, 2)} ${job.currency}, expected`],
    ["flexibility", job.tier], ["opted out", job.opted_out ? "its owner allows no delay" : ""],
  ];
  return element("dl", { className: "facts" }, ...facts.filter(([, text]) => text).map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))));
}

document.querySelector("#queue tbody").addEventListener("click", ({ target }) => {
  const job = target.dataset.job;
  if (!job) return;
  open = open === job ? null : job;
  target.focus();
  fill();
});

/** What changes nothing, or only tells the scheduler of a change that another line names: not shown if it succeeded. */
const ROUTINE = ["left alone", "is left alone", "keeps its place", "keep on", "is open to jobs", "is counted as powered down", "wakes", "open", "close", "power_down", "power_up"];
const ASLEEP = ["off", "standby"];
/** What was done to nodes and jobs, and what was not: "4 nodes put to sleep". */
const DONE = {
  soft_off: "put to sleep", hard_off: "put to sleep, power cut", standby: "put to standby", on: "woken", sleeps: "to be put to sleep",
  "is put to sleep": "to be put to sleep", "is woken": "to be woken", "is tried again": "to be tried again", resume: "tried again",
  withdraw: "withdrawn from jobs", "is withdrawn from jobs": "to be withdrawn from jobs", "moved back": "moved back", "moved forward": "moved forward",
  rank: "priorities set", defer: "begin times set", notify: "comments set", tell: "comments set",
};
let byName = new Map(), open = null;

export function eventsOf(rows) {
  byName = new Map(rows.map((node) => [node.node, node]));
}

/** How much less the nodes of a line draw now than idle; "" unless all still sleep, and both powers are known. */
function savedBy(what, result, subjects) {
  if (result !== "done" || !["soft_off", "hard_off", "standby"].includes(what)) return "";
  let watts = 0;
  for (const name of subjects) {
    const node = byName.get(name);
    if (!node || !ASLEEP.includes(node.state) || node.watts === null || node.idle_watts === null) return "";
    watts += node.idle_watts - node.watts;
  }
  return watts > 0 ? `, saves ${kilowatts(watts)}` : "";
}

function subjectText(subjects) {
  const jobs = subjects.filter((each) => each.startsWith("job ")).length, nodes = subjects.filter((each) => byName.has(each)).length;
  if (subjects.length === 1) return subjects[0];
  if (jobs === subjects.length) return counted(jobs, "job");
  return nodes === subjects.length ? counted(nodes, "node") : `${subjects[0]} and ${subjects.length - 1} more`;
}

export function showEvents({ trouble, rows: all }, atS) {
  const rows = all.filter(([, what, result]) => !ROUTINE.includes(what) || !["decided", "done"].includes(result)).slice(0, LINES);
  const list = document.querySelector("#events ol");
  if (trouble || !rows.length) {
    list.replaceChildren(element("li", { className: "nothing" }, trouble || "No decision yet. What the agent decides about nodes and jobs appears here at once, with its reason."));
    return;
  }
  const shown = new Set([...list.querySelectorAll("details[open]")].map((each) => each.parentElement.dataset.key));
  list.replaceChildren(...rows.map(([at, what, result, by, why, of]) => {
    const subjects = [...new Set(of)], done = DONE[what] ?? what.replaceAll("_", " ");
    const outcome = result === "decided" || result === "done" ? "" : ` · ${result}`;
    const names = subjects.slice(0, SHOWN).map((each) => each.replace(/^job /, "")).join(", ") + (subjects.length > SHOWN ? ` and ${number(subjects.length - SHOWN)} more` : "");
    const line = element("li", {},
      element("time", { dateTime: new Date(1000 * at).toISOString() }, clock(at, atS || at)),
      element("p", {}, element("b", {}, subjectText(subjects)), ` ${outcome ? "not " : ""}${done}${savedBy(what, result, subjects)}${outcome}${by === "offpeak" ? "" : ` · ${by}`}`),
      element("p", {}, why),
      ...(subjects.length > 1 ? [element("details", {}, element("summary", {}, "which"), element("p", {}, names))] : []));
    line.dataset.result = result.split(" ")[0];
    line.dataset.key = `${Math.floor(at / 900)} ${what} ${result} ${by}`;
    if (shown.has(line.dataset.key)) line.querySelector("details")?.setAttribute("open", "");
    return line;
  }));
}

export function showForecasts(forecasts) {
  const error = (value, unit) => value === null ? "" : unit.startsWith("W") ? `${number(value / 1000, 3)} k${unit}` : unit === "s" ? duration(value) : `${figure(value)} ${unit}`;
  const rows = forecasts.map(({ about, unit, used, mae, naive, naive_mae, outcomes }) => {
    const by = used === naive || naive_mae === null ? `by ${used}` : `by ${used}; ${naive}: ${error(naive_mae, unit)}`;
    return element("tr", {}, element("td", {}, about, element("p", { className: "note" }, by)),
      element("td", { className: "number" }, error(mae, unit) || "not known"), element("td", { className: "number" }, number(outcomes)));
  });
  document.querySelector("#errors thead").hidden = !rows.length;
  document.querySelector("#errors tbody").replaceChildren(
    ...(rows.length ? rows : [element("tr", {}, element("td", { colSpan: 3, className: "note" }, "No forecast yet. Errors appear here when the first forecast prices are published and the first jobs end."))]));
}

find.addEventListener("input", fill);
