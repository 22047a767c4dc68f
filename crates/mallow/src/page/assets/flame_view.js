// The flame graph with its tools: callers, orientation, search, zoom, the sandwich of one function, and the legend.

import { asker, isSuperseded } from "./data.js";
import { announce, element, fill, message, nameText } from "./dom.js";
import { FlameCanvas } from "./flame_canvas.js";
import { ancestors, boxOfPath, boxTitle, flameTree, functionKey, pathText, sandwich, searchBoxes } from "./flame_tree.js";
import { groupColour, onColours } from "./palette.js";
import { changeState, rangeChoices, sharedChoices, state } from "./state.js";
import { baseName, formatCount, formatShare, MEASURES, printable } from "./units.js";

const trees = new WeakMap();

export function treeOf(answer) {
  if (!trees.has(answer)) trees.set(answer, flameTree(answer));
  return trees.get(answer);
}

export function flameChoices(by) {
  return { by, ...sharedChoices(), ...rangeChoices() };
}

// A search as a regex, case aside; what is no regex is searched as it stands.
export function searchOf(text) {
  if (!text) return null;
  try {
    const pattern = new RegExp(text, "iu");
    return { matches: (name) => pattern.test(name), valid: true };
  } catch {
    const lower = text.toLowerCase();
    return { matches: (name) => name.toLowerCase().includes(lower), valid: false };
  }
}

export class FlameView {
  constructor(context) {
    this.context = context;
    this.ask = asker();
    const on = (canvas) => ({
      zoom: (box) => this.zoom(canvas(), box),
      open: (box) => this.open(canvas(), box),
      focus: announce,
    });
    this.main = new FlameCanvas("flame-graph", "Flame graph", on(() => this.main));
    this.callers = new FlameCanvas("flame-callers", "Callers", on(() => this.callers));
    this.callees = new FlameCanvas("flame-callees", "Callees", on(() => this.callees));
    this.tools = element("div", { class: "row tools" });
    this.note = element("div", { class: "row quiet", id: "flame-note" });
    this.graphs = element("div", { class: "graphs" });
    this.legend = element("div", { class: "legend", id: "flame-legend" });
    this.table = element("div", { class: "unseen" });
    this.node = element("div", { class: "view flame-view" }, this.tools, this.note, this.graphs, this.legend, this.table);
    onColours(() => this.paint());
  }

  async update() {
    const choices = { ...flameChoices(this.context.by()), callers: state.callers, base: this.context.compared ? "1" : "" };
    try {
      const answer = await this.ask("flame", choices);
      this.tree = treeOf(answer);
      this.paint();
    } catch (error) {
      if (isSuperseded(error)) return;
      this.tree = null;
      this.paintTools();
      fill(this.note);
      fill(this.graphs, message(error.message));
      fill(this.legend);
    }
  }

  paint() {
    if (!this.tree || !this.node.isConnected) return;
    this.paintTools();
    this.paintLegend();
    if (state.sandwich) this.paintSandwich();
    else this.paintGraph();
  }

  options(tree, zoomed) {
    const measure = MEASURES[this.context.by()];
    const search = searchOf(state.search);
    const found = search ? searchBoxes(tree, search.matches) : null;
    return {
      zoomed, found: found?.found, search: found, format: measure.format, flip: state.flip === "1",
      whole: state.callers ? "whole, by innermost function" : "whole program", changed: Boolean(tree.boxes.change),
    };
  }

  paintGraph() {
    const { box, whole } = boxOfPath(this.tree, state.zoom);
    const options = this.options(this.tree, box);
    const notes = [];
    if (this.tree.total === 0) {
      fill(this.note);
      fill(this.graphs, message(`${MEASURES[this.context.by()].title}: nothing here.`));
      return;
    }
    if (state.search) {
      notes.push(element("span", { id: "search-result", class: "number" },
        `${formatCount(options.search.boxes)} boxes match: ${options.format(options.search.value)}, ${formatShare(options.search.value, this.tree.total)}`));
    }
    if (box !== 0) notes.push(this.trail(box));
    if (!whole) notes.push(element("span", { class: "warning" }, "The zoomed path has nothing here; its nearest caller is shown."));
    if (this.tree.left_out > 0) notes.push(element("span", {}, this.tree.left_out === 1 ? "1 box too small to see is left out" : `${formatCount(this.tree.left_out)} boxes too small to see are left out`));
    fill(this.note, notes);
    if (this.main.node.parentNode !== this.graphs || this.graphs.childElementCount !== 1) fill(this.graphs, this.main.node);
    this.main.show(this.tree, { ...options, fixedHeight: Math.max(280, Math.round(window.innerHeight * 0.68)) });
    this.paintTable(box, options);
  }

  // The way from the whole to the zoomed box.
  trail(box) {
    const above = ancestors(this.tree, box).reverse();
    const shown = above.length > 5 ? [above[0], null, ...above.slice(-3)] : above;
    return element("span", { class: "trail", id: "flame-trail" }, shown.map((at, place) => [
      place > 0 && element("span", { class: "quiet" }, " › "),
      at === null ? "…" : element("button", { type: "button", class: "link name", onclick: () => this.zoom(this.main, at) },
        printable(boxTitle(this.tree.functions, this.tree.boxes.function[at], "whole")).slice(0, 48)),
    ]));
  }

