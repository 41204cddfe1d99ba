//! Commands of the connection manager.

use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;

use soft_hca_core::config;
use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::rpc::{Answer, FileKind, Request};
use soft_hca_core::uapi;
use soft_hca_core::uapi::ucma::abi::{self, Request as _};
use soft_hca_core::uapi::ucma::{self, Command, command};
use zerocopy::IntoBytes;

use crate::client::files::cm::CmFile;
use crate::client::files::table::{self, Entry};
use crate::client::files::tokens;
use crate::client::outcome::{OF_PARENT, Outcome};
use crate::client::recorded::{self, Called};
use crate::client::{acknowledged, daemon, memory, port_lease, process, sanitizer, strict};

/// The devices that this program finds.
fn found() -> DeviceSet {
    let said = std::env::var(config::USED).ok().and_then(|said| said.parse().ok());
    said.unwrap_or(DeviceSet::ALL)
}

pub(crate) fn open(close_on_exec: bool, nonblocking: bool) -> Result<RawFd> {
    let kind = FileKind::Cm { found: found(), late: strict::late_events() };
    let opened = process::open(kind)?;
    let sources = [&opened.tokens, &opened.line].map(AsFd::as_fd);
    let fd = tokens::for_program(sources, close_on_exec, nonblocking)?;
    table::insert(fd, Entry::Cm(Arc::new(CmFile::new(opened))));
    Ok(fd)
}

/// An option's value may have so many bytes.
const MAX_OPTION: usize = 4096;

/// Puts the option's value, which lies elsewhere in the program's memory, behind the payload.
fn append_option(payload: &mut Vec<u8>) -> Result<()> {
    let abi::SetOption { optval, optlen, .. } = abi::SetOption::read(payload)?;
    let length = optlen as usize;
    if length > MAX_OPTION {
        return Err(Errno::EINVAL);
    }
    payload.extend(memory::read(optval, length)?);
    Ok(())
}

/// Puts the file's number in the place of the program's descriptor for it.
fn translate_channel(payload: &mut [u8]) -> Result<()> {
    let request = abi::MigrateId::read(payload)?;
    let Some(Entry::Cm(file)) = table::get(request.fd) else { return Err(Errno::EBADF) };
    let request = abi::MigrateId { fd: file.token as i32, ..request };
    payload[..size_of::<abi::MigrateId>()].copy_from_slice(request.as_bytes());
    Ok(())
}

impl CmFile {
    /// `write(2)`: one command.
    pub(crate) fn write(&self, fd: RawFd, written: &[u8]) -> Result<Outcome> {
        let call = recorded::begin(self.process);
        port_lease::finish();
        sanitizer::says(self.process);
        let outcome = self.execute(written);
        let is_event = uapi::command_number(written) == Some(command::GET_EVENT);
        if is_event && matches!(outcome, Ok(Some(_))) {
            sanitizer::hears_of_connection(self.process);
        }
        if let (true, Ok(Some(event))) = (is_event, &outcome) {
            acknowledged::taken(event);
        }
        let answer = outcome.as_ref().ok().and_then(Option::as_deref);
        let unacknowledged = answer.map_or(0, |answer| acknowledged::command_done(written, answer));
        match (call, &outcome) {
            (None, _) | (_, Ok(None)) => {}
            (Some(call), Ok(Some(event))) if is_event => {
                call.end_with_event(self.process, fd, event);
            }
            (Some(call), outcome) => {
                let answer = outcome.as_ref().map(|answer| answer.as_deref().unwrap_or_default());
                let result = answer.map_err(|error| *error);
                let request = written;
                let called =
                    Called { fd, is_cm: true, request, result, created: 0, unacknowledged };
                call.end(self.process, &called);
            }
        }
        Ok(match outcome? {
            Some(_) => Outcome::Done(written.len()),
            None => Outcome::Wait,
        })
    }

    /// Does a command and gives its answer; none if there is no event yet.
    fn execute(&self, written: &[u8]) -> Result<Option<Vec<u8>>> {
        let command = Command::parse(written)?;
        let Command { number, in_len, out_len, payload } = command;
        let mut payload = payload.get(..in_len).ok_or(Errno::EINVAL)?.to_vec();
        if !self.process.is_current() {
            return Err(OF_PARENT);
        }
        match number {
            command::GET_EVENT if out_len < ucma::GET_EVENT_MIN => return Err(Errno::ENOSPC),
            command::GET_EVENT => acknowledged::asks(),
            command::MIGRATE_ID => translate_channel(&mut payload)?,
            command::SET_OPTION => append_option(&mut payload)?,
            _ => {}
        }
        let request = match number {
            command::GET_EVENT => Request::PopEvent,
            _ => {
                let header = &written[..size_of::<abi::CmdHdr>()];
                Request::Command { out_len: out_len as u32, bytes: [header, &payload].concat() }
            }
        };
        let connection = self.connection();
        let reply = match daemon::ask(&connection, &request) {
            Ok((reply, _)) => reply,
            Err(error) if error == Errno::EAGAIN && number == command::GET_EVENT => {
                return Ok(None);
            }
            // An id of a device that is removed can be destroyed. No events of it were reported.
            Err(error) if daemon::is_gone(error) && number == command::DESTROY_ID => {
                Answer { bytes: 0u32.to_ne_bytes().to_vec(), ..Answer::default() }
            }
            Err(error) => return Err(error),
        };
        drop(connection);
        if let Some(address) = command.response()? {
            memory::write(address, &reply.bytes[..reply.bytes.len().min(out_len)])?;
        }
        Ok(Some(reply.bytes))
    }
}
