//! The send work requests of a record, counted for each queue pair.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use soft_hca_record::entry::What;
use soft_hca_record::text::Text;
use soft_hca_verbs::RequestSpan;

use super::{Error, show};

/// Lines of requests that are shown, at most.
const SHOWN: usize = 8;

/// The requests of a record.
#[derive(Debug)]
pub(super) struct Posted {
    file: PathBuf,
    /// In the order in which they were posted, each with its number and its line.
    requests: Vec<(u32, String)>,
}

impl Posted {
    /// Those of a record.
    pub(super) fn read(file: &Path) -> Result<Self, Error> {
        let (_, entries) = show::read(file)?;
        let (mut counts, mut text) = (HashMap::<u32, u32>::new(), Text::new());
        let mut requests = Vec::new();
        for entry in &entries {
            let line = text.line(entry);
            if let What::SendPosted(send) = &entry.what {
                let count = counts.entry(send.qp).or_default();
                *count += 1;
                requests.push((*count, line));
            }
        }
        Ok(Self { file: file.into(), requests })
    }

    /// The highest number; 0 without requests.
    pub(super) fn most(&self) -> u32 {
        self.requests.iter().map(|(number, _)| *number).max().unwrap_or(0)
    }

    /// Lines that say which requests are meant.
    pub(super) fn name(&self, span: RequestSpan) -> String {
        let meant = self.requests.iter().filter(|(number, _)| span.has(number - 1));
        let lines: Vec<&String> = meant.map(|(_, line)| line).collect();
        let plural = if span.first() == span.last() { "" } else { "s" };
        let of = self.file.display();
        let mut named = format!("soft-hca: request{plural} {span} of each queue pair, in {of}:\n");
        lines.iter().take(SHOWN).for_each(|line| named.push_str(&format!(" {line}")));
        if lines.len() > SHOWN {
            named.push_str(&format!("    and {} more\n", lines.len() - SHOWN));
        }
        named
    }
}
