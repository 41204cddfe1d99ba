//! A record as text: a line for each entry, as strace has it for system calls.

use std::collections::HashMap;

use crate::calls::{self, ProgramCall};
use crate::description::{Description, Place};
use crate::entry::{Entry, What};
use crate::time::duration;
use crate::value::Name;
use crate::words::Names;

/// Makes lines of entries, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// Name and id of each process.
    processes: HashMap<u32, String>,
}

impl Names for Text {
    fn name(&mut self, _process: u32, name: Name) -> String {
        name.to_string()
    }

    fn process(&self, process: u32) -> String {
        self.processes.get(&process).cloned().unwrap_or_else(|| format!("process {process}"))
    }
}

impl Description<'_> {
    /// The sentence, of an entry of a process, as far as its parts are wanted.
    pub(crate) fn sentence(
        &self,
        process: u32,
        names: &mut impl Names,
        is_wanted: impl Fn(Place) -> bool,
    ) -> String {
        let mut text = String::new();
        for part in &self.parts {
            if part.place == Place::Detail || !is_wanted(part.place) {
                continue;
            }
            text += &part.words;
            let Some(field) = &part.field else { continue };
            if field.is_named {
                text += &format!("{}=", field.name);
            }
            text += &field.value.text(process, names);
        }
        text
    }
}

impl Text {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// The line of an entry, with its end.
    pub fn line(&mut self, entry: &Entry) -> String {
        if let What::ProcessBegan { pid, role, command, .. } = &entry.what {
            let label = format!("{}[{pid}]", role.program(command));
            self.processes.insert(entry.process, label);
        }
        let who = self.process(entry.process);
        let by = entry.by.map_or(String::new(), |by| format!(" (by {})", self.process(by)));
        let what = Description::of(entry).sentence(entry.process, self, |_| true);
        format!("{} {who} {what}{by}\n", time(entry.t))
    }

    /// The lines of a whole record, with calls as their programs made them: each is one line, or two if it
    /// has waited, with the place in the source behind it; the commands that a library makes of it
    /// are counted only. What becomes of requests stands as in [`Text::line`].
    pub fn calls(&mut self, entries: &[Entry]) -> String {
        let calls = calls::of_program(entries);
        let mut of: HashMap<usize, &ProgramCall> = HashMap::new();
        for call in &calls {
            of.extend(call.entries.iter().map(|index| (*index, call)));
        }
        let mut out = String::new();
        for (index, entry) in entries.iter().enumerate() {
            match of.get(&index) {
                Some(call) => self.part_of_call(call, (entries, index), &mut out),
                None => out += &self.line(entry),
            }
        }
        out
    }

    /// Adds the line of an entry of a call: one for the call where that begins, and another one where it
    /// ends if it has waited.
    fn part_of_call(
        &mut self,
        call: &ProgramCall,
        (entries, index): (&[Entry], usize),
        out: &mut String,
    ) {
        let entry = &entries[index];
        let is_first = call.entries.first() == Some(&index);
        let place = call.place(entries).map_or(String::new(), |place| format!(", in {place}"));
        let waits = call.waits(entries);
        let what = match &entry.what {
            What::SendPosted(_) | What::ReceivePosted(_) | What::Polled(_) => {
                let line = self.line(entry);
                // A list of requests is posted by one call.
                let place = if is_first { place } else { String::new() };
                *out += &format!("{}{place}\n", line.trim_end());
                return;
            }
            _ if waits && is_first && call.entries.len() > 1 => {
                format!("{} waits", self.asked(entry.process, call, entries))
            }
            _ if waits && call.entries.last() != Some(&index) => return,
            _ if !waits && !is_first => return,
            _ => self.call(entry.process, call, entries),
        };
        let who = self.process(entry.process);
        *out += &format!("{} {who} {what}{place}\n", time(entry.t));
    }

