//! The limits of adapters that people have, for `--like`, the `vendor_err` of their failures, and how long they try to
//! reach a peer: data, each value with the place in a driver, or the measurement, that it is from. A limit that no
//! source tells is not in a profile, and the device has its own.
//!
//! How long anything else takes, and what else firmware does, is not imitated.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use soft_hca_verbs::{Failure, VendorErrors, WcStatus};

use super::{Device, Limits};

/// The profiles' files, by name.
const FILES: [(&str, &str); 6] = [
    ("bnxt_re", include_str!("bnxt_re.json")),
    ("efa", include_str!("efa.json")),
    ("erdma", include_str!("erdma.json")),
    ("irdma", include_str!("irdma.json")),
    ("mlx5", include_str!("mlx5.json")),
    ("rxe", include_str!("rxe.json")),
];

/// The profile of an adapter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// As it is written behind `--like`: the driver's name in the kernel.
    pub name: String,
    /// Whose it is, for people.
    pub adapter: String,
    /// Its limits.
    pub limits: BTreeMap<Limit, SourcedValue>,
    /// Bytes that one message may have (`max_msg_sz` of a port).
    #[serde(default)]
    pub max_message: Option<SourcedValue>,
    /// The least `timeout` of a queue pair that its retries go by.
    #[serde(default)]
    pub timeout_floor: Option<SourcedValue>,
    /// Features that it does not have at all.
    pub refuses: Vec<Refusal>,
    /// The `vendor_err` of completions.
    #[serde(default)]
    pub vendor_err: Vec<VendorError>,
}

/// A number of an adapter for completions that have failed, and where that is from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VendorError {
    /// As `struct ibv_wc` has it.
    pub value: u32,
    /// The status of its completions.
    pub status: WcStatus,
    /// Its name in the driver's source, if it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// The failures whose completions have it.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// Release or commit, file and symbol; or who has measured it, and where that is written.
    pub source: String,
}

/// A limit's value, and where it is from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcedValue {
    /// As `struct ib_device_attr`, `struct ib_port_attr` or `struct ib_wc` has it.
    pub value: u64,
    /// Release or commit, file and symbol; or who has measured it, and where that is written.
    pub source: String,
}

/// Something that the adapter refuses, and where that is from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// What.
    pub what: Refused,
    /// Release or commit, file and symbol.
    pub source: String,
}

/// A feature that an adapter may not have. Objects are refused with EOPNOTSUPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refused {
    /// Queue pairs of type RC.
    Rc,
    /// Queue pairs of type UC.
    Uc,
    /// Queue pairs of type UD.
    Ud,
    /// Shared receive queues.
    Srq,
    /// Atomic operations. The device says that it has none; [`Profile::has_atomics`] is for who looks at what is
    /// posted, which the provider does not refuse.
    Atomic,
}

macro_rules! limits {
    ($($limit:ident = $field:ident: $type:ty),* $(,)?) => {
        /// The limits that a profile may have, by the name in [`Limits`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the names are the kernel's")]
        pub enum Limit {
            $($limit),*
        }

        impl Limit {
            /// Sets a limit, but never to more than soft-hca itself has.
            fn set(self, limits: &mut Limits, value: u64) {
                match self {
                    $(Self::$limit => {
                        let value = <$type>::try_from(value).unwrap_or(<$type>::MAX);
                        limits.$field = limits.$field.min(value);
                    })*
                }
            }
        }
    };
}

limits! {
    MaxMrSize = max_mr_size: u64,
    MaxSendWr = max_send_wr: u32,
    MaxRecvWr = max_recv_wr: u32,
    MaxSendSge = max_send_sge: u32,
    MaxRecvSge = max_recv_sge: u32,
    MaxSgeRd = max_sge_rd: u32,
    MaxInlineData = max_inline_data: u32,
    MaxCqe = max_cqe: u32,
    MaxPd = max_pd: u32,
    MaxQpRdAtom = max_qp_rd_atom: u8,
    MaxQpInitRdAtom = max_qp_init_rd_atom: u8,
    MaxMcastGrp = max_mcast_grp: u32,
    MaxMcastQpAttach = max_mcast_qp_attach: u32,
    MaxTotalMcastQpAttach = max_total_mcast_qp_attach: u32,
    MaxSrqWr = max_srq_wr: u32,
    MaxSrqSge = max_srq_sge: u32,
}

impl Profile {
    /// Whether the adapter has atomic operations, as far as is known.
    pub fn has_atomics(&self) -> bool {
        self.refuses.iter().all(|refusal| refusal.what != Refused::Atomic)
    }

    /// The `vendor_err` of its completions.
    pub fn vendor_errors(&self) -> VendorErrors {
        let mut errors = VendorErrors::default();
        for known in &self.vendor_err {
            known.failures.iter().for_each(|failure| errors.set(*failure, known.value));
        }
        errors
    }

