// Beside the views: one function with its numbers, call paths and source, or one call path.

import { asker, isExported, isSuperseded } from "./data.js";
import { announce, byId, element, fill, message, nameText } from "./dom.js";
import { boxTitle, pathsThrough } from "./flame_tree.js";
import { flameChoices, treeOf } from "./flame_view.js";
import { changeState, rangeChoices, sharedChoices } from "./state.js";
import { baseName, escapeRegex, formatCount, formatShare, MEASURES, placeOf, printable } from "./units.js";

const PATHS_SHOWN = 8;
const FRAMES_SHOWN = 12;

export class Detail {
  constructor(context) {
    this.context = context;
    this.askList = asker();
    this.askFlame = asker();
    this.node = byId("detail");
    this.shown = null;
  }

  close() {
    this.shown = null;
    this.node.hidden = true;
    document.body.classList.remove("has-detail");
  }

  update() {
    if (this.shown?.place) this.openFunction(this.shown.place, this.shown.frames, false);
  }

  frame(title, ...content) {
    this.returnTo = this.node.hidden ? document.activeElement : this.returnTo;
    this.node.hidden = false;
    document.body.classList.add("has-detail");
    const close = element("button", { type: "button", class: "square", id: "detail-close", "aria-label": "Close details", title: "Close (Escape)", onclick: () => { this.close(); this.returnTo?.focus?.(); } }, "×");
    fill(this.node, element("div", { class: "detail-head" }, element("h2", { class: "name", id: "detail-title", dir: "ltr" }, printable(title).slice(0, 4000)), close), content);
    this.node.scrollTop = 0;
  }

  openStack(title, frames, value) {
    this.shown = { stack: true };
    this.frame(title, value && element("p", { class: "number" }, value), this.stack(frames, frames.length));
    announce(`Call path of ${printable(title).slice(0, 100)}, ${frames.length} frames`);
  }

  // Frames from the innermost one to main; a frame opens its function.
  stack(frames, most) {
    const rows = frames.slice(0, most).map((frame) => element("li", { class: frame.looked_past ? "passed" : null },
      element("button", { type: "button", class: "link name", onclick: () => this.context.openFunction(frame) }, printable(frame.function).slice(0, 600)),
      " ", element("span", { class: "name quiet" }, placeOf(frame))));
    const rest = frames.length - most;
    const list = element("ol", { class: "stack" }, rows);
    if (rest > 0) list.append(element("li", {}, element("button", { type: "button", class: "link", onclick: () => list.replaceWith(this.stack(frames, frames.length)) }, `${rest} more frames`)));
    return list;
  }

  // `frames`: the call path that led here, with its lines.
  async openFunction(place, frames = null, moves = true) {
    this.shown = { place, frames };
    const by = this.context.by();
    const numbers = element("div", { id: "detail-numbers" });
    const paths = element("div", { id: "detail-paths" }, message("…", "quiet"));
    const source = element("div", { id: "detail-source" }, message("…", "quiet"));
    const key = `function\u0000${place.function}\u0000${place.file ?? ""}\u0000${place.module ?? ""}`;
    const exactly = `^${escapeRegex(place.function)}$`;
    const narrow = (name, title, help) => element("button", { type: "button", class: "plain", title: help, "data-narrow": name, onclick: () => changeState({ [name]: exactly, zoom: "" }) }, title);
    this.frame(place.function,
      element("p", { class: "name quiet" }, printable([place.file && place.line ? `${place.file}:${place.line}` : place.file, place.module].filter(Boolean).join(" · "))),
      numbers,
      element("div", { class: "row tools" },
        element("button", { type: "button", class: "plain", id: "detail-sandwich", onclick: () => changeState({ view: "flame", sandwich: key, callers: "" }) }, "Callers and callees"),
        narrow("focus", "Only this", "Only call paths with this function"), narrow("ignore", "Without this", "Without call paths with this function"),
        narrow("hide", "Hide", "Leave the function out of the call paths; its numbers go to its callers")),
      frames && element("details", { class: "path", id: "detail-lines" }, element("summary", {}, `Its largest call path, line by line (${frames.length} frames)`), this.stack(frames, FRAMES_SHOWN)),
      element("h3", {}, `Largest call paths, by ${MEASURES[by].title.toLowerCase()}`), paths,
      element("h3", {}, "Source"), source);
    if (moves) announce(`Details of ${printable(place.function).slice(0, 200)}`);
    await Promise.all([this.fillPaths(paths, key, by), this.fillSource(source, numbers, place, exactly, by)]);
  }

