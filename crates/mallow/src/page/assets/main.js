// Puts the page together: the file's summary, time, the measure and filters, and one view at a time.

import { ChangeView } from "./change_view.js";
import { ask, keepAlive } from "./data.js";
import { Detail } from "./detail.js";
import { announce, byId, element, fill, message } from "./dom.js";
import { FlameView } from "./flame_view.js";
import { buildHelp, toggleHelp } from "./help_dialog.js";
import { startLive, togglePause } from "./live_panel.js";
import { LiveMemoryView, LivePlaceView } from "./live_views.js";
import { LifetimeView, SizeView } from "./histogram_view.js";
import { FunctionView, LineView, PathView } from "./place_tables.js";
import { InsightView, LeakView, ProcessView, ThreadView } from "./report_views.js";
import { RssView } from "./rss_view.js";
import { changeState, hasRange, onState, startState, state } from "./state.js";
import { startSummary } from "./summary_panel.js";
import { startTime } from "./time_panel.js";
import { baseName, MEASURES, printable } from "./units.js";

// A range has no peak: that is no sum over its blocks.
const RANGE_MEASURES = ["bytes", "allocations", "live", "temporary"];
const SELECTION = ["by", "process", "focus", "ignore", "hide", "from", "to", "what"];

// What the views share: the file, the measure in force, and how to open details.
function makeContext(about) {
  const context = { about, compared: about.compared !== null, detail: null };
  context.measures = () => (hasRange() ? RANGE_MEASURES.filter((name) => about.measures.includes(name)) : about.measures);
  context.by = () => {
    const offered = context.measures();
    if (offered.includes(state.by)) return state.by;
    const first = [about.live === null ? "peak" : "live", "bytes", "allocations", ...offered];
    return first.find((name) => offered.includes(name) && context.inBoth(name)) ?? offered[0];
  };
  // Measures that a comparison can be by.
  context.inBoth = (name) => about.compared?.measures.includes(name) ?? true;
  context.openFunction = (place, frames) => context.detail.openFunction(place, frames);
  context.openStack = (title, frames, value) => context.detail.openStack(title, frames, value);
  return context;
}

// Those that the file's contents allow.
function makeViews(context) {
  const { about } = context;
  const own = !about.format;
  const live = about.live !== null;
  const offered = [
    ["flame", "Flame graph", true, () => new FlameView(context)],
    ["changes", "Changes", context.compared, () => new ChangeView(context)],
    ["places", "Live places", live, () => new LivePlaceView(context)],
    ["functions", "Functions", true, () => new FunctionView(context)],
    ["lines", "Lines", true, () => new LineView(context)],
    ["paths", "Call paths", true, () => new PathView(context)],
    ["insights", "Insights", own, () => new InsightView(context)],
    ["leaks", about.live_moment === "snapshot" ? "Live" : "Leaks", about.measures.includes("live") && !live, () => new LeakView(context)],
    ["rss", "RSS", about.has_rss, () => new RssView(context)],
    ["memory", "Memory", live, () => new LiveMemoryView()],
    ["sizes", "Sizes", own, () => new SizeView()],
    ["lifetimes", "Lifetimes", own, () => new LifetimeView(context)],
    ["threads", "Threads", own, () => new ThreadView(context)],
    ["processes", "Processes", own, () => new ProcessView(context)],
  ];
  return offered.filter((view) => view[2]).map(([id, title, , make]) => ({ id, title, make, made: null }));
}

function shownView(views) {
  const found = views.find((view) => view.id === state.view) ?? views[0];
  found.made ??= found.make();
  return found;
}

function paintTabs(views) {
  const shown = shownView(views).id;
  fill(byId("tabs"), views.map((view, at) => element("button", {
    type: "button", role: "tab", id: `tab-${view.id}`, class: "tab", "aria-selected": view.id === shown ? "true" : "false", "aria-controls": "main",
    tabindex: view.id === shown ? "0" : "-1", title: at < 9 ? `${view.title} (${at + 1})` : view.title, onclick: () => changeState({ view: view.id, sort: "", filter: "" }),
  }, view.title)));
  byId("main").setAttribute("aria-labelledby", `tab-${shown}`);
}

