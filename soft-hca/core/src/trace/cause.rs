//! The cause behind an event, in [postcard](https://postcard.jamesmunns.com)'s bytes.

use arrayvec::ArrayVec;
use soft_hca_verbs::cause::Cause;

/// No cause has more bytes: the longest has its number, a role, a key of five and four values of ten.
const MOST: usize = 47;

/// The bytes of a cause; none for none. It allocates nothing, for it is called with locks held.
pub fn encode(cause: Option<&Cause>) -> ArrayVec<u8, MOST> {
    let Some(cause) = cause else { return ArrayVec::new_const() };
    let mut bytes = ArrayVec::from([0; MOST]);
    let used = postcard::to_slice(cause, &mut bytes).expect("MOST is the length of the longest");
    let length = used.len();
    bytes.truncate(length);
    bytes
}

/// The cause that bytes are; none for no bytes, and for those of another version.
pub fn decode(bytes: &[u8]) -> Option<Cause> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use soft_hca_verbs::cause::MemoryRole;

    use super::*;

    #[test]
    fn the_longest_fits() {
        let cause = Cause::Bounds {
            memory: MemoryRole::Bound,
            key: u32::MAX,
            address: u64::MAX,
            length: u64::MAX,
            region_address: u64::MAX,
            region_length: u64::MAX,
        };
        let bytes = encode(Some(&cause));
        assert_eq!((bytes.len(), decode(&bytes)), (MOST, Some(cause)));
        assert!((0..MOST).all(|end| decode(&bytes[..end]).is_none()));
    }

    #[test]
    fn other_bytes_are_no_cause() {
        assert_eq!(encode(None)[..], []);
        assert_eq!((decode(&[]), decode(&[99; MOST])), (None, None), "there is no such check");
    }
}
