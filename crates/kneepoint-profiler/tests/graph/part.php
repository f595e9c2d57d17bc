<?php //= include part.php
$part = leaf(10); //> leaf
return $part + fib(3); //> fib
