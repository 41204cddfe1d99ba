//! Why calls are refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{DeviceLimit, ObjectKind, QpAttrMask, QpState};

macro_rules! refusals {
    ($(
        $name:ident $(($value:ident: $type:ty, $all:expr))? = $sentence:literal $(, $part:expr)?;
    )*) => {
        /// The check that a call has not passed. What the check has compared comes beside it.
        ///
        /// It is written and read, by [`serde`], as its name in lower case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Refusal {
            $( #[doc = $sentence] $name $(($type))?, )*
        }

        impl Refusal {
            /// All of them, and of those about one of several things one for each of these.
            pub fn all() -> impl Iterator<Item = Self> {
                [$( refusals!(@all $name $($all)?) ),*].into_iter().flatten()
            }
        }

        /// The check in a few words.
        impl fmt::Display for Refusal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$name $(($value))? => write!(f, $sentence $(, $part)?), )*
                }
            }
        }
    };
    (@all $name:ident) => { vec![Self::$name] };
    (@all $name:ident $all:expr) => { $all.map(Self::$name).collect() };
}

refusals! {
    // The bytes of a command, and the file that it is written to.
    ShortHeader = "the command is too short for its header";
    ShortRequest = "the command is too short for its request";
    ShortDriverData = "the command is too short for its provider's part";
    ShortAnswerAddress = "the command is too short to say where its answer goes";
    CommandLength = "the command's length is not the one in its header";
    CommandReserved = "the command's reserved field is not zero";
    HeaderReserved = "the header's reserved field is not zero";
    NoSuchCommand = "no command has this number";
    CommandUnsupported = "the device has no such command";
    AnswerTooLong = "the program has no room for the answer";
    IoctlAttribute = "an attribute of the request is missing or short";
    NoSuchAdvice = "there is no such advice";
    NoSuchAdviceFlag = "there is no such flag of an advice";
    HasContext = "the file has its context already";
    NoContext = "the file has no context yet";
    FileClosed = "the file is closed";
    NoDevice = "the file is no device";
    ChildOfFork = "a child of fork: the device file is its parent's";

    // The fabric and its devices.
    NoSuchDevice = "the fabric has no such device";
    DeviceRemoved = "the device has been removed";
    DaemonGone = "the fabric's daemon is gone";
    DaemonFull = "the fabric's daemon has no file descriptor left";
    NoDescriptor = "the daemon can open no further descriptor";
    FabricFull = "the fabric has no room for another such object";
    NoQueueMemory = "the fabric has no memory left for the queue";
    NoQueuePairMemory = "the fabric has no memory left for the queue pair";
    RecordedAlready = "the fabric is being recorded already";
    RecordSize = "a record cannot have so few or so many bytes";
    SysfsTree = "a tree of sysfs cannot be changed";
    PortLeaseOfStranger = "only a process that has opened a device has a port lease";
    NoPortLease = "it has no port lease";
    NoPortLeaseLeft = "there is no port lease left";
    NoSystemRoute = "the system has no route to the address";
    Fault = "a fault that was asked for";

    // Objects: handles, sizes, and others that use them.
    NoObject(kind: ObjectKind, ObjectKind::ALL.iter().copied()) =
        "there is no {} with this handle", kind;
    OtherObject(kind: ObjectKind, ObjectKind::ALL.iter().copied()) =
        "the object with this handle is no {}", kind;
    NoQueuePair = "there is no queue pair with this number";
    Destroyed = "the object has been destroyed";
    DeviceLimit(limit: DeviceLimit, DeviceLimit::ALL.iter().copied()) = "{}", limit;
    QueueTooLong = "no queue has so many entries";
    QueueKeepsSize = "this queue keeps its size";
    QueueHasMore = "more entries are in the queue than the new size has room for";
    PdInUse = "the protection domain is still in use";
    CqInUse = "a queue pair still has the completion queue";
    SrqInUse = "a queue pair still has the shared receive queue";
    MrInUse = "a memory window is bound to the region";
    QpInUse = "the queue pair is attached to a multicast group";

    // Memory.
    EmptyRegion = "the region has no bytes";
    EndlessRegion = "the region goes beyond the address space";
    AccessFlag = "the device does not have one of the access flags";
    ImplicitOdp = "the device has no region of all memory (implicit ODP)";
    PersistentMemory = "the device has no persistent memory";
    NeedsLocalWrite = "remote write or atomic access needs local write";
    WindowType = "memory windows are of type 1 or 2";
    ReadOnlyMemory = "part of the memory may not be written, for which IBV_ACCESS_LOCAL_WRITE asks";
    UnmappedMemory = "part of the memory is not mapped";
    NoOnDemandRegion = "no region on demand that allows local write has this key";
    BeyondRegion = "beyond the region";

    // Queues of completions and of receives.
    EmptyCq = "a completion queue has room for at least one completion";
    CqFlag = "the device has none of the flags for completion queues";
    CompletionVector = "the device has no completion vector with this number";
    NoChannel = "the program has no such completion channel";
    EmptySrq = "a shared receive queue has room for at least one receive";
    SrqLimit = "srq_limit is more than the queue has room for";
    SrqAttribute = "a shared receive queue has no such attribute";

    // Queue pairs, their states and attributes.
    QpType = "no queue pair has this type";
    QpFlag = "the device has none of the flags for creating queue pairs";
    NoSuchState = "there is no such state";
    CurrentState = "the queue pair is not in the state that CUR_STATE names";
    Transition(to: QpState, QpState::ALL.iter().copied()) =
        "the queue pair is in no state that may go to {}", short(*to);
    TransitionToSqe = "only an error brings a queue pair to SQE";
    AttributeMissing(missing: QpAttrMask, QpAttrMask::all().iter()) =
        "{} is missing, which this change of state requires", first(*missing);
    AttributeExcess(excess: QpAttrMask, QpAttrMask::all().iter()) =
        "{} does not belong to this change of state", first(*excess);
    NoSuchPort = "the device has no port with this number";
    AddressVectorPort = "the address vector's port is none of the device's";
    AlternatePort = "the alternate path's port is none of the device's";
    NoSuchPathMtu = "there is no such path MTU";
    PathMtu = "the path MTU is more than the port's";
    Timeout = "timeout has five bits";
    AlternateTimeout = "alt_timeout has five bits";
    RetryCount = "retry_cnt has three bits";
    RnrRetry = "rnr_retry has three bits";
    NoMigration = "on Ethernet there is no automatic path migration";
    RearmWithoutPath = "path_mig_state REARM needs an alternate path (ALT_PATH)";
    ArmedByProgram = "path_mig_state ARMED is the device's to say: ask for REARM";
    MigrationNotArmed = "the path cannot migrate yet: the peer has no alternate path";
    NoSuchMigrationState = "there is no such path_mig_state";

    // Paths and multicast groups.
    NeedsGrh = "an address vector on RoCE needs a global route (GRH)";
    SgidIndex = "the port's GID table has no entry at sgid_index";
    PkeyIndex = "the port's P_Key table has no entry at pkey_index";
    ZeroDgid = "the destination GID is all zeros";
    GidFamilies = "one of the two GIDs is an IPv4 address, the other is not";
    UnknownDgid = "nobody has the destination GID";
    NoMulticastGid = "the GID is no multicast group's";
    MulticastNeedsUd = "only UD queue pairs receive multicasts";
    NotAttached = "the queue pair is not attached to the group";
    FullGroup = "the group has max_mcast_qp_attach members already";

    // Work requests that are posted.
    SendBeforeRts = "sends are posted in RTS, not before";
    SendQueueFull = "the send queue is full (max_send_wr)";
    SendSges = "more SGEs than the queue pair's max_send_sge";
    InlineData = "more inline data than the queue pair's max_inline_data";
    AtomicAlignment = "the address of an atomic operation is not a multiple of eight";
    AtomicRoom = "an atomic operation needs room for eight bytes";
    ReceiveInReset = "receives are posted from INIT on, not in RESET";
    ReceiveQueueFull = "the receive queue is full (max_recv_wr)";
    SharedReceiveQueueFull = "the shared receive queue is full (max_wr)";
    ReceiveSges = "more SGEs than the queue's max_recv_sge";

    // Ids of the connection manager: what they are and what they are not in the state for.
    NoId = "there is no id with this number";
    IdsExhausted = "all numbers of ids or memberships are in use";
    IdOfOtherFile = "the id belongs to another file";
    IdFromClosedFile = "the file to move the id from is closed";
    IdFromOtherFile = "the file to move the id from is no connection manager";
    IdUnbound = "the id has no address yet";
    IdBound = "the id is bound, and the peer's address not resolved";
    IdResolvesAddress = "the peer's address is being resolved";
    IdHasAddress = "the peer's address is resolved, the route is not";
    IdHasRoute = "the id has its route, and no connection yet";
    IdListens = "the id listens";
    IdConnects = "the id is connecting or connected";
    IdDisconnected = "the id is disconnected";
    IdRemoved = "the id's device has been removed";
    IdWithoutDevice = "the id is bound to no device";
    IdWithoutConnection = "the id has no connection";
    NoSuchQuery = "nothing else can be asked of an id";

    // Addresses of ids.
    NoSuchPortSpace = "there is no such port space";
    ServiceId = "the service id is of another port space";
    NoAddress = "there is no address";
    AddressFamily = "the address is neither IPv4 nor IPv6 nor InfiniBand's";
    AddressSize = "the address's size is not that of its family";
    AddressFamilies = "the addresses are of different families";
    InfinibandAddress = "no device is found by an InfiniBand address";
    NoIpoib = "no device has an interface of IPoIB";
    LinkLocalScope = "a link-local address needs a scope";
    ForeignAddress = "the address is none of the device's";
    AddressInUse = "the address and port are in use";
    PortInUse = "the port is in use for all addresses";
    PortsExhausted = "every port of the port space is in use";

    // Connections.
    InvalidParameters = "the parameters are not marked as valid";
    PrivateData = "the message has no room for so much private data";
    NoRequestToAccept = "there is no request to accept";
    NoRequestToAnswer = "there is no request to answer";
    NoReplyToConfirm = "there is no reply to answer with ready to use";
    NothingToReject = "there is no request or reply to reject";
    RejectReason = "programs may not reject for this reason";
    EstablishedAlready = "the connection is established already";
    NoReplyWaits = "no reply waits for ready to use";
    OnlyCommEst = "only COMM_EST is of interest to a connection";
    PeerHasNotReplied = "the peer has not replied yet";
    ConnectionOver = "the connection is over";
    ConnectionState = "a connection calls only for INIT, RTR and RTS";
    DatagramAck = "datagrams are not acknowledged";
    DatagramDisconnect = "datagrams have no connection to end";
    EventKind = "programs may write only USER and INTERNAL events";
    EventsFull = "too many events wait to be fetched";

    // Options and memberships of ids.
    NoSuchOption = "there is no such option";
    OptionSize = "the value has not the size that the option has";
    OptionUnreadable = "the option's value cannot be read";
    OptionRead = "options can be set only";
    NoServiceRecords = "there are no service records";
    PathRecord = "no record is that of a primary path both ways";
    JoinOfConnected = "only ids for datagrams join groups";
    GroupWithoutAddress = "the group has no IP address";
    JoinFlags = "the membership is neither full nor that of a sender only";
    NoMembership = "there is no membership with this number";
    MembershipOfOtherFile = "the membership belongs to another file";
}

