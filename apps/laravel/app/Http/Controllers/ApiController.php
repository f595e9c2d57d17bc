<?php

namespace App\Http\Controllers;

use App\Models\Visit;
use Illuminate\Http\Request;
use Illuminate\Routing\Controller;

class ApiController extends Controller
{
    /** No session, no data: what the framework itself costs. */
    public function json(Request $request): array
    {
        return [
            'app_env' => config('app.env'),
            'type' => 'laravel',
            'number' => random_int(0, 2147483647),
            'headers' => $request->headers->all(),
        ];
    }

    /** One insert and one count on the database. */
    public function visits(): array
    {
        Visit::query()->create();

        return ['visits' => Visit::query()->count()];
    }
}
