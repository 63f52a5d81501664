# gcc and g++: the object files must be identical, so must the diagnostics.
# real: limit 300
# real: small-chaos a compiler is cold code, which chaos translates again and again
setup() {
    local programs=$REAL/../../benches/programs
    python3 "$programs/gen_c.py" 25 >"$SHARED/full.c"
    python3 "$programs/gen_c.py" 2 >"$SHARED/small.c"
    cp "$programs/templates.cpp" "$SHARED/full.cpp"
    echo '#include <new>
        template <int n> struct F { static const int v = n * F<n - 1>::v; };
        template <> struct F<0> { static const int v = 1; };
        int main() { try { throw F<9>::v; } catch (int v) { return v != 362880; } }' >"$SHARED/small.cpp"
}

run() {
    cp "$SHARED/$SIZE.c" one.c
    cp "$SHARED/$SIZE.cpp" two.cpp
    gcc -O2 -g -c one.c -o one.o
    gcc -O2 -flto -c one.c -o lto.o
    g++ -std=c++17 -O1 -c two.cpp -o two.o
    gcc -o one one.o && strip one && ./one
    g++ -Wl,--build-id -o two two.o && ./two | sha256sum
    echo 'int f(void) { return x; }' | gcc -x c -c - -o none.o 2>errors || echo "refused: $?"
    ar rcsD lib.a one.o two.o && nm lib.a >symbols && objdump -d one.o | sha256sum
    readelf -aW two 2>/dev/null | sha256sum
    rm lto.o  # its sections have random names
}
