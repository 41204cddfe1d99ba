//! The list of cases: the serde model of `cases.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::error::Error;
use crate::examples::Example;
use crate::peer::{TcpBehaviour, TcpPeer};
use crate::process::Program;
use crate::run::{Client, Kill, Plan};
use crate::transcript::{Side, Stream};

/// Time limit of a case that names none.
const DEFAULT_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take until it listens; generous, machines may be emulated.
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(60);
/// Longest time that makes sense for a case.
const MAX_TIME_MS: u64 = 60 * 60 * 1000;

/// One recorded run. The fields are those of the file; the folder's README
/// explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The example it belongs to.
    pub example: String,
    /// Its name within the example.
    pub case: String,
    /// Arguments of the server, if one is run.
    pub server: Option<Vec<String>>,
    /// Arguments of the client, if one is run.
    pub client: Option<Vec<String>>,
    /// The program that plays the client.
    #[serde(default)]
    pub client_program: ClientProgram,
    /// A program that plays the server instead of the example's own.
    pub server_path: Option<PathBuf>,
    /// A program that plays the client instead of the example's own.
    pub client_path: Option<PathBuf>,
    /// The server is stopped from when it listens until the client has ended.
    #[serde(default)]
    pub server_stopped: bool,
    /// A signal to one side.
    pub kill: Option<KillPlan>,
    /// Time limit, if not the default.
    pub timeout_ms: Option<u64>,
    /// Cannot be reproduced without an RDMA device.
    pub needs_device: bool,
    /// The kind of machine it needs.
    pub device: Device,
    /// How many recordings were compared.
    pub runs: u32,
    /// Files that came out alike in every recording.
    pub deterministic: BTreeSet<Item>,
    /// Files that came out alike but for the order of their lines.
    #[serde(default)]
    pub deterministic_if_sorted: BTreeSet<Item>,
    /// Names of the files of other recordings.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Streams of which only the beginning was kept.
    #[serde(default)]
    pub truncated_to_lines: BTreeMap<Item, usize>,
    /// Purpose of the case.
    pub why: String,
}

/// The second process of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientProgram {
    /// The example's client.
    #[default]
    Client,
    /// A second server.
    Server,
    /// A TCP connection that is closed at once.
    TcpConnectClose,
    /// A TCP connection that brings a message in two parts.
    TcpTwoParts,
}

/// A signal to one side at a given time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillPlan {
    /// The side that gets it.
    pub who: Side,
    /// Its number.
    pub signal: i32,
    /// Text that each side has printed by then.
    #[serde(default)]
    pub once: BTreeMap<Side, String>,
    /// Counted from there, or from the start of the client.
    pub after_ms: u64,
}

/// The machine a case needs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// It does not matter.
    Any,
    /// One Soft-RoCE device.
    One,
    /// Two of them.
    Two,
    /// No RDMA at all.
    None,
    /// RDMA modules in the kernel, but no device.
    NoneModulesLoaded,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Device::Any => "any",
            Device::One => "one",
            Device::Two => "two",
            Device::None => "none",
            Device::NoneModulesLoaded => "none-modules-loaded",
        })
    }
}

/// One thing that is compared, named like its file: `server.stdout`,
/// `client.status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Item {
    /// Output of a side on one of its streams.
    Stream(Side, Stream),
    /// How a side ended.
    Status(Side),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Stream(side, stream) => write!(f, "{side}.{stream}"),
            Item::Status(side) => write!(f, "{side}.status"),
        }
    }
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Item, String> {
        let items = Side::BOTH.into_iter().flat_map(|side| {
            let streams = Stream::BOTH.into_iter().map(move |stream| Item::Stream(side, stream));
            streams.chain([Item::Status(side)])
        });
        items
            .into_iter()
            .find(|item| item.to_string() == text)
            .ok_or_else(|| format!("{text:?} is none of server.stdout, client.status and so on"))
    }
}

impl TryFrom<String> for Item {
    type Error = String;

    fn try_from(text: String) -> Result<Item, String> {
        text.parse()
    }
}

impl Case {
    /// A run that is not recorded.
    pub(crate) fn unrecorded(example: &Example, name: &str, has: impl Fn(Side) -> bool) -> Case {
        let args = |side| has(side).then(Vec::new);
        Case {
            example: example.name.to_owned(),
            case: name.to_owned(),
            server: args(Side::Server),
            client: args(Side::Client),
            client_program: ClientProgram::Client,
            server_path: None,
            client_path: None,
            server_stopped: false,
            kill: None,
            timeout_ms: None,
            needs_device: true,
            device: Device::Any,
            runs: 1,
            deterministic: BTreeSet::new(),
            deterministic_if_sorted: BTreeSet::new(),
            variants: Vec::new(),
            truncated_to_lines: BTreeMap::new(),
            why: String::new(),
        }
    }

