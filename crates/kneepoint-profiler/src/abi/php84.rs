//! PHP 8.4 (php-src PHP-8.4: zend_globals.h:169, zend_compile.h:137, 505 and 615).

use super::{GeneratorAbi, PhpAbi};

pub(super) static ABI: PhpAbi = PhpAbi {
    minor: "8.4",
    zend_api: 20_240_924,
    vm_stack_top: 456,
    current_execute_data: 488,
    last: 96,
    opcodes: 104,
    filename: 168,
    line_start: 176,
    generator: Some(GeneratorAbi {
        execute_data: 56,
        parent: 152,
    }),
};
