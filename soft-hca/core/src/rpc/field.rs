//! Fields of messages that have another form there. Nothing is allocated for a length that a message only claims.

/// Bytes as a whole, not one by one.
pub(super) mod bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::rpc) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(in crate::rpc) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<u8>, D::Error> {
        <&[u8]>::deserialize(from).map(<[u8]>::to_vec)
    }
}

/// A fault as its lines, which are checked.
pub(super) mod fault {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use soft_hca_fault::FaultReport;

    pub(in crate::rpc) fn serialize<S: Serializer>(
        fault: &FaultReport,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(fault.encode().as_bytes())
    }

    pub(in crate::rpc) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<FaultReport, D::Error> {
        let lines = FaultReport::decode(<&[u8]>::deserialize(from)?);
        lines.ok_or_else(|| D::Error::custom("three lines are a fault"))
    }
}

/// An asynchronous event as its kind and what it is about.
pub(super) mod event {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::engine::Async;

    pub(in crate::rpc) fn serialize<S: Serializer>(
        event: &Async,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        event.to_words().serialize(to)
    }

    pub(in crate::rpc) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Async, D::Error> {
        let (kind, about) = <(u32, u32)>::deserialize(from)?;
        Async::from_words(kind, about).ok_or_else(|| D::Error::custom("an event has a known kind"))
    }
}