    /// `EXAMPLE/CASE`, also the folder of its files.
    pub fn name(&self) -> String {
        format!("{}/{}", self.example, self.case)
    }

    /// Does `name` mean this case, with or without its example?
    pub fn is_called(&self, name: &str) -> bool {
        self.case == name || self.name() == name
    }

    /// Is this side run?
    pub fn has(&self, side: Side) -> bool {
        match side {
            Side::Server => self.server.is_some(),
            Side::Client => self.client.is_some(),
        }
    }

    /// Does a client of the example meet a server of it?
    pub fn is_pair(&self) -> bool {
        Side::BOTH.into_iter().all(|side| self.has(side))
            && self.client_program == ClientProgram::Client
    }

    /// How it is run. `program` says which program sits in a seat, what side it plays there,
    /// and with which arguments: a case may have two servers.
    pub(crate) fn plan(
        &self,
        example: &Example,
        patience: u32,
        program: impl Fn(Side, Side, Vec<OsString>) -> Program,
    ) -> Plan {
        let arguments = |args: &[String]| args.iter().map(OsString::from).collect();
        let tcp = |args: &[String], behaviour| {
            // Its arguments are host and port.
            Client::Tcp(TcpPeer { address: args.join(":"), behaviour })
        };
        let second = |side, args| Client::Program(program(Side::Client, side, arguments(args)));
        let client = self.client.as_deref().map(|args| match self.client_program {
            ClientProgram::Client => second(Side::Client, args),
            ClientProgram::Server => second(Side::Server, args),
            ClientProgram::TcpConnectClose => tcp(args, TcpBehaviour::CloseAtOnce),
            ClientProgram::TcpTwoParts => tcp(args, TcpBehaviour::TwoParts),
        });
        let server = self.server.as_deref();
        Plan {
            server: server.map(|args| program(Side::Server, Side::Server, arguments(args))),
            client,
            ready: example.ready(),
            ready_limit: READY_LIMIT,
            limit: self.timeout_ms.map_or(DEFAULT_LIMIT, Duration::from_millis) * patience,
            kill: self.kill.as_ref().map(|kill| Kill {
                who: kill.who,
                signal: kill.signal,
                once: kill.once.clone(),
                after: Duration::from_millis(kill.after_ms),
            }),
            server_stopped: self.server_stopped,
            served: None,
        }
    }

    /// Names of the files of one item: the recorded one, then the variants.
    pub fn files(&self, item: Item) -> Vec<String> {
        let name = item.to_string();
        let prefix = format!("{name}.");
        let variants = self.variants.iter().filter(|file| file.starts_with(&prefix)).cloned();
        std::iter::once(name).chain(variants).collect()
    }
}

/// Reads the cases of a data folder.
pub fn read_cases(data: &Path) -> Result<Vec<Case>, Error> {
    let path = data.join("cases.json");
    let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
    let cases: Vec<Case> = serde_json::from_str(&text).map_err(Error::json(&path))?;
    for case in &cases {
        if crate::examples::Example::named(&case.example).is_none() {
            return Err(Error::data(&path, format!("{}: no such example", case.name())));
        }
        if case.server.is_none() && case.client.is_none() {
            return Err(Error::data(&path, format!("{}: runs nothing", case.name())));
        }
        if case.server_stopped && (case.kill.is_none() || case.server.is_none()) {
            let what = format!("{}: a stopped server needs a kill that ends it", case.name());
            return Err(Error::data(&path, what));
        }
        let times = [case.timeout_ms, case.kill.as_ref().map(|kill| kill.after_ms)];
        if times.into_iter().flatten().any(|time| time > MAX_TIME_MS) {
            return Err(Error::data(&path, format!("{}: a time is too long", case.name())));
        }
    }
    let mut names = BTreeSet::new();
    match cases.iter().find(|case| !names.insert(case.name())) {
        Some(case) => Err(Error::data(&path, format!("{} appears twice", case.name()))),
        None => Ok(cases),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_read_as_they_are_written() {
        let item = Item::Stream(Side::Client, Stream::Stderr);
        assert_eq!("client.stderr".parse(), Ok(item));
        assert_eq!(item.to_string(), "client.stderr");
        assert_eq!("server.status".parse(), Ok(Item::Status(Side::Server)));
        assert!("server.stderr.run2".parse::<Item>().is_err());
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        let case = r#"{"example":"mc","case":"x","server":[],"client":null,"needs_device":false,
            "device":"any","runs":1,"deterministic":[],"why":"test","surprise":1}"#;
        assert!(serde_json::from_str::<Case>(case).is_err());
        let case = case.replace(r#","surprise":1"#, "");
        assert!(serde_json::from_str::<Case>(&case).is_ok());
    }
}
