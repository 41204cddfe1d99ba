//! SET_OPTION.

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{SetOption, event_type, option};

use super::cm::Cm;
use super::host::{Call, Cx, NOTHING};
use super::id::State;

/// Bytes of a path record with its flags.
const PATH_DATA: usize = 72;
/// Flags of the one path that is of use: primary, for management and both directions.
const PRIMARY_BOTH_WAYS: u32 = 0x2b;

const SIZE: Errno = Errno::EINVAL.because(Refusal::OptionSize);

fn byte(value: &[u8]) -> Result<u8> {
    <[u8; 1]>::try_from(value).map(|[byte]| byte).map_err(|_| SIZE)
}

fn flag(value: &[u8]) -> Result<bool> {
    let value = <[u8; 4]>::try_from(value).map_err(|_| SIZE)?;
    Ok(value != [0; 4])
}

impl Cm {
    pub(super) fn set_option(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = SetOption::decode(call.payload)?;
        let key = self.ids.find(call.file, request.id)?;
        let value = &request.value;
        let id = self.ids.id_mut(key)?;
        match (request.level, request.name) {
            (option::LEVEL_ID, option::ID_TOS) => id.type_of_service = byte(value)?,
            (option::LEVEL_ID, option::ID_REUSEADDR) => {
                let reuse = flag(value)?;
                let may_change = id.state == State::Idle || (reuse && id.state != State::Listen);
                ensure(may_change, id.state.refusal())?;
                id.reuse_address = reuse;
            }
            (option::LEVEL_ID, option::ID_AFONLY) => {
                let family_only = flag(value)?;
                let may_change = matches!(id.state, State::Idle | State::Bound);
                ensure(may_change, id.state.refusal())?;
                id.family_only = Some(family_only);
            }
            (option::LEVEL_ID, option::ID_ACK_TIMEOUT) => {
                let timeout = byte(value)?;
                ensure(!id.is_datagram, Errno::EINVAL.because(Refusal::DatagramAck))?;
                // Five bits in a queue pair.
                id.ack_timeout = Some(timeout & 0x1f);
            }
            (option::LEVEL_IB, option::IB_PATH) => {
                let records = value.chunks_exact(PATH_DATA);
                let are_whole = !value.is_empty() && records.remainder().is_empty();
                ensure(are_whole, SIZE)?;
                let flags = PRIMARY_BOTH_WAYS.to_le_bytes();
                let has_path = { records }.any(|record| record.starts_with(&flags));
                ensure(has_path, Errno::EINVAL.because(Refusal::PathRecord))?;
                ensure(id.state == State::AddrResolved, id.state.refusal())?;
                // There is one path on one machine, whatever the record says.
                id.has_path = true;
                id.state = State::RouteResolved;
                self.push(key, event_type::ROUTE_RESOLVED, 0);
            }
            _ => return Err(Errno::ENOSYS.because(Refusal::NoSuchOption)),
        }
        NOTHING
    }
}
