# A database on disk, transactions, indices, full text, and its shell.
# real: small-chaos the virtual machine is one switch
run() {
    local rows=60000
    [[ $SIZE == full ]] || rows=1000
    sqlite3 data.db <<END
PRAGMA journal_mode = wal;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, parent INT REFERENCES item);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $rows)
    INSERT INTO item SELECT i, printf('item %06d', i * 7919 % 100003), (i * 31 % 1000) / 7.0, i / 2 FROM n;
CREATE INDEX by_name ON item (name);
SELECT count(*), round(sum(price), 4), min(name), max(name) FROM item;
WITH RECURSIVE up(id, depth) AS (SELECT $rows, 0 UNION ALL SELECT parent, depth + 1 FROM item JOIN up USING (id) WHERE parent > 0)
    SELECT max(depth) FROM up;
SELECT name, rank() OVER (ORDER BY price DESC, id) FROM item ORDER BY 2 LIMIT 3;
BEGIN; DELETE FROM item WHERE id % 3 = 0; SAVEPOINT s; UPDATE item SET price = 0; ROLLBACK TO s; COMMIT;
SELECT count(*), round(sum(price), 4) FROM item;
CREATE VIRTUAL TABLE text USING fts5(body);
INSERT INTO text SELECT 'row ' || id || ' has ' || name FROM item LIMIT 500;
SELECT count(*) FROM text WHERE text MATCH 'row AND has';
SELECT json_group_array(id) FROM (SELECT id FROM item ORDER BY price, id LIMIT 5);
EXPLAIN QUERY PLAN SELECT * FROM item WHERE name = 'x';
.mode json
SELECT * FROM item WHERE name LIKE '%9999%' ORDER BY id LIMIT 4;
PRAGMA integrity_check;
VACUUM;
END
    sqlite3 data.db .dump | sha256sum
    sqlite3 data.db 'SELECT nonsense' 2>&1 || echo "refused: $?"
}