function paintControls(context) {
  const by = context.by();
  const measures = element("div", { class: "segments", role: "group", "aria-label": "Measure" }, context.about.measures.map((name) => {
    const open = context.measures().includes(name);
    return element("button", {
      type: "button", class: "segment", "data-measure": name, "aria-pressed": name === by ? "true" : "false", disabled: !open,
      title: open ? MEASURES[name].title : `${MEASURES[name].title}: of the whole run alone`, onclick: () => changeState({ by: name, sort: "" }),
    }, MEASURES[name].title);
  }));
  const { processes } = context.about;
  const choose = processes.length > 1 && element("select", { id: "process", class: "field name", "aria-label": "Process", onchange: (event) => changeState({ process: event.target.value }) },
    element("option", { value: "" }, `All ${processes.length} processes`),
    [...new Map(processes.map((one) => [one.pid, one])).values()].slice(0, 2000).map((one) => element("option", { value: String(one.pid), selected: String(one.pid) === state.process }, `${one.pid} ${baseName(one.executable)}`)));
  const titles = { focus: "only", ignore: "without", hide: "hidden" };
  const chips = Object.keys(titles).filter((name) => state[name]).map((name) => element("button", {
    type: "button", class: "chip", "data-chip": name, title: "Remove this filter", onclick: () => changeState({ [name]: "" }),
  }, `${titles[name]} `, element("span", { class: "name" }, printable(state[name].replace(/^\^|\$$/g, "").replaceAll("\\", "")).slice(0, 60)), " ×"));
  fill(byId("controls"), measures, choose, chips);
}

function startKeys(context, views) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (event.key === "Escape" && !byId("help").open) {
      if (typing) event.target.blur();
      else if (!byId("detail").hidden) byId("detail-close").click();
      else if (state.sandwich || state.zoom) changeState({ sandwich: "", zoom: "" });
      else if (hasRange()) changeState({ from: "", to: "", what: "allocated" });
      return;
    }
    if (typing || byId("help").open) return;
    const number = "123456789".indexOf(event.key);
    if (event.key === "?") toggleHelp();
    else if (event.key === "/") byId("main").querySelector("input[type=search]")?.focus();
    else if (event.key === "t") byId("time-chart")?.focus();
    else if (event.key === "p" && context.about.live !== null) togglePause();
    else if (event.key === "g") byId("main").querySelector(".flame, .table-scroll")?.focus();
    else if (event.key === "m") {
      const offered = context.measures();
      const next = offered[(offered.indexOf(context.by()) + 1) % offered.length];
      changeState({ by: next, sort: "" });
      announce(MEASURES[next].title);
    } else if (event.key.length === 1 && number >= 0 && views[number]) changeState({ view: views[number].id, sort: "", filter: "" });
    else return;
    event.preventDefault();
  });
  byId("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const at = views.indexOf(shownView(views));
    const next = views[(at + step + views.length) % views.length];
    changeState({ view: next.id, sort: "", filter: "" });
    byId(`tab-${next.id}`).focus();
  });
}

// What is shown is of an older choice as long as the answer is not there: it is faint, and screen readers know.
let waiting = null;
async function whileBusy(work) {
  const main = byId("main");
  const own = {};
  waiting = own;
  const timer = setTimeout(() => waiting === own && main.setAttribute("aria-busy", "true"), 250);
  try {
    await work;
  } finally {
    clearTimeout(timer);
    if (waiting === own) main.removeAttribute("aria-busy");
  }
}

function show(context, views, changed) {
  const view = shownView(views);
  const main = byId("main");
  const moved = main.firstElementChild !== view.made.node;
  if (moved) fill(main, view.made.node);
  const selection = SELECTION.some((name) => changed.has(name));
  if (selection || moved) {
    paintControls(context);
    paintTabs(views);
  }
  if (moved || selection || changed.has("callers")) whileBusy(view.made.update());
  else view.made.paint?.();
  if (selection && !byId("detail").hidden) context.detail.update();
}

// The same view of a later moment: what was scrolled to stays in sight.
async function refresh(views) {
  const place = () => byId("main").querySelector(".table-scroll, .flame");
  const top = place()?.scrollTop;
  await shownView(views).made.update();
  if (top && place()) place().scrollTop = top;
}

async function start() {
  let about;
  try {
    about = await ask("about");
  } catch (error) {
    fill(byId("main"), message(error.message));
    return;
  }
  startState();
  // Of a process that ran on, nothing is at its end.
  if (about.live_moment === "snapshot") MEASURES.live.title = "Live";
  const context = makeContext(about);
  context.detail = new Detail(context);
  const views = makeViews(context);
  buildHelp();
  startKeys(context, views);
  onState((changed) => show(context, views, changed));
  show(context, views, new Set(SELECTION));
  if (about.live !== null) {
    startLive(about, () => refresh(views));
    return;
  }
  const report = startSummary(context);
  startTime(about, report).catch((error) => fill(byId("time"), message(error.message)));
  keepAlive();
}

start();
