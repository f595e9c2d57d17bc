<?php

namespace App\Http\Controllers;

use App\Models\Visit;
use Illuminate\Http\Request;
use Illuminate\Routing\Controller;

class ApiController extends Controller
{
    private const PRODUCTS = 200;
    private const ORDERS = 200;

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

    /**
     * Orders with the names of their products. Without an index each order's product is searched for in all of them, with
     * a call of the framework for each one that is passed: code as it is found, for a profiler to find.
     */
    public function orders(): array
    {
        $products = collect(range(1, self::PRODUCTS))
            ->map(static fn (int $id): array => ['id' => $id, 'name' => "Product $id"]);
        $index = config('app.orders_indexed') ? $products->keyBy('id') : null;
        $orders = array_map(static fn (int $number): array => [
            'number' => $number,
            'product' => $index === null
                ? $products->firstWhere('id', 1 + $number % self::PRODUCTS)['name']
                : $index[1 + $number % self::PRODUCTS]['name'],
        ], range(1, self::ORDERS));

        return ['orders' => $orders];
    }
}
