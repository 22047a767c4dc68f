// Time on top of the page: a range is chosen by mouse, touch or keyboard, and all views below follow it.

import { ask, isExported } from "./data.js";
import { announce, byId, element, fill, hideTip, showTip } from "./dom.js";
import { onColours } from "./palette.js";
import { figureWords } from "./rss_words.js";
import { changeState, hasRange, onState, state } from "./state.js";
import { CHART, drawMarks, drawSelection, drawSeries } from "./time_chart.js";
import { generations, marksOf, nameOf, regionRuns, toggleMark } from "./time_marks.js";
import { formatBytes, formatCount, formatOf, formatRange, formatTime, printable } from "./units.js";

const WHAT = [
  ["allocated", "Allocated within", "Blocks that were allocated within the range"],
  ["live", "Live at its end", "Blocks that were live when the range ends"],
  ["freed", "Freed within", "Blocks that were freed within the range"],
  ["left", "Left over", "Blocks that were allocated within the range and are still live when it ends"],
];
const EDGE = 8;

const panel = { series: null, scale: null, width: 0, runs: [], cursor: null, drag: null, withRss: true, timer: 0 };

// `report`: a promise of the report's document, which names the moment of the highest RSS; null where there is none.
export async function startTime(about, report) {
  const box = byId("time");
  if (!about.has_events) {
    box.hidden = true;
    return;
  }
  fill(box, element("p", { class: "empty", id: "time-reading" }, "Reading the recording's events …"));
  let answer = await ask("time");
  while (answer.state === "reading") {
    byId("time-reading").textContent = `Reading the recording's events: ${Math.round(100 * answer.progress)} %`;
    await new Promise((done) => setTimeout(done, 250));
    answer = await ask("time");
  }
  if (answer.state === "failed") {
    byId("time-reading").textContent = answer.error;
    return;
  }
  if (answer.state !== "ready" || answer.boundaries.length < 2) {
    box.hidden = true;
    return;
  }
  panel.series = answer;
  build(box, about, report);
  onState((changed) => ["from", "to", "what", "marks"].some((name) => changed.has(name)) && update());
  onColours(draw);
  new ResizeObserver(draw).observe(box);
  update();
}

function build(box, about, report) {
  const chart = element("div", {
    id: "time-chart", class: "time-chart", tabindex: "0", role: "slider", "aria-label": "Range of time: arrow keys move, Shift extends, Escape clears",
    "aria-valuemin": panel.series.boundaries[0], "aria-valuemax": panel.series.boundaries.at(-1), "aria-valuenow": 0,
  }, element("canvas", { id: "time-series", "aria-hidden": "true" }), element("canvas", { id: "time-selection", "aria-hidden": "true" }));
  chart.addEventListener("pointerdown", onDown);
  chart.addEventListener("pointermove", onMove);
  chart.addEventListener("pointerup", onUp);
  chart.addEventListener("pointercancel", () => { panel.drag = null; });
  chart.addEventListener("pointerleave", () => { if (!panel.drag) { panel.cursor = null; overlay(); } hideTip(); });
  chart.addEventListener("dblclick", clearRange);
  chart.addEventListener("keydown", onKey);
  panel.runs = regionRuns(panel.series.regions, about.regions, panel.series.boundaries, edges());
  fill(box, element("div", { class: "row" }, legend(report), element("div", { id: "time-choice", class: "row end" })), chart, element("div", { id: "time-marks", class: "row" }));
}

function legend(report) {
  const entry = (colour, text) => element("span", { class: "key" }, element("i", { class: "swatch", style: { background: `var(${colour})` } }), text);
  const rss = panel.series.rss.length > 0 && element("label", { class: "key" },
    element("input", { type: "checkbox", id: "time-rss", checked: panel.withRss, onchange: (event) => { panel.withRss = event.target.checked; draw(); } }),
    element("i", { class: "swatch dashed", style: { background: "var(--rss)" } }), "RSS");
  const points = [["--live", Math.max(...panel.series.live), "Live bytes"]];
  const peak = panel.series.rss_peak && element("span", { class: "key", id: "time-rss-peak" },
    element("i", { class: "swatch dashed", style: { background: "var(--rss)" } }), peakLabel(panel.series.rss_peak, report));
  return element("div", { class: "legend" }, rss, peak, points.map(([colour, , text]) => entry(colour, text)), entry("--rate", "Allocations per second"));
}

