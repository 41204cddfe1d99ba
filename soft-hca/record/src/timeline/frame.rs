//! Columns from left to right: the time, texts, and each participant's lanes.
//!
//! Two participants face each other, with their texts outside and the queues inside, so that no
//! arrow crosses a text. One, or more than two, have their texts in one column, and the lanes
//! beside it. On a phone there is no room beside: texts take the whole width, each above the marks of
//! its row.

use soft_hca_verbs::WrOpcode;

use crate::correlation::Correlation;
use crate::entry::What;
use crate::requests::Request;

/// A lane of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lane {
    /// Calls of a thread, by its index among those that are told apart.
    Thread(usize),
    Events,
    Completions,
    SendQueue,
    ReceiveQueue,
    Memory,
    Packets,
    /// The only lane of another host.
    Host,
}

impl Lane {
    /// The heading in one line.
    pub(super) fn name(self, correlation: &Correlation<'_>, participant: usize) -> String {
        let [first, second] = self.heading(correlation, participant);
        match first.strip_suffix('-') {
            Some(first) => first.to_owned() + &second,
            None => format!("{first} {second}").trim_start().to_owned(),
        }
    }

    /// The heading, in two lines.
    pub(super) fn heading(self, correlation: &Correlation<'_>, participant: usize) -> [String; 2] {
        let lines = match self {
            Self::Thread(thread) if correlation.threads.count(participant) > 1 => {
                return ["thread".into(), correlation.threads.name(participant, thread)];
            }
            Self::Thread(_) => ["", "calls"],
            Self::Events => ["", "events"],
            Self::Completions => ["comple-", "tions"],
            Self::SendQueue => ["send", "queue"],
            Self::ReceiveQueue => ["receive", "queue"],
            Self::Memory => ["", "memory"],
            Self::Packets => ["", "packets"],
            Self::Host => ["", "network"],
        };
        lines.map(str::to_owned)
    }
}

/// The lane that an entry is in.
pub(super) fn lane(correlation: &Correlation<'_>, at: usize) -> Lane {
    match &correlation.entries[at].what {
        What::ConnectionEvent(_) | What::AsyncEvent { .. } => Lane::Events,
        What::SendPosted(_) | What::Stalled { .. } | What::Executed(_) => Lane::SendQueue,
        What::ReceivePosted(_) => Lane::ReceiveQueue,
        What::Completion(_) | What::Polled(_) => Lane::Completions,
        What::Packet(_) => Lane::Packets,
        What::ProcessBegan { .. }
        | What::ProcessEnded { .. }
        | What::Call(_)
        | What::Wait { .. }
        | What::Woken { .. }
        | What::Dropped { .. } => Lane::Thread(correlation.threads.told_apart(at).unwrap_or(0)),
    }
}

/// A column of texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TextColumn {
    pub(super) x: f64,
    pub(super) width: f64,
}

/// A participant's part of the width.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    /// The number of its column of texts.
    pub(super) text_column: usize,
    /// Its lanes, with the middle and the width of each.
    pub(super) lanes: Vec<(Lane, f64, f64)>,
    /// Whether the first lane stands right.
    pub(super) mirrored: bool,
    /// All that it takes, with its texts if they are its own.
    pub(super) x: f64,
    pub(super) width: f64,
}

impl Column {
    /// The middle of a lane; of all of them if there is no such lane, so that nothing is drawn in another's.
    pub(super) fn lane(&self, lane: Lane) -> f64 {
        let own = self.lanes.iter().find(|(own, ..)| *own == lane);
        let (left, right) = self.span();
        own.map_or((left + right) / 2.0, |(_, x, _)| *x)
    }

    /// The outermost points of its lanes.
    pub(super) fn span(&self) -> (f64, f64) {
        let left = self.lanes.iter().map(|(_, x, width)| x - width / 2.0);
        let right = self.lanes.iter().map(|(_, x, width)| x + width / 2.0);
        (left.fold(f64::INFINITY, f64::min), right.fold(f64::NEG_INFINITY, f64::max))
    }
}

