use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread;

use super::*;
use crate::memory::zeroed;

/// A stream that does what its script says, call by call; `Ok(n)` moves at most n bytes.
struct Script {
    writes: VecDeque<io::Result<usize>>,
    reads: VecDeque<io::Result<usize>>,
    written: Vec<u8>,
    incoming: Vec<u8>,
}

impl Script {
    fn new(
        writes: impl IntoIterator<Item = io::Result<usize>>,
        reads: impl IntoIterator<Item = io::Result<usize>>,
    ) -> Self {
        Self {
            writes: writes.into_iter().collect(),
            reads: reads.into_iter().collect(),
            written: vec![],
            incoming: MESSAGE.map(|byte| byte + 100).to_vec(),
        }
    }
}

impl Write for &mut Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.writes.pop_front().expect("no write beyond the script")?;
        let count = count.min(bytes.len());
        self.written.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &mut Script {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.reads.pop_front().expect("no read beyond the script")?;
        let count = count.min(bytes.len()).min(self.incoming.len());
        bytes[..count].copy_from_slice(&self.incoming[..count]);
        self.incoming.drain(..count);
        Ok(count)
    }
}

/// Why the other side's data did not come.
fn read_error(result: Result<[u8; 10], ExchangeError>) -> io::Error {
    match result {
        Err(ExchangeError::Read(error)) => error,
        other => panic!("{other:?}"),
    }
}

const MESSAGE: [u8; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const ANSWER: [u8; 10] = [101, 102, 103, 104, 105, 106, 107, 108, 109, 110];

fn interrupted() -> io::Result<usize> {
    Err(ErrorKind::Interrupted.into())
}

#[test]
fn short_reads_are_put_together() {
    let mut script = Script::new([Ok(10)], [Ok(1), Ok(6), Ok(2), Ok(1)]);
    assert_eq!(exchange(&mut script, &MESSAGE).unwrap(), ANSWER);
}

#[test]
fn short_writes_are_continued() {
    let mut script = Script::new([Ok(3), Ok(1), Ok(6)], [Ok(10)]);
    assert_eq!(exchange(&mut script, &MESSAGE).unwrap(), ANSWER);
    assert_eq!(script.written, MESSAGE);
}

#[test]
fn no_more_is_read_than_the_peer_owes() {
    let mut script = Script::new([Ok(10)], [Ok(10)]);
    script.incoming.push(b'Q');
    assert_eq!(exchange(&mut script, &MESSAGE).unwrap(), ANSWER);
    assert_eq!(script.incoming, b"Q");
}

#[test]
fn interruptions_lose_nothing() {
    let writes = [interrupted(), Ok(4), interrupted(), Ok(6)];
    let reads = [interrupted(), Ok(7), interrupted(), interrupted(), Ok(3)];
    let mut script = Script::new(writes, reads);
    assert_eq!(exchange(&mut script, &MESSAGE).unwrap(), ANSWER);
    assert_eq!(script.written, MESSAGE);

    let mut results = VecDeque::from([interrupted(), interrupted(), Ok(7)]);
    assert_eq!(uninterrupted(|| results.pop_front().unwrap()).unwrap(), 7);
    let refused = || Err::<(), _>(ErrorKind::ConnectionRefused.into());
    assert_eq!(uninterrupted(refused).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn end_of_file_is_an_error() {
    for reads in [vec![Ok(0)], vec![Ok(9), Ok(0)]] {
        let error = read_error(exchange(&mut Script::new([Ok(10)], reads), &MESSAGE));
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(error.raw_os_error(), None);
    }
}

#[test]
fn a_write_without_progress_is_an_error() {
    let error = exchange(&mut Script::new([Ok(5), Ok(0)], []), &MESSAGE).unwrap_err();
    assert!(matches!(error, ExchangeError::Write(_)), "{error:?}");
}

#[test]
fn errors_tell_step_and_cause() {
    let reset = Err(io::Error::from_raw_os_error(libc::ECONNRESET));
    let error = exchange(&mut Script::new([Ok(10)], [Ok(4), reset]), &MESSAGE).unwrap_err();
    assert!(matches!(error, ExchangeError::Read(_)), "{error:?}");
    assert_eq!(error.to_string(), "cannot receive from the peer");
    let source = std::error::Error::source(&error).unwrap();
    let source = source.downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn a_peer_that_is_gone() {
    let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    drop(theirs);
    let result = exchange(&ours, &MESSAGE);
    let Err(ExchangeError::Write(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.raw_os_error(), Some(libc::EPIPE));

    let (ours, mut theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    theirs.write_all(&ANSWER[..4]).unwrap();
    let peer = thread::spawn(move || theirs.read_exact(&mut [0; 10]));
    let error = read_error(exchange(&ours, &MESSAGE));
    peer.join().unwrap().unwrap();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn addresses_of_a_list() {
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_family = libc::AF_INET;
    hints.ai_socktype = libc::SOCK_STREAM;
    let list = AddrInfo::get(Some("127.0.0.9"), Some("4660"), &hints).unwrap();
    let found: Vec<_> = addresses(&list).map(|address| address.as_socket_ipv4()).collect();
    assert_eq!(found, [Some(SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 9), 4660))]);
}
