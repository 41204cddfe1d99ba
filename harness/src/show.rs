//! Shows the output of a pair while it runs: each line with the name of its side,
//! in colour on a terminal.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use crate::error::Error;
use crate::run::Observer;
use crate::transcript::{Line, Side};

/// Prints every line as it comes.
#[derive(Debug)]
pub struct Labelled {
    labels: [String; 2],
    colours: bool,
    /// The first failure of standard output, after which nothing more is printed.
    failed: Option<io::Error>,
}

impl Labelled {
    /// Lines of the two sides are labelled `server| ` and `client| `.
    pub fn sides() -> Labelled {
        Labelled::with_labels("server", "client")
    }

    /// With other names for the sides.
    pub fn with_labels(server: &str, client: &str) -> Labelled {
        Labelled {
            labels: [server.to_owned(), client.to_owned()],
            colours: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            failed: None,
        }
    }

    /// Whether everything could be printed.
    pub fn finish(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    fn print(&self, line: &Line) -> io::Result<()> {
        let (label, colour) = match line.side {
            Side::Server => (&self.labels[0], "\x1b[34m"),
            Side::Client => (&self.labels[1], "\x1b[32m"),
        };
        let text = line.marked();
        let mut out = io::stdout().lock();
        if self.colours {
            writeln!(out, "{colour}{label}|\x1b[0m {text}")?;
        } else {
            writeln!(out, "{label}| {text}")?;
        }
        out.flush()
    }

    /// Prints a line that is neither side's.
    pub(crate) fn say(&mut self, text: &str) {
        let said = writeln!(io::stdout().lock(), "{text}");
        self.failed = self.failed.take().or(said.err());
    }
}

impl Observer for Labelled {
    fn line(&mut self, line: &Line) {
        if self.failed.is_none() {
            self.failed = self.print(line).err();
        }
    }
}

/// Prints a text at once.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Error::write(Path::new("standard output")))
}
