//! The table of the examples.

use super::{Example, Listens, Sides};
use crate::compare::evidence::Evidence;
use crate::compare::speed::Waits;
use crate::compare::speed::work::{Clock, Work};
use crate::transcript::{Side, Stream};

/// The time measured is mostly start-up and connection.
const ONCE: Work = Work { waits: Waits::Once, clock: Clock::WholeRun, count: None, flags: "" };
/// Messages are counted with `-c`, and the program reports the time that they took.
const POLLING: Work =
    Work { waits: Waits::BusyPolling, clock: Clock::Reported, count: Some("-c"), flags: "" };
const BLOCKING: Work = Work { waits: Waits::Blocking, ..POLLING };

/// Names of the suite's programs where they are made.
pub(super) const SUITE_ARG0: &str = "./{side}";

/// Two programs in the manner of the OpenFabrics suite.
const PAIR: Example = Example {
    name: "",
    lesson: "",
    sides: Sides::TwoPrograms,
    arg0: SUITE_ARG0,
    arguments: [Some("-a {address} {flags}"); 2],
    tour_flags: "-c 100",
    listens: Listens::RdmaCm,
    served: None,
    own_address: false,
    original: true,
    faulty: false,
    like: None,
    places: &["{name}/{side}", "{name}-{side}"],
    evidence: Evidence::None,
    work: ONCE,
};

/// A pair whose client sends something and verifies that it comes back.
const PING: Example = Example { evidence: Evidence::Verified("-v"), work: BLOCKING, ..PAIR };

/// One program in the manner of the manual.
const ONE: Example = Example {
    sides: Sides::OneProgram,
    arg0: "./{name}",
    places: &["{name}", "{name}/{name}"],
    ..PAIR
};

/// One program for which joining a multicast group is all that there is to listening.
const MULTICAST: Example = Example {
    arguments: [
        Some("-m 239.0.0.1 -b {address} {flags}"),
        Some("-s -m 239.0.0.1 -b {address} {flags}"),
    ],
    listens: Listens::Says("joined dgid"),
    own_address: true,
    ..ONE
};

/// Both sides tell each other in a message where their memory is; the server serves for ever.
const READ_WRITE: Example = Example {
    arg0: "./rdma-{side}",
    arguments: [Some("{flags}"), Some("{flags} {address} {port}")],
    tour_flags: "write",
    listens: Listens::Says(r"^listening on port ([0-9]+)\.$"),
    served: Some(r"^peer disconnected\.$"),
    places: &["read-write/{side}", "read-write-{side}", "read-write/rdma-{side}", "rdma-{side}"],
    evidence: Evidence::Shown(&[
        (
            Side::Server,
            Stream::Stdout,
            "^remote buffer: message from active/client side with pid [0-9]+$",
        ),
        (
            Side::Client,
            Stream::Stdout,
            "^remote buffer: message from passive/server side with pid [0-9]+$",
        ),
    ]),
    work: Work { flags: "write", ..ONCE },
    ..PAIR
};

