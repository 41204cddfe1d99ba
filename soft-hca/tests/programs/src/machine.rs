//! A virtual machine of QEMU's, and what one says to it by QMP.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::guest::{self, Checker};
use crate::place::Place;
use crate::program::Program;
use crate::{LIMIT, comes_about};

/// The program.
pub const QEMU: &str = "qemu-system-x86_64";

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Where the guest's memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In a file without a name, which can be read past QEMU.
    Shared,
    /// As QEMU does without further options.
    Private,
}

/// A machine's size and kind; the source and the target of a migration have the same.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// How its memory is held.
    pub memory: Memory,
    /// How much that is.
    pub mebibytes: u32,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    kind: Kind,
    program: Program,
    /// It writes here what the guest writes to its serial port.
    serial: PathBuf,
    /// For its memory.
    dump: PathBuf,
    requests: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Machine {
    /// Starts a machine whose guest runs; returns when that counts.
    pub fn start(place: &Place, kind: Kind) -> Self {
        let mut machine = Self::start_with(place, kind, "");
        machine.assert_counts();
        machine
    }

    /// Starts a machine that waits for another's guest, and that keeps it paused.
    pub fn start_target(place: &Place, kind: Kind, port: u16) -> Self {
        let options = format!("-S -incoming rdma:{}:{port}", crate::LOCALHOST);
        let mut machine = Self::start_with(place, kind, &options);
        machine.program.wait_until(|| place.listens(port));
        machine
    }

    fn start_with(place: &Place, kind: Kind, options: &str) -> Self {
        let name = place.unique("machine");
        let [firmware, serial, qmp, dump] =
            ["firmware", "serial", "qmp", "dump"].map(|end| place.file(&format!("{name}.{end}")));
        fs::write(&firmware, guest::firmware(kind.mebibytes << 20)).unwrap();
        let size = format!("{}M", kind.mebibytes);
        let memory = match kind.memory {
            Memory::Shared => format!(
                "-object memory-backend-memfd,id=ram,share=on,size={size} -machine memory-backend=ram"
            ),
            Memory::Private => String::new(),
        };
        let [firmware, serial_path, socket] =
            [&firmware, &serial, &qmp].map(|path| path.to_str().unwrap());
        let line = format!(
            "{QEMU} -accel tcg -machine pc -m {size} {memory} -nodefaults -no-user-config -display none \
             -bios {firmware} -serial file:{serial_path} -qmp unix:{socket},server=on,wait=off {options}"
        );
        let mut program = place.start(&line);
        let mut stream = None;
        program.wait_until(|| {
            stream = UnixStream::connect(&qmp).ok();
            stream.is_some()
        });
        let requests = stream.unwrap();
        requests.set_read_timeout(Some(LIMIT)).unwrap();
        let mut answers = BufReader::new(requests.try_clone().unwrap());
        // An event may be written before the greeting.
        let mut lines = BufRead::lines(&mut answers).map(Result::unwrap);
        assert!(lines.any(|line| line.starts_with("{\"QMP\"")), "no greeting");
        let mut machine = Self { kind, program, serial, dump, requests, answers };
        machine.tell("qmp_capabilities", json!({}));
        machine
    }

    /// Gives an order; gives what it returns, or the error's text.
    pub fn ask(&mut self, order: &str, arguments: Value) -> Result<Value, String> {
        // In one piece: after the last brace of a `quit` nobody reads on.
        let request = json!({ "execute": order, "arguments": arguments }).to_string();
        self.requests.write_all(request.as_bytes()).unwrap();
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line);
            assert!(read.is_ok_and(|n| n > 0), "{order}: no answer\n{}", self.program.output());
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            if let Some(error) = answer.get("error") {
                return Err(error["desc"].as_str().unwrap().into());
            }
            // All else are events.
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
        panic!("{order}: events, and no answer\n{}", self.program.output());
    }

    /// The same with an order that is obeyed.
    pub fn tell(&mut self, order: &str, arguments: Value) -> Value {
        self.ask(order, arguments).unwrap_or_else(|error| panic!("{order}: {error}"))
    }

    /// QEMU.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// "running", "paused", "postmigrate", ....
    pub fn status(&mut self) -> String {
        self.tell("query-status", json!({}))["status"].as_str().unwrap().into()
    }

    /// The state of its migration.
    pub fn migration(&mut self) -> Value {
        self.tell("query-migrate", json!({}))
    }

    /// Waits until its migration has a status.
    pub fn wait_for(&mut self, is_so: impl Fn(&str) -> bool) -> Value {
        self.wait_for_migration(|migration| migration["status"].as_str().is_some_and(&is_so))
    }

    /// Waits until its migration has moved some bytes.
    pub fn wait_until_moved(&mut self, bytes: u64) {
        let moved = |migration: &Value| migration["ram"]["transferred"].as_u64();
        self.wait_for_migration(|migration| moved(migration) >= Some(bytes));
    }

    fn wait_for_migration(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut migration = Value::Null;
        let comes = comes_about(LIMIT, || {
            migration = self.migration();
            is_so(&migration)
        });
        assert!(comes, "{migration}\n{}", self.program.output());
        migration
    }

    /// Letters that the guest has written to its serial port here.
    pub fn letters(&self) -> Vec<u8> {
        fs::read(&self.serial).unwrap()
    }

    /// The guest runs, and goes on with what it does.
    pub fn assert_counts(&mut self) {
        assert_eq!(self.status(), "running");
        let wanted = self.letters().len() + 2;
        let serial = self.serial.clone();
        self.program.wait_until(|| fs::read(&serial).unwrap().len() >= wanted);
    }

    /// The guest's memory, which has to stand still, as a file.
    pub fn memory(&mut self) -> File {
        let path = match self.kind.memory {
            Memory::Shared => memory_file(self.program.pid()),
            Memory::Private => {
                let [size, path] = [json!(self.kind.mebibytes << 20), json!(self.dump)];
                self.tell("pmemsave", json!({ "val": 0, "size": size, "filename": path }));
                self.dump.clone()
            }
        };
        File::open(path).unwrap()
    }

    /// Checks what the guest, which stands still, has in its memory; gives how far it has counted.
    pub fn check_memory(&mut self) -> u32 {
        let memory = self.memory();
        let mut checker = Checker::new(self.kind.mebibytes << 20);
        let mut piece = vec![0; PIECE];
        for number in 1..self.kind.mebibytes {
            memory.read_exact_at(&mut piece, u64::from(number) * PIECE as u64).unwrap();
            checker.take(&piece);
        }
        checker.counted()
    }

    /// Checks that every byte of the memory is the same as another's.
    pub fn assert_same_memory(&mut self, other: &mut Self) {
        let files = [self.memory(), other.memory()];
        // Below, `pmemsave` finds the video memory and the firmware.
        let begin = if self.kind.memory == Memory::Private { guest::BEGIN } else { 0 };
        let [mut ours, mut theirs] = [vec![0; PIECE], vec![0; PIECE]];
        for number in begin >> 20..self.kind.mebibytes {
            let offset = u64::from(number) * PIECE as u64;
            files[0].read_exact_at(&mut ours, offset).unwrap();
            files[1].read_exact_at(&mut theirs, offset).unwrap();
            assert!(ours == theirs, "the memory differs in MiB {number}");
        }
    }

    /// Ends the machine.
    pub fn quit(mut self) {
        self.tell("quit", json!({}));
        self.program.succeed();
    }
}

/// The file of a process's shared memory.
fn memory_file(pid: u32) -> PathBuf {
    let descriptors = Path::new("/proc").join(pid.to_string()).join("fd");
    let files = fs::read_dir(descriptors).unwrap().flatten().map(|entry| entry.path());
    let is_memory = |path: &PathBuf| {
        fs::read_link(path)
            .is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:memory-backend-memfd"))
    };
    files.into_iter().find(is_memory).expect("QEMU keeps its memory's file")
}
