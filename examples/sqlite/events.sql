-- Inserts and indexes 300000 rows, changes some of them and asks about them: sqlite3 :memory: '.read events.sql'
CREATE TABLE event(id INTEGER PRIMARY KEY, name TEXT, place TEXT, amount REAL);
INSERT INTO event
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
  SELECT i, printf('customer %08d', (i * 7919) % 300007), 'place ' || (i * 104729 % 1009), (i * 31 % 100000) / 100.0
  FROM n;
CREATE UNIQUE INDEX event_name ON event(name);
CREATE INDEX event_place ON event(place, amount);
CREATE INDEX event_amount ON event(amount, name);
UPDATE event SET amount = amount + 1, name = name || ' (old)' WHERE id % 5 = 0;
CREATE TABLE label AS SELECT id, place || ', ' || name AS text FROM event ORDER BY amount, name;
SELECT place, count(*), round(sum(amount), 2) FROM event GROUP BY place ORDER BY 3 DESC, 1 LIMIT 3;
SELECT count(*), max(a.name) FROM event a JOIN event b ON b.name = replace(a.name, ' (old)', '') AND b.amount > 500;
SELECT count(*), max(length(text)) FROM label;
