//! `soft-hca show --html`, `--perfetto` and `--pcap`: a record as a file for other programs.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use soft_hca_record::{What, packets, perfetto, timeline};

use super::show::read;
use super::{Error, cannot};

/// Writes a record as a page of HTML. The page is called `title`, or as the command that was
/// recorded.
pub fn html(file: &Path, out: &Path, title: Option<&str>) -> Result<(), Error> {
    let (mut header, entries) = read(file)?;
    if let Some(title) = title {
        header.command = title.split_whitespace().map(str::to_owned).collect();
    }
    written(out, fs::write(out, timeline::html(&header, &entries)))
}

/// Writes a record as a trace for Perfetto's viewer.
pub fn perfetto(file: &Path, out: &Path) -> Result<(), Error> {
    let (header, entries) = read(file)?;
    written(out, fs::write(out, perfetto::trace(&header, &entries)))
}

/// Writes the packets that the recorded run would have sent over a network, as pcapng.
pub fn pcap(file: &Path, out: &Path) -> Result<(), Error> {
    let (header, entries) = read(file)?;
    if entries.iter().any(|entry| matches!(entry.what, What::Packet(_))) {
        eprintln!(
            "soft-hca: {} has packets of the link without their payload, which are not in {}: `soft-hca record \
             --pcap FILE` writes these as they are",
            file.display(),
            out.display()
        );
    }
    let write = || {
        let mut to = BufWriter::new(File::create(out)?);
        packets::write(&header, &entries, &mut to)?;
        to.flush()
    };
    written(out, write())
}

fn written(out: &Path, outcome: std::io::Result<()>) -> Result<(), Error> {
    outcome.map_err(cannot(format!("write to {}", out.display())))
}
