//! Arguments and results of calls.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number that names something. In JSON an object with one member, such as `{"qp": 17}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Name {
    /// An opened device: the descriptor (`ibv_context.cmd_fd`).
    Context(u32),
    /// A protection domain: its handle.
    Pd(u32),
    /// A memory region: its handle.
    Mr(u32),
    /// A memory window: its handle.
    Mw(u32),
    /// A completion queue: its number in the fabric.
    Cq(u32),
    /// A queue pair: `qp_num`.
    Qp(u32),
    /// A shared receive queue: its number in the fabric.
    Srq(u32),
    /// An address handle: its handle.
    Ah(u32),
    /// A completion channel: its descriptor.
    Channel(u32),
    /// An event channel of the connection manager: its descriptor.
    EventChannel(u32),
    /// An id of the connection manager: the kernel's number for it.
    CmId(u32),
    /// `lkey` or `rkey`.
    Key(u32),
    /// An address in a program's memory, or in a region's terms.
    Address(u64),
    /// `wr_id`.
    WrId(u64),
    /// A packet sequence number.
    Psn(u32),
    /// A UDP or TCP port number that the system has chosen, or any other.
    Port(u16),
}

impl Name {
    /// The member's name in JSON, which also begins stable names.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Context(_) => "context",
            Self::Pd(_) => "pd",
            Self::Mr(_) => "mr",
            Self::Mw(_) => "mw",
            Self::Cq(_) => "cq",
            Self::Qp(_) => "qp",
            Self::Srq(_) => "srq",
            Self::Ah(_) => "ah",
            Self::Channel(_) => "channel",
            Self::EventChannel(_) => "event_channel",
            Self::CmId(_) => "cm_id",
            Self::Key(_) => "key",
            Self::Address(_) => "address",
            Self::WrId(_) => "wr_id",
            Self::Psn(_) => "psn",
            Self::Port(_) => "port",
        }
    }

    /// The number.
    pub fn number(&self) -> u64 {
        match *self {
            Self::Context(n)
            | Self::Pd(n)
            | Self::Mr(n)
            | Self::Mw(n)
            | Self::Cq(n)
            | Self::Qp(n)
            | Self::Srq(n)
            | Self::Ah(n)
            | Self::Channel(n)
            | Self::EventChannel(n)
            | Self::CmId(n)
            | Self::Key(n)
            | Self::Psn(n) => n.into(),
            Self::Address(n) | Self::WrId(n) => n,
            Self::Port(n) => n.into(),
        }
    }
}

/// As `show` prints it: keys and addresses in hexadecimal.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(_) | Self::Address(_) => write!(f, "{:#x}", self.number()),
            // Pointers and hashes read better so.
            Self::WrId(n) if *n > u32::MAX.into() => write!(f, "{n:#x}"),
            _ => write!(f, "{}", self.number()),
        }
    }
}

/// A value of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Something's name.
    Name(Name),
    /// Any other number.
    Number(i64),
    /// Words: a constant by its name, flags joined by `|`, a GID, an IP address with its port.
    Text(String),
    /// Nothing, as where a call is given a null pointer.
    None,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::None => f.write_str("NULL"),
        }
    }
}

impl From<Name> for Value {
    fn from(name: Name) -> Self {
        Self::Name(name)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        })*
    };
}

numbers!(u8, u16, u32, i32, i64);

/// A value and what it is called: the field or parameter of the verb. In JSON an array of the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named(pub String, pub Value);
