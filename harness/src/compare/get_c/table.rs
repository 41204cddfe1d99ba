//! Where the C originals are, what has to be changed in them, and how they are built.

/// A public repository.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Owner and name, as below the host's address.
    pub name: String,
    /// The commit, whole: it is the sum of all files.
    pub commit: String,
    /// Paths below it and where they go: a folder's sources, headers and texts, or one file.
    pub takes: Vec<(String, String)>,
}

/// A change to a file that is not as it was recorded, or no longer compiles.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The file, below the folder.
    pub file: String,
    /// A regular expression.
    pub find: &'static str,
    /// The text instead of it, with the expression's groups.
    pub replace: &'static str,
    /// Why, for people.
    pub why: &'static str,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it comes to be, below the folder.
    pub path: String,
    /// Its sources, below the folder.
    pub sources: Sources,
    /// The compiler's flags.
    pub flags: &'static [&'static str],
}

/// The sources of a program.
#[derive(Clone, Debug)]
pub enum Sources {
    /// These.
    Files(Vec<String>),
    /// All of a folder but for those of the other side.
    AllBut(&'static [&'static str]),
}

/// Repositories, changes and programs.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// In this order.
    pub repositories: Vec<Repository>,
    /// In this order.
    pub edits: Vec<Edit>,
    /// In this order.
    pub programs: Vec<Program>,
}

/// The examples of the suite that are taken; of two, `ping-sr-1e` is `ping-sr-1` with its conversions.
const SUITE: [&str; 12] = [
    "ping-sr-0",
    "ping-sr-1e",
    "ping-sr-2",
    "ping-sr-3",
    "ping-sr-4",
    "blast-sr-2",
    "ping-rdma-1",
    "ping-rdma-2",
    "ping-rdma-3",
    "blast-rdma-1",
    "pubsub-rdma-1",
    "pubsub-rdma-2",
];

/// The programs of the manual, each of one file.
const MANUAL: [&str; 5] = ["RDMA_RC_example", "mckey", "srq", "mc", "apm"];

/// `_GNU_SOURCE` would select another `strerror_r`; `htobe64` is in a header that the suite does not name.
const FLAGS: &[&str] = &["-O2", "-w", "-include", "endian.h"];

/// Its loop that waits for the connection looks at a variable that a thread sets, and would never end with `-O2`.
const UNOPTIMIZED: &[&str] = &["-w"];

const ORDER: &str = "its conversion to network byte order is commented out";
const PADDED: &str = "its texts have 20 characters, and the copy has lost blanks";

impl Recipe {
    /// Of the copies that were recorded, as far as they are public.
    pub fn published() -> Self {
        Self { repositories: repositories(), edits: edits(), programs: programs() }
    }
}

fn repositories() -> Vec<Repository> {
    let repository = |name: &str, commit: &str, takes: Vec<(String, String)>| Repository {
        name: name.to_owned(),
        commit: commit.to_owned(),
        takes,
    };
    let same = |path: &str| (path.to_owned(), path.to_owned());
    vec![
        repository(
            "raygift/OpenFabrics-suite-of-examples",
            "6849b0ecd3071e2fdee7b7eb4a011ad4c3763493",
            SUITE.iter().copied().chain(["devices"]).map(same).collect(),
        ),
        repository(
            "tarickb/the-geek-in-the-corner",
            "fb2358c3a61223fa5bce5de6bee03cfeb0f09320",
            vec![("02_read-write".to_owned(), "read-write".to_owned())],
        ),
        repository(
            "herewego8/rdma_tutorial",
            "6de8fa3d972c03eefbd2f001cfee964d5522ec78",
            ["RDMA_RC_example.c", "mckey.c", "srq.c", "mc.c"].map(same).to_vec(),
        ),
        repository(
            "changchengx/irdma",
            "bca838ced37e30f5dd6411ded7e33e7ddf5e43de",
            vec![same("apm.c")],
        ),
    ]
}

