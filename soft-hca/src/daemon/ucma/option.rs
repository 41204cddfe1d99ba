//! SET_OPTION.

use super::id::State;
use super::{Call, Cm, Cx, NOTHING};
use crate::errno::{Errno, Result};
use crate::uapi::ucma::{SetOption, event_type, option};

/// Bytes of a path record with its flags.
const PATH_DATA: usize = 72;
/// Flags of the one path that is of use: primary, for management and both directions.
const PRIMARY_BOTH_WAYS: u32 = 0x2b;

fn byte(value: &[u8]) -> Result<u8> {
    <[u8; 1]>::try_from(value).map(|[byte]| byte).map_err(|_| Errno::EINVAL)
}

fn flag(value: &[u8]) -> Result<bool> {
    let value = <[u8; 4]>::try_from(value).map_err(|_| Errno::EINVAL)?;
    Ok(value != [0; 4])
}

impl Cm {
    pub(super) fn set_option(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = SetOption::decode(call.payload)?;
        let key = self.find(call.file, request.id)?;
        let value = &request.value;
        let id = self.id_mut(key)?;
        match (request.level, request.name) {
            (option::LEVEL_ID, option::ID_TOS) => id.type_of_service = byte(value)?,
            (option::LEVEL_ID, option::ID_REUSEADDR) => {
                let reuse = flag(value)?;
                if id.state != State::Idle && (!reuse || id.state == State::Listen) {
                    return Err(Errno::EINVAL);
                }
                id.reuse_address = reuse;
            }
            (option::LEVEL_ID, option::ID_AFONLY) => {
                let family_only = flag(value)?;
                if !matches!(id.state, State::Idle | State::Bound) {
                    return Err(Errno::EINVAL);
                }
                id.family_only = Some(family_only);
            }
            (option::LEVEL_ID, option::ID_ACK_TIMEOUT) => {
                let timeout = byte(value)?;
                if id.is_datagram {
                    return Err(Errno::EINVAL);
                }
                // Five bits in a queue pair.
                id.ack_timeout = Some(timeout & 0x1f);
            }
            (option::LEVEL_IB, option::IB_PATH) => {
                let records = value.chunks_exact(PATH_DATA);
                if value.is_empty() || !records.remainder().is_empty() {
                    return Err(Errno::EINVAL);
                }
                let flags = PRIMARY_BOTH_WAYS.to_le_bytes();
                let has_path = { records }.any(|record| record.starts_with(&flags));
                if !has_path || id.state != State::AddrResolved {
                    return Err(Errno::EINVAL);
                }
                // There is one path on one machine, whatever the record says.
                id.has_path = true;
                id.state = State::RouteResolved;
                self.push(key, event_type::ROUTE_RESOLVED, 0);
            }
            _ => return Err(Errno::ENOSYS),
        }
        NOTHING
    }
}
