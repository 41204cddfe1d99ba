//! Places in the programs' sources.

use std::collections::HashMap;
use std::sync::Arc;

use soft_hca_core::trace::{self, event};
use soft_hca_record::{Place, Site};

use super::symbols::{Line, Symbols};

/// Places that the processes have told.
#[derive(Debug, Default)]
pub(in super::super) struct Places {
    /// By the process's index and its number for the place: the record's number, and the place.
    known: HashMap<(u32, u32), (u32, Arc<Place>)>,
    symbols: Symbols,
}

/// The function that `ibv_reg_mr` and `ibv_reg_mr_iova`, which are macros, may call: the command has the name that
/// the program has written.
const BEHIND_MACRO: &str = "ibv_reg_mr_iova2";

/// The next of the words behind the fixed part; none if it is empty.
fn word<'t>(words: &mut impl Iterator<Item = &'t [u8]>) -> Option<String> {
    let word = words.next().filter(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(word).into_owned())
}

impl Places {
    /// A process tells what a place is.
    pub(in super::super) fn learn(&mut self, proc: u32, told: &event::Place, tail: &[u8]) {
        let event::Place { number, depth, callers } = *told;
        let mut words = tail.split(|byte| *byte == 0);
        let [module, build_id, call, symbol] = [(); 4].map(|()| word(&mut words));
        let module = module.unwrap_or_default();
        let callers = &callers[..(depth as usize).min(callers.len())];
        let found = self.symbols.line(&module, build_id.as_deref(), callers);
        let (line, missing) = match found {
            Ok(line) => (line, None),
            Err((line, why)) => (line, Some(why)),
        };
        let Line { caller, function, at } = line;
        let (file, line) = at.unzip();
        let place = Place {
            call: call.filter(|call| call != BEHIND_MACRO),
            function: function.or(symbol.filter(|_| caller == 0).map(super::symbols::demangled)),
            file,
            line,
            module: self.symbols.shown(&module),
            offset: callers.get(caller).copied().unwrap_or_default(),
            build_id,
            missing,
        };
        let count = self.known.len() as u32;
        self.known.entry((proc, number)).or_insert((count, Arc::default())).1 = Arc::new(place);
    }

    /// A site that a process names; none if it has not told the place.
    pub(super) fn site(&self, proc: u32, site: trace::Site) -> Option<Site> {
        let (number, place) = self.known.get(&(proc, site.place))?;
        Some(Site { call: site.call, number: *number, place: Some(Arc::clone(place)) })
    }
}
