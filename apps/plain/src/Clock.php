<?php

declare(strict_types=1);

namespace Plain;

/**
 * Two ways for a worker to be occupied, for tests that must tell them apart: waiting and burning CPU.
 */
final class Clock
{
    private const LIMIT_MS = 1000;

    /** @param array<string, mixed> $query */
    public static function milliseconds(array $query): int
    {
        $ms = $query['ms'] ?? 10;

        return max(0, min(self::LIMIT_MS, is_numeric($ms) ? (int) $ms : 0));
    }

    public static function sleep(int $ms): void
    {
        usleep($ms * 1000);
    }

    /** Burns CPU until this process has used `$ms` of it; returns the rounds of work that took. */
    public static function burn(int $ms): int
    {
        $end = self::cpuMicroseconds() + $ms * 1000;
        $rounds = 0;
        $digest = 'kneepoint';
        while (self::cpuMicroseconds() < $end) {
            for ($i = 0; $i < 50; $i++) {
                $digest = hash('sha256', $digest);
            }
            $rounds++;
        }

        return $rounds;
    }

    private static function cpuMicroseconds(): int
    {
        $usage = getrusage();

        return ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1_000_000
            + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
    }
}
