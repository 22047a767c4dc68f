// What is shown, kept in the address's fragment: a link shows the same view again.

const DEFAULTS = {
  view: "flame", by: "", from: "", to: "", what: "allocated", marks: "", process: "",
  focus: "", ignore: "", hide: "", search: "", zoom: "", callers: "", flip: "", sandwich: "",
  sort: "", columns: "", filter: "",
};

export const state = { ...DEFAULTS };
const listeners = [];

function read() {
  const given = new URLSearchParams(window.location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) state[name] = given.get(name) ?? DEFAULTS[name];
}

function fragment() {
  const kept = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== DEFAULTS[name]) kept.set(name, value);
  const text = kept.toString();
  return text ? `#${text}` : window.location.pathname;
}

function notify(before) {
  const changed = new Set(Object.keys(DEFAULTS).filter((name) => before[name] !== state[name]));
  if (changed.size > 0) for (const listener of listeners) listener(changed);
}

// `replace`: a step of a movement or of typing, which the Back button does not stop at.
export function changeState(to, replace = false) {
  const before = { ...state };
  Object.assign(state, to);
  const address = fragment();
  if (replace) window.history.replaceState(null, "", address);
  else window.history.pushState(null, "", address);
  notify(before);
}

export function onState(listener) {
  listeners.push(listener);
}

export function startState() {
  read();
  const again = () => {
    const before = { ...state };
    read();
    notify(before);
  };
  window.addEventListener("popstate", again);
  window.addEventListener("hashchange", again);
}

export function hasRange() {
  return state.from !== "" && state.to !== "";
}

// The choices that every view of allocations takes.
export function sharedChoices() {
  const choices = {};
  for (const name of ["process", "focus", "ignore", "hide"]) if (state[name]) choices[name] = state[name];
  return choices;
}

export function rangeChoices() {
  return hasRange() ? { from: state.from, to: state.to, what: state.what } : {};
}
