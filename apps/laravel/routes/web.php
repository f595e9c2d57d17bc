<?php

use App\Http\Controllers\HomeController;
use Illuminate\Support\Facades\Route;

Route::get('/', [HomeController::class, 'index']);
Route::get('/session', [HomeController::class, 'session']);
Route::post('/search', [HomeController::class, 'search']);
