// Marks on the time above: generations that a click divides the run into, and runs of regions of mallow.h.

import { changeState, state } from "./state.js";
import { letterOf } from "./time_chart.js";
import { printable } from "./units.js";

const MARKS_AT_MOST = 50;
// As many as a list has room for; the band above the chart has all.
const RUNS_AT_MOST = 2000;

export function marksOf() {
  return [...new Set(state.marks.split(".").filter(Boolean).map(Number).filter(Number.isFinite))].sort((a, b) => a - b).slice(0, MARKS_AT_MOST);
}

export function toggleMark(ms) {
  const marks = marksOf();
  const kept = marks.includes(ms) ? marks.filter((mark) => mark !== ms) : [...marks, ms];
  changeState({ marks: kept.sort((a, b) => a - b).join(".") });
}

// Generation A ends at mark A; what follows the last mark is the last one. Marks that the file has no edge for are passed over.
export function generations(boundaries) {
  const [first, last] = [boundaries[0], boundaries.at(-1)];
  const inside = marksOf().filter((mark) => mark > first && mark < last && boundaries.includes(mark));
  if (inside.length === 0) return [];
  return [...inside, last].map((to, at) => ({ name: letterOf(at), from: at === 0 ? first : inside[at - 1], to }));
}

// Runs of regions with the edges of the grid around them.
export function regionRuns(spans, regions, boundaries, edges) {
  const names = new Map((regions ?? []).map((region) => [region.number, region]));
  return (spans ?? []).slice(0, RUNS_AT_MOST).map(({ number, begin_ms: begin, end_ms: end }) => {
    const from = edges.filter((edge) => edge <= begin).at(-1) ?? edges[0];
    const to = edges.find((edge) => edge >= end && edge > from) ?? edges.at(-1);
    return { begin, end, from, to, region: names.get(number), number };
  });
}

export function nameOf(run) {
  const { region } = run;
  if (!region) return `region ${run.number}`;
  return `${printable(region.name).slice(0, 80)}${region.warmup ? " warm-up" : ` run ${region.run}`}`;
}
