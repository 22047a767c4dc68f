// A table of any number of rows: only those in sight are elements.

import { element, fill } from "./dom.js";
import { formatCount } from "./units.js";

const ROW = 28;
const BEYOND = 12;

export class Table {
  // columns: [{ id, title, help, value(row), text(row) | node(row), numeric, wide, share(row) }]
  constructor({ id, label, columns, open, sort, onSort, most = 0.6 }) {
    Object.assign(this, { id, label, columns, open, onSort, most });
    this.sort = sort;
    this.rows = [];
    this.chosen = -1;
    this.head = element("div", { role: "row", class: "table-head", "aria-rowindex": "1" });
    this.body = element("div", { class: "table-body", role: "rowgroup" });
    this.scroller = element("div", { class: "table-scroll", tabindex: "0", role: "presentation" }, this.body);
    this.node = element("div", { id, class: "table", role: "table", "aria-label": label }, element("div", { role: "rowgroup" }, this.head), this.scroller);
    this.scroller.addEventListener("scroll", () => this.paint());
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.paint()).observe(this.scroller);
  }

  layout() {
    return this.columns.map((column) => (column.wide ? `minmax(${column.wide}px, 1fr)` : `${column.width ?? 112}px`)).join(" ");
  }

  set(rows, columns = this.columns) {
    this.columns = columns;
    this.all = rows;
    if (!columns.some((column) => column.id === this.sort.column)) this.sort = { column: columns.find((c) => c.numeric)?.id ?? columns[0].id, down: true };
    this.order();
    const width = columns.reduce((sum, column) => sum + (column.wide ?? column.width ?? 112) + 12, 0);
    this.node.style.setProperty("--columns", this.layout());
    this.node.style.setProperty("--least", `${width}px`);
    this.node.setAttribute("aria-rowcount", rows.length + 1);
    this.node.setAttribute("aria-colcount", columns.length);
    this.paintHead();
    this.chosen = -1;
    this.scroller.scrollTop = 0;
    this.body.style.height = `${rows.length * ROW}px`;
    this.scroller.style.maxHeight = `${Math.max(220, Math.round(window.innerHeight * this.most))}px`;
    this.paint();
  }

  order() {
    const column = this.columns.find((c) => c.id === this.sort.column);
    const turn = this.sort.down ? -1 : 1;
    const keyed = this.all.map((row) => [column.value(row), row]);
    keyed.sort(([a], [b]) => {
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      return (a < b ? -1 : 1) * turn;
    });
    this.rows = keyed.map((pair) => pair[1]);
  }

  paintHead() {
    fill(this.head, this.columns.map((column) => {
      const sorted = this.sort.column === column.id;
      return element("div", { role: "columnheader", class: column.numeric ? "cell right" : "cell", "aria-sort": sorted ? (this.sort.down ? "descending" : "ascending") : "none" },
        element("button", { type: "button", class: "sort", title: column.help ?? column.title, "data-column": column.id, onclick: () => this.sortBy(column) },
          column.numeric ? [this.arrow(sorted), column.title] : [column.title, this.arrow(sorted)]));
    }));
  }

  arrow(sorted) {
    return element("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (this.sort.down ? "▾ " : "▴ ") : "");
  }

  sortBy(column) {
    const down = this.sort.column === column.id ? !this.sort.down : Boolean(column.numeric);
    this.sort = { column: column.id, down };
    this.onSort?.(this.sort);
    this.order();
    this.paintHead();
    this.paint(true);
  }

  paint(afresh = false) {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW) + BEYOND);
    if (afresh) this.scroller.scrollTop = 0;
    this.body.replaceChildren(...this.rows.slice(first, last).map((row, at) => this.rowNode(row, first + at)));
  }

  rowNode(row, at) {
    const node = element("div", {
      role: "row", class: at === this.chosen ? "table-row chosen" : "table-row", "aria-rowindex": at + 2, "data-row": at,
      style: { top: `${at * ROW}px` }, onclick: () => this.choose(at, true),
    });
    for (const column of this.columns) {
      const share = column.share?.(row);
      node.append(element("div", { role: "cell", class: column.numeric ? "cell right number" : "cell" },
        share > 0 && element("i", { class: "bar", style: { width: `${Math.min(100, share * 100)}%` } }),
        column.node ? column.node(row) : element("span", { class: "over" }, column.text(row))));
    }
    return node;
  }

  choose(at, opens) {
    if (at < 0 || at >= this.rows.length) return;
    this.chosen = at;
    if (at * ROW < this.scroller.scrollTop) this.scroller.scrollTop = at * ROW;
    else if ((at + 1) * ROW > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = (at + 1) * ROW - this.scroller.clientHeight;
    this.paint();
    if (opens) this.open?.(this.rows[at]);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.length, End: this.rows.length };
    if (event.key === "Enter") this.choose(Math.max(0, this.chosen), true);
    else if (event.key in moves) this.choose(Math.min(this.rows.length - 1, Math.max(0, this.chosen + moves[event.key])), false);
    else return;
    event.preventDefault();
  }
}

export function rowCount(shown, all, noun) {
  return shown === all ? `${formatCount(all)} ${noun}` : `${formatCount(shown)} of ${formatCount(all)} ${noun}`;
}
