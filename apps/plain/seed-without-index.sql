-- The state of seed.sql, with an index that somebody forgot.
\ir seed.sql
DROP INDEX articles_by_author;
