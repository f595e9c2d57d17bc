<?php

use App\Http\Controllers\ApiController;
use Illuminate\Support\Facades\Route;

Route::get('/json', [ApiController::class, 'json']);
Route::get('/visits', [ApiController::class, 'visits']);
Route::get('/orders', [ApiController::class, 'orders']);
