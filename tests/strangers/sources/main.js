const m = new Map();
for (let i = 0; i < 200000; i++) {
  const k = i % 977;
  if (!m.has(k)) m.set(k, []);
  m.get(k).push({ i, s: 'x' + i });
}
function total(all) {
  return [...all.values()].reduce((a, b) => a + b.length, 0);
}
console.log(total(m));
