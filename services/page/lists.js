// The queue, what was decided and done, and which forecasts are used.
import { clock, counted, element, figure, number, say } from "./text.js";

const SHOWN = 100;
const find = document.getElementById("find");
let jobs = [], nowS = 0;

export function showJobs(all, atS) {
  jobs = all;
  nowS = atS;
  fill();
}

function fill() {
  const words = find.value.trim().toLowerCase();
  const found = words ? jobs.filter((job) => `${job.job_id} ${job.user} ${job.partition} ${job.state} ${job.why}`.toLowerCase().includes(words)) : jobs;
  document.querySelector("#queue tbody").replaceChildren(...found.slice(0, SHOWN).map(row));
  const waiting = jobs.filter((job) => job.place !== null).length;
  say(document.getElementById("queue-count"), `${number(waiting)} in line, in the order in which they are to start; ${counted(jobs.length - waiting, "other")}`);
  const rest = found.length - SHOWN;
  say(document.getElementById("more"), rest > 0 ? `${counted(rest, "more job")}: find narrows it down` : found.length ? "" : words ? "no such job" : "nobody waits");
}

function row(job) {
  const place = job.place === null ? job.state.toLowerCase() : String(job.place);
  const moved = job.moved ? element("span", { className: "moved" }, ` ${job.moved.replace("up ", "▲").replace("down ", "▼")}`) : "";
  const cell = (text, className = "") => element("td", { className }, text);
  return element("tr", {},
    element("td", {}, place, moved), cell(job.job_id), cell(job.user), cell(number(job.nodes), "number"),
    cell(job.watts_per_node === null ? "" : number(job.watts_per_node), "number"),
    cell(clock(job.would_start_unix_s, nowS)), cell(clock(job.latest_start_unix_s, nowS)), cell(job.why, "why"));
}

export function showEvents({ trouble, rows }, atS) {
  const list = document.querySelector("#events ol");
  if (trouble || !rows.length) {
    list.replaceChildren(element("li", {}, trouble || "nothing was decided yet"));
    return;
  }
  list.replaceChildren(...rows.map(([at, subject, what, result, by, why]) => {
    const outcome = result === "decided" || result === "done" ? "" : ` · ${result}`;
    const line = element("li", {},
      element("time", { dateTime: new Date(1000 * at).toISOString() }, clock(at, atS || at)),
      element("p", {}, element("b", {}, subject), ` ${what.replaceAll("_", " ")}${outcome}${by === "offpeak" ? "" : ` · ${by}`}`),
      element("p", { title: why }, why));
    line.dataset.result = result.split(" ")[0];
    return line;
  }));
}

export function showForecasts(forecasts) {
  const error = (value, unit) => value === null ? "" : unit === "s" ? `${figure(value / 60)} min` : `${figure(value)} ${unit}`;
  const rows = forecasts.map(({ about, unit, used, mae, naive, naive_mae, outcomes }) => {
    const by = used === naive || naive_mae === null ? `by ${used}` : `by ${used}; ${naive}: ${error(naive_mae, unit)}`;
    return element("tr", {}, element("td", {}, about, element("p", { className: "note" }, by)),
      element("td", { className: "number" }, error(mae, unit) || "not known"), element("td", { className: "number" }, number(outcomes)));
  });
  document.querySelector("#errors tbody").replaceChildren(
    ...(rows.length ? rows : [element("tr", {}, element("td", { colSpan: 3, className: "note" }, "nothing is forecast yet"))]));
}

find.addEventListener("input", fill);
