// Numbers, times and elements as the page writes them. Text never becomes markup.
const OPTIONS = {
  hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
};
const MONTHS = ["", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const numbers = new Map();
let calendar = new Intl.DateTimeFormat("en-GB", OPTIONS);

/** Sets the clock on which times are shown; the browser's own where the site's is none that it knows. */
export function setZone(name) {
  try {
    calendar = new Intl.DateTimeFormat("en-GB", { ...OPTIONS, timeZone: name });
  } catch {
    calendar = new Intl.DateTimeFormat("en-GB", OPTIONS);
  }
}

export function number(value, digits = 0) {
  if (!numbers.has(digits)) {
    numbers.set(digits, new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  return numbers.get(digits).format(value);
}

/** Three digits that count, so that a price of 0.09 and one of 92 are both readable. */
export function figure(value) {
  const size = Math.abs(value);
  return number(value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** A power in kW, the page's only unit of power: digits down to the watt below 10 kW. */
export function kilowatts(watts) {
  if (watts === null || watts === undefined) return "not known";
  const size = Math.abs(watts);
  return `${number(watts / 1000, size >= 1e5 ? 0 : size >= 1e4 ? 1 : size >= 1e3 ? 2 : 3)} kW`;
}

function parts(unixS) {
  return Object.fromEntries(calendar.formatToParts(1000 * unixS).map(({ type, value }) => [type, value]));
}

/** "21:00", with its date where that is another day than that of now. */
export function clock(unixS, nowS) {
  if (unixS === null || unixS === undefined) return "";
  const [then, now] = [parts(unixS), parts(nowS)];
  const time = `${then.hour}:${then.minute}`;
  return then.day === now.day && then.month === now.month ? time : `${Number(then.day)} ${MONTHS[Number(then.month)]} ${time}`;
}

/** "12 Nov". */
export function day(unixS) {
  const of = parts(unixS);
  return `${Number(of.day)} ${MONTHS[Number(of.month)]}`;
}

/** A local date and time without zone, as plotly's axes take it. */
export function local(unixS) {
  const of = parts(unixS);
  return `${of.year}-${of.month}-${of.day} ${of.hour}:${of.minute}`;
}

/** "40 s", "14 min", "2:05 h" (hours and minutes) or "3 d 7 h", as offpeak/display.py writes it. */
export function duration(seconds) {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60), hours = Math.floor(minutes / 60), rest = minutes % 60;
  if (hours < 48) return !hours ? `${minutes} min` : rest ? `${hours}:${String(rest).padStart(2, "0")} h` : `${hours} h`;
  const inHours = Math.round(seconds / 3600), days = Math.floor(inHours / 24);
  return inHours % 24 && days < 14 ? `${days} d ${inHours % 24} h` : `${number(Math.round(seconds / 86400))} days`;
}

export function counted(count, what) {
  return `${number(count)} ${what}${count === 1 ? "" : "s"}`;
}

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Sets a text only where it has changed, so that nothing is drawn or read aloud twice. */
export function say(target, text) {
  if (target.textContent !== text) target.textContent = text;
}
