//! Recording of the link's packets in a file, as pcapng.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use soft_hca_roce::wire::icrc;
use soft_hca_roce::wire::ip::Flow;
use soft_hca_roce::wire::pcapng::{self, Recording};

/// The file, which has whole packets only: what a killed daemon has not written is the end.
#[derive(Debug)]
pub(super) struct Pcap {
    path: PathBuf,
    /// `None` after an error. The buffer writes whole blocks.
    recording: Option<Recording<BufWriter<File>>>,
    is_written: bool,
}

/// The metadata of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub direction: pcapng::Direction,
    pub flow: Flow,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
}

impl Pcap {
    /// Creates the file, or empties it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 16, File::create(path)?);
        let mut this = Self { path: path.into(), recording: None, is_written: false };
        this.recording = Some(Recording::new(file, "roce")?);
        this.write()?;
        Ok(this)
    }

    /// Records a packet as it is now on the wire.
    pub(super) fn record(&mut self, about: &About, packet: &[u8]) {
        let Some(recording) = &mut self.recording else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut record = pcapng::Record {
            hop_limit: about.hop_limit,
            traffic_class: about.traffic_class,
            ..pcapng::Record::new(time, about.direction, about.flow, packet)
        };
        if let Some(right) = icrc::check(&about.flow, packet) {
            record = record.with_id(right);
        } else {
            record.comment = "wrong ICRC";
        }
        self.is_written = false;
        let recorded = recording.record(&record);
        self.end_after(recorded);
    }

    /// Writes what the file has not yet.
    pub(super) fn flush(&mut self) {
        if !self.is_written {
            let written = self.write();
            self.end_after(written);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.is_written = true;
        self.recording.as_mut().map_or(Ok(()), |recording| recording.flush())
    }

    fn end_after(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.recording = None;
            tracing::warn!("recording to {} ends: {error}", self.path.display());
        }
    }
}
