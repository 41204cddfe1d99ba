//! Events of the connection manager that the program has acknowledged. `rdma_destroy_id` waits, in the
//! library, until that is so of all that were taken; nobody tells the kernel of an acknowledgement.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use soft_hca_core::uapi;
use soft_hca_core::uapi::ucma::{self, Command, command};

use crate::client::memory;

/// What is known of the ids of this process.
#[derive(Default)]
struct Ids {
    /// The library's name for each, its address, by number.
    names: HashMap<u32, u64>,
    /// Events that were acknowledged, by the library's name for the id.
    acknowledged: HashMap<u64, u32>,
}

static IDS: Mutex<Option<Ids>> = Mutex::new(None);

fn with<T>(what: impl FnOnce(&mut Ids) -> T) -> T {
    let mut ids = IDS.lock().unwrap_or_else(PoisonError::into_inner);
    what(ids.get_or_insert_default())
}

/// The program acknowledges an event of an id, by the library's name for that.
pub fn acknowledge(id: u64) {
    with(|ids| *ids.acknowledged.entry(id).or_default() += 1);
}

/// A command of the connection manager is done. If that has destroyed an id: how many of its events
/// the program has not acknowledged.
pub(super) fn command_done(written: &[u8], answer: &[u8]) -> u32 {
    let number = uapi::command_number(written).unwrap_or_default();
    if ![command::CREATE_ID, command::ACCEPT, command::DESTROY_ID].contains(&number) {
        return 0;
    }
    let Ok(command) = Command::parse(written) else { return 0 };
    let answered = answer.first_chunk().copied().map_or(0, u32::from_le_bytes);
    match number {
        command::CREATE_ID => {
            if let Ok(asked) = ucma::CreateId::decode(command.payload) {
                with(|ids| {
                    ids.names.insert(answered, asked.uid);
                    ids.acknowledged.remove(&asked.uid);
                });
            }
            0
        }
        command::ACCEPT => {
            // Who has connected answers the response by it, and gives no name then.
            if let Ok(asked) = ucma::Accept::decode(command.payload) {
                with(|ids| _ = ids.names.entry(asked.id).or_insert(asked.uid));
            }
            0
        }
        _ => {
            let Ok(asked) = ucma::Target::decode(command.payload) else { return 0 };
            let known = with(|ids| {
                let name = ids.names.remove(&asked.id)?;
                Some((name, ids.acknowledged.remove(&name).unwrap_or_default()))
            });
            // Of an id without a name nothing was seen.
            let Some((name, acknowledged)) = known else { return 0 };
            let missing = answered.saturating_sub(acknowledged);
            missing.saturating_sub((missing > 0 && has_event(name)).into())
        }
    }
}

/// Of `struct rdma_cm_id`: `event`.
const EVENT: u64 = 352;

/// Whether an id has the event of a call that has waited for it, which the library acknowledges at the
/// next such call, or the end. A name is the address of a `struct rdma_cm_id`.
fn has_event(name: u64) -> bool {
    memory::read(name.wrapping_add(EVENT), 8).is_ok_and(|event| event.iter().any(|byte| *byte != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_where_the_library_has_it() {
        assert_eq!(EVENT, std::mem::offset_of!(rdma_sys::rdma_cm_id, event) as u64);
    }

    #[test]
    fn an_id_with_an_event() {
        let mut id = [0u64; 64];
        assert!(!has_event(id.as_ptr() as u64));
        id[EVENT as usize / 8] = 1;
        assert!(has_event(id.as_ptr() as u64));
        assert!(!has_event(8));
    }
}
