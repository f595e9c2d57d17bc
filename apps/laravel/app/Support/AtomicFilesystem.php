<?php

namespace App\Support;

use Illuminate\Filesystem\Filesystem;

/**
 * Writes files whole. Blade compiles a view with a plain write, and under load the first requests after a cold start
 * would include each other's half-written templates.
 */
final class AtomicFilesystem extends Filesystem
{
    public function put($path, $contents, $lock = false)
    {
        $this->replace($path, $contents);

        return strlen($contents);
    }
}
