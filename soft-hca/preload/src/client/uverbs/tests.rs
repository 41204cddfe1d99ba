//! Commands whose daemon is a thread with a list of answers, at the other end of a pair of sockets.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use soft_hca_core::rpc::{ChannelId, Connection, Reply};
use soft_hca_core::uapi::uverbs::request::{CmdHdr, Request as Payload};
use soft_hca_core::uapi::verbs::Qpn;

use super::*;
use crate::client::process::Opened;

/// Not the first device, for which a port to other hosts is asked for.
const DEVICE: u32 = 3;

/// A device file, and the requests that its daemon has got when the file has gone.
struct Device {
    file: Arc<UverbsFile>,
    requests: JoinHandle<Vec<Request>>,
}

impl Device {
    /// A device file whose daemon gives these answers, each with an event descriptor if it creates a channel, and then
    /// goes on to read.
    fn new(answers: impl Into<VecDeque<Result<Answer>>>) -> Self {
        let (connection, daemon) = Connection::pair().unwrap();
        let mut answers = answers.into();
        let requests = thread::spawn(move || {
            let mut requests = Vec::new();
            loop {
                let message = match daemon.receive() {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                    received => received.map_or(Vec::new(), |(message, _)| message),
                };
                if message.is_empty() {
                    return requests;
                }
                let request = Request::decode(&message).unwrap();
                let is_command = matches!(request, Request::Command { .. });
                requests.push(request);
                if let Some(answer) = is_command.then(|| answers.pop_front()).flatten() {
                    let (tokens, _) = UnixStream::pair().unwrap();
                    let is_channel =
                        matches!(&answer, Ok(Answer { created: Some(Created::Channel(_)), .. }));
                    let fds = if is_channel { vec![tokens.as_fd()] } else { Vec::new() };
                    daemon.send(&Reply(answer).encode(), &fds).unwrap();
                }
            }
        });
        let null = || OwnedFd::from(File::open("/dev/null").unwrap());
        let (line, _) = UnixStream::pair().unwrap();
        let process = process::in_memory();
        let opened = Opened {
            connection,
            process,
            token: 1,
            arena_fd: null(),
            tokens: UnixStream::pair().unwrap().0.into(),
            line: line.into(),
        };
        Self { file: Arc::new(UverbsFile::new(DEVICE, opened).0), requests }
    }

    /// Writes a command.
    fn write<R: Payload>(&self, fd: RawFd, request: &R, out_len: usize) -> Result<usize> {
        let in_words = ((size_of::<CmdHdr>() + size_of::<R>()) / 4) as u16;
        let header = CmdHdr { command: R::NUMBER, in_words, out_words: (out_len / 4) as u16 };
        self.file.write(fd, &[header.as_bytes(), request.as_bytes()].concat())
    }

    /// All requests that the daemon has received, the commands by their numbers.
    fn end(self) -> Vec<Request> {
        let Self { file, requests } = self;
        assert_eq!(Arc::strong_count(&file), 1);
        drop(file);
        requests.join().unwrap()
    }
}

fn created(created: Created, bytes: &impl answer::Answer) -> Result<Answer> {
    Ok(Answer { created: Some(created), bytes: bytes.to_bytes() })
}

fn done(bytes: &impl answer::Answer) -> Result<Answer> {
    Ok(Answer { created: None, bytes: bytes.to_bytes() })
}

fn address_of<T>(value: &mut T) -> u64 {
    (&raw mut *value).expose_provenance() as u64
}

#[test]
fn a_channel_has_a_descriptor_and_the_daemon_learns_of_its_end() {
    let id = ChannelId { index: 4, generation: 2 };
    let device =
        Device::new([created(Created::Channel(id), &answer::CreateCompChannel::default())]);
    let mut given = answer::CreateCompChannel { fd: -1 };
    let request = request::CreateCompChannel { response: address_of(&mut given) };
    device.write(60_001, &request, 4).unwrap();
    let Some(Entry::Channel(channel)) = table::get(given.fd) else { panic!("no channel") };
    assert_eq!(channel.id, id);
    drop(channel);
    drop(table::close(given.fd));
    let requests = device.end();
    assert!(
        matches!(requests[..], [Request::Command { .. }, Request::CloseChannel(closed)] if closed == id)
    );
}

