// The heap's pages in the order of their addresses: occupied, with holes, free. The picture of `mallow rss -o`, with details.

import { announce, element, fill, hideTip, nameText, showTip, sizeCanvas } from "./dom.js";
import { onColours, styleColour } from "./palette.js";
import { formatBytes, formatShare, placeOf } from "./units.js";

const CELL = 9;
const TITLE = 22;
const GAP = 8;
const KINDS = [
  ["used", "--map-used", "occupied: holes are less than a quarter"], ["some", "--map-some", "holes: a quarter or more"],
  ["most", "--map-most", "holes: three quarters or more"], ["free", "--map-free", "free pages"],
];

function kindOf(used, holes, free) {
  const pinned = used + holes;
  if (pinned === 0 && free === 0) return null;
  if (free > pinned) return "free";
  if (holes * 4 < pinned) return "used";
  return holes * 4 < pinned * 3 ? "some" : "most";
}

export class RssMap {
  // `open(place)`: a place was clicked.
  constructor(open) {
    this.open = open;
    this.chosen = null;
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.box = element("div", { id: "rss-map", class: "map", tabindex: "0", role: "application", "aria-label": "Pages of the heap. Arrow keys move, Enter opens the largest function of a square" }, this.canvas);
    this.box.addEventListener("pointermove", (event) => this.hover(event));
    this.box.addEventListener("pointerleave", hideTip);
    this.box.addEventListener("click", (event) => this.openAt(this.at(event)));
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.legend = element("div", { class: "legend" });
    this.node = element("div", {}, this.legend, this.box);
    onColours(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  show(map) {
    this.map = map;
    this.places = new Map(map.places.map((place) => [place.number, place]));
    this.cells = map.rows.flatMap((row) => row.used.map((used, at) => ({ row, at, used, holes: row.holes[at], free: row.free[at], kind: kindOf(used, row.holes[at], row.free[at]) })));
    const sum = (kind) => this.cells.filter((cell) => cell.kind === kind).reduce((all, cell) => all + cell.used + cell.holes + cell.free, 0);
    const entries = KINDS.map(([kind, colour, text]) => ({ colour, text, bytes: sum(kind) })).filter((one) => one.bytes > 0).sort((a, b) => b.bytes - a.bytes);
    fill(this.legend, entries.map(({ colour, text, bytes }) => element("span", { class: "key" }, element("i", { class: "swatch", style: { background: `var(${colour})` } }), text, element("span", { class: "number quiet" }, formatBytes(bytes)))),
      element("span", { class: "quiet" }, `a square is ${formatBytes(map.cell_bytes)}`));
    this.draw();
  }

  draw() {
    if (!this.map || !this.box.isConnected) return;
    const width = this.box.clientWidth;
    this.columns = Math.max(1, Math.floor(width / CELL));
    let top = 0;
    let first = 0;
    this.lines = this.map.rows.map((row) => {
      const line = { row, top, first };
      top += TITLE + Math.ceil(row.used.length / this.columns) * CELL + GAP;
      first += row.used.length;
      return line;
    });
    const context = sizeCanvas(this.canvas, width, Math.max(CELL, top));
    const colours = new Map(KINDS.map(([kind, colour]) => [kind, styleColour(colour)]));
    const [empty, ink, quiet] = [styleColour("--line"), styleColour("--ink"), styleColour("--quiet")];
    context.font = `12px ${styleColour("--mono")}`;
    context.textBaseline = "middle";
    for (const { row, top: above, first: begin } of this.lines) {
      const sum = (column) => column.reduce((all, bytes) => all + bytes, 0);
      const parts = [["occupied", sum(row.used)], ["holes", sum(row.holes)], ["free", sum(row.free)]].filter((part) => part[1] > 0);
      context.fillStyle = quiet;
      context.fillText(`${row.kind}, ${row.start}: ${parts.map(([what, bytes]) => `${what} ${formatBytes(bytes)}`).join(", ")}`, 0, above + TITLE / 2);
      row.used.forEach((_, at) => {
        const cell = this.cells[begin + at];
        const [x, y] = [(at % this.columns) * CELL, above + TITLE + Math.floor(at / this.columns) * CELL];
        if (cell.kind) {
          context.fillStyle = colours.get(cell.kind);
          context.fillRect(x, y, CELL - 1, CELL - 1);
        } else {
          context.strokeStyle = empty;
          context.strokeRect(x + 0.5, y + 0.5, CELL - 2, CELL - 2);
        }
        if (begin + at === this.chosen) {
          context.strokeStyle = ink;
          context.lineWidth = 2;
          context.strokeRect(x, y, CELL - 1, CELL - 1);
          context.lineWidth = 1;
        }
      });
    }
  }

  at(event) {
    const room = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - room.left, event.clientY - room.top];
    const column = Math.floor(x / CELL);
    const line = this.lines?.findLast((one) => one.top + TITLE <= y);
    if (!line || column >= this.columns) return null;
    const at = Math.floor((y - line.top - TITLE) / CELL) * this.columns + column;
    return at < line.row.used.length ? line.first + at : null;
  }

  // Of a square: its address and sums, and who has most in it.
  describe(number) {
    const cell = this.cells[number];
    const absent = this.map.cell_bytes - cell.used - cell.holes - cell.free;
    const sums = [["occupied", cell.used], ["holes", cell.holes], ["free", cell.free], ["not in memory", absent]].filter((part) => part[1] > 0);
    const all = cell.row.places[cell.at].reduce((sum, [, bytes]) => sum + bytes, 0);
    const address = `0x${(BigInt(cell.row.start) + BigInt(cell.at) * BigInt(this.map.cell_bytes)).toString(16)}`;
    const places = cell.row.places[cell.at].map(([place, bytes]) => ({ place: this.places.get(place), bytes, share: formatShare(bytes, all) }));
    return { address, sums, places };
  }

  hover(event) {
    const number = this.at(event);
    if (number === null) {
      hideTip();
      return;
    }
    const { address, sums, places } = this.describe(number);
    showTip(event.clientX, event.clientY, element("div", { class: "name tip-name" }, address),
      sums.map(([what, bytes]) => element("div", { class: "number" }, `${what} ${formatBytes(bytes)}`)),
      places.map(({ place, bytes, share }) => element("div", {}, nameText(place?.function ?? "(no stack is known)"), " ", element("span", { class: "name quiet" }, place?.function ? placeOf(place) : ""), element("span", { class: "number" }, ` ${formatBytes(bytes)}, ${share}`))));
  }

  openAt(number) {
    if (number === null) return;
    this.chosen = number;
    this.draw();
    const place = this.describe(number).places[0]?.place;
    if (place?.function) this.open(place);
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, Home: -this.cells.length, End: this.cells.length };
    if (event.key === "Enter") this.openAt(this.chosen ?? 0);
    else if (event.key in moves) {
      this.chosen = Math.min(this.cells.length - 1, Math.max(0, (this.chosen ?? 0) + moves[event.key]));
      const { address, sums, places } = this.describe(this.chosen);
      announce(`${address}: ${sums.map(([what, bytes]) => `${what} ${formatBytes(bytes)}`).join(", ")}${places[0]?.place?.function ? `; most of ${places[0].place.function}` : ""}`);
      this.draw();
    } else return;
    event.preventDefault();
  }
}
