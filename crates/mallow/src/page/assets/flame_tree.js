// Boxes of a flame graph: their children, keys that hold from one answer to the next, and the sandwich of a function.

const SEED = 0x811c9dc5;

function mix(hash, text) {
  let mixed = hash;
  for (let at = 0; at < text.length; at += 1) mixed = Math.imul(mixed ^ text.charCodeAt(at), 0x01000193);
  return mixed >>> 0;
}

// Numbers of functions change between answers, so a function's key is what it is called and where it is.
export function functionKey(functions, index) {
  return `${functions.label[index]}\u0000${functions.name[index]}\u0000${functions.file[index] ?? ""}\u0000${functions.module[index] ?? ""}`;
}

export function boxTitle(functions, index, whole = "whole") {
  const titles = { whole, missing_frames: "(frames are missing)", no_stack: "(no stack)" };
  return titles[functions.label[index]] ?? functions.name[index];
}

// Adds to the columns of a document what the views need: rows of boxes by depth, first children, and keys of paths.
export function flameTree(answer) {
  const { parent, depth } = answer.boxes;
  const functionHashes = answer.functions.name.map((_, at) => mix(SEED, functionKey(answer.functions, at)));
  const paths = new Uint32Array(parent.length);
  const children = parent.map(() => []);
  const rows = [];
  const byPath = new Map();
  for (let box = 0; box < parent.length; box += 1) {
    const above = parent[box];
    paths[box] = above === null ? SEED : Math.imul(paths[above] ^ functionHashes[answer.boxes.function[box]], 0x01000193) >>> 0;
    if (above !== null) children[above].push(box);
    (rows[depth[box]] ??= []).push(box);
    if (!byPath.has(paths[box])) byPath.set(paths[box], box);
  }
  return { ...answer, paths, children, rows, byPath };
}

// The way to a box, for the address: a key for each box on it.
export function pathText(tree, box) {
  const keys = [];
  for (let at = box; at !== null && tree.boxes.parent[at] !== null; at = tree.boxes.parent[at]) keys.push(tree.paths[at].toString(36));
  return keys.reverse().join(".");
}

// The box that a path leads to, or the last one on it that is here.
export function boxOfPath(tree, text) {
  if (!text) return { box: 0, whole: true };
  const keys = text.split(".");
  for (let at = keys.length - 1; at >= 0; at -= 1) {
    const box = tree.byPath.get(parseInt(keys[at], 36));
    if (box !== undefined) return { box, whole: at === keys.length - 1 };
  }
  return { box: 0, whole: false };
}

export function ancestors(tree, box) {
  const above = [];
  for (let at = box; at !== null; at = tree.boxes.parent[at]) above.push(at);
  return above;
}

// Boxes of functions that `matches` accepts, and what the outermost of them have.
export function searchBoxes(tree, matches) {
  const accepted = tree.functions.name.map((name, at) => tree.functions.label[at] === "function" && matches(name));
  const found = new Uint8Array(tree.boxes.parent.length);
  const within = new Uint8Array(tree.boxes.parent.length);
  let value = 0;
  let boxes = 0;
  for (let box = 0; box < found.length; box += 1) {
    const above = tree.boxes.parent[box];
    const covered = above !== null && within[above] === 1;
    if (accepted[tree.boxes.function[box]]) {
      found[box] = 1;
      boxes += 1;
      if (!covered) value += tree.boxes.value[box];
    }
    within[box] = covered || found[box] ? 1 : 0;
  }
  return { found, value, boxes };
}

// Merges nodes { function, value, own, children: Map } into the columns of a tree.
function columns(answer, root) {
  const boxes = { parent: [], depth: [], start: [], value: [], own: [], function: [] };
  const waiting = [{ node: root, parent: null, depth: 0, start: 0 }];
  while (waiting.length > 0) {
    const { node, parent, depth, start } = waiting.pop();
    const box = boxes.parent.length;
    boxes.parent.push(parent);
    boxes.depth.push(depth);
    boxes.start.push(start);
    boxes.value.push(node.value);
    boxes.own.push(node.own);
    boxes.function.push(node.function);
    let at = start;
    const sorted = [...node.children.values()].sort((a, b) => b.value - a.value);
    const placed = sorted.map((child) => {
      const entry = { node: child, parent: box, depth: depth + 1, start: at };
      at += child.value;
      return entry;
    });
    waiting.push(...placed.reverse());
  }
  return flameTree({ ...answer, boxes, total: root.value });
}

function emptyNode(number) {
  return { function: number, value: 0, own: 0, children: new Map() };
}

function childNode(node, number) {
  if (!node.children.has(number)) node.children.set(number, emptyNode(number));
  return node.children.get(number);
}

// All that a function called, and all that called it, wherever it stands. A recursive function counts once per path.
export function sandwich(tree, key) {
  const number = tree.functions.name.findIndex((_, at) => functionKey(tree.functions, at) === key);
  if (number < 0) return null;
  const callees = emptyNode(number);
  const callers = emptyNode(number);
  const { parent, value, own } = tree.boxes;
  for (let box = 0; box < parent.length; box += 1) {
    if (tree.boxes.function[box] !== number) continue;
    if (ancestors(tree, parent[box]).some((above) => tree.boxes.function[above] === number)) continue;
    callees.value += value[box];
    callees.own += own[box];
    callers.value += value[box];
    const waiting = tree.children[box].map((child) => [child, callees]);
    while (waiting.length > 0) {
      const [at, into] = waiting.pop();
      const node = childNode(into, tree.boxes.function[at]);
      node.value += value[at];
      node.own += own[at];
      for (const child of tree.children[at]) waiting.push([child, node]);
    }
    let into = callers;
    for (const above of ancestors(tree, parent[box])) {
      if (parent[above] === null) break;
      into = childNode(into, tree.boxes.function[above]);
      into.value += value[box];
    }
  }
  return { callees: columns(tree, callees), callers: columns(tree, callers) };
}

// The largest call paths that end in a function: [{ frames: [function number, innermost first], value }].
export function pathsTo(tree, key, most) {
  const paths = [];
  for (let box = 0; box < tree.boxes.parent.length; box += 1) {
    if (tree.boxes.own[box] > 0 && functionKey(tree.functions, tree.boxes.function[box]) === key) paths.push([box, tree.boxes.own[box]]);
  }
  return describePaths(tree, paths, most);
}

// The largest call paths through a function, whatever it called afterwards.
export function pathsThrough(tree, key, most) {
  const paths = [];
  const inside = new Uint8Array(tree.boxes.parent.length);
  for (let box = 0; box < inside.length; box += 1) {
    const above = tree.boxes.parent[box];
    const is = functionKey(tree.functions, tree.boxes.function[box]) === key;
    inside[box] = is || (above !== null && inside[above]) ? 1 : 0;
    if (inside[box] && tree.boxes.own[box] > 0) paths.push([box, tree.boxes.own[box]]);
  }
  return describePaths(tree, paths, most);
}

export function allPaths(tree, most) {
  const paths = [];
  for (let box = 1; box < tree.boxes.parent.length; box += 1) if (tree.boxes.own[box] > 0) paths.push([box, tree.boxes.own[box]]);
  return describePaths(tree, paths, most);
}

function describePaths(tree, paths, most) {
  paths.sort((a, b) => b[1] - a[1]);
  const described = paths.slice(0, most).map(([box, value]) => ({
    box, value, frames: ancestors(tree, box).slice(0, -1).map((at) => tree.boxes.function[at]),
  }));
  return { paths: described, all: paths.length };
}