/// A state as a sentence names it.
fn short(state: QpState) -> &'static str {
    state.short_name().unwrap_or("an unknown state")
}

/// The first of some attributes.
fn first(attributes: QpAttrMask) -> &'static str {
    attributes.iter_names().next().map_or("an unknown attribute", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_a_sentence_and_a_name_of_its_own() {
        let count = Refusal::all().count();
        let sentences: BTreeSet<String> = Refusal::all().map(|one| one.to_string()).collect();
        assert_eq!(sentences.len(), count);
        let json = |one| serde_json::to_string(&one).unwrap();
        let names: BTreeSet<String> = Refusal::all().map(json).collect();
        assert_eq!(names.len(), count);
        for refusal in Refusal::all() {
            assert_eq!(serde_json::from_str::<Refusal>(&json(refusal)).unwrap(), refusal);
        }
    }

    #[test]
    fn sentences_name_what_they_are_about() {
        for (refusal, sentence) in [
            (Refusal::DeviceLimit(DeviceLimit::Cqe), "more completions than the device's max_cqe"),
            (Refusal::NoObject(ObjectKind::Qp), "there is no queue pair with this handle"),
            (
                Refusal::AttributeMissing(QpAttrMask::AV | QpAttrMask::RQ_PSN),
                "AV is missing, which this change of state requires",
            ),
            (
                Refusal::AttributeExcess(QpAttrMask::from_bits_retain(1 << 31)),
                "an unknown attribute does not belong to this change of state",
            ),
        ] {
            assert_eq!(refusal.to_string(), sentence);
        }
        let missing = serde_json::to_string(&Refusal::AttributeMissing(QpAttrMask::AV)).unwrap();
        assert_eq!(missing, r#"{"attribute_missing":"IBV_QP_AV"}"#);
    }
}