  async fillPaths(box, key, by) {
    try {
      const tree = treeOf(await this.askFlame("flame", flameChoices(by)));
      const { paths, all } = pathsThrough(tree, key, PATHS_SHOWN);
      const format = MEASURES[by].format;
      fill(box, paths.length === 0 && message("None that the flame graph shows.", "quiet"), paths.map((path, at) => element("details", { open: at === 0, class: "path" },
        element("summary", {}, element("span", { class: "number" }, format(path.value)), element("span", { class: "quiet number" }, ` ${formatShare(path.value, tree.total)}`)),
        this.stack(path.frames.map((number) => ({ function: boxTitle(tree.functions, number), file: tree.functions.file[number], module: tree.functions.module[number], looked_past: tree.functions.looked_past[number] })), FRAMES_SHOWN))),
      all > paths.length && element("p", { class: "quiet" }, `${formatCount(all - paths.length)} more call paths`));
    } catch (error) {
      if (!isSuperseded(error)) fill(box, message(error.message, "quiet"));
    }
  }

  async fillSource(box, numbers, place, exactly, by) {
    try {
      // An exported file has the lines of all functions in one document, and none of single functions.
      const answer = await this.askList("list", { function: isExported() ? "." : exactly, by, limit: 20, ...sharedChoices(), ...rangeChoices() });
      const found = answer.functions.find((f) => f.function === place.function && f.file === (place.file ?? null) && f.module === (place.module ?? null))
        ?? answer.functions.find((f) => f.function === place.function);
      if (!found) {
        fill(box, message(isExported() ? "This file holds the lines of the largest functions alone." : `${MEASURES[by].title}: nothing of it here.`, "quiet"));
        return;
      }
      fill(numbers, this.numbers(found, answer));
      const lines = found.lines.filter((line) => line.text !== null);
      if (lines.length > 0) fill(box, this.listing(found, lines, place, by), this.reasonHint(found));
      else fill(box, message(`No source: ${found.source ?? (place.file ? baseName(place.file) : "no debug information")}`, "quiet"), this.machineCode(found, by));
    } catch (error) {
      if (!isSuperseded(error)) fill(box, message(error.message, "quiet"));
    }
  }

  numbers(found, totals) {
    const rows = this.context.measures().map((name) => {
      const { title, key, format } = MEASURES[name];
      return element("tr", {}, element("th", { scope: "row" }, title), [found.self[key], found.cum[key]].map((value) => [
        element("td", { class: "number right", title: formatCount(value) }, format(value)),
        element("td", { class: "number right quiet" }, formatShare(value, totals[key]))]));
    });
    const head = element("tr", {}, element("td"), element("th", { scope: "col", colspan: "2" }, "Self"), element("th", { scope: "col", colspan: "2" }, "Cum"));
    return element("table", { class: "numbers" }, element("thead", {}, head), element("tbody", {}, rows));
  }

  // Lines with what they allocated in the margin; a gap where lines are left out.
  listing(found, lines, place, by) {
    const { key, format } = MEASURES[by];
    const highest = Math.max(1, ...lines.map((line) => line.cum[key]));
    let last = null;
    const rows = [];
    for (const line of lines) {
      if (last !== null && line.line > last + 1) rows.push(element("tr", { class: "gap" }, element("td", { colspan: "4" }, "⋮")));
      last = line.line;
      const value = (part) => (line[part][key] ? format(line[part][key]) : "");
      rows.push(element("tr", { class: line.line === place.line ? "here" : null, "data-line": line.line },
        element("td", { class: "number right", style: { "--heat": `${Math.round((100 * line.cum[key]) / highest)}%` } }, value("self")),
        element("td", { class: "number right" }, value("cum")),
        element("td", { class: "number right quiet" }, line.line), element("td", { class: "name code", dir: "ltr" }, printable(line.text.replaceAll("\t", "    ")),
          (line.reasons ?? []).map((reason) => element("div", { class: "reason" }, `↑ ${printable(reason)}`)))));
    }
    return element("div", { class: "listing" }, element("table", {}, element("thead", {}, element("tr", {}, ["Self", "Cum", "Line", baseName(found.source ?? found.file)].map((t) => element("th", { scope: "col" }, t)))), element("tbody", {}, rows)));
  }

  // How to see why a Go line allocates: the page runs no compiler.
  reasonHint(found) {
    const { about } = this.context;
    if (about.go_reasons || about.live || !found.file?.endsWith(".go")) return null;
    return element("p", { class: "quiet", id: "reason-hint" }, "Reasons beside these lines: mallow go escape --json ./... > reasons.json, then mallow view --go-reasons reasons.json FILE");
  }

  machineCode(found, by) {
    const { key, format } = MEASURES[by];
    const all = found.instructions ?? [];
    if (all.length === 0) return null;
    const rows = all.slice(0, 200).map((at) => element("tr", {},
      element("td", { class: "number right" }, at.cum?.[key] ? format(at.cum[key]) : ""), element("td", { class: "name quiet" }, at.address),
      element("td", { class: "name code", dir: "ltr" }, printable(at.text ?? "")), element("td", { class: "name code", dir: "ltr" }, printable(at.calls ?? ""))));
    return element("div", { class: "listing" }, element("table", { id: "machine-code" },
      element("thead", {}, element("tr", {}, ["Cum", "Address", "Instruction", "Calls"].map((t) => element("th", { scope: "col" }, t)))), element("tbody", {}, rows)));
  }
}
