# Round trips through every compressor, with two threads where it has them.
# real: small-chaos compressors are tight loops, and chaos cuts each of them up
setup() {
    python3 "$REAL/../../benches/programs/gen_text.py" 1 >"$SHARED/full"
    head -c 100000 "$SHARED/full" >"$SHARED/small"
    cat /usr/bin/bash >>"$SHARED/full"
}

run() {
    local text=$SHARED/$SIZE
    for tool in 'gzip -n -6' 'bzip2 -9' 'xz -T2 -3 --block-size=1MiB' 'xz --format=lzma -1' \
        'zstd -q -T2 -9' 'zstd -q -15 --long'; do
        # shellcheck disable=SC2086
        $tool -c "$text" >packed
        echo "$tool: $(sha256sum <packed)"
        # shellcheck disable=SC2086
        ${tool%% *} -dc ${tool/*--long/--long=27} <packed 2>/dev/null | cmp - "$text" ||
            ${tool%% *} -dc <packed | cmp - "$text"
    done
    xz -T2 -0 --block-size=256KiB -c "$text" >packed.xz && xz -t packed.xz && xz -l --robot packed.xz | tail -1
    zstd -q -T2 --train -B2000 -o dictionary --maxdict=8000 "$text" && zstd -q -D dictionary -c "$text" | sha256sum
    zgrep -c a <(gzip -c "$text"); bzip2 -c "$text" | bzcat | tail -c 10 | od -c | head -1
    head -c 5000 packed.xz >cut.xz; xz -t cut.xz 2>/dev/null || echo "a cut file: $?"
}
