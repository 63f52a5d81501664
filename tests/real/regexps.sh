# PCRE's just-in-time compiler: pcre2test on its own and on our patterns, pcre2grep, grep -P, PHP.
# real: small-chaos every pattern is compiled to new code, which chaos drops at once
setup() {
    python3 "$REAL/../../benches/programs/gen_text.py" 1 >"$SHARED/text"
    head -c 20000 "$SHARED/text" >"$SHARED/text.small"
    python3 - >"$SHARED/patterns" <<'END'
import random
random.seed(3)
atoms = ["a", "b", "[abc]", "[^a]", ".", r"\w", r"\d", "(?:ab|ba)", "(a|b)", r"\1", "(?=b)", "(?!c)", "(?<=a)", "(?>a+)", "(?i:A)"]
for number in range(400):
    pattern = "(x?)" + "".join(random.choice(atoms) + random.choice(["", "", "*", "+?", "{1,3}", "?", "++"]) for _ in range(random.randint(1, 6)))
    print(f"/{pattern}/{random.choice(['', 'g', 'i', 'x', 's'])}")
    for _ in range(4):
        print("    " + "".join(random.choice("aabbcABx1 ") for _ in range(random.randint(1, 20))) + "!")
    print()
print(r"/(\((?:[^()]++|(?1))*\))/")
print(r"    a(b(c)d(e(f)))g)" + "\n")
print(r"/^(?:(?=(a+))\1)*$/")
print("    " + "a" * 300 + "\n    " + "a" * 300 + "b\n")
print(r"/(a+)+$/match_limit=50000")
print("    " + "a" * 30 + "!\n")
print(r"/(.)(?{1})b(*SKIP)c|\p{Lu}\p{L}++/utf,callout_none")
print("    abcabdÄpfel\n")
END
    head -c 30000 "$SHARED/patterns" >"$SHARED/patterns.small"
    echo >>"$SHARED/patterns.small"
}

run() {
    local text=$SHARED/text patterns=$SHARED/patterns
    [[ $SIZE == full ]] || { text=$SHARED/text.small; patterns=$SHARED/patterns.small; }
    pcre2test -C jit || true  # its status is the answer
    # Interpreted and compiled must agree, too.
    pcre2test -q "$patterns" interpreted || echo "pcre2test: $?"
    pcre2test -q -jit "$patterns" compiled || echo "pcre2test: $?"
    cmp interpreted compiled || echo "they differ"
    pcre2grep -c '(?i)\b(\w)(\w)?\w*\2\1\b' "$text"
    pcre2grep -o1 -o2 --om-separator=, '(?<first>[aeiou]{2})\w+?([^aeiou\s]{3})' "$text" | sort | uniq -c | sort -k1,1nr -k2 | head -3
    pcre2grep -M -c '\w+\n\w+' "$text"
    grep -oP '\b(?=\w*([a-z])\1)\w{4,}\b' "$text" | sort | uniq -c | sort -k1,1nr -k2 | head -3
    grep -cP '^(?:(?!the).)*+$' "$text" || true
    php -n -d pcre.jit=1 -r '$t = file_get_contents($argv[1]);
        foreach (["/\b(\w)\w*\1\b/", "/(?<=e)[rs]\b/", "/([aeiou])[^aeiou]+(?1)/"] as $p) echo preg_match_all($p, $t), " ";
        echo md5(preg_replace("/(\w+) (\w+)/", "$2 $1", $t)), " ", @preg_match("/(?:\D+|<\d+>)*[!?]/", str_repeat("foobar ", 30)), preg_last_error_msg(), "\n";' "$text"
    rm interpreted compiled
}
