<?php

declare(strict_types=1);

namespace Plain;

use PDO;
use PDOException;

/**
 * The articles table of seed.sql, over PDO.
 */
final class Database
{
    /** seed.sql writes this many authors, numbered from 1. */
    public const AUTHORS = 500;

    private PDO $pdo;

    public function __construct()
    {
        $dsn = sprintf(
            'pgsql:host=%s;port=%s;dbname=%s',
            Env::string('DB_HOST', '127.0.0.1'),
            Env::string('DB_PORT', '5432'),
            Env::string('DB_DATABASE', 'plain'),
        );

        try {
            $this->pdo = new PDO($dsn, Env::string('DB_USERNAME', 'plain'), Env::string('DB_PASSWORD', ''), [
                PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
                PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
                PDO::ATTR_PERSISTENT => Env::bool('DB_PERSISTENT', false),
                PDO::ATTR_TIMEOUT => 2,
            ]);
        } catch (PDOException $e) {
            throw new DatabaseMissing('database: no connection: ' . self::firstLine($e));
        }
    }

    /** @return list<array<string, mixed>> */
    public function articlesBy(int $author): array
    {
        try {
            $query = $this->pdo->prepare(
                'SELECT id, title, published_at FROM articles WHERE author_id = ? ORDER BY published_at DESC LIMIT 20'
            );
            $query->execute([$author]);

            return $query->fetchAll();
        } catch (PDOException $e) {
            throw new DatabaseMissing('database: query failed (was seed.sql loaded?): ' . self::firstLine($e));
        }
    }

    private static function firstLine(PDOException $e): string
    {
        return strtok($e->getMessage(), "\n") ?: 'unknown error';
    }
}
