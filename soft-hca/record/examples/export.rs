//! Makes of a record what other programs read, a trace for Perfetto and packets for Wireshark:
//! `cargo run -p soft-hca-record --example export -- FILE TRACE PCAPNG`

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::process::ExitCode;

use soft_hca_record::{Reader, packets, perfetto};

fn export(file: &OsString, trace: &OsString, recording: &OsString) -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::new(BufReader::new(File::open(file)?))?;
    let header = reader.header().clone();
    let entries = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    std::fs::write(trace, perfetto::trace(&header, &entries))?;
    let mut recording = BufWriter::new(File::create(recording)?);
    packets::write(&header, &entries, &mut recording)?;
    recording.flush()?;
    Ok(())
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect::<Vec<_>>();
    let [file, trace, recording] = &arguments[..] else {
        eprintln!("usage: export FILE TRACE PCAPNG");
        return ExitCode::from(2);
    };
    match export(file, trace, recording) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("export: {error}");
            ExitCode::FAILURE
        }
    }
}
