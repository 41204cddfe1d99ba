//! Messages over sockets to a whole daemon, from connections that come and go: whatever is sent,
//! whoever asks is answered once and others go on, and when all have gone nothing is left.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arbitrary::{Result, Unstructured};
use soft_hca_core::arena::Scope;
use soft_hca_core::device_spec::DeviceSet;
use soft_hca_core::engine::Async;
use soft_hca_core::errno::Errno;
use soft_hca_core::rpc::{ChannelId, Connection, FileKind, Hello, Reply, Request};
use soft_hca_core::uapi::uverbs::command;
use soft_hca_core::uapi::verbs::Qpn;
use soft_hca_fault::FaultReport;

use crate::device::Device;
use crate::files::File;
use crate::fuzz::shapes;
use crate::server::Daemon;

/// Within this time the end of a connection is noticed, whatever else the machine does.
const NOTICED: Duration = Duration::from_secs(30);

/// Connections at a time, at most.
const CLIENTS: usize = 4;

const CM: FileKind = FileKind::Cm { found: DeviceSet::ALL, late: None };

/// Asked of the system once.
static DEVICE: LazyLock<Arc<Device>> =
    LazyLock::new(|| Arc::new(Device::local("rxe0", 0xf073_5cff_fed2_226d, &[])));

struct Case {
    daemon: Daemon,
    /// Ends of connections, with the daemon's name for each.
    clients: Vec<(u32, Connection)>,
}

/// Any bytes.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let daemon = Daemon::new(vec![Arc::clone(&DEVICE)], || 0)
        .expect("the system has memory and descriptors");
    let mut case = Case { daemon, clients: Vec::new() };
    while !u.is_empty() && case.step(&mut u).is_ok() {}
    case.end();
}