    /// The floor of its timers, see [`AckTimer`](soft_hca_roce::transport::timers::AckTimer); 0 if it is not known.
    pub fn timeout_floor(&self) -> u8 {
        let known = self.timeout_floor.as_ref().map_or(0, |known| known.value);
        u8::try_from(known).expect("floors have five bits, as their test shows")
    }

    /// Has a device be like the adapter.
    pub(super) fn shape(&'static self, device: &mut Device) {
        self.limit(&mut device.limits);
        if let Some(known) = &self.max_message {
            let bytes = u32::try_from(known.value).unwrap_or(u32::MAX);
            device.ports.iter_mut().for_each(|port| port.max_message = port.max_message.min(bytes));
        }
        device.vendor_errors = self.vendor_errors();
        device.timeout_floor = self.timeout_floor();
        device.like = Some(&self.name);
    }

    /// Has a device's limits be the adapter's.
    fn limit(&self, limits: &mut Limits) {
        for (limit, known) in &self.limits {
            limit.set(limits, known.value);
        }
        for Refusal { what, .. } in &self.refuses {
            match what {
                Refused::Rc => limits.has_rc = false,
                Refused::Uc => limits.has_uc = false,
                Refused::Ud => limits.has_ud = false,
                Refused::Srq => {
                    limits.has_srq = false;
                    (limits.max_srq, limits.max_srq_wr, limits.max_srq_sge) = (0, 0, 0);
                }
                // IB_ATOMIC_NONE
                Refused::Atomic => limits.atomic_cap = 0,
            }
        }
    }
}

/// The names of all profiles.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The profile of a name, if there is one.
pub fn profile(name: &str) -> Option<&'static Profile> {
    static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
        let parse = |(_, text): &(&str, &str)| {
            serde_json::from_str(text).expect("profiles are right, as their test shows")
        };
        FILES.iter().map(parse).collect()
    });
    PROFILES.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_is_found_by_its_name_and_each_value_has_a_source() {
        for name in names() {
            let profile = profile(name).unwrap_or_else(|| panic!("{name}"));
            assert!(!profile.adapter.is_empty() && !profile.limits.is_empty(), "{name}");
            let known = profile.limits.values().chain(&profile.max_message);
            let known = known.chain(&profile.timeout_floor).map(|known| &known.source);
            let known = known.chain(profile.vendor_err.iter().map(|known| &known.source));
            for source in known.chain(profile.refuses.iter().map(|refusal| &refusal.source)) {
                // Which source it is, and which symbol of which file.
                let (place, symbol) = source.split_once(": ").unwrap_or_else(|| panic!("{source}"));
                assert!(place.contains('/'), "{name}: {source}");
                assert!(!symbol.is_empty(), "{name}: {source}");
            }
        }
        assert!(profile("nonsense").is_none());
    }

    #[test]
    fn vendor_errors_are_those_of_the_file() {
        for name in names() {
            let profile = profile(name).unwrap();
            let errors = profile.vendor_errors();
            for failure in Failure::ALL {
                let mut known = profile.vendor_err.iter();
                let known = known.find(|known| known.failures.contains(&failure));
                assert_eq!(
                    errors.get(failure),
                    known.map_or(0, |known| known.value),
                    "{name}: {failure:?}"
                );
                let status = known.map_or(failure.status(), |known| known.status);
                assert_eq!(failure.status(), status, "{name}: {failure:?}");
            }
        }
        let number = |name, failure| profile(name).unwrap().vendor_errors().get(failure);
        assert_eq!(number("mlx5", Failure::Retries), 0x81);
        assert_eq!(number("irdma", Failure::RnrRetries), 0x1_000b);
        assert_eq!(number("bnxt_re", Failure::RemoteAccess), 7);
        assert_eq!(profile("rxe").unwrap().vendor_errors(), VendorErrors::default());
    }

    #[test]
    fn the_retries_floor_is_a_timeout() {
        let floors = names().map(|name| (name, profile(name).unwrap().timeout_floor()));
        let known: Vec<_> = floors.filter(|(_, floor)| *floor != 0).collect();
        assert_eq!(known, [("mlx5", 16)]);
    }

    #[test]
    fn profiles_limit_what_they_know_and_nothing_else() {
        let like = |name: &str| {
            let mut limits = Limits::rxe();
            profile(name).unwrap().limit(&mut limits);
            limits
        };
        assert_eq!(like("rxe"), Limits::rxe());
        assert_eq!(like("mlx5"), Limits { max_send_sge: 30, max_sge_rd: 30, ..Limits::rxe() });
        let erdma = like("erdma");
        assert_eq!((erdma.max_send_sge, erdma.max_recv_sge, erdma.max_inline_data), (6, 1, 96));
        assert!(!erdma.has_uc && !erdma.has_ud && !erdma.has_srq);
        assert_eq!((erdma.atomic_cap, like("irdma").atomic_cap), (Limits::rxe().atomic_cap, 0));
        assert!(profile("erdma").unwrap().has_atomics());
        assert!(!profile("irdma").unwrap().has_atomics());
    }
}
