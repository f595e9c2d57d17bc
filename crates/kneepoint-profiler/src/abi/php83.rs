//! PHP 8.3 (php-src PHP-8.3: zend_globals.h:162, zend_compile.h:134, 443 and 544).

use super::{GeneratorAbi, PhpAbi};

pub(super) static ABI: PhpAbi = PhpAbi {
    minor: "8.3",
    zend_api: 20_230_831,
    vm_stack_top: 456,
    current_execute_data: 488,
    last: 76,
    opcodes: 80,
    filename: 144,
    line_start: 152,
    generator: Some(GeneratorAbi {
        execute_data: 56,
        parent: 152,
    }),
};
