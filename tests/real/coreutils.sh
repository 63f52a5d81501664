# The tools of every script: sort, cut, find, stat, checksums, dates, archives.
# real: small-chaos sorting and hashing are tight loops, and chaos cuts each of them up
setup() {
    python3 "$REAL/../../benches/programs/gen_text.py" 2 >"$SHARED/text"
    head -c 200000 "$SHARED/text" >"$SHARED/text.small"
    mkdir -p "$SHARED/tree/a/b" "$SHARED/tree/c"
    seq 100 | while read -r n; do echo "$n" >"$SHARED/tree/a/b/file$n"; done
    ln -s ../a "$SHARED/tree/c/link"
    touch -d '2020-02-03 04:05:06.789 UTC' "$SHARED"/tree/a/b/* "$SHARED/tree/c"
}

run() {
    local text=$SHARED/text
    [[ $SIZE == full ]] || text=$SHARED/text.small

    sort --parallel=2 "$text" >sorted
    sort -c sorted
    sort -u -k2,2 -k1,1r -t' ' "$text" | cksum
    tr -s ' ' '\n' <"$text" | sort | uniq -c | sort -k1,1nr -k2 | head -20 >frequent
    cut -d' ' -f2,4 "$text" | paste -d: - - | md5sum
    for tool in sha1sum sha224sum sha256sum sha384sum sha512sum b2sum 'cksum -a sm3'; do
        $tool <"$text"
    done
    wc "$text" <"$text"
    comm -12 <(sort -u "$text" | head -1000) sorted | wc -l
    join <(seq -w 1 100 | sed 's/$/ left/') <(seq -w 50 150 | sed 's/$/ right/') | tail -2
    split -n l/5 "$text" part. && cat part.* | cmp - "$text"
    shuf --random-source="$text" -i 1-1000 -n 5
    od -A d -t x1z "$text" | tail -2
    base64 -w 60 "$text" | base64 -d | cmp - "$text"
    tac "$text" | rev | fold -w 40 | sha1sum
    nl -ba "$text" | expand | unexpand -a | md5sum
    numfmt --to=iec 123456789
    factor 1234567890123456789 18446744073709551557
    date -u -d @1700000000 +'%F %T %j %U'
    expr 17 \* 4; printf '%d %x %e\n' 12 255 3.5
    seq 0.1 0.1 1 | tsort 2>/dev/null | head -1 || true

    find "$SHARED/tree" -newermt 2020-01-01 -name 'file*' -size -2 -printf '%P %s %TY-%Tm-%Td %m\n' | sort | md5sum
    find "$SHARED/tree" -type l -printf '%P -> %l\n'
    find -L "$SHARED/tree" -name 'file1*' -print0 | sort -z | xargs -0 -n 5 -P 2 cat | sort -n | md5sum
    stat -c '%n %s %a %F %Y' "$SHARED"/tree/a/b/file{1,50,100}
    ls -l --time-style=full-iso "$SHARED/tree/a/b" | awk '{ print $1, $5, $6, $9 }' | md5sum
    du -s --apparent-size -B1 "$SHARED/tree/a/b" | cut -f1 | grep -c '^[0-9]*$'
    cp -a "$SHARED/tree" copy && diff -r "$SHARED/tree" copy
    tar --sort=name --owner=0 --group=0 --numeric-owner -C "$SHARED" -cf - tree | tar -tvf - | md5sum
    tar -C "$SHARED" -czf - tree | tar -C . -xzf - && diff -r tree copy
    ln copy/a/b/file1 hard; mv hard harder; rm -r copy; chmod 640 harder; stat -c '%h %a' harder
    dd if="$text" bs=1000 count=17 skip=3 2>/dev/null | sha256sum
    truncate -s 1M hole && cp --sparse=always hole hole2 && cmp hole hole2
    mkfifo pipe; (echo through a fifo >pipe) & cat pipe; wait; rm pipe
    timeout 0.2 sleep 5 || echo "timeout: $?"
    timeout -s KILL 0.2 sleep 5 || echo "timeout: $?"
    env -i LC_ALL=C printenv; nice -n 5 nice; nohup echo away 2>/dev/null
    test -r harder && ! test -d harder && [ 2 -gt 1 ] && echo tested
    stdbuf -oL echo through stdbuf
    csplit -s "$text" 10 20 && wc -l xx00 xx01
    install -D -m 711 harder deep/er/file && realpath --relative-to=. deep/../deep/er/file
    mktemp -u x.XXXX | wc -c; sync -d harder; readlink -f "$SHARED/tree/c/link" | xargs basename
}