#[test]
fn a_queue_that_is_destroyed_tells_how_many_events_were_read() {
    let (index, generation) = (7, 1);
    let cq = created(Created::Cq { handle: 5, index, generation }, &answer::CreateCq::default());
    let destroyed = answer::DestroyCq { comp_events_reported: 99, ..Default::default() };
    let device = Device::new([cq, done(&destroyed), Err(Errno::EINVAL), Err(Errno::EIO)]);
    let mut given = answer::CreateCq::default();
    let request = request::CreateCq {
        response: address_of(&mut given),
        comp_channel: -1,
        ..Default::default()
    };
    device.write(60_002, &request, size_of_val(&given)).unwrap();
    let cqs = device.file.handles.cqs();
    assert_eq!(cqs[&5].0.index(), index);
    cqs[&5].0.events_read.store(3, std::sync::atomic::Ordering::Release);
    drop(cqs);
    let mut told = answer::DestroyCq::default();
    let request = request::DestroyCq { response: address_of(&mut told), cq_handle: 5, reserved: 0 };
    device.write(60_002, &request, size_of_val(&told)).unwrap();
    assert_eq!(told.comp_events_reported, 3);
    assert!(device.file.handles.cqs().is_empty());
    // The daemon knows of no such queue, and neither does this process.
    assert_eq!(device.write(60_002, &request, size_of_val(&told)), Err(Errno::EINVAL));
    let arm = request::ReqNotifyCq { cq_handle: 5, solicited_only: 0 };
    assert_eq!(device.write(60_002, &arm, 0), Err(Errno::EIO), "the daemon says why it is gone");
    device.end();
}

#[test]
fn a_doorbell_is_known_as_long_as_its_queue_pair() {
    const FD: RawFd = 60_003;
    let qp = Created::Qp { handle: 900, qpn: Qpn::new(0x77) };
    let device = Device::new([
        created(qp, &answer::CreateQp::default()),
        done(&answer::DestroyQp::default()),
    ]);
    let post = request::PostSend { qp_handle: 900, ..Default::default() };
    let in_words = ((size_of::<CmdHdr>() + size_of_val(&post)) / 4) as u16;
    let header = CmdHdr { command: command::POST_SEND, in_words, out_words: 0 };
    let doorbell = [header.as_bytes(), post.as_bytes()].concat();
    let known = || crate::client::doorbell::qpn_of(FD, &doorbell);
    assert_eq!(known(), None);
    let mut given = answer::CreateQp::default();
    let request = request::CreateQp { response: address_of(&mut given), ..Default::default() };
    device.write(FD, &request, size_of_val(&given)).unwrap();
    assert_eq!((known(), device.file.handles.qpn(900)), (Some(0x77), Some(0x77)));
    let mut told = answer::DestroyQp::default();
    let request =
        request::DestroyQp { response: address_of(&mut told), qp_handle: 900, reserved: 0 };
    device.write(FD, &request, size_of_val(&told)).unwrap();
    assert_eq!((known(), device.file.handles.qpn(900)), (None, None));
    device.end();
}

#[test]
fn objects_of_a_daemon_that_is_gone_can_be_destroyed_and_nothing_else() {
    let device = Device::new([]);
    // The thread at the other end has nothing to say to a message that is empty, and leaves.
    device.file.connection().send(&[], &[]).unwrap();
    let mut told = answer::DestroyQp { events_reported: 9 };
    let request = request::DestroyQp { response: address_of(&mut told), ..Default::default() };
    device.write(60_004, &request, size_of_val(&told)).unwrap();
    assert_eq!(told.events_reported, 0);
    let mut given = answer::CreateQp::default();
    let request = request::CreateQp { response: address_of(&mut given), ..Default::default() };
    assert_eq!(device.write(60_004, &request, size_of_val(&given)), Err(Errno::EIO));
}
