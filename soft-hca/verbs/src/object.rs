//! Kinds of objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of object that a program has by a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// Protection domain (`struct ibv_pd`).
    Pd,
    /// Memory region (`struct ibv_mr`).
    Mr,
    /// Memory window (`struct ibv_mw`).
    Mw,
    /// Address handle (`struct ibv_ah`).
    Ah,
    /// Completion queue (`struct ibv_cq`).
    Cq,
    /// Shared receive queue (`struct ibv_srq`).
    Srq,
    /// Queue pair (`struct ibv_qp`).
    Qp,
}

impl ObjectKind {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::Pd, Self::Mr, Self::Mw, Self::Ah, Self::Cq, Self::Srq, Self::Qp];
}

/// As a sentence names it.
impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pd => "protection domain",
            Self::Mr => "memory region",
            Self::Mw => "memory window",
            Self::Ah => "address handle",
            Self::Cq => "completion queue",
            Self::Srq => "shared receive queue",
            Self::Qp => "queue pair",
        })
    }
}