/// Where everything stands from left to right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) width: f64,
    /// Where the times end.
    pub(super) time: f64,
    pub(super) text_columns: Vec<TextColumn>,
    pub(super) columns: Vec<Column>,
    pub(super) dimensions: Dimensions,
}

/// Pixels between two bars of a lane.
pub(super) const TRACK: f64 = 9.0;

const TIME: f64 = 92.0;
const BESIDE_TEXT: f64 = 10.0;
/// A thread's lane where there are several.
const THREAD: f64 = 40.0;

/// How many entries a picture has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Most {
    /// Those that are shown at once, beside failures.
    pub(super) shown: usize,
    /// Those that can be unfolded, in all.
    pub(super) folded: usize,
}

/// How much room there is from left to right, in pixels of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dimensions {
    after_time: f64,
    /// Of a column of texts that is one participant's, and of one that is everybody's.
    text: f64,
    text_of_all: f64,
    lane: f64,
    between_two: f64,
    between_more: f64,
    /// Pixels that a participant's title needs above its lanes.
    title: f64,
    /// Bars that stand side by side in a lane at most.
    pub(super) tracks: usize,
    pub(super) most: Most,
    /// The width that texts are widened to fill, if they do not do so already.
    width: f64,
    /// The size of the smallest texts.
    pub(super) small: f64,
    /// Nothing in it can be chosen.
    pub(super) is_still: bool,
    /// Texts stand above the marks of their row, and not beside the lanes.
    pub(super) is_stacked: bool,
}

/// On a screen that is as wide as it likes.
pub(super) const SCREEN: Dimensions = Dimensions {
    after_time: 16.0,
    text: 384.0,
    text_of_all: 430.0,
    lane: 46.0,
    between_two: 206.0,
    between_more: 40.0,
    title: 190.0,
    tracks: 8,
    most: Most { shown: 3000, folded: 2000 },
    width: 0.0,
    small: 11.5,
    is_still: false,
    is_stacked: false,
};

/// On paper: A4 landscape has 285 mm between its margins, 1077 pixels of a browser's. Texts of 12.5 have 9 points then.
pub(super) const PAPER: Dimensions = Dimensions {
    after_time: 12.0,
    text: 160.0,
    text_of_all: 260.0,
    lane: 43.0,
    between_two: 104.0,
    between_more: 24.0,
    title: 150.0,
    tracks: 4,
    most: Most { shown: 3000, folded: 2000 },
    width: 1120.0,
    small: 12.5,
    is_still: true,
    is_stacked: false,
};

/// On a phone, of whose 360 to 430 pixels this is nearly all, so that texts have the size that they say.
pub(super) const PHONE: Dimensions = Dimensions {
    after_time: 6.0,
    text: 0.0,
    text_of_all: 0.0,
    lane: 30.0,
    between_two: 84.0,
    between_more: 12.0,
    title: 60.0,
    tracks: 2,
    // Less comes over the air, and nobody scrolls for ever.
    most: Most { shown: 600, folded: 100 },
    width: 376.0,
    small: 11.5,
    is_still: false,
    is_stacked: true,
};

/// Pixels left and right of a picture with texts above marks, and of the times in it.
const EDGE: f64 = 8.0;
const STACKED_TIME: f64 = 68.0;
/// Two marks side by side do not touch.
const NARROWEST: f64 = 12.0;

impl Frame {
    /// For a run whose lanes need so many bars side by side.
    pub(super) fn of(
        correlation: &Correlation<'_>,
        dimensions: Dimensions,
        tracks: impl Fn(usize, Lane) -> usize,
    ) -> Self {
        if dimensions.is_stacked {
            return Self::stacked(correlation, dimensions, &tracks);
        }
        let frame = Self::with(correlation, dimensions, &tracks);
        let missing = (dimensions.width - frame.width) / frame.text_columns.len() as f64;
        if missing <= 0.0 {
            return frame;
        }
        let (text, text_of_all) = (dimensions.text + missing, dimensions.text_of_all + missing);
        Self::with(correlation, Dimensions { text, text_of_all, ..dimensions }, &tracks)
    }

