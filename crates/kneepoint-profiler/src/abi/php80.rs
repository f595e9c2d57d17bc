//! PHP 8.0 (php-src PHP-8.0). Never seen alive: two other profilers agree on these offsets. Those of generators were
//! not checked, so a chain through `yield from` is refused.

use super::PhpAbi;

pub(super) static ABI: PhpAbi = PhpAbi {
    minor: "8.0",
    zend_api: 20_200_930,
    vm_stack_top: 456,
    current_execute_data: 488,
    last: 68,
    opcodes: 72,
    filename: 144,
    line_start: 152,
    generator: None,
};
