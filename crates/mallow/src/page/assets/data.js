// The one module that reads documents: from the server, or from the model inside of an exported file.

const kept = new Map();
const KEPT_AT_MOST = 40;
let model;

function embedded() {
  if (model === undefined) {
    const script = document.getElementById("mallow-model");
    model = script ? JSON.parse(script.textContent) : null;
  }
  return model;
}

export function isExported() {
  return embedded() !== null;
}

export function leftOut() {
  return embedded()?.left_out ?? [];
}

// One question has one address, in whatever order its choices were given.
function addressOf(view, choices) {
  const given = new URLSearchParams();
  for (const name of Object.keys(choices).sort()) {
    const value = choices[name];
    if (value !== "" && value !== null && value !== undefined && value !== false) given.set(name, value === true ? "1" : value);
  }
  const text = given.toString();
  return text ? `${view}?${text}` : view;
}

export class AnswerError extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

async function fetchDocument(address, signal) {
  let response;
  try {
    response = await fetch(`/api/${address}`, { signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AnswerError("mallow view has ended. Start it again, and open the address that it prints.", 0);
  }
  const body = await response.json().catch(() => ({ error: `The server answered with status ${response.status}` }));
  if (!response.ok) throw new AnswerError(body.error ?? `The server answered with status ${response.status}`, response.status);
  return body;
}

export async function ask(view, choices = {}, signal = undefined) {
  const inside = embedded();
  // An exported file has each list once, as long as there was room for it.
  const address = addressOf(view, inside ? { ...choices, limit: "" } : choices);
  if (inside) {
    if (inside[address] !== undefined) return inside[address];
    throw new AnswerError("This file holds no answer to that choice. Use mallow view on the recording.", 404);
  }
  if (kept.has(address)) return kept.get(address);
  const answer = await fetchDocument(address, signal);
  // These change; everything else is of a file that does not, or of one look at a process.
  if (view !== "live" && (view !== "time" || answer.state !== "reading")) {
    kept.set(address, answer);
    if (kept.size > KEPT_AT_MOST) kept.delete(kept.keys().next().value);
  }
  return answer;
}

// What was answered is of an older look at the process.
export function forget() {
  kept.clear();
}

// A newer question of the same kind ends the older one.
export function asker() {
  let running = null;
  return async (view, choices) => {
    running?.abort();
    const own = new AbortController();
    running = own;
    const answer = await ask(view, choices, own.signal);
    if (own.signal.aborted) throw new DOMException("superseded", "AbortError");
    return answer;
  };
}

export function isSuperseded(error) {
  return error.name === "AbortError";
}

// The server ends when no page asks any more.
export function keepAlive() {
  if (!isExported()) setInterval(() => fetch("/api/alive").catch(() => {}), 60000);
}
