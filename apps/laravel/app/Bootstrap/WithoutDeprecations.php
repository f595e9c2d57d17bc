<?php

namespace App\Bootstrap;

use Illuminate\Foundation\Bootstrap\HandleExceptions as Framework;

/**
 * For both kernels: the framework's bootstrap order, with this application's error handling.
 */
trait WithoutDeprecations
{
    protected function bootstrappers()
    {
        return array_map(
            static fn (string $step): string => $step === Framework::class ? HandleExceptions::class : $step,
            parent::bootstrappers(),
        );
    }
}
