//! Outcomes of examples whose verbs fail: the files that say so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::examples::{Example, Sides, sound};
use crate::process::Ending;
use crate::transcript::Side;

/// Outcomes in one example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfExample {
    /// When a call of the server fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<OfSide>,
    /// When one of the client does, or of the only program.
    pub client: OfSide,
}

/// Outcomes when the calls of one side fail, each in a run of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfSide {
    /// Calls that return nothing.
    pub cannot_fail: Vec<String>,
    /// The others, in the order in which they come first.
    pub fails: Vec<Row>,
}

/// A call that fails the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name.
    pub verb: String,
    /// The message of who has called it; none if it does not look at the result.
    pub says: Option<String>,
    /// The call is made by a thread that the end of the program may overtake: nothing is said then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overtaken: bool,
    /// How it ends.
    pub ends: Endings,
    /// How its peer ends, if it has one and that can be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Endings>,
    /// Why not otherwise, in `reasons.json`: of an end with status 0 or by a signal, or of a side that
    /// runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a program may end; more than one if that depends on who is first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endings(Vec<Ending>);

impl Endings {
    /// Between several.
    const OR: &str = " or ";

    /// One.
    pub fn one(ending: Ending) -> Self {
        Self(vec![ending])
    }

    /// Whether a program may end so.
    pub fn allow(&self, ending: Ending) -> bool {
        self.0.contains(&ending)
    }

    /// Another way to end.
    pub fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
        self.0.sort();
        self.0.dedup();
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Ending> {
        self.0.iter().copied()
    }
}

impl TryFrom<String> for Endings {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.split(Self::OR).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Endings> for String {
    fn from(endings: Endings) -> Self {
        endings.0.iter().map(Ending::to_string).collect::<Vec<_>>().join(Endings::OR)
    }
}

impl OfExample {
    /// The outcomes when calls of a side fail, if there is that side.
    pub fn of(&self, side: Side) -> Option<&OfSide> {
        match side {
            Side::Server => self.server.as_ref(),
            Side::Client => Some(&self.client),
        }
    }
}

/// All outcomes, with the reasons by their names.
#[derive(Clone, Debug)]
pub struct Data {
    /// In the order of the examples.
    pub examples: Vec<(&'static Example, OfExample)>,
    /// Why programs end well or run on.
    pub reasons: BTreeMap<String, String>,
}

/// The file of an example.
pub fn file(folder: &Path, example: &Example) -> PathBuf {
    folder.join(example.name).with_extension("json")
}

/// The sides of an example.
pub fn sides(example: &Example) -> &'static [Side] {
    if example.sides == Sides::Single { &[Side::Client] } else { &Side::BOTH }
}

impl Data {
    /// Reads a folder, which has a file for every example.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let of = |example: &'static Example| Ok((example, read(&file(folder, example))?));
        let examples = sound().map(of).collect::<Result<Vec<_>, Error>>()?;
        let path = folder.join("reasons.json");
        let data = Self { examples, reasons: read(&path)? };
        match data.mistake() {
            Some(what) => Err(Error::data(folder, what)),
            None => Ok(data),
        }
    }

    /// A mistake in what is written there.
    fn mistake(&self) -> Option<String> {
        for (example, of_example) in &self.examples {
            for side in Side::BOTH {
                if sides(example).contains(&side) != of_example.of(side).is_some() {
                    return Some(format!("{}: its sides are others", example.name));
                }
            }
            for (side, row) in of_example.rows() {
                let needs_why = row.needs_why();
                let name = format!("{}/{side}/{}", example.name, row.verb);
                if row.peer.is_some() && sides(example).len() < 2 {
                    return Some(format!("{name}: there is no peer"));
                }
                if needs_why != row.why.is_some() {
                    return Some(format!("{name}: a reason, if and only if one is needed"));
                }
                if row.why.as_ref().is_some_and(|why| !self.reasons.contains_key(why)) {
                    return Some(format!("{name}: no such reason"));
                }
            }
        }
        let is_used = |name: &String| {
            let mut rows = self.examples.iter().flat_map(|(_, of_example)| of_example.rows());
            rows.any(|(_, row)| row.why.as_ref() == Some(name))
        };
        self.reasons.keys().find(|name| !is_used(name)).map(|name| format!("{name} is no reason"))
    }
}

impl OfExample {
    /// All rows with their sides.
    pub fn rows(&self) -> impl Iterator<Item = (Side, &Row)> {
        Side::BOTH.into_iter().flat_map(|side| {
            self.of(side)
                .into_iter()
                .flat_map(move |of| of.fails.iter().map(move |row| (side, row)))
        })
    }
}

impl Row {
    /// Whether it is not what one would expect: who calls gives a message and ends with a status that
    /// is not 0, and the peer ends, too.
    pub fn needs_why(&self) -> bool {
        let fails = |ending| matches!(ending, Ending::Code(code) if code != 0);
        let runs_on = |endings: &Endings| endings.allow(Ending::TimedOut);
        self.says.is_none()
            || self.overtaken
            || !self.ends.iter().all(fails)
            || self.peer.as_ref().is_some_and(runs_on)
    }
}

/// Reads a file of JSON.
pub(crate) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(Error::read(path))?;
    serde_json::from_str(&text).map_err(Error::json(path))
}
