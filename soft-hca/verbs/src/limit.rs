//! Limits of devices, and the reasons for refusing calls that ask for more.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $refusal:literal),* $(,)?) => {
        /// A limit of a device, or something that not every device has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum DeviceLimit {
            $( $(#[$doc])* $name ),*
        }

        impl DeviceLimit {
            /// All of them.
            pub const ALL: &'static [Self] = &[$( Self::$name ),*];
        }

        /// Why a call beyond it is refused.
        impl fmt::Display for DeviceLimit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $( Self::$name => $refusal ),*
                })
            }
        }
    };
}

limits! {
    /// `ibv_device_attr.max_qp_wr`, of a send queue.
    SendWr = "max_send_wr is more than the device's max_qp_wr",
    /// `ibv_device_attr.max_sge`, of a send.
    SendSge = "max_send_sge is more than the device's max_sge",
    /// Bytes of inline data, which no device tells.
    InlineData = "max_inline_data is more than the device's work requests hold",
    /// `ibv_device_attr.max_qp_wr`, of a receive queue.
    RecvWr = "max_recv_wr is more than the device's max_qp_wr",
    /// `ibv_device_attr.max_sge`, of a receive.
    RecvSge = "max_recv_sge is more than the device's max_sge",
    /// `ibv_device_attr.max_cqe`
    Cqe = "more completions than the device's max_cqe",
    /// `ibv_device_attr.max_srq_wr`
    SrqWr = "max_wr is more than the device's max_srq_wr",
    /// `ibv_device_attr.max_srq_sge`
    SrqSge = "max_sge is more than the device's max_srq_sge",
    /// `ibv_device_attr.max_qp_init_rd_atom`
    InitRdAtomic = "max_rd_atomic is more than the device's max_qp_init_rd_atom",
    /// A type of queue pair.
    QueuePairType = "the device has no queue pairs of this type",
    /// Shared receive queues.
    SharedReceiveQueues = "the device has no shared receive queues",
}
