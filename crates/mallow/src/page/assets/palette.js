// The colours of modules: those of the pictures of `mallow flame`, each with its twin for dark windows.

const FILLS = [
  ["#9bd0f5", "#1868ca"], ["#df862a", "#5d2e1b"], ["#ead537", "#82620b"], ["#c58392", "#a54b7e"],
  ["#5196be", "#093451"], ["#65f19e", "#3f6d52"], ["#84a35e", "#6a703a"], ["#ab6fe9", "#7521d7"],
];
const REST = ["#d9d9dd", "#45454a"];
const RUNTIME = [["#c3c6cc", "#565a61"], ["#cfd2d7", "#4a4d54"], ["#e6e7ea", "#383b41"]];
const GENERATED = ["#fff6d6", "#2e2a1c"];
const NOTHING = ["#ffffff", "#24272d"];
const CHANGE_STEPS = 8;

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const repaints = [];
dark.addEventListener("change", () => repaints.forEach((repaint) => repaint()));

export function onColours(repaint) {
  repaints.push(repaint);
}

const twin = (pair) => pair[dark.matches ? 1 : 0];

// The fill that a name prefers, as palette.rs chooses it: the same in every picture.
function preferred(path) {
  const file = path.slice(path.lastIndexOf("/") + 1);
  const name = new TextEncoder().encode(file.split(".so")[0] || file);
  let hash = 0xcbf29ce484222325n;
  for (const byte of name) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  return Number((hash ^ (hash >> 32n)) % BigInt(FILLS.length));
}

// A module keeps its colour when the range changes: the first one to come chooses.
const chosen = new Map();
const taken = new Set();
let runtimes = 0;

function pairOf(group) {
  if (!group) return NOTHING;
  if (group.kind === "generated") return GENERATED;
  const key = `${group.kind} ${group.name}`;
  if (!chosen.has(key)) chosen.set(key, group.runtime ? RUNTIME[Math.min(runtimes++, RUNTIME.length - 1)] : freeFill(group.name));
  return chosen.get(key);
}

function freeFill(name) {
  if (taken.size === FILLS.length) return REST;
  let at = preferred(name);
  while (taken.has(at)) at = (at + 1) % FILLS.length;
  taken.add(at);
  return FILLS[at];
}

export function groupColour(group) {
  return twin(pairOf(group));
}

// One of the fills, for parts that are no modules.
export function partColour(at) {
  return twin(at < FILLS.length ? FILLS[at] : REST);
}

// More is red, less is blue: the stronger, the larger the change is beside the largest one.
export function changeColour(change, largest) {
  if (!change || !largest) return twin(NOTHING);
  const part = Math.min(1, Math.max(1, Math.ceil((Math.abs(change) / largest) * CHANGE_STEPS)) / CHANGE_STEPS);
  const [hue, light, dim] = change > 0 ? [8, 0.66, 0.36] : [214, 0.68, 0.42];
  const [saturation, lightness] = dark.matches
    ? [0.15 + 0.55 * part, 0.17 + (dim - 0.17) * part]
    : [0.85, 0.96 - (0.96 - light) * part];
  return `hsl(${hue} ${saturation * 100}% ${lightness * 100}%)`;
}

// A colour of the style sheet, for canvases.
export function styleColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
