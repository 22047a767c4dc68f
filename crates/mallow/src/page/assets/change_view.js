// Two recordings side by side: the places that changed most, as `mallow diff` pairs them.

import { asker, isSuperseded } from "./data.js";
import { element, fill, message, nameText } from "./dom.js";
import { sharedChoices } from "./state.js";
import { Table } from "./table.js";
import { formatCount, formatMargin, MEASURES, placeOf } from "./units.js";

const PLACES_AT_MOST = 500;

// Samples do not have all: a place without one may have allocated, too.
function stateOf({ state }, { sampled, compared }) {
  if (state === "new" && compared.sampled) return "no sample before";
  return state === "gone" && sampled ? "no sample after" : state;
}

export class ChangeView {
  constructor(context) {
    this.context = context;
    this.ask = asker();
    this.node = element("div", { class: "view", id: "changes-view" });
  }

  async update() {
    const by = this.context.by();
    const measure = MEASURES[by];
    try {
      const answer = await this.ask("diff", { by, limit: PLACES_AT_MOST, ...sharedChoices() });
      const rows = answer.places?.largest ?? [];
      if (rows.length === 0) {
        fill(this.node, message(`${measure.title}: no call site differs. Other measures may.`));
        return;
      }
      const most = Math.max(1, ...rows.map((row) => Math.abs(row.change)));
      const state = (row) => stateOf(row, this.context.about);
      const margin = { id: "margin", title: "Margin", width: 200, value: (row) => row.estimate?.low ?? null, text: (row) => formatMargin(row.estimate, measure.format) };
      const number = (id, title) => ({ id, title, numeric: true, width: 120, value: (row) => row[id], text: (row) => measure.format(row[id]) });
      const columns = [
        { id: "function", title: "Call site", wide: 260, value: (row) => row.function, node: (row) => element("span", { class: "over" }, nameText(row.function), " ", element("span", { class: "name quiet" }, placeOf(row))) },
        { id: "state", title: "State", width: 140, value: state, text: state },
        { id: "change", title: "Change", numeric: true, width: 130, value: (row) => Math.abs(row.change), share: (row) => Math.abs(row.change) / most,
          node: (row) => element("span", { class: row.change > 0 ? "over rise" : "over fall" }, `${row.change > 0 ? "+" : ""}${measure.format(row.change)}`) },
        ...(rows.some((row) => row.estimate) ? [margin] : []),
        number("before", "Before"), number("after", "After"),
        { id: "sites", title: "Call paths", numeric: true, width: 96, value: (row) => row.sites, text: (row) => formatCount(row.sites) },
      ];
      const table = new Table({ id: "changes-table", label: "Changes", columns, sort: { column: "change", down: true }, open: (row) => this.context.openFunction(row, row.stack?.frames) });
      fill(this.node, table.node);
      table.set(rows);
    } catch (error) {
      if (!isSuperseded(error)) fill(this.node, message(error.message));
    }
  }
}
