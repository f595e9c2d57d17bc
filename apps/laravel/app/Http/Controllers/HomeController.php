<?php

namespace App\Http\Controllers;

use Illuminate\Contracts\View\View;
use Illuminate\Http\RedirectResponse;
use Illuminate\Http\Request;
use Illuminate\Routing\Controller;
use Illuminate\Support\Facades\Cache;

class HomeController extends Controller
{
    public function index(Request $request): View
    {
        $categories = Cache::remember('home.categories', 300, static fn (): array => array_map(
            static fn (int $n): array => ['name' => "Category $n", 'videos' => 40 + $n * 13 % 60],
            range(1, 24),
        ));

        return view('home', [
            'categories' => $categories,
            'visits' => $this->count($request),
            'previous' => Cache::get('home.previous'),
        ]);
    }

    public function session(Request $request): array
    {
        $previous = Cache::get('session.previous');
        Cache::put('session.previous', now()->toIso8601String(), 300);

        return ['visits' => $this->count($request), 'previous' => $previous];
    }

    /** The form of the home page, which shows what was asked for until the visitor asks again. */
    public function search(Request $request): RedirectResponse
    {
        return redirect('/')->withInput($request->only('q'));
    }

    private function count(Request $request): int
    {
        $visits = $request->session()->increment('visits');
        Cache::put('home.previous', now()->toIso8601String(), 300);

        return $visits;
    }
}
