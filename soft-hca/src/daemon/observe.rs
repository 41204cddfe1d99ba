//! Commands and connection events pass by here, for whoever watches the fabric.

use crate::daemon::files::File;
use crate::daemon::{Daemon, Handled};
use crate::engine::{Command, Event};
use crate::errno::{Errno, Result};

impl Daemon {
    /// A command of a file has been answered.
    pub(super) fn observe_command(&self, token: u32, request: &[u8], outcome: &Result<Handled>) {
        let result = match outcome {
            Ok(Handled::Answered(answered) | Handled::Soon(answered, _)) => &answered.answer,
            Ok(Handled::Silently) => return,
            // It will be tried again.
            Err(error) if *error == Errno::ERESTART => return,
            Err(error) => &Err(*error),
        };
        let result = result.as_ref().map(|answer| &answer.bytes[..]).map_err(|&error| error);
        let command = |proc| Command { proc, request, result };
        match self.files.get(token) {
            Some(File::Uverbs { file, .. }) => {
                self.fabric.actor().observe(|| Event::UverbsCommand(command(file.proc)));
            }
            // That there is no event yet is nothing to tell.
            Some(File::Cm { proc, .. }) if result != Err(Errno::EAGAIN) => {
                self.fabric.actor().observe(|| Event::UcmaCommand(command(*proc)));
            }
            _ => {}
        }
    }

    /// A program takes an event from a file of the connection manager.
    pub(super) fn observe_connection(&self, token: u32, event: &[u8]) {
        if let Some(File::Cm { proc, .. }) = self.files.get(token) {
            self.fabric.actor().observe(|| Event::Connection { proc: *proc, event });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Release;

    use super::*;
    use crate::device::Device;
    use crate::engine::LINK;
    use crate::rpc::{Answer, Connection, FileKind, Hello, Reply, Request};
    use crate::uapi::ucma::{command, event_type};

    struct Case {
        daemon: Daemon,
        clients: Vec<(u32, Connection)>,
    }

    impl Case {
        /// A watched daemon with a client for each kind of file.
        fn new() -> Self {
            let daemon = Daemon::new(Arc::new(Device::local("rxe0", 1)), 0).unwrap();
            daemon.fabric.arena.observed.store(1, Release);
            let mut case = Self { daemon, clients: Vec::new() };
            for kind in [FileKind::Uverbs, FileKind::Cm] {
                let (ours, theirs) = Connection::pair().unwrap();
                case.clients.push((case.daemon.admit(theirs), ours));
                let hello = Hello { kind, nonce_addr: 0, nonce: 1 };
                case.ask(case.clients.len() - 1, &Request::Hello(hello)).unwrap();
            }
            case
        }

        fn ask(&mut self, at: usize, request: &Request) -> Result<Answer> {
            let (token, client) = &self.clients[at];
            client.send(&request.encode(), &[]).unwrap();
            self.daemon.request(*token);
            Reply::decode(&client.receive().unwrap().0).unwrap().0
        }

        /// A command's bytes, and its answer.
        fn command(&mut self, at: usize, number: u32, words: &[u32]) -> (Vec<u8>, Result<Answer>) {
            let header = [number, 0x40_0004];
            let bytes: Vec<u8> = header.iter().chain(words).flat_map(|w| w.to_le_bytes()).collect();
            let request = Request::Command { out_len: 300, bytes: bytes.clone() };
            (bytes, self.ask(at, &request))
        }

        fn observed(&self) -> Vec<String> {
            self.daemon.fabric.env.take_observed()
        }
    }

    /// As the recorder writes it down.
    fn line(name: &str, proc: usize, request: &[u8], result: Result<&[u8]>) -> String {
        format!("{name}({:?})", Command { proc, request, result })
    }

    #[test]
    fn commands_pass_by_with_their_results() {
        let mut case = Case::new();
        let (bytes, reply) = case.command(0, 9999, &[0; 2]);
        let refused = Err(reply.unwrap_err());
        assert_eq!(case.observed(), [line("UverbsCommand", LINK + 1, &bytes, refused)]);
        // uid, where the answer goes, RDMA_PS_TCP, IBV_QPT_RC
        let words = [7, 0, 0, 0, 0x2_0106, 0];
        let (bytes, reply) = case.command(1, command::CREATE_ID, &words);
        let answer = reply.unwrap().bytes;
        assert_eq!(answer.len(), 4);
        assert_eq!(case.observed(), [line("UcmaCommand", LINK + 1, &bytes, Ok(&answer))]);
    }

    #[test]
    fn events_of_the_connection_manager_pass_by_when_they_are_taken() {
        let mut case = Case::new();
        let (_, reply) = case.command(1, command::CREATE_ID, &[7, 0, 0, 0, 0x2_0106, 0]);
        let id = u32::from_le_bytes(reply.unwrap().bytes.try_into().unwrap());
        let mut words = vec![id, 0, event_type::USER];
        words.resize(76, 0);
        assert!(case.command(1, command::WRITE_CM_EVENT, &words).1.is_ok());
        case.observed();
        let answer = case.ask(1, &Request::PopEvent).unwrap();
        let event = &answer.bytes[..];
        assert_eq!(case.observed(), [format!("{:?}", Event::Connection { proc: LINK + 1, event })]);
        assert_eq!(case.ask(1, &Request::PopEvent), Err(Errno::EAGAIN));
        assert_eq!(case.observed(), [""; 0]);
    }
}
