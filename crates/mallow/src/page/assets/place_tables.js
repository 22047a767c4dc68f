// Tables of functions, lines and call paths: of the whole run or of the chosen range.

import { asker, isSuperseded } from "./data.js";
import { element, fill, message, nameText } from "./dom.js";
import { allPaths, boxTitle } from "./flame_tree.js";
import { flameChoices, searchOf, treeOf } from "./flame_view.js";
import { changeState, rangeChoices, sharedChoices, state } from "./state.js";
import { rowCount, Table } from "./table.js";
import { baseName, formatCount, formatShare, MEASURES, printable } from "./units.js";

const ROWS_AT_MOST = 20000;
const LINE_FUNCTIONS_AT_MOST = 400;
const PATHS_AT_MOST = 5000;

function sortOf(fallback) {
  if (!state.sort) return { column: fallback, down: true };
  return { column: state.sort.replace(/^-/, ""), down: state.sort.startsWith("-") };
}

const keepSort = (sort) => changeState({ sort: (sort.down ? "-" : "") + sort.column }, true);

// Columns of one measure: self and cumulative with bars; the chosen measure comes first.
function measureColumns(context, of, totals) {
  const chosen = context.by();
  const more = state.columns ? state.columns.split(",") : [];
  const names = [chosen, ...context.measures().filter((name) => name !== chosen && more.includes(name))];
  return names.flatMap((name) => {
    const measure = MEASURES[name];
    const total = totals[measure.key];
    const value = (row, part) => row[part]?.[measure.key] ?? 0;
    return of.map(([part, title, help]) => ({
      id: `${part}-${name}`, numeric: true, width: 128, title: name === chosen ? title : `${measure.title}, ${title.toLowerCase()}`,
      help: `${measure.title}: ${help}`, value: (row) => value(row, part),
      share: name === chosen ? (row) => value(row, part) / (total || 1) : null,
      node: (row) => element("span", { class: "over", title: formatCount(value(row, part)) }, measure.format(value(row, part)),
        name === chosen && element("span", { class: "share" }, formatShare(value(row, part), total))),
    }));
  });
}

const SELF_AND_CUM = [["self", "Self", "excluding callees"], ["cum", "Cum", "including callees"]];

class PlaceView {
  constructor(context, id, noun) {
    this.context = context;
    this.noun = noun;
    this.ask = asker();
    this.count = element("span", { class: "quiet number", id: `${id}-count` });
    this.filter = element("input", {
      type: "search", class: "field name", id: `${id}-filter`, placeholder: `Filter ${noun} (regex)`, "aria-label": `Filter ${noun}, a regular expression`,
      autocomplete: "off", spellcheck: "false", oninput: (event) => { changeState({ filter: event.target.value }, true); this.show(); },
    });
    this.columnsBox = element("details", { class: "menu", hidden: true });
    this.place = element("div", {});
    this.node = element("div", { class: "view" }, element("div", { class: "row tools" }, this.filter, this.columnsBox, this.count), this.place);
  }

  async update() {
    this.filter.value = state.filter;
    try {
      await this.load();
      this.paintMenu();
      this.show();
    } catch (error) {
      if (isSuperseded(error)) return;
      this.rows = null;
      this.count.textContent = "";
      fill(this.place, message(error.message));
    }
  }

  paintMenu() {
    const others = this.context.measures().filter((name) => name !== this.context.by());
    const more = state.columns ? state.columns.split(",") : [];
    this.columnsBox.hidden = others.length === 0 || this.noColumns;
    fill(this.columnsBox, element("summary", {}, "Columns"), element("div", { class: "menu-box" }, others.map((name) => element("label", { class: "key" },
      element("input", {
        type: "checkbox", checked: more.includes(name), "data-column-choice": name,
        onchange: (event) => {
          const kept = others.filter((o) => (o === name ? event.target.checked : more.includes(o)));
          changeState({ columns: kept.join(",") }, true);
          this.paintMenu();
          this.show();
        },
      }), MEASURES[name].title))));
  }

  show() {
    if (!this.rows) return;
    const search = searchOf(state.filter);
    const rows = search ? this.rows.filter((row) => search.matches(this.filterText(row))) : this.rows;
    this.count.textContent = rowCount(rows.length, this.all ?? this.rows.length, this.noun);
    const columns = this.columns();
    const first = columns.find((column) => column.numeric).id;
    if (!this.table) this.table = new Table({ id: `${this.noun.replace(" ", "-")}-table`, label: this.noun, columns, sort: sortOf(first), onSort: keepSort, open: (row) => this.open(row) });
    this.table.sort = sortOf(first);
    fill(this.place, rows.length === 0 ? message("Nothing here.") : this.table.node);
    if (rows.length > 0) this.table.set(rows, columns);
  }
}

