// The drawing of memory over time: live bytes and RSS above, the rate of allocations below.

import { sizeCanvas } from "./dom.js";
import { formatBytes, formatCount, formatTime } from "./units.js";
import { styleColour } from "./palette.js";

export const CHART = { height: 168, left: 68, right: 12, top: 10, rateHeight: 34, rateTop: 112, axis: 150 };

// Round steps of 1, 2 or 5, so that about `wanted` of them fit.
export function roundTicks(highest, wanted) {
  if (!(highest > 0)) return [];
  const rough = highest / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough);
  const ticks = [];
  for (let at = 0; at <= highest * 1.0001; at += step) ticks.push(at);
  return ticks;
}

export class TimeScale {
  constructor(series, width) {
    this.first = series.boundaries[0];
    this.last = series.boundaries.at(-1);
    this.width = Math.max(1, width - CHART.left - CHART.right);
  }

  x(ms) {
    return CHART.left + ((ms - this.first) / Math.max(1, this.last - this.first)) * this.width;
  }

  ms(x) {
    return this.first + ((x - CHART.left) / this.width) * (this.last - this.first);
  }
}

function drawAxes(context, scale, highest, width, y) {
  context.font = `11px ${styleColour("--mono")}`;
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (const tick of roundTicks(highest, 3)) {
    const at = Math.round(y(tick)) + 0.5;
    context.strokeStyle = styleColour("--line");
    context.beginPath();
    context.moveTo(CHART.left, at);
    context.lineTo(width - CHART.right, at);
    context.stroke();
    context.fillStyle = styleColour("--quiet");
    context.textAlign = "right";
    context.fillText(formatBytes(tick), CHART.left - 6, at);
  }
  context.textAlign = "center";
  for (const tick of roundTicks(scale.last - scale.first, Math.max(2, Math.floor(scale.width / 110)))) {
    const x = Math.min(Math.max(scale.x(scale.first + tick), CHART.left + 14), width - CHART.right - 20);
    context.fillText(formatTime(scale.first + tick), x, CHART.axis + 11);
  }
}

function drawLive(context, series, scale, y) {
  context.beginPath();
  context.moveTo(scale.x(series.boundaries[0]), y(0));
  for (let at = 0; at < series.live.length; at += 1) {
    context.lineTo(scale.x(series.boundaries[at]), y(series.live[at]));
    context.lineTo(scale.x(series.boundaries[at + 1]), y(series.live[at]));
  }
  context.lineTo(scale.x(scale.last), y(0));
  context.closePath();
  context.fillStyle = styleColour("--live");
  context.globalAlpha = 0.28;
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = styleColour("--live");
  context.lineWidth = 1.25;
  context.stroke();
}

function drawRss(context, series, scale, y) {
  if (series.rss.length === 0) return;
  context.strokeStyle = styleColour("--rss");
  context.lineWidth = 1.5;
  context.setLineDash([5, 3]);
  context.beginPath();
  series.rss.forEach(([ms, bytes], at) => {
    if (at === 0) context.moveTo(scale.x(ms), y(bytes));
    else {
      context.lineTo(scale.x(ms), y(series.rss[at - 1][1]));
      context.lineTo(scale.x(ms), y(bytes));
    }
  });
  context.stroke();
  context.setLineDash([]);
}

// The kernel's own maximum has no moment: a line over the whole time, above what readings met.
function drawRssPeak(context, scale, bytes, y, width) {
  const at = Math.round(y(bytes)) + 0.5;
  context.strokeStyle = styleColour("--rss");
  context.lineWidth = 1;
  context.setLineDash([2, 4]);
  context.beginPath();
  context.moveTo(CHART.left, at);
  context.lineTo(width - CHART.right, at);
  context.stroke();
  context.setLineDash([]);
}

