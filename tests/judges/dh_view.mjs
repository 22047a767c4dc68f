// Has DHAT's own viewer build its tree of a file, and prints what the tree's root adds up to.
//
// usage: node dh_view.mjs /usr/libexec/valgrind/dh_view.js FILE

import fs from "node:fs";
import vm from "node:vm";

const [, , viewer, file] = process.argv;
// The viewer wants a page. Its menu of sort metrics is all that building the tree looks at.
const script = `${fs.readFileSync(viewer, "utf8")}
;gSelect = { childNodes: gSelectData.map(() => ({})), selectedIndex: 0 };
gData = JSON.parse(text);
buildTree();
const seen = (node) => 1 + (node._kids ?? []).reduce((sum, kid) => sum + seen(kid), 0);
result = {
  total: [gRoot._totalBytes, gRoot._totalBlocks],
  peak: [gRoot._atTGmaxBytes, gRoot._atTGmaxBlocks],
  end: [gRoot._atTEndBytes, gRoot._atTEndBlocks],
  lifetimes: gRoot._totalLifetimes,
  nodes: seen(gRoot),
};`;
const world = { text: fs.readFileSync(file, "utf8"), result: null, document: {}, window: {}, console, performance };
vm.runInNewContext(script, world);
console.log(JSON.stringify(world.result));
