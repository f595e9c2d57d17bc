//! What is remembered between samples: functions all whose names are permanent. Those are PHP's own, and what OPcache
//! keeps in shared memory; reading them anew for every sample is most of its cost.

use super::{Function, Opcode, Text};
use std::collections::HashMap;
use std::rc::Rc;

/// Stacks after which everything is read anew: OPcache may have been reset.
const STACKS: u32 = 1000;
/// Most functions that are remembered.
const FUNCTIONS: usize = 20_000;
/// Most opcodes of one function that are remembered.
const OPCODES: usize = 200;

#[derive(Debug)]
struct Remembered {
    function: Function,
    text: Rc<Text>,
    opcodes: HashMap<u64, Opcode>,
}

/// The functions that are remembered, by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Known {
    functions: HashMap<u64, Remembered>,
    stacks: u32,
}

impl Known {
    /// Begins another stack.
    pub(super) fn begin(&mut self) {
        self.stacks += 1;
        if self.stacks > STACKS || self.functions.len() > FUNCTIONS {
            self.stacks = 0;
            self.functions.clear();
        }
    }

    /// The text of a function, when what was read of it now is what it was; an error when it is not, since its opcodes
    /// were not asked for.
    pub(super) fn text(
        &mut self,
        at: u64,
        now: &Function,
    ) -> Result<Option<Rc<Text>>, &'static str> {
        match self.functions.get(&at) {
            Some(known) if known.function == *now => Ok(Some(Rc::clone(&known.text))),
            Some(_) => {
                self.functions.remove(&at);
                Err("code was freed")
            }
            None => Ok(None),
        }
    }

    /// An opcode of a function.
    pub(super) fn opcode(&self, func: u64, at: u64) -> Option<Opcode> {
        self.functions.get(&func)?.opcodes.get(&at).copied()
    }

    pub(super) fn remember(&mut self, at: u64, function: &Function, text: &Rc<Text>) {
        let known = Remembered {
            function: function.clone(),
            text: Rc::clone(text),
            opcodes: HashMap::new(),
        };
        self.functions.insert(at, known);
    }

    /// Remembers an opcode of a function that is remembered.
    pub(super) fn remember_opcode(&mut self, func: u64, at: u64, opcode: &Opcode) {
        if let Some(known) = self.functions.get_mut(&func)
            && known.opcodes.len() < OPCODES
        {
            known.opcodes.entry(at).or_insert(*opcode);
        }
    }
}
