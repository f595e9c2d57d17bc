//! How PHP lays out its memory. A new minor is a file beside these and a line here.
//!
//! The offsets hold for x86-64 and aarch64 alike: of what is read here, nothing differs between the two. They were
//! compiled with `offsetof` against each minor's own headers, except 8.0's, which two other profilers agree on. Later
//! releases of a minor have appended fields behind those that are read, so sizes are no fingerprint.

/// The places of what is read that differ between the minors of PHP, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhpAbi {
    /// The minor: `8.2`.
    pub minor: &'static str,
    /// `ZEND_MODULE_API_NO` (Zend/zend_modules.h), which every module carries and a minor never changes.
    pub zend_api: u32,
    /// `vm_stack_top` in `executor_globals` (Zend/zend_globals.h); `vm_stack_end` and `vm_stack` follow it.
    pub vm_stack_top: u64,
    /// `current_execute_data` in `executor_globals`.
    pub current_execute_data: u64,
    /// `last` in `zend_op_array` (Zend/zend_compile.h): how many opcodes there are.
    pub last: usize,
    /// `opcodes` in `zend_op_array`.
    pub opcodes: usize,
    /// `filename` in `zend_op_array`.
    pub filename: usize,
    /// `line_start` in `zend_op_array`.
    pub line_start: usize,
    /// The places in `zend_generator` (Zend/zend_generators.h), where they are known.
    pub generator: Option<GeneratorAbi>,
}

/// The places of what is read of a generator, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorAbi {
    /// `execute_data`: its frame.
    pub execute_data: usize,
    /// `node.parent`: the generator it delegates to by `yield from`.
    pub parent: usize,
}

/// Places that no minor from 7.4 to 8.5 has moved, in bytes.
pub(crate) mod constant {
    /// `opline` of `zend_execute_data` (Zend/zend_compile.h).
    pub(crate) const EX_OPLINE: usize = 0;
    /// `func`.
    pub(crate) const EX_FUNC: usize = 24;
    /// `This`, a zval: the pointer.
    pub(crate) const EX_THIS: usize = 32;
    /// `This.u1.type_info`.
    pub(crate) const EX_THIS_TYPE: usize = 40;
    /// `prev_execute_data`.
    pub(crate) const EX_PREV: usize = 48;
    /// What is read of a frame.
    pub(crate) const EX_BYTES: usize = 56;
    /// `function_name` of `zend_function`, whose type is its first byte.
    pub(crate) const FUNCTION_NAME: usize = 8;
    /// `scope`.
    pub(crate) const FUNCTION_SCOPE: usize = 16;
    /// What is read of a function: to the end of `line_start` of the minor that has it last.
    pub(crate) const FUNCTION_BYTES: usize = 184;
    /// `name` of `zend_class_entry` (Zend/zend.h).
    pub(crate) const CLASS_NAME: u64 = 8;
    /// `extended_value` of `zend_op`.
    pub(crate) const OP_EXTENDED: usize = 20;
    /// `lineno`.
    pub(crate) const OP_LINE: usize = 24;
    /// `opcode`.
    pub(crate) const OP_CODE: usize = 28;
    /// `sizeof(zend_op)`.
    pub(crate) const OP_BYTES: usize = 32;
    /// The slots before the first frame of a page: `sizeof(struct _zend_vm_stack)` in whole zvals (Zend/zend_execute.h).
    pub(crate) const PAGE_HEADER: u64 = 32;
    /// What is read from the first of the pointers into the stack to the end of `current_execute_data`.
    pub(crate) const EG_BYTES: usize = 40;
}

/// Declares the modules of the minors and lists their layouts in the same order.
macro_rules! abis {
    ($($module:ident,)*) => {
        $(mod $module;)*
        /// Every layout there is, oldest first.
        pub static PHP_ABIS: &[&PhpAbi] = &[$(&$module::ABI),*];
    };
}

abis! {
    php74,
    php80,
    php81,
    php82,
    php83,
    php84,
    php85,
}

impl PhpAbi {
    /// The layout that goes with a number of the module interface.
    #[must_use]
    pub fn of(zend_api: u32) -> Option<&'static Self> {
        PHP_ABIS
            .iter()
            .copied()
            .find(|abi| abi.zend_api == zend_api)
    }
}

#[cfg(test)]
mod tests {
    use super::constant::{EG_BYTES, FUNCTION_BYTES};
    use super::*;

    #[test]
    fn layouts_are_in_order_and_fit_what_is_read() {
        assert!(PHP_ABIS.is_sorted_by_key(|abi| abi.zend_api));
        for abi in PHP_ABIS {
            assert_eq!(PhpAbi::of(abi.zend_api), Some(*abi));
            assert_eq!(
                abi.current_execute_data - abi.vm_stack_top + 8,
                EG_BYTES as u64
            );
            assert!(abi.line_start + 4 <= FUNCTION_BYTES, "{}", abi.minor);
            assert_eq!(abi.line_start, abi.filename + 8, "{}", abi.minor);
        }
        assert_eq!(PhpAbi::of(20_200_101), None);
    }
}
