// Some of what the Octane suite does: task queues, matrices, strings, trees, closures.
class Vector { constructor(x, y) { this.x = x; this.y = y; } plus(o) { return new Vector(this.x + o.x, this.y + o.y); } }
function vectors(n) { let v = new Vector(0, 0); const step = new Vector(1.5, -0.5); for (let i = 0; i < n; i++) v = v.plus(step); return v.x - v.y; }
function matrix(n) {
    const a = [], b = [], c = [];
    for (let i = 0; i < n * n; i++) { a.push(i % 13); b.push(i % 7 + 0.5); c.push(0); }
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) { let s = 0; for (let k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; }
    return c.reduce((x, y) => x + y);
}
function tree(depth) { return depth ? { left: tree(depth - 1), right: tree(depth - 1) } : { left: null, right: null }; }
function count(t) { return t.left ? 1 + count(t.left) + count(t.right) : 1; }
function words(n) { const seen = new Map(); for (let i = 0; i < n; i++) { const w = "w" + (i * 7919 % 5003).toString(36); seen.set(w, (seen.get(w) || 0) + 1); } return [...seen].filter(([w]) => /[aeiou]\d/.test(w)).length; }
function dispatch(n) { const ops = [x => x + 1, x => x ^ 5, x => (x * 3) | 0, x => x >>> 1]; let x = 1; for (let i = 0; i < n; i++) x = ops[(i ^ x) & 3](x); return x; }
let sum = 0;
for (let round = 0; round < 10; round++) { sum += vectors(3e6) + matrix(150) + count(tree(16)) + words(100000) + dispatch(5e6); }
console.log(sum);