export class FunctionView extends PlaceView {
  constructor(context) {
    super(context, "functions", "functions");
  }

  async load() {
    const base = this.context.compared ? { base: "1" } : {};
    const answer = await this.ask("top", { by: this.context.by(), cum: "1", limit: ROWS_AT_MOST, ...sharedChoices(), ...rangeChoices(), ...base });
    this.totals = answer;
    this.rows = answer.functions;
    this.all = answer.functions_in_all;
  }

  filterText(row) {
    return `${row.function} ${row.file ?? ""} ${row.module ?? ""}`;
  }

  columns() {
    return [
      { id: "function", title: "Function", wide: 260, value: (row) => row.function, node: (row) => nameText(row.function, "name over") },
      ...measureColumns(this.context, SELF_AND_CUM, this.totals),
      { id: "place", title: "File", width: 180, value: (row) => baseName(row.file ?? row.module), node: (row) => nameText(row.file ? baseName(row.file) : `[${baseName(row.module)}]`, "name quiet over") },
    ];
  }

  open(row) {
    this.context.openFunction(row);
  }
}

export class LineView extends PlaceView {
  constructor(context) {
    super(context, "lines", "lines");
  }

  async load() {
    const answer = await this.ask("list", { function: ".", by: this.context.by(), limit: LINE_FUNCTIONS_AT_MOST, ...sharedChoices(), ...rangeChoices() });
    this.totals = answer;
    this.rows = answer.functions.flatMap((owner) => owner.lines.map((line) => ({ ...line, owner })));
    this.all = this.rows.length;
  }

  filterText(row) {
    return `${row.owner.function} ${row.owner.file ?? ""}:${row.line ?? ""} ${row.text ?? ""} ${(row.reasons ?? []).join(" ")}`;
  }

  columns() {
    const where = (row) => (row.line ? `${baseName(row.owner.file)}:${row.line}` : `[${baseName(row.owner.module)}]`);
    const why = (row) => (row.reasons ?? []).join("; ");
    return [
      { id: "line", title: "Line", width: 190, value: (row) => `${where(row)}`, node: (row) => nameText(where(row), "name over") },
      ...measureColumns(this.context, SELF_AND_CUM, this.totals),
      { id: "function", title: "Function", wide: 200, value: (row) => row.owner.function, node: (row) => nameText(row.owner.function, "name quiet over") },
      { id: "text", title: "Source", wide: 260, value: (row) => row.text ?? "", node: (row) => (row.text ? nameText(row.text.trim(), "name over") : element("span", { class: "quiet over" }, "no line known")) },
      ...(this.rows.some((row) => row.reasons) ? [{ id: "reason", title: "Reason", help: "Why it is allocated in the heap", wide: 260, value: why, node: (row) => nameText(why(row), "name over") }] : []),
    ];
  }

  open(row) {
    this.context.openFunction({ ...row.owner, line: row.line });
  }
}

// Call paths: what the flame graph's boxes have without their callees.
export class PathView extends PlaceView {
  constructor(context) {
    super(context, "paths", "call paths");
    this.noColumns = true;
  }

  async load() {
    const answer = await this.ask("flame", flameChoices(this.context.by()));
    this.tree = treeOf(answer);
    const { paths, all } = allPaths(this.tree, PATHS_AT_MOST);
    const name = (number) => boxTitle(this.tree.functions, number);
    this.rows = paths.map((path) => ({ ...path, title: name(path.frames[0]), callers: path.frames.slice(1, 8).map(name).join(" ← ") }));
    this.all = all;
  }

  filterText(row) {
    return `${row.title} ${row.callers}`;
  }

  columns() {
    const measure = MEASURES[this.context.by()];
    return [
      { id: "value", title: measure.title, numeric: true, width: 150, value: (row) => row.value, share: (row) => row.value / (this.tree.total || 1),
        node: (row) => element("span", { class: "over", title: formatCount(row.value) }, measure.format(row.value), element("span", { class: "share" }, formatShare(row.value, this.tree.total))) },
      { id: "function", title: "Function", wide: 240, value: (row) => row.title, node: (row) => nameText(row.title, "name over") },
      { id: "callers", title: "Callers", wide: 300, value: (row) => row.callers, node: (row) => nameText(row.callers, "name quiet over") },
      { id: "depth", title: "Frames", numeric: true, width: 80, value: (row) => row.frames.length, text: (row) => formatCount(row.frames.length) },
    ];
  }

  open(row) {
    this.context.openStack(printable(row.title), row.frames.map((number) => ({
      function: boxTitle(this.tree.functions, number), file: this.tree.functions.file[number], module: this.tree.functions.module[number],
    })), `${MEASURES[this.context.by()].format(row.value)}, ${formatShare(row.value, this.tree.total)}`);
  }
}
