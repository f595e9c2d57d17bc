<?php

use Illuminate\Http\Request;

// No static closure: Lumen binds it.
$router->get('/json', fn (Request $request): array => [
    'app_env' => config('app.env'),
    'type' => 'lumen',
    'number' => random_int(0, 2147483647),
    'headers' => $request->headers->all(),
]);
