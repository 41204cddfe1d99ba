//! An opened connection manager device.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

use soft_hca_core::config;
use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::errno::{Errno, Result};
use soft_hca_core::rpc::{Connection, FileKind, Request};
use soft_hca_core::uapi::ucma;

use crate::client::process::{self, Opened, Process};
use crate::client::recorded::{self, Called};
use crate::client::table::{self, Entry};
use crate::client::{Outcome, daemon, memory};

/// An opened rdma_cm device. Its descriptor is readable while there are events.
#[derive(Debug)]
pub(crate) struct CmFile {
    connection: Mutex<Connection>,
    process: &'static Process,
    /// The daemon's number for the file.
    token: u32,
}

/// Bytes of a command's header.
const HEADER: usize = 8;
const GET_EVENT: u32 = 12;
const CREATE_ID: u32 = 0;
const SET_OPTION: u32 = 14;
const MIGRATE_ID: u32 = 18;
/// Commands that are answered at the address in their payload's first word. CREATE_ID has it in
/// the second.
const ANSWERED: [u32; 9] = [1, 5, 11, GET_EVENT, 16, 17, MIGRATE_ID, 19, 22];

/// The devices that this program finds.
fn found() -> DeviceSet {
    let said = std::env::var(config::USED).ok().and_then(|said| said.parse().ok());
    said.unwrap_or(DeviceSet::ALL)
}

pub(crate) fn open(close_on_exec: bool, nonblocking: bool) -> Result<RawFd> {
    let Opened { connection, process, token, event_fd, .. } = process::open(FileKind::Cm(found()))?;
    let fd = process::for_program(event_fd, close_on_exec, nonblocking)?;
    let file = CmFile { connection: Mutex::new(connection), process, token };
    table::insert(fd, Entry::Cm(Arc::new(file)));
    Ok(fd)
}

/// An option's value may have so many bytes.
const MAX_OPTION: usize = 4096;

/// Puts the option's value, which lies elsewhere in the program's memory, behind the command.
fn append_option(bytes: &mut Vec<u8>) -> Result<()> {
    let address = u64::from_le_bytes(word(bytes, HEADER)?);
    let length = u32::from_le_bytes(word(bytes, HEADER + 20)?) as usize;
    if length > MAX_OPTION {
        return Err(Errno::EINVAL);
    }
    bytes.extend(memory::read(address, length)?);
    Ok(())
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Errno::EINVAL)
}

impl CmFile {
    /// `write(2)`: one command.
    pub(crate) fn write(&self, fd: RawFd, written: &[u8]) -> Result<Outcome> {
        let call = recorded::begin(self.process);
        let outcome = self.execute(written);
        let is_event = written.first_chunk() == Some(&GET_EVENT.to_ne_bytes());
        match (call, &outcome) {
            (None, _) | (_, Ok(None)) => {}
            (Some(call), Ok(Some(event))) if is_event => {
                call.end_with_event(self.process, fd, event);
            }
            (Some(call), outcome) => {
                let answer = outcome.as_ref().map(|answer| answer.as_deref().unwrap_or_default());
                let result = answer.map_err(|error| *error);
                let request = written;
                call.end(self.process, &Called { fd, is_cm: true, request, result, created: 0 });
            }
        }
        Ok(match outcome? {
            Some(_) => Outcome::Done(written.len()),
            None => Outcome::Wait,
        })
    }

    /// Does a command and gives its answer; none if there is no event yet.
    fn execute(&self, written: &[u8]) -> Result<Option<Vec<u8>>> {
        let number = u32::from_le_bytes(word(written, 0)?);
        let in_len = usize::from(u16::from_le_bytes(word(written, 4)?));
        let out_len = usize::from(u16::from_le_bytes(word(written, 6)?));
        if in_len + HEADER > written.len() {
            return Err(Errno::EINVAL);
        }
        if !self.process.is_current() {
            return Err(Errno::EACCES);
        }
        let mut bytes = written[..HEADER + in_len].to_vec();
        match number {
            GET_EVENT if out_len < ucma::GET_EVENT_MIN => return Err(Errno::ENOSPC),
            MIGRATE_ID => self.translate_channel(&mut bytes)?,
            SET_OPTION => append_option(&mut bytes)?,
            _ => {}
        }
        let request = match number {
            GET_EVENT => Request::PopEvent,
            _ => Request::Command { out_len: out_len as u32, bytes },
        };
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = match daemon::ask(&connection, &request) {
            Ok((reply, _)) => reply,
            Err(error) if error == Errno::EAGAIN && number == GET_EVENT => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        drop(connection);
        let response_at = match number {
            CREATE_ID => HEADER + 8,
            _ if ANSWERED.contains(&number) => HEADER,
            _ => return Ok(Some(reply.bytes)),
        };
        let address = u64::from_le_bytes(word(written, response_at)?);
        memory::write(address, &reply.bytes[..reply.bytes.len().min(out_len)])?;
        Ok(Some(reply.bytes))
    }

    /// Puts the file's number in the place of the program's descriptor for it.
    fn translate_channel(&self, bytes: &mut [u8]) -> Result<()> {
        let fd = RawFd::from_le_bytes(word(bytes, HEADER + 12)?);
        let Some(Entry::Cm(file)) = table::get(fd) else { return Err(Errno::EBADF) };
        bytes[HEADER + 12..HEADER + 16].copy_from_slice(&file.token.to_le_bytes());
        Ok(())
    }
}