/// All of them, in the order in which they are best read.
pub const EXAMPLES: &[Example] = &[
    Example {
        name: "device-list",
        lesson: "list the RDMA devices and their limits",
        sides: Sides::Single,
        arg0: "./devices",
        arguments: [None, Some("{flags}")],
        tour_flags: "",
        places: &["{name}", "{name}/{name}", "devices", "devices/devices"],
        ..ONE
    },
    Example {
        name: "ping-sr-0",
        lesson: "ping-pong with send/recv, completions busy-polled",
        work: POLLING,
        ..PING
    },
    Example {
        name: "ping-sr-1",
        lesson: "count and size travel in the connect private data",
        like: Some("ping-sr-0"),
        // ping-sr-1e has the byte order that the other lacks in the copy that is known
        places: &["ping-sr-1e/{side}", "{name}/{side}", "{name}-{side}"],
        work: POLLING,
        ..PING
    },
    Example {
        name: "ping-sr-2e",
        lesson: "an event channel: connection calls are asynchronous",
        like: Some("ping-sr-1"),
        original: false,
        work: POLLING,
        ..PING
    },
    Example {
        name: "ping-sr-2",
        lesson: "a thread for connection events notices a disconnect",
        like: Some("ping-sr-1"),
        work: POLLING,
        ..PING
    },
    Example {
        name: "ping-sr-3",
        lesson: "a completion channel: blocking instead of polling",
        like: Some("ping-sr-2"),
        ..PING
    },
    Example {
        name: "ping-sr-4",
        lesson: "both channels non-blocking, one poll(), no threads",
        like: Some("ping-sr-1"),
        ..PING
    },
    Example {
        name: "blast-sr-2",
        lesson: "streaming over many buffers and linked work requests",
        like: Some("ping-sr-3"),
        evidence: Evidence::Counted(&[
            (Side::Server, Stream::Stderr, ": COUNT recv completions, "),
            (Side::Client, Stream::Stderr, ": COUNT recv completions, COUNT send completions"),
        ]),
        work: Work { flags: "-s 4096 -b 8", ..POLLING },
        ..PAIR
    },
    Example {
        name: "blast-sr-2e",
        lesson: "one completion for each list of sends",
        like: Some("blast-sr-2"),
        original: false,
        ..PAIR
    },
    Example {
        name: "ping-rdma-1",
        lesson: "the client writes and reads the server's memory",
        like: Some("ping-sr-2"),
        ..PING
    },
    Example {
        name: "ping-rdma-2",
        lesson: "an unsignaled write: the read after it tells both are done",
        like: Some("ping-rdma-1"),
        ..PING
    },
    Example {
        name: "ping-rdma-3",
        lesson: "both sides write, and watch their memory for the answer",
        like: Some("ping-rdma-2"),
        ..PING
    },
    Example {
        name: "blast-rdma-1",
        lesson: "streaming writes; the server hears of it at the end",
        like: Some("ping-rdma-1"),
        evidence: Evidence::Counted(&[
            (Side::Server, Stream::Stderr, ": COUNT rdma_write completions$"),
            (Side::Client, Stream::Stderr, ": COUNT rdma_write completions$"),
        ]),
        work: Work { flags: "-s 4096 -b 8", ..BLOCKING },
        ..PAIR
    },
    Example {
        name: "pubsub-rdma-1",
        lesson: "the subscriber reads what the server publishes",
        like: Some("ping-rdma-1"),
        // each takes a second or two
        tour_flags: "-c 2",
        evidence: Evidence::Published,
        work: Work { clock: Clock::Asleep, flags: "-c 2", ..ONCE },
        ..PAIR
    },
    Example {
        name: "pubsub-rdma-2",
        lesson: "the server writes what it publishes to its subscriber",
        like: Some("ping-rdma-1"),
        tour_flags: "-c 2",
        evidence: Evidence::Published,
        work: Work { clock: Clock::Asleep, flags: "-c 2", ..ONCE },
        ..PAIR
    },
    Example {
        name: "write-imm",
        lesson: "a write with immediate data tells the one written to",
        original: false,
        ..PING
    },
    Example {
        name: "atomic",
        lesson: "fetch-and-add, compare-and-swap, both ends of a connection",
        original: false,
        ..PAIR
    },
    Example {
        name: "many-clients",
        lesson: "an agent thread for each client, or one poll() for all",
        original: false,
        ..PAIR
    },
    Example {
        name: "read-write-0",
        lesson: "regions by message, as the C has it, faults included",
        faulty: true,
        ..READ_WRITE
    },
    Example {
        name: "read-write",
        lesson: "regions by message, then RDMA read or write",
        ..READ_WRITE
    },
    Example {
        name: "rc-example",
        lesson: "raw verbs: send, RDMA read, RDMA write",
        arg0: "./rc_example",
        // RoCE needs a GID; index 1 is the one of the IPv4 address
        arguments: [Some("-g 1 {flags}"), Some("-g 1 {flags} {address}")],
        tour_flags: "",
        listens: Listens::Tcp,
        places: &[
            "{name}",
            "{name}/{name}",
            "RDMA_RC_example",
            "RDMA_RC_example/RDMA_RC_example",
            "rc_example",
            "rc_example/rc_example",
        ],
        // some copies of the C pad the texts with blanks
        evidence: Evidence::Shown(&[
            (Side::Client, Stream::Stdout, r"^Message is: 'SEND operation\s*'*$"),
            (
                Side::Client,
                Stream::Stdout,
                r"^Contents of server's buffer: 'RDMA read operation\s*'*$",
            ),
            (
                Side::Server,
                Stream::Stdout,
                r"^Contents of server buffer: 'RDMA write operation\s*'*$",
            ),
        ]),
        ..ONE
    },
    Example {
        name: "mckey",
        lesson: "multicast with the RDMA connection manager",
        tour_flags: "-C 10",
        evidence: Evidence::Counted(&[(Side::Server, Stream::Stdout, "^data transfers complete$")]),
        work: Work { clock: Clock::Asleep, flags: "-C 10", ..ONCE },
        ..MULTICAST
    },
    Example {
        name: "apm",
        lesson: "automatic path migration",
        arguments: [Some("-s {flags}"), Some("-a {address} {flags}")],
        tour_flags: "-c 4",
        work: Work { flags: "-c 4", ..ONCE },
        ..ONE
    },
    Example {
        name: "mc",
        lesson: "unreliable datagrams to a multicast group",
        // a receive queue that is too short for more loses messages
        tour_flags: "-c 2",
        evidence: Evidence::Counted(&[(Side::Server, Stream::Stdout, "^received message COUNT$")]),
        work: Work { flags: "-c 2", ..ONCE },
        ..MULTICAST
    },
    Example {
        name: "srq",
        lesson: "several queue pairs on one shared receive queue",
        arguments: [Some("-s -a {address} {flags}"), Some("-a {address} {flags}")],
        tour_flags: "-c 10 -l 1000",
        evidence: Evidence::Counted(&[
            (Side::Server, Stream::Stdout, "^recv count: COUNT, "),
            (Side::Client, Stream::Stdout, "^send count: COUNT, "),
            (Side::Client, Stream::Stdout, "^recv count: [0-9]+$"),
        ]),
        work: Work { clock: Clock::WholeRun, flags: "-l 1000", ..BLOCKING },
        ..ONE
    },
];
