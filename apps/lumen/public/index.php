<?php

(require dirname(__DIR__) . '/bootstrap/app.php')->run();
