//! Where in its program a process posts requests, for a peer whose sanitizer reports one: the words, and their numbers,
//! which go with the requests.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use zerocopy::IntoBytes;

/// Places of a process that have a number.
pub const PLACES: usize = 64;

/// Words of eight bytes that a place has.
pub(super) const PLACE_WORDS: usize = 5;

/// A place as a report names it: `client.c:88`, or `client+0x12ab`. Empty where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place([u64; PLACE_WORDS]);

impl Place {
    /// Of a text; of a longer one the end, which has the line.
    pub fn new(text: &str) -> Self {
        let mut place = Self::default();
        let bytes = place.0.as_mut_bytes();
        let end = &text.as_bytes()[text.len().saturating_sub(bytes.len())..];
        bytes[..end.len()].copy_from_slice(end);
        place
    }

    /// The text, if there is one. Others may have written anything there.
    pub fn text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(self.0.as_bytes());
        let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn to_words(self) -> [u64; PLACE_WORDS] {
        self.0
    }

    pub(super) fn of_words(words: [u64; PLACE_WORDS]) -> Self {
        Self(words)
    }
}

/// The places of a process, by their numbers from 1 on. Only the process itself writes there.
#[repr(C)]
#[derive(Debug)]
pub struct Places([[AtomicU64; PLACE_WORDS]; PLACES]);

impl Places {
    /// A place has a number; whoever is told of the number later sees it.
    pub fn set(&self, number: u32, place: Place) {
        if let Some(words) = self.at(number) {
            words.iter().zip(place.to_words()).for_each(|(to, word)| to.store(word, Relaxed));
        }
    }

    /// The place with a number; an empty one if there is none.
    pub fn get(&self, number: u32) -> Place {
        let words =
            |words: &[AtomicU64; PLACE_WORDS]| words.each_ref().map(|word| word.load(Relaxed));
        Place::of_words(self.at(number).map(words).unwrap_or_default())
    }

    fn at(&self, number: u32) -> Option<&[AtomicU64; PLACE_WORDS]> {
        self.0.get((number as usize).checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_by_its_number() {
        let places = Places(std::array::from_fn(|_| Default::default()));
        assert_eq!(places.get(1).text(), None);
        places.set(1, Place::new("client.c:88"));
        places.set(PLACES as u32, Place::new(&format!("{}.c:12", "long".repeat(20))));
        for nowhere in [0, PLACES as u32 + 1] {
            places.set(nowhere, Place::new("nowhere"));
            assert_eq!(places.get(nowhere).text(), None);
        }
        assert_eq!(places.get(1).text().as_deref(), Some("client.c:88"));
        let long = places.get(PLACES as u32).text().unwrap();
        assert!(long.len() == 8 * PLACE_WORDS && long.ends_with("long.c:12"), "{long}");
    }
}
