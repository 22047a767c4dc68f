// A flame graph on a canvas as large as the window alone: graphs of a thousand rows scroll behind it.

import { element, hideTip, showTip, sizeCanvas } from "./dom.js";
import { ancestors, boxOfPath, boxTitle, pathText } from "./flame_tree.js";
import { changeColour, groupColour, styleColour } from "./palette.js";
import { baseName, formatShare, printable } from "./units.js";

const ROW = 20;
const BORDERS = 2;

export class FlameCanvas {
  // `on`: zoom(box), open(box), focus(box)
  constructor(id, label, on) {
    this.on = on;
    this.tree = null;
    this.zoomed = 0;
    this.focused = null;
    this.hovered = null;
    this.found = null;
    this.flip = false;
    this.canvas = element("canvas", { class: "flame-canvas", "aria-hidden": "true" });
    this.spacer = element("div", { class: "flame-spacer" });
    this.node = element("div", {
      id, class: "flame", tabindex: "0", role: "application", "aria-label": `${label}. Arrow keys move, Enter zooms, Space opens details, Escape zooms out`,
    }, this.canvas, this.spacer);
    this.node.addEventListener("scroll", () => this.draw());
    this.node.addEventListener("pointermove", (event) => this.hover(event));
    this.node.addEventListener("pointerleave", () => { this.hovered = null; hideTip(); this.draw(); });
    this.node.addEventListener("click", (event) => this.click(event));
    this.node.addEventListener("contextmenu", (event) => this.openAt(event));
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.node);
  }

  show(tree, { zoomed = 0, found = null, flip = false, format, whole, changed = false, fixedHeight = null }) {
    const moved = this.zoomed !== zoomed || this.tree !== tree;
    const focused = this.tree !== tree ? this.sameBox(tree) : null;
    Object.assign(this, { tree, zoomed, found, flip, format, whole, changed });
    if (moved) this.focused = focused;
    this.above = new Set(ancestors(tree, zoomed));
    this.largestChange = changed ? tree.boxes.change.reduce((most, change, box) => (box > 0 ? Math.max(most, Math.abs(change)) : most), 1) : 1;
    this.rowCount = this.countRows();
    const height = this.rowCount * ROW;
    this.spacer.style.height = `${height}px`;
    this.node.style.height = `${(fixedHeight ? Math.min(fixedHeight, height) : height) + BORDERS}px`;
    if (moved) this.node.scrollTop = flip ? height : 0;
    this.draw();
  }

  // The box that has the keyboard, in another tree: the keys go on where they were.
  sameBox(tree) {
    if (!this.tree || this.focused === null) return null;
    const { box, whole } = boxOfPath(tree, pathText(this.tree, this.focused));
    return whole ? box : null;
  }

  // Only rows that the zoomed part reaches.
  countRows() {
    const { start, value, depth } = this.tree.boxes;
    const [from, to] = this.span();
    for (let row = this.tree.rows.length - 1; row > depth[this.zoomed]; row -= 1) {
      if (this.tree.rows[row].some((box) => start[box] >= from && start[box] + value[box] <= to)) return row + 1;
    }
    return depth[this.zoomed] + 1;
  }

  span() {
    const { start, value } = this.tree.boxes;
    return [start[this.zoomed], start[this.zoomed] + value[this.zoomed]];
  }

  rowTop(depth) {
    return this.flip ? this.rowCount * ROW - (depth + 1) * ROW : depth * ROW;
  }

  draw() {
    if (!this.tree || !this.node.isConnected) return;
    const width = this.node.clientWidth;
    const height = this.node.clientHeight;
    const context = sizeCanvas(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${styleColour("--mono")}`;
    context.textBaseline = "middle";
    this.letter = context.measureText("m").width;
    this.ink = styleColour("--ink");
    this.paper = styleColour("--paper");
    const first = Math.floor(this.node.scrollTop / ROW);
    const last = Math.ceil((this.node.scrollTop + height) / ROW);
    const rows = this.rowCount;
    for (let line = first; line <= Math.min(last, rows - 1); line += 1) {
      const depth = this.flip ? rows - 1 - line : line;
      for (const box of this.tree.rows[depth] ?? []) this.drawBox(context, box, line * ROW - this.node.scrollTop, width);
    }
  }

  place(box, width) {
    if (this.above.has(box)) return [0, width];
    const [from, to] = this.span();
    const { start, value } = this.tree.boxes;
    if (start[box] < from || start[box] >= to) return [0, 0];
    const scale = width / Math.max(1e-9, to - from);
    return [(start[box] - from) * scale, value[box] * scale];
  }

  drawBox(context, box, top, width) {
    const [x, wide] = this.place(box, width);
    if (wide < 0.5) return;
    const inner = Math.max(0.5, wide - (wide > 3 ? 1 : 0));
    const number = this.tree.boxes.function[box];
    const group = this.tree.groups[this.tree.functions.group[number]];
    const dimmed = (this.found && !this.found[box]) || (this.above.has(box) && box !== this.zoomed);
    context.globalAlpha = dimmed ? 0.38 : 1;
    context.fillStyle = this.changed ? changeColour(this.tree.boxes.change[box], this.largestChange) : box === 0 && !group ? styleColour("--box") : groupColour(group);
    context.fillRect(x, top, inner, ROW - 1);
    if (box === this.hovered || box === this.focused) {
      context.globalAlpha = 1;
      context.strokeStyle = this.ink;
      context.lineWidth = box === this.focused ? 2 : 1;
      context.strokeRect(x + 1, top + 1, Math.max(1, inner - 2), ROW - 3);
    }
    if (wide > 4 * this.letter) this.write(context, box, x, top, inner);
    context.globalAlpha = 1;
  }

  write(context, box, x, top, wide) {
    const room = Math.floor((wide - 8) / this.letter);
    let text = printable(boxTitle(this.tree.functions, this.tree.boxes.function[box], this.whole).slice(0, 600));
    if (this.above.has(box) || text.length + 10 < room) text += `  ${this.format(this.tree.boxes.value[box])}`;
    if (text.length > room) text = `${text.slice(0, Math.max(1, room - 1))}…`;
    context.fillStyle = this.ink;
    context.fillText(text, x + 4, top + ROW / 2);
  }

  at(event) {
    const room = this.node.getBoundingClientRect();
    const line = Math.floor((event.clientY - room.top + this.node.scrollTop) / ROW);
    const depth = this.flip ? this.rowCount - 1 - line : line;
    const x = event.clientX - room.left;
    for (const box of this.tree?.rows[depth] ?? []) {
      const [left, wide] = this.place(box, this.node.clientWidth);
      if (wide > 0 && x >= left && x < left + wide) return box;
    }
    return null;
  }

  hover(event) {
    const box = this.at(event);
    if (box !== this.hovered) {
      this.hovered = box;
      this.draw();
    }
    if (box === null) hideTip();
    else showTip(event.clientX, event.clientY, this.describe(box));
  }

  describe(box) {
    const { value, own, change } = this.tree.boxes;
    const number = this.tree.boxes.function[box];
    const name = printable(boxTitle(this.tree.functions, number, this.whole));
    const of = this.tree.boxes.value[0];
    const where = [baseName(this.tree.functions.file[number]), baseName(this.tree.functions.module[number])].filter(Boolean).join(" · ");
    const zoom = this.zoomed !== 0 && !this.above.has(box) && `${formatShare(value[box], value[this.zoomed])} of the zoomed part`;
    return [
      element("div", { class: "name tip-name" }, name.length > 300 ? `${name.slice(0, 300)}…` : name),
      where && element("div", { class: "name quiet" }, where),
      element("div", { class: "number" }, `${this.format(value[box])}, ${formatShare(value[box], of)} of all`),
      zoom && element("div", { class: "number" }, zoom),
      own[box] > 0 && element("div", { class: "number" }, `self ${this.format(own[box])}`),
      change && element("div", { class: "number" }, `change ${change[box] > 0 ? "+" : ""}${this.format(change[box])}`),
    ];
  }

  sentence(box) {
    const name = printable(boxTitle(this.tree.functions, this.tree.boxes.function[box], this.whole)).slice(0, 200);
    return `${name}: ${this.format(this.tree.boxes.value[box])}, ${formatShare(this.tree.boxes.value[box], this.tree.boxes.value[0])}; ${this.tree.children[box].length} callees`;
  }

  click(event) {
    const box = this.at(event);
    if (box === null) return;
    hideTip();
    this.focused = box;
    // The zoomed box again: what else is known of it.
    if (box === this.zoomed) this.on.open(box);
    else this.on.zoom(box);
  }

  openAt(event) {
    const box = this.at(event);
    if (box === null) return;
    event.preventDefault();
    this.on.open(box);
  }

  key(event) {
    if (!this.tree) return;
    const { parent } = this.tree.boxes;
    const box = this.focused ?? this.zoomed;
    const siblings = parent[box] === null ? [box] : this.tree.children[parent[box]];
    const at = siblings.indexOf(box);
    const [deeper, higher] = this.flip ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"];
    const next = {
      [higher]: parent[box], [deeper]: this.tree.children[box][0], ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1], Home: 0,
    };
    if (event.key === "Enter") this.on.zoom(box);
    else if (event.key === " ") this.on.open(box);
    else if (event.key === "Escape" && this.zoomed !== 0) this.on.zoom(0);
    else if (event.key in next) {
      if (next[event.key] !== undefined && next[event.key] !== null) this.focused = next[event.key];
      this.scrollTo(this.focused ?? box);
      this.on.focus(this.sentence(this.focused ?? box));
    } else return;
    event.preventDefault();
    event.stopPropagation();
    this.draw();
  }

  scrollTo(box) {
    const top = this.rowTop(this.tree.boxes.depth[box]);
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (top + ROW > this.node.scrollTop + this.node.clientHeight) this.node.scrollTop = top + ROW - this.node.clientHeight;
  }
}
