-- The state of seed.sql, without the index that somebody forgot.
DROP TABLE IF EXISTS articles;

CREATE TABLE articles (
    id           integer     PRIMARY KEY,
    author_id    integer     NOT NULL,
    title        text        NOT NULL,
    body         text        NOT NULL,
    published_at timestamptz NOT NULL
);

-- 500 authors with 20 articles each, spread over the table so that one author's rows are on 20 pages.
INSERT INTO articles (id, author_id, title, body, published_at)
SELECT n,
       1 + (n * 7) % 500,
       'Article ' || n || ' on ' || (ARRAY['books', 'gardens', 'kitchens', 'music', 'tools'])[1 + n % 5],
       repeat('A sentence about the subject of article ' || n || '. ', 12),
       timestamptz '2024-01-01 00:00:00+00' + n * interval '37 minutes'
FROM generate_series(1, 10000) AS n;


-- Whoever seeds need not be the one the application connects as.
GRANT SELECT ON articles TO PUBLIC;

ANALYZE articles;
