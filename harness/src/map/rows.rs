//! The rows of the map.

/// A row. Texts in pairs are in English and in Chinese, see [`Language`](super::Language).
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The example.
    pub example: &'static str,
    /// What it teaches.
    pub teaches: [&'static str; 2],
    /// Where it comes from.
    pub source: [&'static str; 2],
    /// The course's slides, if it has some.
    pub slides: &'static str,
    /// The example whose source is to be compared with this one's.
    pub from: Option<&'static str>,
    /// How many lines of their C differ: `diff -ruN` of the `.c` and `.h` files of the suite at the commit that
    /// `./compare` names, with ping-sr-1e for ping-sr-1.
    pub lines_of_c: Option<u32>,
    /// The lessons of `./learn` about the same.
    pub lessons: &'static [u32],
    /// How long it takes to read it, run it and try the course's exercises: an estimate.
    pub minutes: u32,
}

const ROW: Row = Row {
    example: "",
    teaches: ["", ""],
    source: ["", ""],
    slides: "",
    from: None,
    lines_of_c: None,
    lessons: &[],
    minutes: 0,
};

/// All of them, in the order of [`EXAMPLES`](crate::examples::EXAMPLES).
pub(super) const ROWS: &[Row] = &[
    Row {
        example: "device-list",
        teaches: ["which devices there are, and their limits", "有哪些设备，它们的上限是多少"],
        source: ["OFA `devices`", "OFA `devices`"],
        slides: "236–244",
        minutes: 10,
        ..ROW
    },
    Row {
        example: "ping-sr-0",
        teaches: [
            "ping-pong with send and receive: which objects, in which order; every call synchronous, completions polled",
            "用发送和接收做乒乓：需要哪些对象，按什么顺序；每个调用都同步，完成靠轮询（poll）",
        ],
        source: ["OFA `ping-sr-0`", "OFA `ping-sr-0`"],
        slides: "3–185",
        lessons: &[1, 2, 3, 7, 13],
        minutes: 120,
        ..ROW
    },
    Row {
        example: "ping-sr-1",
        teaches: [
            "the client tells the server count and size in the private data of the connect request",
            "客户端在连接请求的私有数据（private data）里把次数和大小告诉服务端",
        ],
        source: [
            "OFA `ping-sr-1` (in one public copy `ping-sr-1e`)",
            "OFA `ping-sr-1`（有一份公开的副本里叫 `ping-sr-1e`）",
        ],
        from: Some("ping-sr-0"),
        lines_of_c: Some(112),
        slides: "186–188",
        lessons: &[5, 16],
        minutes: 20,
    },
    Row {
        example: "ping-sr-2e",
        teaches: [
            "the course's exercise between the two: an event channel, and connection calls that are asynchronous",
            "课程在两者之间的练习：事件通道（event channel），异步的连接调用",
        ],
        source: ["ours, after the slides", "我们的，按幻灯片写成"],
        from: Some("ping-sr-1"),
        slides: "189–204",
        lessons: &[14],
        minutes: 30,
        ..ROW
    },
    Row {
        example: "ping-sr-2",
        teaches: [
            "event channel and event thread: a disconnect that nobody expects is noticed",
            "事件通道和事件线程：意料之外的断开也能察觉",
        ],
        source: ["OFA `ping-sr-2`", "OFA `ping-sr-2`"],
        from: Some("ping-sr-1"),
        lines_of_c: Some(562),
        slides: "205–209",
        lessons: &[17],
        minutes: 45,
    },
    Row {
        example: "ping-sr-3",
        teaches: [
            "completion channel: sleep instead of polling; how many completions a poll gives",
            "完成通道（completion channel）：睡眠，不轮询；一次轮询能取到几个工作完成",
        ],
        source: ["OFA `ping-sr-3`", "OFA `ping-sr-3`"],
        from: Some("ping-sr-2"),
        lines_of_c: Some(338),
        slides: "210–227",
        lessons: &[8, 11],
        minutes: 30,
    },
    Row {
        example: "ping-sr-4",
        teaches: [
            "both channels non-blocking, one `poll()`, no threads",
            "两个通道都不阻塞，一个 `poll()`，没有线程",
        ],
        source: ["OFA `ping-sr-4`", "OFA `ping-sr-4`"],
        from: Some("ping-sr-3"),
        lines_of_c: Some(938),
        slides: "228",
        lessons: &[18],
        minutes: 45,
    },
    Row {
        example: "blast-sr-2",
        teaches: [
            "streaming over many buffers, linked work requests, flow control",
            "用许多缓冲区连续发送，连成链表的工作请求（work request，WR），流量控制（flow control）",
        ],
        source: ["OFA `blast-sr-2`", "OFA `blast-sr-2`"],
        from: Some("ping-sr-3"),
        lines_of_c: Some(1209),
        slides: "229–232",
        lessons: &[4, 21],
        minutes: 60,
    },
    Row {
        example: "blast-sr-2e",
        teaches: [
            "the exercise after it: one completion for each list of sends",
            "它后面的练习：每个发送链表一个工作完成",
        ],
        source: ["ours, after the slides", "我们的，按幻灯片写成"],
        from: Some("blast-sr-2"),
        slides: "232",
        lessons: &[9],
        minutes: 15,
        ..ROW
    },
    Row {
        example: "ping-rdma-1",
        teaches: [
            "RDMA write and RDMA read: one side does everything, the other gives access to its memory",
            "RDMA 写（RDMA write）和 RDMA 读（RDMA read）：一侧做所有的事，另一侧只是开放内存",
        ],
        source: ["OFA `ping-rdma-1`", "OFA `ping-rdma-1`"],
        from: Some("ping-sr-3"),
        lines_of_c: Some(854),
        slides: "233",
        lessons: &[6, 10],
        minutes: 45,
    },
    Row {
        example: "ping-rdma-2",
        teaches: [
            "a work request without a completion, and what the next completion says about it",
            "没有工作完成的工作请求，以及下一个工作完成怎样说明它",
        ],
        source: ["OFA `ping-rdma-2`", "OFA `ping-rdma-2`"],
        from: Some("ping-rdma-1"),
        lines_of_c: Some(16),
        minutes: 10,
        ..ROW
    },
    Row {
        example: "ping-rdma-3",
        teaches: [
            "both sides write, and watch their own memory for the answer",
            "两侧都写，并盯着自己的内存等回答",
        ],
        source: ["OFA `ping-rdma-3`", "OFA `ping-rdma-3`"],
        from: Some("ping-rdma-2"),
        lines_of_c: Some(427),
        minutes: 30,
        ..ROW
    },
    Row {
        example: "blast-rdma-1",
        teaches: ["streaming RDMA writes over many buffers", "用许多缓冲区连续做 RDMA 写"],
        source: ["OFA `blast-rdma-1`", "OFA `blast-rdma-1`"],
        from: Some("ping-rdma-1"),
        lines_of_c: Some(596),
        minutes: 40,
        ..ROW
    },
    Row {
        example: "pubsub-rdma-1",
        teaches: [
            "publish and subscribe: the subscriber reads when it likes",
            "发布与订阅（publish and subscribe）：订阅者想读就读",
        ],
        source: ["OFA `pubsub-rdma-1`", "OFA `pubsub-rdma-1`"],
        from: Some("ping-rdma-2"),
        lines_of_c: Some(273),
        minutes: 25,
        ..ROW
    },
    Row {
        example: "pubsub-rdma-2",
        teaches: [
            "the other way round: the publisher writes into the subscriber's memory",
            "反过来：发布者写进订阅者的内存",
        ],
        source: ["OFA `pubsub-rdma-2`", "OFA `pubsub-rdma-2`"],
        from: Some("pubsub-rdma-1"),
        lines_of_c: Some(196),
        minutes: 20,
        ..ROW
    },
    Row {
        example: "write-imm",
        teaches: [
            "a write with immediate data tells the one who is written to; inline sends, a fence",
            "带立即数（immediate data）的写会通知被写的一方；内联（inline）发送，栅栏（fence）",
        ],
        source: ["ours, after ping-rdma-2", "我们的，接在 ping-rdma-2 之后"],
        from: Some("ping-rdma-2"),
        lessons: &[15],
        minutes: 30,
        ..ROW
    },
    Row {
        example: "atomic",
        teaches: [
            "fetch-and-add, compare-and-swap; both ends of a connection",
            "取值并相加（fetch-and-add），比较并交换（compare-and-swap）；连接两端的地址",
        ],
        source: ["ours: the slides name them", "我们的：幻灯片提到它们"],
        from: Some("ping-rdma-1"),
        slides: "18, 235",
        lessons: &[22],
        minutes: 30,
        ..ROW
    },
    Row {
        example: "many-clients",
        teaches: [
            "a server for several clients: a thread for each, or one `poll()` for all; they count in one place",
            "服务几个客户端的服务端：每个客户端一个线程，或者一个 `poll()` 管全部；它们在同一处计数",
        ],
        source: ["ours, after atomic", "我们的，接在 atomic 之后"],
        from: Some("atomic"),
        lessons: &[23],
        minutes: 45,
        ..ROW
    },
    Row {
        example: "read-write-0",
        teaches: [
            "read-write as the C has it, with its faults: what goes wrong when two threads share a connection",
            "C 原来的 read-write，毛病也在：两个线程共用一个连接会出什么错",
        ],
        source: [
            "`02_read-write` of \"the-geek-in-the-corner\"",
            "“the-geek-in-the-corner”的 `02_read-write`",
        ],
        minutes: 40,
        ..ROW
    },
    Row {
        example: "read-write",
        teaches: [
            "memory regions exchanged by message, then RDMA read or write; events in one thread, completions in another",
            "用消息交换内存区域（memory region，MR），然后做 RDMA 读或写；事件在一个线程里，完成在另一个线程里",
        ],
        source: [
            "`02_read-write` of \"the-geek-in-the-corner\"",
            "“the-geek-in-the-corner”的 `02_read-write`",
        ],
        from: Some("read-write-0"),
        minutes: 20,
        ..ROW
    },
    Row {
        example: "rc-example",
        teaches: [
            "raw verbs: a queue pair brought up by hand over TCP; send, RDMA read, RDMA write",
            "直接用 verbs：借助 TCP 手工建立队列对（queue pair，QP）；发送、RDMA 读、RDMA 写",
        ],
        source: ["manual, `RDMA_RC_example.c`", "手册，`RDMA_RC_example.c`"],
        lessons: &[12],
        minutes: 60,
        ..ROW
    },
    Row {
        example: "mckey",
        teaches: [
            "multicast with the connection manager, several connections",
            "用连接管理器（connection manager，CM）做组播（multicast），几个连接",
        ],
        source: ["manual, `mckey.c`", "手册，`mckey.c`"],
        lessons: &[19],
        minutes: 40,
        ..ROW
    },
    Row {
        example: "apm",
        teaches: [
            "automatic path migration, asynchronous events",
            "自动路径迁移（automatic path migration，APM），异步事件（asynchronous event）",
        ],
        source: ["manual, `apm.c`", "手册，`apm.c`"],
        minutes: 30,
        ..ROW
    },
    Row {
        example: "mc",
        teaches: [
            "a multicast sender and receiver on unreliable datagrams",
            "用不可靠数据报（unreliable datagram，UD）的组播发送方和接收方",
        ],
        source: ["manual, `mc.c`", "手册，`mc.c`"],
        minutes: 25,
        ..ROW
    },
    Row {
        example: "srq",
        teaches: ["several queue pairs that share one receive queue", "几个队列对共用一个接收队列"],
        source: ["manual, `srq.c`", "手册，`srq.c`"],
        lessons: &[20],
        minutes: 30,
        ..ROW
    },
];