  paintSandwich() {
    const halves = sandwich(this.tree, state.sandwich);
    const name = printable(state.sandwich.split("\u0000")[1] ?? "");
    fill(this.note, element("span", {}, "Sandwich of ", element("b", { class: "name" }, name.slice(0, 200))),
      element("button", { type: "button", class: "plain", id: "sandwich-close", onclick: () => changeState({ sandwich: "" }) }, "Close"));
    fill(this.table);
    if (!halves) {
      fill(this.graphs, message(`${MEASURES[this.context.by()].title}: nothing of the function here.`));
      return;
    }
    fill(this.graphs, element("h3", {}, "Callers"), this.callers.node, element("h3", {}, "Callees"), this.callees.node);
    const height = Math.max(160, Math.round(window.innerHeight * 0.33));
    this.callers.show(halves.callers, { ...this.options(halves.callers, 0), flip: true, changed: false, fixedHeight: height });
    this.callees.show(halves.callees, { ...this.options(halves.callees, 0), flip: false, changed: false, fixedHeight: height });
  }

  zoom(canvas, box) {
    if (canvas === this.main) changeState({ zoom: pathText(this.tree, box) });
    else changeState({ sandwich: functionKey(canvas.tree.functions, canvas.tree.boxes.function[box]) });
    announce(canvas.sentence(box));
  }

  open(canvas, box) {
    const number = canvas.tree.boxes.function[box];
    if (canvas.tree.functions.label[number] !== "function") return;
    this.context.openFunction({
      function: canvas.tree.functions.name[number], file: canvas.tree.functions.file[number], module: canvas.tree.functions.module[number],
    });
  }

  paintTools() {
    const press = (name, on, title, help) => element("button", {
      type: "button", class: "segment", id: `flame-${name}`, title: help, "aria-pressed": on ? "true" : "false",
      onclick: () => changeState({ [name]: on ? "" : "1", zoom: name === "callers" ? "" : state.zoom }),
    }, title);
    const valid = searchOf(state.search)?.valid ?? true;
    const typed = document.activeElement?.id === "search";
    if (!typed || !this.tools.querySelector("#search")) {
      fill(this.tools,
        element("div", { class: "segments" },
          press("callers", state.callers === "1", "Callers first", "Innermost functions at the root, and who called them"),
          press("flip", state.flip === "1", "Flames", "The root at the bottom")),
        element("button", { type: "button", class: "plain", id: "zoom-out", disabled: !state.zoom, onclick: () => changeState({ zoom: "" }) }, "Zoom out"),
        element("input", {
          id: "search", type: "search", class: "field name", placeholder: "Search functions (regex)", "aria-label": "Search functions, a regular expression",
          autocomplete: "off", spellcheck: "false", value: state.search, oninput: (event) => changeState({ search: event.target.value }, true),
        }),
        element("span", { class: "quiet hint" }, "Click: zoom. Click again or right-click: details"));
    }
    this.tools.querySelector("#search").setAttribute("aria-invalid", valid ? "false" : "true");
    this.tools.querySelector("#zoom-out").disabled = !state.zoom;
  }

  paintLegend() {
    if (this.tree.boxes.change) {
      fill(this.legend, element("span", { class: "key" }, element("i", { class: "swatch more" }), "more than before"),
        element("span", { class: "key" }, element("i", { class: "swatch less" }), "less than before"));
      return;
    }
    const measure = MEASURES[this.context.by()];
    const groups = [...this.tree.groups].sort((a, b) => b.own - a.own);
    // The largest choose their colours first.
    const entries = groups.map((group) => ({ group, colour: groupColour(group) })).slice(0, 12);
    fill(this.legend, entries.map(({ group, colour }) => element("span", { class: "key", title: printable(group.name) },
      element("i", { class: "swatch", style: { background: colour } }),
      element("span", { class: "name" }, group.kind === "generated" ? "generated code" : baseName(group.name) || group.kind),
      element("span", { class: "number quiet" }, formatShare(group.own, this.tree.total)))),
    groups.length > 12 && element("span", { class: "quiet" }, `and ${groups.length - 12} more`),
    element("span", { class: "quiet" }, `self, ${measure.title.toLowerCase()}`));
  }

  // What the canvas shows at the zoomed box, for screen readers.
  paintTable(box, { format }) {
    const rows = this.tree.children[box].slice(0, 50).map((child) => element("tr", {},
      element("th", { scope: "row" }, nameText(boxTitle(this.tree.functions, this.tree.boxes.function[child]))),
      element("td", {}, format(this.tree.boxes.value[child])),
      element("td", {}, formatShare(this.tree.boxes.value[child], this.tree.boxes.value[0]))));
    fill(this.table, element("table", { id: "flame-table" }, element("caption", {}, `Callees of ${printable(boxTitle(this.tree.functions, this.tree.boxes.function[box]))}`),
      element("thead", {}, element("tr", {}, ["Function", "Value", "Share"].map((t) => element("th", { scope: "col" }, t)))),
      element("tbody", {}, rows)));
  }
}
