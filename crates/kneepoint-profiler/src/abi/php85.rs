//! PHP 8.5 (php-src PHP-8.5: zend_globals.h:167, zend_compile.h:138, 515 and 625). Two new fields stand before the stack
//! (zend_globals.h:186).

use super::{GeneratorAbi, PhpAbi};

pub(super) static ABI: PhpAbi = PhpAbi {
    minor: "8.5",
    zend_api: 20_250_925,
    vm_stack_top: 480,
    current_execute_data: 512,
    last: 96,
    opcodes: 104,
    filename: 168,
    line_start: 176,
    generator: Some(GeneratorAbi {
        execute_data: 56,
        parent: 152,
    }),
};
