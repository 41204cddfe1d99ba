//! The TCP connection by which the two sides agree on what to do, one JSON value a line.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The other side.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Peer {
    /// Waits for a client.
    pub fn accept(port: u16) -> Result<Self> {
        let failed = |error| Error::Peer("listen", error);
        let (stream, _) = TcpListener::bind(("0.0.0.0", port))
            .and_then(|socket| socket.accept())
            .map_err(failed)?;
        Self::new(stream)
    }

    /// Goes to a server.
    pub fn connect(server: &str, port: u16) -> Result<Self> {
        let failed = |error| Error::Peer("connect to the server", error);
        Self::new(TcpStream::connect((server, port)).map_err(failed)?)
    }

    fn new(stream: TcpStream) -> Result<Self> {
        let failed = |error| Error::Peer("use the connection", error);
        let lines = BufReader::new(stream.try_clone().map_err(failed)?);
        Ok(Self { stream, lines })
    }

    /// The same connection, to be listened to by another thread. Nothing may have been heard that
    /// was not asked for.
    pub fn try_clone(&self) -> Result<Self> {
        Self::new(
            self.stream.try_clone().map_err(|error| Error::Peer("copy the connection", error))?,
        )
    }

    /// Says something.
    pub fn tell<T: Serialize>(&mut self, what: &T) -> Result<()> {
        let failed = |error| Error::Peer("speak to the peer", error);
        let mut line = serde_json::to_vec(what).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(failed)
    }

    /// Hears what the other side says.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let failed = |error| Error::Peer("hear the peer", error);
        let mut line = String::new();
        if self.lines.read_line(&mut line).map_err(failed)? == 0 {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_str(&line).map_err(|error| failed(error.into()))
    }
}
