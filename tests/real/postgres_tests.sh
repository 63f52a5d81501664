# PostgreSQL's own regression tests: 217 files of SQL, many at a time, of which a part runs here.
# real: limit 300
# real: small-chaos every connection is a new process over a lot of cold code: a few files only
setup() {
    ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1 >"$SHARED/bin"
    local bin version source module as
    bin=$(<"$SHARED/bin"); version=${bin%/bin}
    # shellcheck source=tests/real/lib/debian-source
    source "$REAL/lib/debian-source" "postgresql-${version##*/}"
    source=$PWD
    # The headers only: the tests' functions in C go into the installed server.
    ./configure -q --without-readline --without-zlib --without-icu
    make -s -C src/backend generated-headers
    cd src/test/regress
    for module in regress.c ../../../contrib/spi/{autoinc,refint}.c; do
        gcc -O1 -w -fPIC -shared -D_GNU_SOURCE -DREFINT_VERBOSE -I../../include -o "$(basename "${module%.c}").so" "$module"
    done
    cd "$SHARED"
    mv "$source/src/test/regress" regress
    rm -rf apt
    # shellcheck source=tests/real/lib/not-root
    source "$REAL/lib/not-root"
    echo "$as" >"$SHARED/as"
    mkdir cluster; [[ -z $as ]] || chown nobody cluster
    cd /
    $as "$bin/initdb" -D "$SHARED/cluster" -U me -A trust -N --locale=C --encoding=UTF8 >/dev/null
    # A line is a group of tests that run at a time.
    printf 'test: %s\n' test_setup 'boolean int4' >"$SHARED/regress/small"
    grep -E '^test: (test_setup|boolean|create_function_c|create_index|create_aggregate|select_parallel|json)\b' \
        "$SHARED/regress/parallel_schedule" >"$SHARED/regress/full"
}

run() {
    local bin as data
    bin=$(<"$SHARED/bin"); as=$(<"$SHARED/as")
    # A socket's name may not be long.
    data=$(mktemp -d); chmod 755 "$data"; mkdir "$data/out"
    cp -a "$SHARED/cluster" "$data/c"; [[ -z $as ]] || chown -R nobody "$data"
    cd /
    $as "$bin/pg_ctl" -D "$data/c" -w -t 60 -l "$data/log" -o "-k $data -c listen_addresses= -c fsync=off" start >/dev/null
    $as "$bin/../lib/pgxs/src/test/regress/pg_regress" --bindir="$bin" --host="$data" --user=me --encoding=UTF8 --no-locale \
        --inputdir="$SHARED/regress" --dlpath="$SHARED/regress" --outputdir="$data/out" --schedule="$SHARED/regress/$SIZE" >"$data/results" ||
        tail -n 100 "$data/out/regression.diffs" >&2
    # Which tests there are and pass, without times and the order in which they end.
    sed -nE 's/^(test|    ) +([a-z0-9_]+) +\.\.\. (.*[^ ]) +[0-9]+ ms$/\2 \3/p; / tests /p' "$data/results" | grep -v '^parallel'
    $as "$bin/pg_ctl" -D "$data/c" -m fast -w stop >/dev/null
    rm -rf "$data"
}
