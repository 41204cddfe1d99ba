//! Pairs with copies of the C program whose texts, and with them the buffer, have another size.
//!
//! The C's part is played here, as far as the other side can notice it. The test enters a fabric of
//! its own, so no device is needed.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{iter, ptr, thread};

use common::memory::{CArray, c_text, zeroed};
use rdma_sys::{
    ibv_access_flags, ibv_alloc_pd, ibv_cq, ibv_create_cq, ibv_create_qp, ibv_get_device_list,
    ibv_gid, ibv_modify_qp, ibv_mr, ibv_mtu, ibv_open_device, ibv_poll_cq, ibv_post_recv,
    ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr, ibv_qp_state,
    ibv_qp_type, ibv_query_gid, ibv_recv_wr, ibv_reg_mr, ibv_send_flags, ibv_send_wr, ibv_sge,
    ibv_wc, ibv_wc_status, ibv_wr_opcode,
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes that the peer has behind its buffer: what C copies there overruns it.
const BEHIND: usize = 16;

/// The texts of a copy. The message and its NUL are as long as the buffer.
struct Copy {
    msg: &'static str,
    rdmamsgr: &'static str,
}

const PADDED: Copy = Copy { msg: "SEND operation      ", rdmamsgr: "RDMA read operation " };
const ONE_BLANK: Copy = Copy { msg: "SEND operation ", rdmamsgr: "RDMA read operation " };
const NO_BLANK: Copy = Copy { msg: "SEND operation", rdmamsgr: "RDMA read operation" };
const RDMAMSGW: &str = "RDMA write operation";

/// One side, played for the program under test. What it creates ends with the process.
struct Peer {
    stream: TcpStream,
    size: usize,
    buf: CArray<u8>,
    mr: *mut ibv_mr,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    remote_addr: u64,
    remote_rkey: u32,
}

impl Peer {
    /// Brings a queue pair up, as both sides do; a client posts a receive before.
    fn new(mut stream: TcpStream, copy: &Copy, client: bool) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let size = copy.msg.len() + 1;
        let buf = CArray::calloc(size + BEHIND).unwrap();
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
            | ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
            | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        let mut gid = ibv_gid { raw: [0; 16] };
        let mut init: ibv_qp_init_attr = zeroed();
        init.qp_type = ibv_qp_type::IBV_QPT_RC;
        init.sq_sig_all = 1;
        init.cap.max_send_wr = 1;
        init.cap.max_recv_wr = 1;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        // SAFETY: asked for a list, and for no number of devices.
        let list = unsafe { ibv_get_device_list(ptr::null_mut()) };
        assert!(!list.is_null());
        // SAFETY: the list is not freed; a null pointer ends it, before which is the fabric's device.
        let context = unsafe { ibv_open_device(*list) };
        assert!(!context.is_null());
        // SAFETY: the device is open until the process ends, also below; a GID is written.
        assert_eq!(unsafe { ibv_query_gid(context, 1, 1, &mut gid) }, 0);
        // SAFETY: as above.
        let pd = unsafe { ibv_alloc_pd(context) };
        // SAFETY: as above; a null channel means that nobody wants events.
        let cq = unsafe { ibv_create_cq(context, 1, ptr::null_mut(), ptr::null_mut(), 0) };
        assert!(!pd.is_null() && !cq.is_null());
        // SAFETY: the buffer has more than `size` bytes.
        let mr = unsafe { ibv_reg_mr(pd, buf.addr(), size, access as i32) };
        init.send_cq = cq;
        init.recv_cq = cq;
        // SAFETY: protection domain and completion queue stay until the process ends.
        let qp = unsafe { ibv_create_qp(pd, &mut init) };
        assert!(!mr.is_null() && !qp.is_null());

        let mut record = Vec::new();
        record.extend((buf.addr() as u64).to_be_bytes());
        // SAFETY: region and queue pair were created above; a GID is bytes.
        let (rkey, qp_num, gid) = unsafe { ((*mr).rkey, (*qp).qp_num, gid.raw) };
        record.extend(rkey.to_be_bytes());
        record.extend(qp_num.to_be_bytes());
        record.extend([0; 2]);
        record.extend(gid);
        stream.write_all(&record).unwrap();
        let mut remote = [0; 34];
        stream.read_exact(&mut remote).unwrap();
        let number = |at: usize| u32::from_be_bytes(remote[at..at + 4].try_into().unwrap());
        let remote_addr = u64::from_be_bytes(remote[..8].try_into().unwrap());
        let mut peer = Self { stream, size, buf, mr, cq, qp, remote_addr, remote_rkey: number(8) };

        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = ibv_qp_state::IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = access;
        peer.modify(
            &mut attr,
            ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
                | ibv_qp_attr_mask::IBV_QP_PORT
                | ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS,
        );
        if client {
            peer.post_receive();
        }
        attr.qp_state = ibv_qp_state::IBV_QPS_RTR;
        attr.path_mtu = ibv_mtu::IBV_MTU_256;
        attr.dest_qp_num = number(12);
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 0x12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = ibv_gid { raw: remote[18..].try_into().unwrap() };
        attr.ah_attr.grh.hop_limit = 1;
        attr.ah_attr.grh.sgid_index = 1;
        peer.modify(
            &mut attr,
            ibv_qp_attr_mask::IBV_QP_AV
                | ibv_qp_attr_mask::IBV_QP_PATH_MTU
                | ibv_qp_attr_mask::IBV_QP_DEST_QPN
                | ibv_qp_attr_mask::IBV_QP_RQ_PSN
                | ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
                | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER,
        );
        attr.qp_state = ibv_qp_state::IBV_QPS_RTS;
        attr.timeout = 0x12;
        attr.retry_cnt = 6;
        attr.max_rd_atomic = 1;
        peer.modify(
            &mut attr,
            ibv_qp_attr_mask::IBV_QP_TIMEOUT
                | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
                | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
                | ibv_qp_attr_mask::IBV_QP_SQ_PSN
                | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC,
        );
        peer.sync(b'Q');
        peer
    }

    fn modify(&self, attr: &mut ibv_qp_attr, mask: ibv_qp_attr_mask) {
        let mask = mask | ibv_qp_attr_mask::IBV_QP_STATE;
        // SAFETY: the queue pair is alive; the attributes are read during the call.
        assert_eq!(unsafe { ibv_modify_qp(self.qp, attr, mask.0 as i32) }, 0);
    }

    /// The whole buffer.
    fn sge(&self) -> ibv_sge {
        // SAFETY: the region is registered.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge { addr: self.buf.addr() as u64, length: self.size as u32, lkey }
    }

    fn post_receive(&self) {
        let mut rr: ibv_recv_wr = zeroed();
        let mut sge = self.sge();
        rr.sg_list = &mut sge;
        rr.num_sge = 1;
        // SAFETY: the queue pair is alive, and so is the buffer as long as the peer.
        assert_eq!(unsafe { ibv_post_recv(self.qp, &mut rr, &mut ptr::null_mut()) }, 0);
    }

    /// Posts a request for as many bytes as the buffer has, and gives the status of its completion.
    fn operation(&self, opcode: ibv_wr_opcode::Type) -> ibv_wc_status::Type {
        let mut sr: ibv_send_wr = zeroed();
        let mut sge = self.sge();
        sr.sg_list = &mut sge;
        sr.num_sge = 1;
        sr.opcode = opcode;
        sr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        sr.wr.rdma.remote_addr = self.remote_addr;
        sr.wr.rdma.rkey = self.remote_rkey;
        // SAFETY: as in `post_receive`.
        assert_eq!(unsafe { ibv_post_send(self.qp, &mut sr, &mut ptr::null_mut()) }, 0);
        self.completion()
    }

    /// The status of the next completion.
    fn completion(&self) -> ibv_wc_status::Type {
        let mut wc: ibv_wc = zeroed();
        let start = Instant::now();
        // SAFETY: the queue is alive, and there is room for one completion.
        while unsafe { ibv_poll_cq(self.cq, 1, &mut wc) } == 0 {
            assert!(start.elapsed() < PATIENCE, "no completion");
            thread::yield_now();
        }
        wc.status
    }

    /// A byte each way, without a meaning.
    fn sync(&mut self, byte: u8) {
        self.stream.write_all(&[byte]).unwrap();
        self.stream.read_exact(&mut [0]).unwrap();
    }

    /// C's `strcpy(res->buf, text)`, also behind the end of the buffer.
    fn strcpy(&self, text: &str) {
        assert!(text.len() < self.buf.len());
        for (cell, byte) in iter::zip(self.buf.iter(), text.bytes().chain([0])) {
            cell.set(byte);
        }
    }

    fn text(&self) -> String {
        c_text(&self.buf)
    }
}

