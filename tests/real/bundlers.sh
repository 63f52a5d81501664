# Compilers and bundlers written in JavaScript, hot and cold code for node's own compilers:
# rollup bundles modules, terser makes them small, tsc translates and checks types; node's test runner runs tests.
# real: limit 300
# real: small-chaos every compiled function is new code, which chaos drops at once: only versions there
setup() {
    mkdir -p "$SHARED/modules" "$SHARED/types"
    cd "$SHARED"
    python3 - <<'END'
for n in range(14):
    used = [m for m in range(max(0, n - 3), n)]
    lines = [f"import {{ f{m}, unused{m} as u{m} }} from './m{m}.js';" for m in used]
    lines.append(f"export function f{n}(x) {{ let sum = x * {n} + 1; for (let i = 0; i < 3; i++) {{ sum += i * {n}; }}")
    lines += [f"  if (sum % {m + 2} === 0) {{ sum += f{m}(x - 1 < 0 ? 0 : x - 1) % 97; }}" for m in used[-1:]]
    lines.append("  return sum; }")
    lines.append(f"export const unused{n} = {{ name: 'unused {n}', list: [{', '.join(str(i) for i in range(n))}] }};")
    open(f"modules/m{n}.js", "w").write("\n".join(lines) + "\n")
    open(f"types/t{n}.ts", "w").write(
        "".join(f"import {{ C{m} }} from './t{m}';\n" for m in used)
        + f"export interface I{n}<T> {{ value: T; next?: I{n}<T>; map<U>(f: (t: T) => U): I{n}<U>; }}\n"
        + f"export class C{n} {'extends C%d ' % (n - 1) if n % 4 else ''}{{ readonly n{n}: number = {n};\n"
        + f"  async *walk<T extends keyof this>(key: T): AsyncGenerator<this[T]> {{ for (const i of [1, 2]) yield this[key]; }}\n"
        + f"  get double(): number {{ return (this.n{n} ?? 0) * 2; }} }}\n")
open("modules/main.js", "w").write("import { f13 } from './m13.js';\nlet total = 0;\nfor (let i = 0; i < 200; i++) total += f13(i);\nconsole.log(total);\n")
open("types/bad.ts", "w").write("import { C13 } from './t13';\nconst x: string = new C13().double;\nnew C13().missing();\n")
END
    cat >tests.mjs <<'END'
import test from "node:test";
import assert from "node:assert";
for (let n = 0; n < 5; n++) {
    test(`number ${n}`, async (t) => {
        await t.test("inner", () => assert.deepEqual({ n: [n] }, { n: [n] }));
        if (n === 3) assert.equal(n, 4);
        await new Promise((done) => setTimeout(done, n));
    });
}
END
}

run() {
    # Debian's own node knows these folders.
    export NODE_PATH=/usr/share/nodejs:/usr/lib/nodejs
    rollup --version
    tsc --version
    [[ $SIZE == full ]] || return 0
    rollup --silent -f cjs -m -o bundle.js "$SHARED/modules/main.js"
    node bundle.js
    terser --compress --mangle --toplevel --source-map "content=bundle.js.map" -o small.js bundle.js
    node small.js
    cp -r "$SHARED/types" .
    tsc --target es2017 --lib es2018 --declaration --outDir out types/*.ts || echo "tsc: $?"
    cat out/*.js | sha256sum
    rm -rf out types
    node --test-reporter tap --test "$SHARED/tests.mjs" | grep -E '^ *(ok|not ok|1\.\.|# (tests|pass|fail))' || echo "tests: $?"
}