    /// A call with its arguments.
    fn asked(&mut self, process: u32, call: &ProgramCall, entries: &[Entry]) -> String {
        let args = match (call.main(entries), call.channel(entries)) {
            (Some(main), _) => {
                let said = Description::call(&main.name, main);
                said.sentence(process, self, |place| place == Place::Argument)
            }
            (None, Some(fd)) => format!("(channel={fd})"),
            (None, None) => "()".into(),
        };
        format!("{}{args}", call.function(entries))
    }

    /// A call with what it gives.
    fn call(&mut self, process: u32, call: &ProgramCall, entries: &[Entry]) -> String {
        let mut text = match call.waits(entries) && call.entries.len() > 1 {
            // Its arguments were told when it began.
            true => format!("{}(...)", call.function(entries)),
            false => self.asked(process, call, entries),
        };
        if call.is_open(entries) {
            return text + " does not return";
        }
        let main = call.main(entries);
        if let (None, Some(event)) = (call.refused(entries), call.event(entries)) {
            let event = Description::connection_event(&event).sentence(process, self, |_| true);
            text += &format!(" = {event}");
        } else if let Some(given) = call.refused(entries).or(main) {
            let said = Description::call(&given.name, given);
            text += &said.sentence(process, self, |place| place == Place::Result);
        }
        let more = if main.is_some() { "more " } else { "" };
        let others = match call.others(entries) {
            0 => String::new(),
            1 => format!(" with 1 {more}command"),
            others => format!(" with {others} {more}commands"),
        };
        format!("{text} <{}>{others}", duration(call.duration(entries)))
    }
}

/// A time of the record, in seconds.
fn time(t: u64) -> String {
    let (seconds, micros) = (t / 1_000_000_000, t % 1_000_000_000 / 1000);
    format!("{seconds:4}.{micros:06}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Run;

    fn lines(run: &Run) -> Vec<String> {
        let mut text = Text::new();
        let lines = run.entries().iter().map(|entry| text.line(entry));
        lines.map(|line| line.split_once("process 0 ").unwrap().1.trim_end().to_owned()).collect()
    }

    #[test]
    fn only_receives_that_were_seen_late_say_so() {
        let mut run = Run::new();
        run.receive(0, "at_post").receive(0, "at_call").receive(0, "at_message");
        let lines = lines(&run);
        assert!(lines[0].ends_with("lkey=0x181])"), "{}", lines[0]);
        assert_eq!(lines[1], format!("{} some time before this", lines[0]));
        assert_eq!(lines[2], format!("{} some time before this message", lines[0]));
    }

    #[test]
    fn polls_say_how_often_they_have_found_nothing() {
        let mut run = Run::new();
        run.polls(0, 2, 0).polls(0, 1, 1).polls(0, 1, 9).polls(0, 0, 1).polls(0, 0, 9);
        let extended = json!({"cq": 1, "found": 3, "extended": true});
        run.put(1, 0, "polled", extended);
        let expected = [
            "ibv_poll_cq(cq=1) = 2",
            "ibv_poll_cq(cq=1) = 1 (before 0, once)",
            "ibv_poll_cq(cq=1) = 1 (before 0, 9 times in 400 ns)",
            "ibv_poll_cq(cq=1) = 0",
            "ibv_poll_cq(cq=1) = 0 (9 times in 400 ns)",
            "ibv_start_poll(cq=1) = 3",
        ];
        assert_eq!(lines(&run), expected);
    }

    #[test]
    fn polls_say_which_buffers_have_changed() {
        let mut run = Run::new();
        let changed = json!([
            {"qp": 17, "wr_id": 1, "address": 4096, "length": 8},
            {"qp": 17, "wr_id": 2, "address": 8192, "length": 16, "unmapped": true},
        ]);
        run.put(1, 0, "polled", json!({"cq": 1, "found": 2, "changed": changed}));
        let expected = "ibv_poll_cq(cq=1) = 2, and [0x1000/8] of qp=17 wr_id=1 has changed, and [0x2000/16] of \
                        qp=17 wr_id=2 is unmapped";
        assert_eq!(lines(&run), [expected]);
    }
}
