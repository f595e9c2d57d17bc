//! PHP 8.1 (php-src PHP-8.1: zend_globals.h:144, zend_compile.h:133, 425 and 522).

use super::{GeneratorAbi, PhpAbi};

pub(super) static ABI: PhpAbi = PhpAbi {
    minor: "8.1",
    zend_api: 20_210_902,
    vm_stack_top: 456,
    current_execute_data: 488,
    last: 68,
    opcodes: 72,
    filename: 144,
    line_start: 152,
    generator: Some(GeneratorAbi {
        execute_data: 56,
        parent: 152,
    }),
};
