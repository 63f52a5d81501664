-- Generated rows, an index, joins, grouping, ordering and text functions.
CREATE TABLE item(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO item SELECT i, (i * 7919) % 1009, printf('item-%06d', (i * 31) % 400000), i * 0.25 FROM n;
CREATE INDEX by_kind ON item(kind, price);
CREATE TABLE kind(id INTEGER PRIMARY KEY, label TEXT);
INSERT INTO kind SELECT DISTINCT kind, 'kind ' || kind FROM item;
SELECT count(*), sum(price), max(name) FROM item;
SELECT label, count(*), avg(price) FROM item JOIN kind ON kind.id = item.kind
  GROUP BY label ORDER BY count(*) DESC, label LIMIT 5;
SELECT count(*) FROM item WHERE name LIKE '%99%' AND instr(upper(name), 'M-0') > 0;
SELECT sum(a.id) FROM item a JOIN item b ON a.kind = b.kind AND b.price < a.price WHERE a.kind < 120;
UPDATE item SET name = replace(name, 'item', 'thing') WHERE id % 3 = 0;
SELECT substr(name, 1, 7), count(*) FROM item GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5;
