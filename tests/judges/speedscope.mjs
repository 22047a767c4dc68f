// Holds a file to speedscope's published schema, and adds its profiles up.
//
// usage: node speedscope.mjs DIRECTORY-WITH-node_modules FILE

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [, , directory, file] = process.argv;
const require = createRequire(path.join(directory, "package.json"));
const Ajv = require("ajv").default;
const schema = require("speedscope/dist/release/file-format-schema.json");
const data = JSON.parse(fs.readFileSync(file, "utf8"));
const validate = new Ajv({ strict: false }).compile(schema);
if (!validate(data)) {
  console.error(validate.errors);
  process.exit(1);
}
const sums = {};
for (const profile of data.profiles) {
  if (profile.samples.length !== profile.weights.length) throw new Error(`${profile.name}: weights are missing`);
  if (profile.samples.flat().some((frame) => !data.shared.frames[frame])) throw new Error("there is no such frame");
  sums[profile.name] = {
    unit: profile.unit,
    total: profile.weights.reduce((sum, weight) => sum + weight, 0),
    end: profile.endValue,
    innermost: {},
  };
  profile.samples.forEach((stack, index) => {
    const name = stack.length ? data.shared.frames[stack.at(-1)].name : "";
    const flat = sums[profile.name].innermost;
    flat[name] = (flat[name] ?? 0) + profile.weights[index];
  });
}
console.log(JSON.stringify(sums));
