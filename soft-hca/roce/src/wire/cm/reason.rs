//! Why a connection is rejected (IBTA 12.6.7.2, `enum ib_cm_rej_reason`).

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
        $(
            #[doc = concat!("\"", $text, "\".\n")]
            $(#[$doc])*
            pub const $name: u16 = $number;
        )*

        /// A reason in words.
        pub fn text(reason: u16) -> Option<&'static str> {
            match reason {
                $($number => Some($text),)*
                _ => None,
            }
        }
    };
}

reasons! {
    NO_QP = 1 "no queue pair is available",
    NO_EEC = 2 "no end-to-end context is available",
    NO_RESOURCES = 3 "no resources are available",
    /// Waited long enough. [`Rej::info`](super::Rej::info) has the sender's GUID.
    TIMEOUT = 4 "timeout",
    UNSUPPORTED = 5 "unsupported request",
    INVALID_COMM_ID = 6 "invalid communication id",
    INVALID_COMM_INSTANCE = 7 "invalid communication instance",
    /// Nobody listens there.
    INVALID_SERVICE_ID = 8 "invalid service id",
    INVALID_TRANSPORT_TYPE = 9 "invalid transport service type",
    /// The queue pair or its connection is an old one.
    STALE_CONNECTION = 10 "stale connection",
    RDC_NOT_EXIST = 11 "the reliable datagram channel does not exist",
    /// A GID is not the receiver's, or has no way back.
    INVALID_GID = 12 "invalid primary GID",
    INVALID_LID = 13 "invalid primary LID",
    INVALID_SL = 14 "invalid primary service level",
    INVALID_TRAFFIC_CLASS = 15 "invalid primary traffic class",
    INVALID_HOP_LIMIT = 16 "invalid primary hop limit",
    INVALID_PACKET_RATE = 17 "invalid primary packet rate",
    INVALID_ALT_GID = 18 "invalid alternate GID",
    INVALID_ALT_LID = 19 "invalid alternate LID",
    INVALID_ALT_SL = 20 "invalid alternate service level",
    INVALID_ALT_TRAFFIC_CLASS = 21 "invalid alternate traffic class",
    INVALID_ALT_HOP_LIMIT = 22 "invalid alternate hop limit",
    INVALID_ALT_PACKET_RATE = 23 "invalid alternate packet rate",
    PORT_CM_REDIRECT = 24 "the connection manager is elsewhere",
    PORT_REDIRECT = 25 "the port is elsewhere",
    /// The path's MTU is too large.
    INVALID_MTU = 26 "invalid path MTU",
    INSUFFICIENT_RESP_RESOURCES = 27 "insufficient responder resources",
    /// The program said no, or went away.
    CONSUMER_DEFINED = 28 "consumer reject",
    INVALID_RNR_RETRY = 29 "invalid RNR retry count",
    DUPLICATE_LOCAL_COMM_ID = 30 "duplicate local communication id",
    INVALID_CLASS_VERSION = 31 "unsupported class version",
    INVALID_FLOW_LABEL = 32 "invalid primary flow label",
    INVALID_ALT_FLOW_LABEL = 33 "invalid alternate flow label",
    /// The program said no because of the vendor's options.
    VENDOR_OPTION_NOT_SUPPORTED = 35 "the vendor's option is not supported",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_texts() {
        assert_eq!(text(CONSUMER_DEFINED), Some("consumer reject"));
        assert!((1..=33).all(|reason| text(reason).is_some()));
        assert_eq!([0, 34, 99].map(text), [None; 3]);
    }
}