/// Runs the test `name` once more, in a fabric; says whether this process is in one.
fn in_fabric(name: &str) -> bool {
    if std::env::var_os("SOFT_HCA_DIR").is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let soft_hca = own.parent().and_then(Path::parent).unwrap().join("soft-hca");
    assert!(soft_hca.exists(), "build the workspace first: {} is missing", soft_hca.display());
    let mut run = Command::new(soft_hca);
    run.args(["run", "--fabric", &format!("rc-example-{}", std::process::id()), "--"]);
    let output = run.arg(own).args(["--exact", name, "--nocapture"]).output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
    false
}

/// Starts the program under test.
fn rc_example(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_rc-example"))
        .args(["-g", "1"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Its exit status and what it has said on standard output and standard error.
fn end(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Our client with a server that is `copy`: what the client has read, and what it has left.
fn with_server(copy: &Copy) -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let client = rc_example(&["-p", &port, "127.0.0.1"]);
    let mut peer = Peer::new(listener.accept().unwrap().0, copy, false);
    peer.strcpy(copy.msg);
    assert_eq!(peer.operation(ibv_wr_opcode::IBV_WR_SEND), ibv_wc_status::IBV_WC_SUCCESS);
    peer.strcpy(copy.rdmamsgr);
    peer.sync(b'R');
    peer.sync(b'W');
    let (status, stdout, stderr) = end(client);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains(&format!("\nMessage is: '{}'\n", copy.msg)), "{stdout}");
    let read = stdout.split("\nContents of server's buffer: '").nth(1).unwrap();
    (read.split('\'').next().unwrap().to_owned(), peer.text())
}

/// Our server, and a client that is `copy`, connected and ready to receive.
fn with_client(copy: &Copy) -> (Child, BufReader<impl Read>, Peer) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = rc_example(&["-p", &port.to_string()]);
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    let waiting = format!("waiting on port {port} for TCP connection\n");
    let mut line = String::new();
    while line != waiting {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the server has ended");
    }
    // the line comes just before it listens
    let start = Instant::now();
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    };
    (server, stdout, Peer::new(stream, copy, true))
}

