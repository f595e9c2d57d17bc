-- seed.sql for MariaDB and MySQL: the state every arm of an experiment starts from. Run as often as needed.
DROP TABLE IF EXISTS visits;

CREATE TABLE visits (
    id         bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    created_at timestamp NULL,
    updated_at timestamp NULL
);

-- The page counts the whole table on every request: some rows at the start keep the growth during a run small beside
-- what was there before.
INSERT INTO visits (created_at, updated_at)
WITH RECURSIVE minute (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM minute WHERE n < 1000)
SELECT '2024-01-01' + INTERVAL n MINUTE, '2024-01-01' + INTERVAL n MINUTE FROM minute;

ANALYZE TABLE visits;