fn edits() -> Vec<Edit> {
    let edit = |file: &str, find, replace, why| Edit { file: file.to_owned(), find, replace, why };
    let of_suite = SUITE.iter().map(|example| {
        let file = format!("{example}/c_d_queue_pair.c");
        edit(&file, r"(?m)^.*xrc_domain.*\n", "", "ibv_qp_init_attr has no such member since 2012")
    });
    let of_this = |file, find, replace| edit(&format!("ping-rdma-3/{file}"), find, replace, ORDER);
    let address = r"= \((\w+->remote_buffer_info\[0\]\.addr)\);";
    let key = r"= \((\w+->remote_buffer_info\[0\]\.rkey)\);";
    let mut edits: Vec<Edit> = of_suite.collect();
    edits.extend([
        of_this("c_d_connect.c", r"(?m)^(\s*connect_info\.\w+) = (options->\w+);", "$1 = htonll($2);"),
        of_this("c_d_id.c", r"(?m)^(\s*options->\w+) = \((connect_info->\w+)\);", "$1 = ntohll($2);"),
        of_this(
            "c_d_buffers.c",
            r"(?m)^(\s*)= (\(uint64_t\)\(unsigned long\)\(conn->user_data\[i\]\));",
            "$1= htonll($2);",
        ),
        of_this("client.c", address, "= ntohll($1);"),
        of_this("client.c", key, "= ntohl($1);"),
        of_this("agent.c", address, "= ntohll($1);"),
        of_this("agent.c", key, "= ntohl($1);"),
        edit(
            "ping-rdma-3/process_completions.c",
            r"(?m)^.*ibv_wc_status_str\(wc->status\).*\n",
            "",
            "a report that the copy alone has takes a text for the options, and crashes",
        ),
        edit("RDMA_RC_example.c", r#""SEND operation""#, r#""SEND operation      ""#, PADDED),
        edit("RDMA_RC_example.c", r#""RDMA read operation""#, r#""RDMA read operation ""#, PADDED),
        edit(
            "mckey.c",
            r#"(joined dgid: %s)[^"\\]*(\\n", buf)[^;]*;"#,
            "$1$2);",
            "the manual's line of the join has no mlid and sl, which are of a later version",
        ),
        edit(
            "mckey.c",
            r#"perror\("(mckey: (?:failure joining|addr bind failure|resolve addr failure|failure leaving))"\);"#,
            r#"printf("$1: %d\n", ret);"#,
            "the manual's prints what a call has returned",
        ),
        edit(
            "mckey.c",
            r#"getaddrinfo failed \(%s\)([^"]*"), gai_strerror\(ret\)\)"#,
            "getaddrinfo failed$1)",
            "the manual's does not say why",
        ),
        edit(
            "mckey.c",
            r"get_dst_addr\((dst_addr, \(struct sockaddr)",
            "get_addr($1",
            "the manual's takes an unmapped address for one of IP",
        ),
        edit(
            "srq.c",
            r"(?s)(ret = rdma_post_send\(ctx->conn_id\[0\].{0,300}?return ret;\s*\}\s*)ret = rdma_post_send\(ctx->conn_id\[0\].{0,300}?return ret;\s*\}\s*",
            "$1",
            "the first message is sent twice, and the second finds no place in the queue",
        ),
        edit(
            "apm.c",
            r"i < (dev_attr\.phys_port_cnt)",
            "i <= $1",
            "the manual's looks at the last port, too",
        ),
    ]);
    edits
}

fn programs() -> Vec<Program> {
    let program = |path: String, sources, flags| Program { path, sources, flags };
    let mut programs = Vec::new();
    for example in SUITE {
        let client = Sources::AllBut(&["server.c", "bind_listener.c", "agent.c"]);
        programs.push(program(format!("{example}/client"), client, FLAGS));
        let server = Sources::AllBut(&["client.c", "bind_client.c"]);
        programs.push(program(format!("{example}/server"), server, FLAGS));
    }
    programs.push(program("devices/devices".to_owned(), Sources::AllBut(&[]), FLAGS));
    for side in ["rdma-client", "rdma-server"] {
        let sources = [side, "rdma-common"].map(|stem| format!("read-write/{stem}.c"));
        programs.push(program(
            format!("read-write/{side}"),
            Sources::Files(sources.to_vec()),
            UNOPTIMIZED,
        ));
    }
    for name in MANUAL {
        let source = format!("{name}.c");
        programs.push(program(name.to_owned(), Sources::Files(vec![source]), FLAGS));
    }
    programs
}