impl Case {
    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if self.clients.is_empty() || (self.clients.len() < CLIENTS && u.ratio(1, 8)?) {
            return self.connect(u);
        }
        let at = u.choose_index(self.clients.len())?;
        match u.int_in_range(0..=31)? {
            0 => drop(self.clients.swap_remove(at)),
            1..=3 => {
                let length = usize::min(u.int_in_range(0..=300)?, u.len());
                let bytes = u.bytes(length)?.to_vec();
                self.ask(at, &bytes);
                return Ok(());
            }
            4 => self.daemon.run_timers(),
            _ => {
                let request = self.request(u)?;
                self.ask(at, &request.encode());
                return Ok(());
            }
        }
        self.serve();
        Ok(())
    }

    fn connect(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let (ours, theirs) = Connection::pair().expect("the system has descriptors");
        let token = self.daemon.admit(theirs);
        self.clients.push((token, ours));
        let kinds = [FileKind::Uverbs(0), FileKind::Uverbs(0), CM, FileKind::Observer];
        if u.ratio(15, 16)? {
            // Two programs, as far as the daemon can tell.
            let (kind, nonce) = (*u.choose(&kinds)?, u.int_in_range(1..=2)?);
            let hello = Request::Hello(Hello { kind, nonce_addr: 0, nonce });
            self.ask(self.clients.len() - 1, &hello.encode());
            if kind == FileKind::Uverbs(0) {
                let bytes = shapes::encode(command::GET_CONTEXT, &[0; 8], 8);
                let first = Request::Command { out_len: 64, bytes };
                self.ask(self.clients.len() - 1, &first.encode());
            }
        }
        Ok(())
    }

    fn request(&self, u: &mut Unstructured<'_>) -> Result<Request> {
        Ok(match u.int_in_range(0..=31)? {
            0 => Request::Hello(Hello {
                kind: *u.choose(&[
                    FileKind::Lifeline,
                    CM,
                    FileKind::Uverbs(0),
                    FileKind::Uverbs(1),
                ])?,
                nonce_addr: 0,
                nonce: u.int_in_range(0..=3)?,
            }),
            1 | 2 => Request::PopEvent,
            3 => Request::ChannelFd(channel(u)?),
            4 | 5 => {
                let after_ns = if u.arbitrary()? { 0 } else { u.arbitrary()? };
                Request::Kick(Qpn::new(small(u)?), after_ns)
            }
            6 | 7 => {
                let what = Async::from_words(u.int_in_range(0..=8)?, small(u)?);
                Request::Raise(what.expect("there are nine kinds"))
            }
            8 => match u.arbitrary()? {
                Some(is_asked) => Request::Why { is_asked },
                None => Request::List,
            },
            9 => Request::CloseChannel(channel(u)?),
            10 => {
                let scope = *u.choose(&[Scope::All, Scope::Failures, Scope::Buffers])?;
                Request::Record { limit: u.arbitrary()?, scope }
            }
            11 => {
                let text: String = u.arbitrary()?;
                let [call, specs, outcome] = [text.clone(), text.clone(), text];
                Request::Fault(FaultReport { call, specs, outcome })
            }
            12..=16 => self.cm_command(u)?,
            17 => Request::Device {
                device: u.int_in_range(0..=1)?,
                is_there: u.arbitrary()?,
                after_ns: 0,
            },
            _ => {
                let bytes = shapes::command(u, &DEVICE.ports[0].gids)?;
                Request::Command { out_len: u32::from(u.arbitrary::<u8>()?), bytes }
            }
        })
    }

    /// A command of the connection manager: its header, small numbers, an address.
    fn cm_command(&self, u: &mut Unstructured<'_>) -> Result<Request> {
        let mut bytes = vec![u.int_in_range(0..=23)?, 0, 0, 0, 0, 0, 0, 0];
        let length = *u.choose(&[4, 8, 16, 24, 48, 136, 152, 264, 272, 288, 296])?;
        bytes.resize(8 + length, 0);
        for _ in 0..u.int_in_range(0..=8)? {
            let at = u.choose_index(length / 4)?;
            let word: u32 = match u.int_in_range(0..=4)? {
                0 => u.arbitrary()?,
                // AF_INET and a port, 127.0.0.1, a connection port space
                1 => 0x2f1d_0002,
                2 => 0x0100_007f,
                3 => 0x106,
                _ => u.arbitrary::<u8>()?.into(),
            };
            bytes[8 + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        Ok(Request::Command { out_len: 440, bytes })
    }

    /// Sends a message and has the daemon read it. It is answered once, if at all.
    fn ask(&mut self, at: usize, message: &[u8]) {
        let (token, client) = &self.clients[at];
        client.send(message, &[]).expect("the daemon reads every message before the next");
        self.daemon.request(*token);
        self.daemon.send_queued();
        let is_there = self.daemon.files.connection(*token).is_some();
        // An empty message is the end of a connection.
        assert_eq!(is_there, !message.is_empty());
        let expected = match Request::decode(message) {
            Ok(Request::Kick(..) | Request::Raise(..) | Request::CloseChannel(..)) => false,
            _ => is_there,
        };
        match client.receive() {
            Ok((bytes, _)) if !bytes.is_empty() => {
                let reply = Reply::decode(&bytes).expect("the daemon speaks our language");
                let is_error = |error: &Errno| (1..134).contains(&error.number());
                assert!(expected && reply.0.as_ref().err().is_none_or(is_error), "{reply:?}");
            }
            _ => assert!(!expected, "no answer to {message:?}"),
        }
        if !is_there {
            self.clients.swap_remove(at);
        }
        self.check();
    }

    /// Has the daemon notice the clients that have gone. A program that another test starts has their sockets, too, until
    /// it is executed.
    fn serve(&mut self) {
        let here: Vec<u32> = self.clients.iter().map(|(token, _)| *token).collect();
        let until = Instant::now() + NOTICED;
        while self.daemon.files.iter().count() > here.len() && Instant::now() < until {
            let known: Vec<u32> = self.daemon.files.iter().map(|(token, _)| token).collect();
            known.into_iter().filter(|token| !here.contains(token)).for_each(|token| {
                self.daemon.request(token);
            });
            self.daemon.send_queued();
        }
        self.daemon.send_queued();
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.daemon.files.iter().count(), self.clients.len());
        let tokens = |file: &File| match file {
            File::Uverbs { file, tokens, .. } => Some((file.async_events.len(), *tokens)),
            File::Cm { file, tokens, .. } => Some((self.daemon.cm.pending_events(*file), *tokens)),
            File::New | File::Bystander { .. } => None,
        };
        let agree = |(events, tokens)| events == tokens;
        assert!(self.daemon.files.iter().filter_map(|(_, file)| tokens(file)).all(agree));
    }

    fn end(mut self) {
        self.daemon.run_timers();
        self.clients.clear();
        self.serve();
        assert!(self.daemon.files.is_empty());
        self.daemon.fabric.check_empty();
        assert!(self.daemon.cm.listing().is_empty());
    }
}

fn channel(u: &mut Unstructured<'_>) -> Result<ChannelId> {
    Ok(ChannelId { index: u.int_in_range(0..=3)?, generation: u.int_in_range(0..=16)? })
}

fn small(u: &mut Unstructured<'_>) -> Result<u32> {
    Ok(match u.arbitrary::<u8>()? {
        0xff => u.arbitrary()?,
        small => u32::from(small) % 32,
    })
}
