//! PHP 8.2 (php-src PHP-8.2: zend_globals.h:149, zend_compile.h:136, 439 and 540).

use super::{GeneratorAbi, PhpAbi};

pub(super) static ABI: PhpAbi = PhpAbi {
    minor: "8.2",
    zend_api: 20_220_829,
    vm_stack_top: 456,
    current_execute_data: 488,
    last: 80,
    opcodes: 88,
    filename: 152,
    line_start: 160,
    generator: Some(GeneratorAbi {
        execute_data: 56,
        parent: 152,
    }),
};
