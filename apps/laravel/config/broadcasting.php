<?php

return [
    'default' => env('BROADCAST_DRIVER', 'null'),
    'connections' => [
        'log' => ['driver' => 'log'],
        'null' => ['driver' => 'null'],
    ],
];