#[test]
fn client_of_a_server_without_the_blanks() {
    if in_fabric("client_of_a_server_without_the_blanks") {
        let seen = with_server(&NO_BLANK);
        assert_eq!(seen, ("RDMA read opera".into(), "RDMA write opertion".into()));
    }
}

#[test]
fn client_of_a_server_with_one_blank() {
    if in_fabric("client_of_a_server_with_one_blank") {
        let seen = with_server(&ONE_BLANK);
        assert_eq!(seen, ("RDMA read operat".into(), "RDMA write operaion ".into()));
    }
}

#[test]
fn client_of_a_padded_server() {
    if in_fabric("client_of_a_padded_server") {
        let seen = with_server(&PADDED);
        assert_eq!(seen, ("RDMA read operation ".into(), RDMAMSGW.into()));
    }
}

#[test]
fn server_of_a_padded_client() {
    if in_fabric("server_of_a_padded_client") {
        let (server, mut stdout, mut peer) = with_client(&PADDED);
        assert_eq!(peer.completion(), ibv_wc_status::IBV_WC_SUCCESS);
        assert_eq!(peer.text(), PADDED.msg);
        peer.sync(b'R');
        let read = peer.operation(ibv_wr_opcode::IBV_WR_RDMA_READ);
        assert_eq!((read, peer.text().as_str()), (ibv_wc_status::IBV_WC_SUCCESS, PADDED.rdmamsgr));
        peer.strcpy(RDMAMSGW);
        let written = peer.operation(ibv_wr_opcode::IBV_WR_RDMA_WRITE);
        assert_eq!(written, ibv_wc_status::IBV_WC_SUCCESS);
        peer.sync(b'W');
        drop(peer);
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        let (status, _, stderr) = end(server);
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        assert!(text.contains(&format!("\nContents of server buffer: '{RDMAMSGW}'\n")), "{text}");
    }
}

#[test]
fn server_of_a_client_that_has_too_little_room() {
    if in_fabric("server_of_a_client_that_has_too_little_room") {
        for copy in [&NO_BLANK, &ONE_BLANK] {
            let (server, mut stdout, peer) = with_client(copy);
            assert_ne!(peer.completion(), ibv_wc_status::IBV_WC_SUCCESS);
            assert_eq!(peer.text(), "", "nothing of the message has come");
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            let (status, _, stderr) = end(server);
            assert_eq!(status, Some(1), "{text}");
            assert!(stderr.starts_with("got bad completion with status: 0x"), "{stderr}");
            assert!(stderr.ends_with("\npoll completion failed\n"), "{stderr}");
            drop(peer);
        }
    }
}
