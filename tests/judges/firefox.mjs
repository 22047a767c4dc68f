// Has the Firefox Profiler load a file, and prints what its call trees say of each thread: functions with their own and
// their total weight.
//
// usage: HOME=DIRECTORY node firefox.mjs DIRECTORY-WITH-node_modules FILE

import { spawnSync } from "node:child_process";
import path from "node:path";

const [, , directory, file] = process.argv;
const cli = path.join(directory, "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js");

function profiler(...words) {
  const run = spawnSync(process.execPath, [cli, ...words], { encoding: "utf8", timeout: 60_000 });
  return { ok: run.status === 0, text: run.stdout + run.stderr, out: run.stdout };
}

// It runs in the background, and gives itself half a second to start: on a busy machine that takes several attempts.
const pause = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
let loaded = profiler("load", file);
for (let attempt = 0; attempt < 60 && !profiler("status").ok; attempt++) {
  if (/rror.*(pars|unserializ|convert|format)/i.test(loaded.text)) break;
  pause(500);
}
try {
  const info = profiler("profile", "info", "--json");
  if (!info.ok) throw new Error(loaded.text + info.text);
  const answer = {};
  for (const thread of JSON.parse(info.out).processes.flatMap((process) => process.threads)) {
    const selected = profiler("thread", "select", thread.threadHandle);
    const listed = profiler("thread", "functions", "--json", "--limit", "1000000");
    if (!selected.ok || !listed.ok) throw new Error(selected.text + listed.text);
    const functions = JSON.parse(listed.out);
    answer[thread.name] = {
      unit: functions.weightType,
      functions: functions.functions.map((f) => [f.name, f.selfSamples, f.totalSamples]),
    };
  }
  console.log(JSON.stringify(answer));
} finally {
  profiler("stop", "--all");
}