// When it was says the report: the two say one number of one field.
function peakLabel(peak, report) {
  const label = element("span", {}, `RSS, ${figureWords(peak)}: ${formatBytes(peak.peak_rss)}`);
  report.then((answer) => answer?.sentences.highest_rss && fill(label, `RSS, the kernel's maximum: ${printable(answer.sentences.highest_rss)}`));
  return label;
}

// Ranges begin and end where the grid of lives has an edge.
function edges() {
  const step = panel.series.step ?? 1;
  const all = panel.series.boundaries;
  return all.filter((_, at) => at % step === 0 || at === all.length - 1);
}

function snap(ms) {
  let best = null;
  for (const edge of edges()) if (best === null || Math.abs(edge - ms) < Math.abs(best - ms)) best = edge;
  return best;
}

function update() {
  const ranged = hasRange();
  const what = WHAT.map(([value, title, help]) => element("button", {
    type: "button", class: "segment", title: help, "data-what": value, disabled: !ranged,
    "aria-pressed": ranged && state.what === value ? "true" : "false",
    onclick: () => changeState({ what: value }),
  }, title));
  fill(byId("time-choice"),
    element("span", { id: "time-range", class: "number quiet" }, ranged
      ? formatRange(+state.from, +state.to)
      : "Drag: a range. Click: a moment"),
    element("div", { class: "segments", role: "group", "aria-label": "Blocks of the range" }, what),
    element("button", { type: "button", id: "time-clear", class: "plain", disabled: !ranged, onclick: clearRange }, "Whole run"), markButton(ranged));
  updateMarks();
  draw();
  const chart = byId("time-chart");
  chart.setAttribute("aria-valuenow", ranged ? state.to : panel.series.boundaries[0]);
  chart.setAttribute("aria-valuetext", ranged ? `${formatRange(+state.from, +state.to)}, ${WHAT.find((w) => w[0] === state.what)?.[1]}` : "whole run");
}

// Generations, which begin and end at a mark each, and runs of the program's own regions.
function updateMarks() {
  // A page in one file has no ranges.
  if (isExported()) return;
  const chosen = (one) => hasRange() && state.from === String(one.from) && state.to === String(one.to);
  const all = generations(panel.series.boundaries);
  const chips = all.length < 2 ? [] : all.map((one) => element("button", {
    type: "button", class: "chip", "data-generation": one.name, "aria-pressed": chosen(one) && state.what === "left" ? "true" : "false",
    title: `Allocated from ${formatTime(one.from)} to ${formatTime(one.to)}, and still live then`,
    onclick: () => changeState({ from: String(one.from), to: String(one.to), what: "left" }),
  }, `Left over of ${one.name}`));
  const choose = panel.runs.length > 0 && element("select", {
    id: "time-region", class: "field name", "aria-label": "Run of a measured region", onchange: (event) => {
      const run = panel.runs[+event.target.value];
      if (run) changeState({ from: String(run.from), to: String(run.to), what: hasRange() ? state.what : "allocated" });
    },
  }, element("option", { value: "" }, `Regions: ${formatCount(panel.runs.length)} runs`),
  panel.runs.map((run, at) => element("option", { value: String(at), selected: chosen(run) }, `${nameOf(run)}, ${formatTime(run.end - run.begin)}`)));
  fill(byId("time-marks"), chips, choose,
    all.length > 1 && element("button", { type: "button", id: "time-unmark", class: "plain", onclick: () => changeState({ marks: "" }) }, "Remove all marks"));
}

function markButton(ranged) {
  if (isExported()) return null;
  return element("button", { type: "button", id: "time-mark", class: "plain", disabled: !ranged, title: "A generation ends here, and the next one begins (k)", onclick: () => toggleMark(+state.to) },
    ranged && marksOf().includes(+state.to) ? "Remove the mark" : "Mark");
}

function clearRange() {
  panel.drag = null;
  panel.cursor = null;
  changeState({ from: "", to: "", what: "allocated" });
}

function draw() {
  if (!panel.series) return;
  panel.width = byId("time-chart").clientWidth;
  panel.scale = drawSeries(byId("time-series"), panel.series, panel.withRss, panel.width);
  overlay();
}

