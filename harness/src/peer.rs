//! The clients that are no RDMA program: plain TCP connections that try the
//! server's side channel.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Ending, Event};
use crate::transcript::{Line, Side, Stream};

/// The bytes of the message that comes in two parts: as many as rc-example's
/// connection data.
const MESSAGE: [u8; 34] = {
    let mut bytes = [0; 34];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = i as u8 + 1;
        i += 1;
    }
    bytes
};
/// How many of them come first.
const FIRST_PART: usize = 20;

/// A TCP client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpPeer {
    /// Address of its server, as `host:port`.
    pub address: String,
    /// Its behaviour once it is connected.
    pub behaviour: TcpBehaviour,
}

/// Behaviour of a [`TcpPeer`] once it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpBehaviour {
    /// Closes the connection.
    CloseAtOnce,
    /// Sends 20 bytes, three seconds later 14 more, and closes after another one.
    TwoParts,
}

impl TcpPeer {
    /// Starts it as a thread; its end arrives in `events`.
    pub(crate) fn start(&self, start: Instant, events: SyncSender<Event>) {
        let peer = self.clone();
        thread::spawn(move || {
            let ending = match peer.play() {
                Ok(()) => Ending::Code(0),
                Err(error) => {
                    let text = format!("{}: {error}", peer.address);
                    let line = Line {
                        side: Side::Client,
                        stream: Stream::Stderr,
                        at: start.elapsed(),
                        text,
                        complete: true,
                    };
                    // If the run is over nobody wants to know.
                    let _ = events.send(Event::Line(line));
                    Ending::Code(1)
                }
            };
            let _ = events.send(Event::Done(ending));
        });
    }

    fn play(&self) -> io::Result<()> {
        let mut stream = TcpStream::connect(&self.address)?;
        match self.behaviour {
            TcpBehaviour::CloseAtOnce => Ok(()),
            TcpBehaviour::TwoParts => {
                // The pauses are what is tested: the server gets the parts one by one.
                stream.set_nodelay(true)?;
                stream.write_all(&MESSAGE[..FIRST_PART])?;
                thread::sleep(Duration::from_secs(3));
                stream.write_all(&MESSAGE[FIRST_PART..])?;
                thread::sleep(Duration::from_secs(1));
                Ok(())
            }
        }
    }
}
