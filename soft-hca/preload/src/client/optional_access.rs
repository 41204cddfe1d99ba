//! Access flags that a device is free to ignore, of the region that a thread is registering: the library leaves them
//! out of its command.

use std::borrow::Cow;
use std::cell::Cell;

use soft_hca_core::uapi::uverbs::{Command, command, request};
use soft_hca_core::uapi::verbs::AccessFlags;

thread_local! {
    /// Those that the thread has asked for.
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Makes a call that registers a region with this access.
pub fn registering<T>(access: u32, call: impl FnOnce() -> T) -> T {
    let before = ASKED.replace(access & AccessFlags::OPTIONAL.bits());
    let value = call();
    ASKED.set(before);
    value
}

/// A command with the flags that its thread has asked for.
pub(super) fn restored(written: &[u8]) -> Cow<'_, [u8]> {
    with(written, ASKED.get()).map_or(Cow::Borrowed(written), Cow::Owned)
}

fn with(written: &[u8], flags: u32) -> Option<Vec<u8>> {
    if flags == 0 {
        return None;
    }
    let command = Command::parse(written).ok()?;
    if command.number != command::REG_MR {
        return None;
    }
    let mut request: request::RegMr = command.request().ok()?;
    request.access_flags |= flags;
    Some(command.with_request(written, &request))
}

#[cfg(test)]
mod tests {
    use soft_hca_core::uapi::uverbs::request::{CmdHdr, Request};
    use soft_hca_core::uapi::verbs::access;
    use zerocopy::{Immutable, IntoBytes};

    use super::*;

    fn written<R: Request + IntoBytes + Immutable>(request: &R) -> Vec<u8> {
        let in_words = ((size_of::<CmdHdr>() + size_of::<R>()) / 4) as u16;
        let header = CmdHdr { command: R::NUMBER, in_words, out_words: 0 };
        [header.as_bytes(), request.as_bytes()].concat()
    }

    #[test]
    fn a_command_that_registers_gets_its_flags_back() {
        let region = request::RegMr { access_flags: access::LOCAL_WRITE, ..Default::default() };
        let other = written(&request::DeregMr::default());
        let region = written(&region);
        let asked = access::LOCAL_WRITE | access::REMOTE_READ | access::RELAXED_ORDERING;
        registering(asked, || {
            let bytes = restored(&region);
            let given: request::RegMr = Command::parse(&bytes).unwrap().request().unwrap();
            assert_eq!(given.access_flags, access::LOCAL_WRITE | access::RELAXED_ORDERING);
            assert_eq!(restored(&other), other);
            assert_eq!(*restored(b"no"), b"no"[..]);
        });
        assert_eq!(restored(&region), region);
    }
}