function overlay() {
  const drag = panel.drag?.moved ? panel.drag : null;
  const from = drag ? Math.min(drag.from, drag.to) : hasRange() ? +state.from : null;
  const to = drag ? Math.max(drag.from, drag.to) : hasRange() ? +state.to : null;
  drawSelection(byId("time-selection"), panel.scale, panel.width, from, to, panel.cursor);
  drawMarks(byId("time-selection"), panel.scale, marksOf(), panel.runs);
}

function msAt(event) {
  const x = event.clientX - byId("time-chart").getBoundingClientRect().left;
  return panel.scale.ms(Math.min(Math.max(x, CHART.left), panel.width - CHART.right));
}

function onDown(event) {
  if (event.button !== 0) return;
  event.currentTarget.setPointerCapture(event.pointerId);
  const ms = msAt(event);
  const near = (edge) => hasRange() && Math.abs(panel.scale.x(+edge) - panel.scale.x(ms)) < EDGE;
  // An edge of the range moves; anywhere else begins a new one.
  const anchor = near(state.from) ? +state.to : near(state.to) ? +state.from : snap(ms);
  panel.drag = { from: anchor, to: snap(ms), x: event.clientX, moved: false };
}

function onMove(event) {
  const ms = msAt(event);
  panel.cursor = ms;
  if (panel.drag) {
    panel.drag.to = snap(ms);
    panel.drag.moved ||= Math.abs(event.clientX - panel.drag.x) > 3;
    if (panel.drag.moved) followLater();
  }
  overlay();
  tipAt(event, ms);
}

// The views follow while the pointer moves, but not at each step of it.
function followLater() {
  if (panel.timer) return;
  panel.timer = setTimeout(() => {
    panel.timer = 0;
    if (panel.drag?.moved) choose(panel.drag.from, panel.drag.to, true);
  }, 180);
}

function choose(one, other, replace = false) {
  const [from, to] = [Math.min(one, other), Math.max(one, other)];
  if (from === to) return;
  changeState({ from: String(from), to: String(to) }, replace);
}

function onUp(event) {
  const drag = panel.drag;
  panel.drag = null;
  if (!drag) return;
  if (drag.moved) choose(drag.from, drag.to);
  else momentAt(snap(msAt(event)));
}

// One moment: what was live then.
function momentAt(ms) {
  const first = panel.series.boundaries[0];
  const to = ms > first ? ms : edges()[1];
  changeState({ from: String(first), to: String(to), what: "live" });
  announce(`What was live at ${formatTime(to)}`);
}

function tipAt(event, ms) {
  const { boundaries, live, allocations, allocated_bytes: bytes, rss } = panel.series;
  let at = boundaries.findIndex((edge) => edge > ms) - 1;
  if (at < 0) at = live.length - 1;
  let resident = null;
  for (const point of rss) if (point[0] <= boundaries[at + 1]) resident = point[1];
  showTip(event.clientX, event.clientY, element("b", { class: "number" }, formatTime(boundaries[at])),
    element("div", { class: "number" }, `live ${formatBytes(live[at])}`),
    resident !== null && element("div", { class: "number" }, `RSS ${formatBytes(resident)}`),
    element("div", { class: "number" }, `${formatOf(allocations[at], "allocation")}, ${formatBytes(bytes[at])}`));
}

function onKey(event) {
  const all = edges();
  const stride = event.ctrlKey ? Math.max(1, Math.round(all.length / 20)) : 1;
  const at = hasRange() ? all.indexOf(snap(+state.to)) : 0;
  const moves = { ArrowLeft: -stride, ArrowRight: stride, Home: -all.length, End: all.length };
  if (event.key === "Escape" && hasRange()) clearRange();
  else if (event.key === "k" && hasRange()) toggleMark(+state.to);
  else if (event.key in moves) {
    const to = all[Math.min(all.length - 1, Math.max(1, at + moves[event.key]))];
    // Shift keeps the beginning, so the range grows; without it the moment moves.
    if (event.shiftKey) {
      const from = hasRange() && state.what !== "live" ? +state.from : all[Math.max(0, at)];
      if (from < to) changeState({ from: String(from), to: String(to), what: state.what === "live" ? "left" : state.what }, true);
    } else changeState({ from: String(all[0]), to: String(to), what: "live" }, true);
  } else return;
  event.preventDefault();
}
