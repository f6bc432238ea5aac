"use strict";
// Draws the figures in the page's colours, and again when these change, when a button is pressed and for print.
(() => {
  const root = document.documentElement, parts = [...document.querySelectorAll("details")];
  const NARROW_PX = 450;
  const isTouched = matchMedia("(pointer: coarse)").matches;
  // Named one by one: plotly has a button that sends a figure to its makers.
  const CONFIG = {
    displaylogo: false,
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  const figures = [...document.querySelectorAll("figure")].map((element) => ({
    element,
    plot: element.querySelector(".plot"),
    spec: JSON.parse(element.querySelector("script").textContent),
    choice: Number(element.querySelector("[data-choice][aria-pressed=true]")?.dataset.choice ?? 0),
  }));

  /** A copy for plotly, in which "var(--name)" is the page's colour of that name and {array: i} is array i. */
  function drawable(value, spec, style) {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((each) => drawable(each, spec, style));
    if (value === null || typeof value !== "object") return value;
    if ("array" in value) return { ...spec.arrays[value.array] };
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, drawable(each, spec, style)]));
  }

  function numbers({ array }, spec) {
    const { bdata, dtype } = spec.arrays[array];
    const bytes = Uint8Array.from(atob(bdata), (character) => character.charCodeAt(0));
    return dtype === "i1" ? new Int8Array(bytes.buffer) : new Int32Array(bytes.buffer);
  }

  /** The blocks of a policy as arrays: job, start_s, end_s, low, high. */
  function blocksOf({ spec, choice }) {
    const columns = Object.entries(spec.blocks.policies[choice]);
    return Object.fromEntries(columns.map(([key, column]) => [key, numbers(column, spec)]));
  }

  /** The outlines of the blocks that a trace is for, as one path with gaps. */
  function outlines(spec, blocks, { power_class: powerClass, is_thin: isThin }) {
    const classes = numbers(spec.blocks.power_class, spec);
    const x = [], y = [];
    blocks.job.forEach((job, at) => {
      const isOtherHeight = isThin !== (blocks.high[at] - blocks.low[at] < spec.blocks.thin_below);
      if (classes[job] !== powerClass || isOtherHeight) return;
      const [from, until] = [blocks.start_s[at], blocks.end_s[at]].map((s) => spec.blocks.from_ms + 1000 * s);
      const [low, high] = [blocks.low[at], blocks.high[at]];
      x.push(from, until, until, from, from, NaN);
      y.push(low, low, high, high, low, NaN);
    });
    return { x: Float64Array.from(x), y: Float64Array.from(y) };
  }

  /** Draws a figure that can be seen; one in a closed part is drawn when this is opened. */
  function draw(figure) {
    const { spec, plot } = figure;
    if (!plot.clientWidth) return;
    const style = getComputedStyle(root);
    const blocks = spec.blocks && blocksOf(figure);
    const data = spec.data.map((trace) => {
      const drawn = drawable(trace, spec, style);
      if (trace.meta) drawn.visible = trace.meta.choice === figure.choice;
      if (drawn.visible && "power_class" in trace.meta) {
        Object.assign(drawn, outlines(spec, blocks, trace.meta));
      }
      return drawn;
    });
    const layout = drawable({ ...spec.layout, ...spec.choice_layouts[figure.choice] }, spec, style);
    // In print two figures fit on a page.
    if (root.hasAttribute("data-print")) {
      layout.height *= figure.element.closest(".sheet") ? 0.85 : 0.75;
      layout.font.size = 10;
    }
    // A phone has no room for the texts of all marks.
    if (plot.clientWidth < NARROW_PX && layout.xaxis?.tickvals) {
      for (const key of ["tickvals", "ticktext"]) layout.xaxis[key] = layout.xaxis[key].filter((_, at) => at % 2 === 0);
    }
    plot.style.height = `${layout.height}px`;
    layout.width = plot.clientWidth;
    // A finger scrolls the page; it zooms once a button of the figure says so.
    layout.dragmode = isTouched ? false : "zoom";
    figure.blocks = blocks;
    return Plotly.react(plot, data, layout, CONFIG);
  }

  function drawAll() {
    figures.forEach(draw);
  }

  /** Draws one figure after the other, so that the page can be read and scrolled meanwhile. */
  async function drawOneByOne() {
    for (const figure of figures) {
      await new Promise((resolve) => setTimeout(resolve));
      draw(figure);
    }
    root.dataset.drawn = "";
  }

  /** Says which block lies under the pointer. */
  function tell(figure, event) {
    const { _fullLayout: full } = figure.plot;
    const box = figure.plot.getBoundingClientRect();
    const ms = full.xaxis.p2c(event.clientX - box.left - full.xaxis._offset);
    const node = full.yaxis5.p2c(event.clientY - box.top - full.yaxis5._offset);
    const { blocks, spec } = figure;
    const second = (ms - spec.blocks.from_ms) / 1000;
    const at = blocks.job.findIndex((_, i) =>
      blocks.start_s[i] <= second && second < blocks.end_s[i] && blocks.low[i] <= node && node < blocks.high[i]);
    figure.element.querySelector("output").textContent = at < 0 ? "" : spec.blocks.text[blocks.job[at]];
  }

  function choose(figure, button) {
    figure.choice = Number(button.dataset.choice);
    for (const each of button.parentElement.children) each.setAttribute("aria-pressed", String(each === button));
    draw(figure);
  }

  for (const figure of figures) {
    figure.element.addEventListener("click", ({ target }) => {
      if (target.dataset.choice) choose(figure, target);
      if (target.dataset.view) Plotly.relayout(figure.plot, JSON.parse(target.dataset.view));
    });
    if (figure.spec.blocks) {
      for (const kind of ["mousemove", "click"]) {
        figure.plot.addEventListener(kind, (event) => tell(figure, event), true);
      }
    }
  }

  function print(isPrint) {
    root.toggleAttribute("data-print", isPrint);
    // On paper nothing can be opened.
    for (const part of parts) {
      if (isPrint) part.wasOpen ??= part.open;
      part.open = isPrint || (part.wasOpen ?? part.open);
      if (!isPrint) delete part.wasOpen;
    }
    drawAll();
  }

  for (const part of parts) {
    part.addEventListener("toggle", () => figures.filter(({ element }) => part.contains(element)).forEach(draw));
  }

  addEventListener("resize", () => requestAnimationFrame(() => {
    figures.filter(({ plot }) => plot.clientWidth !== plot.layout?.width).forEach(draw);
  }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", ({ matches }) => print(matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  drawOneByOne();
})();