    /// With texts above marks: as many lanes as there are share the width.
    fn stacked(
        correlation: &Correlation<'_>,
        dimensions: Dimensions,
        tracks: &impl Fn(usize, Lane) -> usize,
    ) -> Self {
        let lanes = lanes_of_all(correlation);
        let gaps = lanes.len().saturating_sub(1) as f64;
        let least = if lanes.len() == 2 { dimensions.between_two } else { dimensions.between_more };
        let count = lanes.iter().map(Vec::len).sum::<usize>().max(1) as f64;
        let own = (dimensions.width - 2.0 * EDGE - least * gaps) / count;
        let own = own.clamp(NARROWEST, dimensions.lane);
        let width = |participant: usize, lane: Lane| match lane {
            Lane::SendQueue | Lane::ReceiveQueue => {
                let bars = tracks(participant, lane).clamp(1, dimensions.tracks) as f64;
                own.max(bars * TRACK + 2.0)
            }
            Lane::Host => own.max(dimensions.title),
            _ => own,
        };
        let widths = lanes.iter().enumerate();
        let taken: f64 =
            widths.flat_map(|(number, own)| own.iter().map(move |lane| width(number, *lane))).sum();
        let left = dimensions.width - 2.0 * EDGE - taken;
        let between = if gaps > 0.0 { least.max(left / gaps) } else { 0.0 };
        let (mut x, mut columns) = (EDGE, Vec::new());
        for (participant, own) in lanes.iter().enumerate() {
            let mirrored = lanes.len() == 2 && participant == 1;
            let (lanes, end) = placed(own, x, mirrored, |lane| width(participant, lane));
            columns.push(Column { text_column: 0, lanes, mirrored, x, width: end - x });
            x = end + between;
        }
        let width = dimensions.width.max(x - between + EDGE);
        let text = STACKED_TIME + dimensions.after_time;
        Self {
            width,
            time: STACKED_TIME,
            text_columns: vec![TextColumn { x: text, width: width - text - EDGE }],
            columns,
            dimensions,
        }
    }

    fn with(
        correlation: &Correlation<'_>,
        dimensions: Dimensions,
        tracks: &impl Fn(usize, Lane) -> usize,
    ) -> Self {
        let count = correlation.participants.len();
        let used = |participant: usize| used_lanes(correlation, participant);
        let width = |participant: usize, lane: Lane| {
            let least = match count {
                2 if correlation.participants[participant].recorded => dimensions.lane,
                2 => dimensions.title,
                _ => dimensions.lane.max(dimensions.title / used(participant).len() as f64),
            };
            match lane {
                Lane::Thread(_) if correlation.threads.count(participant) > 1 => THREAD,
                Lane::SendQueue | Lane::ReceiveQueue => {
                    let bars = tracks(participant, lane).clamp(1, dimensions.tracks) as f64;
                    least.max(bars * TRACK + 14.0)
                }
                _ => least,
            }
        };
        let place = |participant: usize, lanes: &[Lane], from: f64, mirrored: bool| {
            placed(lanes, from, mirrored, |lane| width(participant, lane))
        };
        let mut x = TIME + dimensions.after_time;
        if count == 2 {
            let left = TextColumn { x, width: dimensions.text };
            let lanes = lanes_of_all(correlation);
            let (placed, end) = place(0, &lanes[0], x + dimensions.text + BESIDE_TEXT, false);
            let first =
                Column { text_column: 0, lanes: placed, mirrored: false, x, width: end - x };
            x = end + dimensions.between_two;
            let (placed, end) = place(1, &lanes[1], x, true);
            let right = TextColumn { x: end + BESIDE_TEXT, width: dimensions.text };
            let second = Column {
                text_column: 1,
                lanes: placed,
                mirrored: true,
                x,
                width: right.x + dimensions.text - x,
            };
            let width = right.x + dimensions.text + BESIDE_TEXT;
            return Self {
                width,
                time: TIME,
                text_columns: vec![left, right],
                columns: vec![first, second],
                dimensions,
            };
        }
        let text_column = TextColumn { x, width: dimensions.text_of_all };
        x += dimensions.text_of_all + BESIDE_TEXT + 14.0;
        let mut columns = Vec::new();
        for participant in 0..count {
            let (lanes, end) = place(participant, &used(participant), x, false);
            columns.push(Column { text_column: 0, lanes, mirrored: false, x, width: end - x });
            x = end + dimensions.between_more;
        }
        Self {
            width: x - dimensions.between_more + BESIDE_TEXT,
            time: TIME,
            text_columns: vec![text_column],
            columns,
            dimensions,
        }
    }
}

