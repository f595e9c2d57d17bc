<?php //= main index.php
// The known call graph of the profiler's test. Its code is what the test checks against:
//   "//= NAME" begins the lines of a function, "//> NAMES" lists all that a line may call,
//   "//@ NAME > NAMES" says what a function of PHP itself, or code of eval, may call.
//@ array_map > {closure}
//@ usort > compare
//@ call_user_func > Known::shout
//@ Fiber::start > {closure}
//@ Fiber::resume > {closure}
//@ iterator_to_array > tree, numbers
//@ eval > leaf
function fib($n) { //= fib
    return $n < 2 ? $n : fib($n - 1) + fib($n - 2); //> fib
}
function leaf($n) { //= leaf
    $x = 0;
    for ($i = 0; $i < $n; $i++) {
        $x = ($x * 31 + $i) % 65521;
    }
    return $x;
}
function compare($a, $b) { //= compare
    return leaf($a % 3) <=> leaf($b % 3) ?: $a <=> $b; //> leaf
}
function numbers($n) { //= numbers
    for ($i = 0; $i < $n; $i++) {
        yield $i => leaf($i % 5); //> leaf
    }
}
function middle($n) { //= middle
    yield leaf($n); //> leaf
    yield from numbers($n); //> numbers
    return leaf(3); //> leaf
}
function outer($n) { //= outer
    $got = yield from middle($n); //> middle
    yield $got;
    yield from [1, 2, 3];
    yield from numbers(4); //> numbers
}
function tree($depth) { //= tree
    yield $depth;
    if ($depth > 0) {
        yield from tree($depth - 1); //> tree
        yield from tree($depth - 1); //> tree
    }
}
class Known { //= none
    private $hidden = 3;
    public function __get($name) { //= Known::__get
        return leaf($this->hidden); //> leaf
    }
    public function __call($name, $arguments) { //= Known::__call
        return $this->shout($name) . leaf(2); //> Known::shout, leaf
    }
    public static function shout($text) { //= Known::shout
        return strtoupper(md5($text)); //> strtoupper, md5
    }
    public function act($n) { //= Known::act
        $sum = $this->inner($n); //> Known::inner
        $sum += strlen($this->ghost()); //> Known::__call, Known::ghost
        $sum += $this->missing; //> Known::__get
        $sum += strlen(call_user_func([self::class, 'shout'], 'x')); //> call_user_func, Known::shout
        return $sum;
    }
    private function inner($n) { //= Known::inner
        return fib($n) + leaf($n); //> fib, leaf
    }
}
class Temporary { //= none
    public function __destruct() { //= Temporary::__destruct
        leaf(20); //> leaf
    }
}
function closures($n) { //= closures
    $add = function ($x) use ($n) { //= {closure}
        return leaf($x + $n); //> leaf
    };
    $twice = function ($x) use ($add) { //= {closure}
        return $add($x) + $add($x + 1); //> {closure}
    };
    //= closures
    $sum = array_sum(array_map($twice, range(1, $n))); //> array_map, array_sum, range, {closure}
    $list = range(1, $n); //> range
    usort($list, 'compare'); //> usort
    return $sum + $twice($n); //> {closure}
}
function generators($n) { //= generators
    $sum = 0;
    foreach (numbers($n) as $v) { $sum += leaf($v % 3); } //> numbers, leaf
    foreach (outer($n) as $v) { $sum += leaf($v % 4); } //> outer, leaf
    $sum += count(iterator_to_array(tree(6), false)); //> iterator_to_array, tree
    return $sum;
}
function thrower($depth) { //= thrower
    if ($depth === 0) {
        throw new RuntimeException('known'); //> Exception::__construct, RuntimeException::__construct
    }
    return thrower($depth - 1); //> thrower
}
function exceptions($n) { //= exceptions
    for ($i = 0; $i < $n; $i++) {
        try {
            thrower(5); //> thrower
        } catch (RuntimeException $e) {
            leaf(5); //> leaf
        }
    }
}
function deep($depth) { //= deep
    return $depth === 0 ? leaf(40) : 1 + deep($depth - 1); //> leaf, deep
}
function fibers($n) { //= fibers
    if (!class_exists('Fiber', false)) { //> class_exists
        return 0;
    }
    $work = function ($n) { //= {closure}
        for ($i = 0; $i < $n; $i++) {
            fib(5); //> fib
            Fiber::suspend(leaf($i)); //> leaf, Fiber::suspend
        }
    };
    //= fibers
    $fiber = new Fiber($work); //> Fiber::__construct
    $fiber->start($n); //> Fiber::start
    while (!$fiber->isTerminated()) { //> Fiber::isTerminated
        leaf(3); //> leaf
        $fiber->resume(); //> Fiber::resume
    }
}
function files($n) { //= files
    $sum = 0;
    for ($i = 0; $i < $n; $i++) {
        $sum += include __DIR__ . '/part.php'; //> include part.php
        $sum += eval('return leaf(30);'); //> eval
    }
    return $sum;
}
function everything() { //= everything
    fib(12); //> fib
    (new Known())->act(9); //> Known::act
    closures(20); //> closures
    generators(30); //> generators
    exceptions(20); //> exceptions
    deep(200); //> deep
    deep(3000); //> deep
    fibers(40); //> fibers
    files(20); //> files
    $t = new Temporary(); $t = null; //> Temporary::__destruct
}
//= main index.php
if (($_GET['do'] ?? '') === 'sleep') {
    usleep(3000000); //> usleep
} elseif (($_GET['do'] ?? '') === 'version') {
    $status = function_exists('opcache_get_status') ? opcache_get_status(false) : null; //> function_exists, opcache_get_status
    echo PHP_VERSION, ' ', empty($status['opcache_enabled']) ? 'plain' : (empty($status['jit']['on']) ? 'opcache' : 'jit');
} else {
    for ($round = 0; $round < 20; $round++) {
        everything(); //> everything
    }
    echo 'done';
}
