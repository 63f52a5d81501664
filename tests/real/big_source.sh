# gcc on one source file as large as a whole program: the object files must be identical.
# real: limit 300
# real: small-chaos a compiler is cold code, which chaos translates again and again
setup() {
    local generator=$REAL/../../benches/programs/gen_c.py
    python3 "$generator" 1200 >"$SHARED/full.c"
    python3 "$generator" 10 >"$SHARED/small.c"
}

run() {
    cp "$SHARED/$SIZE.c" big.c
    gcc -O0 -g -c big.c
    gcc -fsyntax-only -Wall -Wextra big.c 2>&1 | sha256sum
}
