<?php

namespace App\Console;

use App\Bootstrap\WithoutDeprecations;
use Illuminate\Foundation\Console\Kernel as ConsoleKernel;

class Kernel extends ConsoleKernel
{
    use WithoutDeprecations;
}
