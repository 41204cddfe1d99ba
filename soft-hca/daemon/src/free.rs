//! Numbers that are free, as ranges: to take one and to give it back costs the same however many are
//! taken.

use std::collections::BTreeMap;
use std::ops::Range;

/// The free ones of some numbers.
#[derive(Debug)]
pub(crate) struct Free {
    /// The first number of each range, and the one behind its last; no two ranges touch.
    ranges: BTreeMap<usize, usize>,
    /// How often a range was looked for.
    #[cfg(test)]
    looks: std::cell::Cell<usize>,
}

impl Free {
    /// All of these.
    pub(crate) fn new(numbers: Range<usize>) -> Self {
        Self {
            ranges: BTreeMap::from([(numbers.start, numbers.end)]),
            #[cfg(test)]
            looks: std::cell::Cell::default(),
        }
    }

    /// The first range with a number from `from` on.
    fn range_from(&self, from: usize) -> Option<Range<usize>> {
        let range = self.last_below(from + 1).filter(|range| range.contains(&from));
        range.or_else(|| {
            #[cfg(test)]
            self.looks.set(self.looks.get() + 1);
            self.ranges.range(from..).next().map(|(start, end)| *start..*end)
        })
    }

    /// The last range that begins below a number.
    fn last_below(&self, number: usize) -> Option<Range<usize>> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.ranges.range(..number).next_back().map(|(start, end)| *start..*end)
    }

    /// Takes the lowest, `None` if there is none.
    pub(crate) fn take_lowest(&mut self) -> Option<usize> {
        self.take_from(0)
    }

    /// Takes the lowest that is not below `from`; if there is none, the lowest of all.
    pub(crate) fn take_from(&mut self, from: usize) -> Option<usize> {
        self.take_in(0..usize::MAX, from)
    }

    /// The same among these numbers.
    pub(crate) fn take_in(&mut self, numbers: Range<usize>, from: usize) -> Option<usize> {
        let first = |range: Range<usize>, from: usize| range.start.max(from);
        let find = |from: usize| {
            let range = self.range_from(from)?;
            let number = first(range.clone(), from);
            numbers.contains(&number).then_some((range, number))
        };
        let (range, number) = find(from).or_else(|| find(numbers.start))?;
        self.ranges.remove(&range.start);
        for rest in [range.start..number, number + 1..range.end] {
            if !rest.is_empty() {
                self.ranges.insert(rest.start, rest.end);
            }
        }
        Some(number)
    }

    /// Gives back a number that was taken.
    pub(crate) fn release(&mut self, number: usize) {
        let end = self.ranges.remove(&(number + 1)).unwrap_or(number + 1);
        let before = self.last_below(number).filter(|before| before.end == number);
        self.ranges.insert(before.map_or(number, |before| before.start), end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_first() {
        let mut free = Free::new(3..6);
        assert_eq!([(); 4].map(|()| free.take_lowest()), [Some(3), Some(4), Some(5), None]);
        free.release(4);
        free.release(3);
        assert_eq!(free.ranges, BTreeMap::from([(3, 5)]));
        assert_eq!([(); 3].map(|()| free.take_lowest()), [Some(3), Some(4), None]);
        [5, 3, 4].into_iter().for_each(|number| free.release(number));
        assert_eq!(free.ranges, BTreeMap::from([(3, 6)]));
    }

    #[test]
    fn from_a_number_on() {
        let mut free = Free::new(0..6);
        assert_eq!([4, 4, 4, 6].map(|from| free.take_from(from)), [4, 5, 0, 1].map(Some));
        free.release(4);
        assert_eq!(
            [1, 3, 5, 0].map(|from| free.take_from(from)),
            [Some(2), Some(3), Some(4), None]
        );
    }

    /// The work for each is the same, at the beginning and behind a million others, whatever was given
    /// back between them.
    #[test]
    fn the_millionth_costs_as_much_as_the_first() {
        const MANY: usize = 1_000_000;
        const LOOKS: usize = 4;
        let mut free = Free::new(0..MANY);
        assert!((0..MANY).all(|number| free.take_lowest() == Some(number)));
        (0..MANY).step_by(2).for_each(|number| free.release(number));
        assert!((0..MANY).step_by(2).all(|number| free.take_from(number) == Some(number)));
        assert_eq!(free.take_lowest(), None);
        let done = 5 * MANY / 2;
        assert!(free.looks.get() <= LOOKS * done, "{} looks for {done}", free.looks.get());
    }
}
