# PostgreSQL: a cluster made, a server of many processes with shared memory, parallel queries, a crash and its recovery.
# real: limit 300
# real: small-chaos making a cluster runs the server many times over a lot of cold code
setup() {
    ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1 >"$SHARED/bin"
    # PostgreSQL refuses to run as root.
    # shellcheck source=tests/real/lib/not-root
    source "$REAL/lib/not-root"
    echo "$as" >"$SHARED/as"
}

run() {
    local bin as
    bin=$(<"$SHARED/bin"); as=$(<"$SHARED/as")
    [[ $SIZE == full ]] || { $as "$bin/postgres" --version; return 0; }
    local data
    data=$(mktemp -d); chmod 755 "$data"; mkdir "$data/c"; [[ -z $as ]] || chown nobody "$data/c"
    cd /
    $as "$bin/initdb" -D "$data/c" -U me -A trust -N --locale=C.UTF-8 >/dev/null
    start() {
        $as "$bin/pg_ctl" -D "$data/c" -w -t 60 -l "$data/c/log" \
            -o "-k $data/c -c listen_addresses= -c fsync=off -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c jit=on -c jit_above_cost=0" start >/dev/null
    }
    start
    psql -X -q -h "$data/c" -U me -d postgres -At <<'END'
CREATE TABLE t AS SELECT i, md5(i::text) AS m, i % 10 AS g FROM generate_series(1, 20000) i;
CREATE INDEX ON t (m);
ANALYZE t;
SELECT g, count(*), min(m) FROM t GROUP BY g ORDER BY g;
SELECT count(*) FROM t a JOIN t b ON a.m = b.m WHERE a.g < 3;
BEGIN; DELETE FROM t WHERE g = 1; ROLLBACK;
DO $$ BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN RAISE NOTICE 'caught'; END $$;
SELECT jsonb_agg(i ORDER BY i) FROM t WHERE i < 5;
SELECT sum(r) FROM (WITH RECURSIVE f(n, r) AS (SELECT 1, 1 UNION ALL SELECT n + 1, r + n FROM f WHERE n < 100) SELECT r FROM f) x;
END
    $as "$bin/pg_ctl" -D "$data/c" -m immediate -w stop >/dev/null
    start
    psql -X -q -h "$data/c" -U me -d postgres -Atc 'SELECT count(*) FROM t'
    $as "$bin/pg_ctl" -D "$data/c" -m fast -w stop >/dev/null
    grep -c 'automatic recovery' "$data/c/log"
    rm -rf "$data"
}
