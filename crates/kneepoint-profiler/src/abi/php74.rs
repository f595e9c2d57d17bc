//! PHP 7.4 (php-src PHP-7.4: zend_globals.h:117, zend_compile.h:136, 414 and 503).

use super::{GeneratorAbi, PhpAbi};

pub(super) static ABI: PhpAbi = PhpAbi {
    minor: "7.4",
    zend_api: 20_190_902,
    vm_stack_top: 456,
    current_execute_data: 488,
    last: 60,
    opcodes: 64,
    filename: 136,
    line_start: 144,
    generator: Some(GeneratorAbi {
        execute_data: 64,
        parent: 160,
    }),
};
