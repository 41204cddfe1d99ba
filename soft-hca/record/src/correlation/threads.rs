//! The threads of each participant.

use std::collections::HashMap;

use crate::entry::{Entry, What};

/// Threads that are told apart in a picture at most; the last of them stands for all others.
const MOST: usize = 6;

/// The threads of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Threads {
    /// Of each participant, by the system's numbers: the one that the process began with, then the others in
    /// the order of what they did first.
    pub(crate) of: Vec<Vec<u32>>,
    /// The place of each entry's thread among them; none of what no thread of the process has done.
    pub(crate) entry: Vec<Option<usize>>,
    /// Whether the first of a participant is known to be the one that it began with.
    has_main: Vec<bool>,
}

impl Threads {
    /// How many of a participant's are told apart, at least one.
    pub(crate) fn count(&self, participant: usize) -> usize {
        self.of[participant].len().clamp(1, MOST)
    }

    /// The place of an entry's thread among those that are told apart.
    pub(crate) fn told_apart(&self, at: usize) -> Option<usize> {
        self.entry[at].map(|thread| thread.min(MOST - 1))
    }

    /// The name of one of those that are told apart, beneath the word "thread".
    pub(crate) fn name(&self, participant: usize, thread: usize) -> String {
        match thread {
            0 if self.has_main[participant] => "main".into(),
            _ if thread + 1 == MOST && self.of[participant].len() > MOST => "others".into(),
            _ => (thread + 1).to_string(),
        }
    }
}

/// Finds them, of so many participants.
pub(super) fn find(entries: &[Entry], participant: &[usize], participants: usize) -> Threads {
    let mut of: Vec<Vec<u32>> = vec![Vec::new(); participants];
    let mut has_main = vec![false; participants];
    // The first thread of a process has its number.
    let mut pids: HashMap<u32, u32> = HashMap::new();
    let of_entry = |entry: &Entry| entry.thread.filter(|_| entry.by.is_none());
    for (entry, participant) in entries.iter().zip(participant) {
        if let What::ProcessBegan { pid, .. } = entry.what {
            pids.insert(entry.process, pid);
        }
        let own = &mut of[*participant];
        let Some(thread) = of_entry(entry).filter(|thread| !own.contains(thread)) else { continue };
        if pids.get(&entry.process) == Some(&thread) {
            own.insert(0, thread);
            has_main[*participant] = true;
        } else {
            own.push(thread);
        }
    }
    let place = |(entry, participant): (&Entry, &usize)| {
        let thread = of_entry(entry)?;
        of[*participant].iter().position(|own| *own == thread)
    };
    let entry = entries.iter().zip(participant).map(place).collect();
    Threads { of, entry, has_main }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::correlation::Correlation;
    use crate::testing::{CLIENT, Run};

    #[test]
    fn the_first_thread_is_main_and_many_share_the_last_place() {
        let mut run = Run::connected(&["server"]);
        for thread in 0..9 {
            let what = json!({ "thread": 9000 + thread, "on": "connection", "fd": 3 });
            run.put(5, CLIENT, "wait", what);
        }
        let (header, entries) = run.ends();
        let correlation = Correlation::new(&header, &entries);
        let threads = &correlation.threads;
        // The side that asks for the connection stands left.
        assert_eq!((threads.of[0].len(), threads.of[1].len()), (10, 1));
        assert_eq!((threads.count(0), threads.count(1)), (6, 1));
        let names: Vec<_> = (0..6).map(|thread| threads.name(0, thread)).collect();
        assert_eq!(names, ["main", "2", "3", "4", "5", "others"]);
        let last = entries.iter().position(|entry| entry.thread == Some(9008)).unwrap();
        assert_eq!((threads.entry[last], threads.told_apart(last)), (Some(9), Some(5)));
        assert_eq!(threads.entry[0], None, "nobody has begun the process");
    }
}
