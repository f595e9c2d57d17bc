<?php

namespace App\Providers;

use App\Support\AtomicFilesystem;
use Illuminate\Support\ServiceProvider;
use Illuminate\View\Compilers\BladeCompiler;
use Illuminate\View\DynamicComponent;

class AppServiceProvider extends ServiceProvider
{
    public function register()
    {
        $this->app->singleton('blade.compiler', static function ($app) {
            $blade = new BladeCompiler(new AtomicFilesystem(), $app['config']['view.compiled']);
            $blade->component('dynamic-component', DynamicComponent::class);

            return $blade;
        });
    }
}