function drawRate(context, series, scale) {
  if (series.allocations.length === 0) return;
  const highest = Math.max(1, ...series.allocations);
  context.fillStyle = styleColour("--rate");
  for (let at = 0; at < series.allocations.length; at += 1) {
    if (series.allocations[at] === 0) continue;
    const x = scale.x(series.boundaries[at]);
    const width = Math.max(1, scale.x(series.boundaries[at + 1]) - x);
    const height = Math.max(1, (series.allocations[at] / highest) * CHART.rateHeight);
    context.fillRect(x, CHART.rateTop + CHART.rateHeight - height, width, height);
  }
  const seconds = (series.boundaries[1] - series.boundaries[0]) / 1000;
  context.fillStyle = styleColour("--quiet");
  context.textAlign = "right";
  context.fillText(`${rateText(highest / seconds)}/s`, CHART.left - 6, CHART.rateTop + 8);
  context.strokeStyle = styleColour("--axis");
  context.beginPath();
  context.moveTo(CHART.left, CHART.axis - 3.5);
  context.lineTo(scale.x(scale.last), CHART.axis - 3.5);
  context.stroke();
}

function rateText(rate) {
  if (rate >= 1e6) return `${(rate / 1e6).toFixed(1)} M`;
  return rate >= 1000 ? `${(rate / 1000).toFixed(0)} k` : formatCount(rate);
}

// `withRss`: RSS dwarfs what is live in many programs, so it can be left out.
export function drawSeries(canvas, series, withRss, width) {
  const context = sizeCanvas(canvas, width, CHART.height);
  const scale = new TimeScale(series, width);
  const rss = withRss ? series.rss : [];
  const peak = withRss ? (series.rss_peak?.peak_rss ?? 0) : 0;
  const highest = Math.max(1, peak, ...series.live, ...rss.map((point) => point[1]));
  // A watched process has no rates: memory takes their room.
  const bottom = series.allocations.length > 0 ? CHART.rateTop - 8 : CHART.axis - 4;
  const y = (bytes) => bottom - (bytes / highest) * (bottom - CHART.top);
  context.clearRect(0, 0, width, CHART.height);
  drawAxes(context, scale, highest, width, y);
  drawLive(context, series, scale, y);
  drawRss(context, { ...series, rss }, scale, y);
  if (peak > 0) drawRssPeak(context, scale, peak, y, width);
  drawRate(context, series, scale);
  return scale;
}

// What is chosen, and where the pointer or the keyboard's cursor is.
export function drawSelection(canvas, scale, width, from, to, cursor) {
  const context = sizeCanvas(canvas, width, CHART.height);
  context.clearRect(0, 0, width, CHART.height);
  if (from !== null && to !== null) {
    const [left, right] = [scale.x(from), scale.x(to)];
    context.fillStyle = styleColour("--paper");
    context.globalAlpha = 0.62;
    context.fillRect(CHART.left, CHART.top, left - CHART.left, CHART.axis - CHART.top - 4);
    context.fillRect(right, CHART.top, width - CHART.right - right, CHART.axis - CHART.top - 4);
    context.globalAlpha = 1;
    context.fillStyle = styleColour("--accent");
    context.fillRect(left - 1, CHART.top, 2, CHART.axis - CHART.top - 4);
    context.fillRect(right - 1, CHART.top, 2, CHART.axis - CHART.top - 4);
    context.fillRect(left - 3, CHART.top + 40, 6, 18);
    context.fillRect(right - 3, CHART.top + 40, 6, 18);
  }
  if (cursor !== null) {
    context.fillStyle = styleColour("--text");
    context.fillRect(Math.round(scale.x(cursor)), CHART.top, 1, CHART.axis - CHART.top - 4);
  }
}

// Marks between generations, with their letters, and runs of regions as a band below the chart's upper edge.
export function drawMarks(canvas, scale, marks, runs) {
  const context = canvas.getContext("2d");
  context.fillStyle = styleColour("--rate");
  for (const run of runs) context.fillRect(scale.x(run.begin), 3, Math.max(1, scale.x(run.end) - scale.x(run.begin) - 0.5), 4);
  context.font = `11px ${styleColour("--mono")}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.strokeStyle = styleColour("--rise");
  context.fillStyle = styleColour("--rise");
  context.setLineDash([2, 3]);
  marks.forEach((ms, at) => {
    const x = Math.round(scale.x(ms)) + 0.5;
    context.beginPath();
    context.moveTo(x, CHART.top);
    context.lineTo(x, CHART.axis - 4);
    context.stroke();
    context.fillText(letterOf(at), x - 4, CHART.top + 6);
  });
  context.setLineDash([]);
}

// A, B, … Z, A1, B1, …
export function letterOf(at) {
  const round = Math.floor(at / 26);
  return String.fromCharCode(65 + (at % 26)) + (round > 0 ? round : "");
}
