//! Lists of receive work requests in the program's memory, which is looked at before the provider does.

use std::iter;

use crate::client::layout::{RecvWr, Sge};
use crate::client::memory;

/// The numbers of a list's requests, and of each request's SGEs, that are looked at.
const LONGEST: usize = 4096;
const ELEMENTS: usize = 256;

/// A request of a list.
pub(super) struct Listed {
    pub wr_id: u64,
    /// Those with bytes.
    pub sges: Vec<Sge>,
}

/// The requests of the list that begins at an address; what cannot be read ends it.
pub(super) fn receives(first: u64) -> impl Iterator<Item = Listed> {
    let request = |at: u64| memory::read_as::<RecvWr>(at);
    let next = move |wr: &RecvWr| Some(wr.next).filter(|next| *next != 0).and_then(request);
    let listed = |wr: RecvWr| Listed { wr_id: wr.wr_id, sges: sges(&wr) };
    iter::successors(request(first), next).take(LONGEST).map(listed)
}

fn sges(wr: &RecvWr) -> Vec<Sge> {
    let count = usize::try_from(wr.num_sge).unwrap_or(0).min(ELEMENTS);
    let at = |number: usize| wr.sg_list.wrapping_add((number * size_of::<Sge>()) as u64);
    let list = (0..count).map_while(|number| memory::read_as::<Sge>(at(number)));
    list.filter(|sge| sge.length > 0).collect()
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn a_list_ends_where_there_is_no_memory() {
        let list: [Sge; 3] = std::array::from_fn(|number| {
            let mut sge = Sge::new_zeroed();
            (sge.addr, sge.length) = (64, 7 * number as u32);
            sge
        });
        let (mut first, mut second) = (RecvWr::new_zeroed(), RecvWr::new_zeroed());
        (second.wr_id, second.next) = (2, 64);
        (first.wr_id, first.next) = (1, ptr::from_ref(&second).expose_provenance() as u64);
        (first.sg_list, first.num_sge) = (list.as_ptr().expose_provenance() as u64, 3);
        let found: Vec<Listed> =
            receives(ptr::from_ref(&first).expose_provenance() as u64).collect();
        let lengths = |listed: &Listed| listed.sges.iter().map(|sge| sge.length).collect();
        let found: Vec<(u64, Vec<u32>)> =
            found.iter().map(|listed| (listed.wr_id, lengths(listed))).collect();
        assert_eq!(found, [(1, vec![7, 14]), (2, vec![])]);
        assert_eq!(receives(64).count(), 0);
    }
}