/// Lanes one beside the other, with the middle and the width of each, and where the last one ends.
fn placed(
    lanes: &[Lane],
    from: f64,
    mirrored: bool,
    width: impl Fn(Lane) -> f64,
) -> (Vec<(Lane, f64, f64)>, f64) {
    let mut x = from;
    let mut order = lanes.to_vec();
    if mirrored {
        order.reverse();
    }
    let mut placed = Vec::new();
    for lane in order {
        let width = width(lane);
        placed.push((lane, x + width / 2.0, width));
        x += width;
    }
    if mirrored {
        placed.reverse();
    }
    (placed, x)
}

/// The lanes of each participant.
fn lanes_of_all(correlation: &Correlation<'_>) -> Vec<Vec<Lane>> {
    let all = &correlation.participants;
    let mut lanes: Vec<_> = (0..all.len()).map(|number| used_lanes(correlation, number)).collect();
    if all.len() == 2 && all.iter().all(|participant| participant.recorded) {
        // Both sides have the same lanes but for threads, so that the picture is even.
        let mut all: Vec<_> = lanes.concat();
        all.sort_unstable();
        all.dedup();
        all.retain(|lane| !matches!(lane, Lane::Thread(_)));
        for own in &mut lanes {
            own.retain(|lane| matches!(lane, Lane::Thread(_)));
            own.extend(&all);
        }
    }
    lanes
}

/// The lanes that a participant needs.
fn used_lanes(correlation: &Correlation<'_>, participant: usize) -> Vec<Lane> {
    if !correlation.participants[participant].recorded {
        return vec![Lane::Host];
    }
    let own =
        (0..correlation.entries.len()).filter(|&at| correlation.participant[at] == participant);
    let mut lanes: Vec<_> = own.map(|at| lane(correlation, at)).collect();
    let reached = correlation.transfers.iter().any(|transfer| {
        correlation.peer(transfer) == Some(participant) && reaches_memory(correlation, transfer)
    });
    lanes.extend((0..correlation.threads.count(participant)).map(Lane::Thread));
    if reached {
        lanes.push(Lane::Memory);
    }
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

/// Whether a work request reads or writes the peer's memory without its help.
pub(super) fn reaches_memory(correlation: &Correlation<'_>, transfer: &Request) -> bool {
    let is_remote = |opcode: WrOpcode| opcode == WrOpcode::RDMA_READ || opcode.writes();
    let operation = correlation.operation(transfer);
    transfer.arrivals.is_empty() && operation.is_some_and(|(opcode, _)| is_remote(opcode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_is_missing_is_no_other() {
        let lanes = vec![(Lane::Thread(0), 10.0, 8.0), (Lane::SendQueue, 40.0, 8.0)];
        let column = Column { text_column: 0, lanes, mirrored: false, x: 0.0, width: 50.0 };
        assert_eq!(column.lane(Lane::SendQueue), 40.0);
        assert_eq!(column.lane(Lane::Memory), 25.0);
    }
}
