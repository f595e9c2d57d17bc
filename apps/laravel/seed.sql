-- The state every arm of an experiment starts from. Run as often as needed.
DROP TABLE IF EXISTS visits;

CREATE TABLE visits (
    id         bigserial PRIMARY KEY,
    created_at timestamp(0) without time zone,
    updated_at timestamp(0) without time zone
);

-- The page counts the whole table on every request: some rows at the start keep the growth during a run small beside
-- what was there before.
INSERT INTO visits (created_at, updated_at)
SELECT t, t
FROM (SELECT timestamp '2024-01-01' + n * interval '1 minute' FROM generate_series(1, 1000) AS n) AS visit (t);

-- Whoever seeds need not be the one the application connects as.
GRANT SELECT, INSERT ON visits TO PUBLIC;
GRANT USAGE ON SEQUENCE visits_id_seq TO PUBLIC;

ANALYZE visits;
