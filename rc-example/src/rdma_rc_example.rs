//! The whole program, in the order of the C file.

use std::cell::Cell;
use std::ffi::CStr;
use std::iter;
use std::process::ExitCode;
use std::ptr;
use std::slice;
use std::time::{Duration, Instant};

use byteorder::{ByteOrder, NetworkEndian};
use common::addrinfo::AddrInfo;
use common::getopt::{Getopt, LongOption, Switch};
use common::memory::{CArray, c_text, zeroed};
use common::number::strtoul;
use common::print::{Pointer, write_out};
use common::sync::{self, ExchangeError, Socket};
use common::utilities::{OurResult, Reported};
use common::{errln, errno, outln};
use rdma_sys::{
    ___ibv_query_port, ibv_access_flags, ibv_alloc_pd, ibv_close_device, ibv_context, ibv_cq,
    ibv_create_cq, ibv_create_qp, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_cq, ibv_destroy_qp,
    ibv_device, ibv_free_device_list, ibv_get_device_list, ibv_get_device_name, ibv_gid,
    ibv_modify_qp, ibv_mr, ibv_mtu, ibv_open_device, ibv_pd, ibv_poll_cq, ibv_port_attr,
    ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr,
    ibv_qp_state, ibv_qp_type, ibv_query_gid, ibv_recv_wr, ibv_reg_mr, ibv_send_flags, ibv_send_wr,
    ibv_sge, ibv_wc, ibv_wc_status, ibv_wr_opcode,
};

/// How long a completion is waited for.
const MAX_POLL_CQ_TIMEOUT: Duration = Duration::from_millis(2000);
/// Text that the server sends. The three texts are padded to one length.
const MSG: &str = "SEND operation      ";
/// Text that the client reads from the server's memory.
const RDMAMSGR: &str = "RDMA read operation ";
/// Text that the client writes into the server's memory.
const RDMAMSGW: &str = "RDMA write operation";
/// Bytes of the buffer: any of the texts, with the NUL at its end.
const MSG_SIZE: usize = MSG.len() + 1;
const _: () = assert!(MSG.len() == RDMAMSGR.len() && MSG.len() == RDMAMSGW.len());

/// The peer's access to the buffer.
const MR_FLAGS: ibv_access_flags = ibv_access_flags(
    ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
        | ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
        | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
);

/// Test parameters.
#[derive(Clone, Debug)]
struct Config {
    /// Name of the device; the first one that is found if it is not given.
    dev_name: Option<String>,
    /// Host name of the server; a client has one, a server has none.
    server_name: Option<String>,
    /// TCP port of the server.
    tcp_port: u16,
    /// Local port of the device.
    ib_port: u8,
    /// Index of the local GID; packets get no global route header without one.
    gid_idx: Option<u8>,
}

/// Properties of the other side that a queue pair and the RDMA operations have to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CmConData {
    /// Address of the buffer.
    addr: u64,
    /// Remote key of the buffer.
    rkey: u32,
    /// Number of the queue pair.
    qp_num: u32,
    /// LID of the port.
    lid: u16,
    /// GID of the port.
    gid: [u8; 16],
}

impl CmConData {
    /// Size of the record on the wire: no padding.
    const SIZE: usize = 8 + 4 + 4 + 2 + 16;

    /// The record in network byte order (C: `htonll` and `htonl` of each member).
    fn to_network(self) -> [u8; Self::SIZE] {
        let mut record = [0; Self::SIZE];
        NetworkEndian::write_u64(&mut record[0..8], self.addr);
        NetworkEndian::write_u32(&mut record[8..12], self.rkey);
        NetworkEndian::write_u32(&mut record[12..16], self.qp_num);
        NetworkEndian::write_u16(&mut record[16..18], self.lid);
        record[18..].copy_from_slice(&self.gid);
        record
    }

    /// The record that came from the other side (C: `ntohll` and `ntohl` of each member).
    fn from_network(record: &[u8; Self::SIZE]) -> Self {
        let mut gid = [0; 16];
        gid.copy_from_slice(&record[18..]);
        Self {
            addr: NetworkEndian::read_u64(&record[0..8]),
            rkey: NetworkEndian::read_u32(&record[8..12]),
            qp_num: NetworkEndian::read_u32(&record[12..16]),
            lid: NetworkEndian::read_u16(&record[16..18]),
            gid,
        }
    }
}

/// Resources that are set up and torn down again.
///
/// The pointers belong to the library. Each is null, or valid from its creation in
/// [`resources_create`] to its destruction there or in [`resources_destroy`].
struct Resources {
    /// Attributes of the port.
    port_attr: ibv_port_attr,
    /// Properties that the other side has told us.
    remote_props: CmConData,
    /// Bytes of the peer's message, and so of its buffer: copies of the C program differ in that.
    remote_size: u32,
    /// The open device.
    ib_ctx: *mut ibv_context,
    /// Protection domain.
    pd: *mut ibv_pd,
    /// Completion queue.
    cq: *mut ibv_cq,
    /// Queue pair.
    qp: *mut ibv_qp,
    /// Memory region of `buf`.
    mr: *mut ibv_mr,
    /// The buffer of all operations.
    buf: CArray<u8>,
    /// TCP connection to the other side.
    sock: Option<Socket>,
}

impl Default for Config {
    fn default() -> Self {
        Self { dev_name: None, server_name: None, tcp_port: 19875, ib_port: 1, gid_idx: None }
    }
}

// Socket operations: the two sides exchange what their queue pairs need over TCP. The connection
// manager could do that, too; it is not the subject here.

/// Connects to `servername`, or, without one, waits for a connection.
fn sock_connect(servername: Option<&str>, port: u16) -> OurResult<Socket> {
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_flags = libc::AI_PASSIVE;
    hints.ai_family = libc::AF_INET;
    hints.ai_socktype = libc::SOCK_STREAM;
    let service = port.to_string();

    let sockfd = (|| {
        // resolve the name
        let resolved_addr = AddrInfo::get(servername, Some(&service), &hints)
            .inspect_err(|error| errln!("{error} for {}:{port}", servername.unwrap_or("(null)")))
            .ok()?;

        // search through the results for one that works
        for address in sync::addresses(&resolved_addr) {
            if servername.is_some() {
                // client mode: connect to the remote side
                match sync::connect(&address) {
                    Ok(sockfd) => return Some(sockfd),
                    Err(_) => outln!("failed connect "),
                }
            } else {
                // server mode: listen, and accept a connection
                return sync::accept_one(&address).ok();
            }
        }
        None
    })();

    sockfd.ok_or_else(|| {
        match servername {
            Some(servername) => errln!("Couldn't connect to {servername}:{port}"),
            None => {
                errno::perror("server accept");
                errln!("accept() failed");
            }
        }
        Reported
    })
}

/// Sends `local_data`, and waits for the other side's data of the same size. Both sides have to
/// call it at the same points.
fn sock_sync_data<const XFER_SIZE: usize>(
    sock: Option<&Socket>,
    local_data: &[u8; XFER_SIZE],
) -> OurResult<[u8; XFER_SIZE]> {
    sync::exchange(sock.ok_or(Reported)?, local_data).map_err(|error| {
        if let ExchangeError::Write(_) = error {
            errln!("Failed writing data during sock_sync_data");
        }
        Reported
    })
}

// End of socket operations.

/// Polls the completion queue until there is a completion, at most [`MAX_POLL_CQ_TIMEOUT`].
fn poll_completion(res: &Resources) -> OurResult<ibv_wc> {
    let mut wc: ibv_wc = zeroed();

    // poll for a while before giving up
    let start_time = Instant::now();
    let poll_result = loop {
        // SAFETY: the completion queue is alive, and there is room for one completion.
        let poll_result = unsafe { ibv_poll_cq(res.cq, 1, &mut wc) };
        if poll_result != 0 || start_time.elapsed() >= MAX_POLL_CQ_TIMEOUT {
            break poll_result;
        }
    };

    if poll_result < 0 {
        // poll CQ failed
        errln!("poll CQ failed");
        return Err(Reported);
    }
    if poll_result == 0 {
        // the CQ is empty
        errln!("completion wasn't found in the CQ after timeout");
        return Err(Reported);
    }
    // CQE found
    outln!("completion was found in CQ with status 0x{:x}", wc.status);
    // check the completion status (which operation it was does not matter here)
    if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
        errln!(
            "got bad completion with status: 0x{:x}, vendor syndrome: 0x{:x}",
            wc.status,
            wc.vendor_err
        );
        return Err(Reported);
    }
    Ok(wc)
}

/// Posts a work request to the send queue: send, RDMA read or RDMA write.
fn post_send(res: &Resources, opcode: ibv_wr_opcode::Type) -> OurResult {
    // prepare the scatter/gather entry
    let rdma = opcode != ibv_wr_opcode::IBV_WR_SEND;
    // read and write no more than the peer's buffer has
    let mut sge = buffer_sge(res, if rdma { res.remote_size } else { MSG_SIZE as u32 });

    // prepare the send work request
    let mut sr: ibv_send_wr = zeroed();
    sr.next = ptr::null_mut();
    sr.wr_id = 0;
    sr.sg_list = &mut sge;
    sr.num_sge = 1;
    sr.opcode = opcode;
    sr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
    if rdma {
        sr.wr.rdma.remote_addr = res.remote_props.addr;
        sr.wr.rdma.rkey = res.remote_props.rkey;
    }

    // the responder has posted its receive before, so there is no receiver-not-ready
    let mut bad_wr = ptr::null_mut();
    // SAFETY: the queue pair is alive; the request and its entry are read only during the call;
    // the registered buffer that it names lives until the queue pair is destroyed.
    let rc = unsafe { ibv_post_send(res.qp, &mut sr, &mut bad_wr) };
    if rc != 0 {
        errln!("failed to post SR");
        return Err(Reported);
    }
    match opcode {
        ibv_wr_opcode::IBV_WR_SEND => outln!("Send Request was posted"),
        ibv_wr_opcode::IBV_WR_RDMA_READ => outln!("RDMA Read Request was posted"),
        ibv_wr_opcode::IBV_WR_RDMA_WRITE => outln!("RDMA Write Request was posted"),
        _ => outln!("Unknown Request was posted"),
    }
    Ok(())
}

/// Posts a work request to the receive queue.
fn post_receive(res: &Resources) -> OurResult {
    // prepare the scatter/gather entry
    let mut sge = buffer_sge(res, MSG_SIZE as u32);

    // prepare the receive work request
    let mut rr: ibv_recv_wr = zeroed();
    rr.next = ptr::null_mut();
    rr.wr_id = 0;
    rr.sg_list = &mut sge;
    rr.num_sge = 1;

    // post it to the receive queue
    let mut bad_wr = ptr::null_mut();
    // SAFETY: as in `post_send`.
    let rc = unsafe { ibv_post_recv(res.qp, &mut rr, &mut bad_wr) };
    if rc != 0 {
        errln!("failed to post RR");
        return Err(Reported);
    }
    outln!("Receive Request was posted");
    Ok(())
}

/// A scatter/gather entry for the first `length` bytes of the buffer.
fn buffer_sge(res: &Resources, length: u32) -> ibv_sge {
    // SAFETY: the buffer is registered before anything is posted.
    let lkey = unsafe { (*res.mr).lkey };
    ibv_sge { addr: res.buf.addr() as u64, length, lkey }
}

/// Nothing is there yet, so that the clean-up knows what to do at any time.
fn resources_init() -> Resources {
    Resources {
        port_attr: zeroed(),
        remote_props: CmConData::default(),
        remote_size: 0,
        ib_ctx: ptr::null_mut(),
        pd: ptr::null_mut(),
        cq: ptr::null_mut(),
        qp: ptr::null_mut(),
        mr: ptr::null_mut(),
        buf: CArray::default(),
        sock: None,
    }
}

/// Sets up everything up to a queue pair. After a failure there is nothing left of it.
fn resources_create(res: &mut Resources, config: &mut Config) -> OurResult {
    let mut dev_list: *mut *mut ibv_device = ptr::null_mut();
    let tcp_port = config.tcp_port;

    let rc = (|| {
        let server_name = config.server_name.as_deref();
        if let Some(server_name) = server_name {
            // client side
            let sock = sock_connect(Some(server_name), tcp_port).inspect_err(|_| {
                errln!(
                    "failed to establish TCP connection to server {server_name}, port {tcp_port}"
                );
            })?;
            res.sock = Some(sock);
        } else {
            outln!("waiting on port {tcp_port} for TCP connection");
            let sock = sock_connect(None, tcp_port).inspect_err(|_| {
                errln!("failed to establish TCP connection with client on port {tcp_port}");
            })?;
            res.sock = Some(sock);
        }
        outln!("TCP connection was established");

        outln!("searching for IB devices in host");
        // get the devices of this host
        let mut num_devices = 0;
        // SAFETY: the library writes the number of devices.
        dev_list = unsafe { ibv_get_device_list(&mut num_devices) };
        if dev_list.is_null() {
            errln!("failed to get IB devices list");
            return Err(Reported);
        }
        // if there isn't any
        if num_devices == 0 {
            errln!("found {num_devices} device(s)");
            return Err(Reported);
        }
        outln!("found {num_devices} device(s)");

        // search for the one that we want to work with
        let mut ib_dev = None;
        // SAFETY: the list has that many entries and is freed only below.
        for &device in unsafe { slice::from_raw_parts(dev_list, num_devices as usize) } {
            let device_name = device_name(device);
            let dev_name = config.dev_name.get_or_insert_with(|| {
                outln!("device not specified, using first one found: {device_name}");
                device_name.clone()
            });
            if device_name == *dev_name {
                ib_dev = Some(device);
                break;
            }
        }
        let dev_name = config.dev_name.as_deref().unwrap_or_default();

        // if it isn't there
        let Some(ib_dev) = ib_dev else {
            errln!("IB device {dev_name} wasn't found");
            return Err(Reported);
        };

        // get a handle of it
        // SAFETY: the device comes from the list, which is not freed yet.
        res.ib_ctx = unsafe { ibv_open_device(ib_dev) };
        if res.ib_ctx.is_null() {
            errln!("failed to open device {dev_name}");
            return Err(Reported);
        }

        // the list is not needed any more
        // SAFETY: an open device does not need the list; it is freed once.
        unsafe { ibv_free_device_list(dev_list) };
        dev_list = ptr::null_mut();

        // query the port
        // SAFETY: the device is open; the library writes the attributes.
        if unsafe { ___ibv_query_port(res.ib_ctx, config.ib_port, &mut res.port_attr) } != 0 {
            errln!("ibv_query_port on port {} failed", config.ib_port);
            return Err(Reported);
        }

        // allocate a protection domain
        // SAFETY: the device is open.
        res.pd = unsafe { ibv_alloc_pd(res.ib_ctx) };
        if res.pd.is_null() {
            errln!("ibv_alloc_pd failed");
            return Err(Reported);
        }

        // each side has only one work request under way, so one entry is enough
        let cq_size = 1;
        // SAFETY: the device is open; a null channel means that nobody wants events.
        res.cq = unsafe { ibv_create_cq(res.ib_ctx, cq_size, ptr::null_mut(), ptr::null_mut(), 0) };
        if res.cq.is_null() {
            errln!("failed to create CQ with {cq_size} entries");
            return Err(Reported);
        }

        // allocate the memory buffer that will hold the data; it comes zeroed
        let size = MSG_SIZE;
        res.buf = CArray::calloc(size).map_err(|_| {
            errln!("failed to malloc {size} bytes to memory buffer");
            Reported
        })?;

        // only the server puts the message in it
        if config.server_name.is_none() {
            strcpy(&res.buf, MSG);
            outln!("going to send the message: '{}'", c_text(&res.buf));
        }

        // register the memory buffer
        let mr_flags = MR_FLAGS.0;
        // SAFETY: the buffer has `size` bytes, and it is freed after it is deregistered.
        res.mr = unsafe { ibv_reg_mr(res.pd, res.buf.addr(), size, mr_flags as i32) };
        if res.mr.is_null() {
            errln!("ibv_reg_mr failed with mr_flags=0x{mr_flags:x}");
            return Err(Reported);
        }
        // SAFETY: the region was registered above.
        let mr = unsafe { &*res.mr };
        outln!(
            "MR was registered with addr={}, lkey=0x{:x}, rkey=0x{:x}, flags=0x{mr_flags:x}",
            Pointer(res.buf.addr()),
            mr.lkey,
            mr.rkey
        );

        // create the queue pair
        let mut qp_init_attr: ibv_qp_init_attr = zeroed();
        qp_init_attr.qp_type = ibv_qp_type::IBV_QPT_RC;
        qp_init_attr.sq_sig_all = 1;
        qp_init_attr.send_cq = res.cq;
        qp_init_attr.recv_cq = res.cq;
        qp_init_attr.cap.max_send_wr = 1;
        qp_init_attr.cap.max_recv_wr = 1;
        qp_init_attr.cap.max_send_sge = 1;
        qp_init_attr.cap.max_recv_sge = 1;
        // SAFETY: protection domain and completion queue are alive and belong to one device.
        res.qp = unsafe { ibv_create_qp(res.pd, &mut qp_init_attr) };
        if res.qp.is_null() {
            errln!("failed to create QP");
            return Err(Reported);
        }
        // SAFETY: the queue pair was created above.
        let qp_num = unsafe { (*res.qp).qp_num };
        outln!("QP was created, QP number=0x{qp_num:x}");
        Ok(())
    })();

    if rc.is_err() {
        // clean up, last things first
        if !res.qp.is_null() {
            // SAFETY: the queue pair is alive; it is forgotten here.
            unsafe { ibv_destroy_qp(res.qp) };
            res.qp = ptr::null_mut();
        }
        if !res.mr.is_null() {
            // SAFETY: the region is registered; it is forgotten here.
            if unsafe { ibv_dereg_mr(res.mr) } != 0 {
                // the adapter may go on writing there
                res.buf.leak();
            }
            res.mr = ptr::null_mut();
        }
        res.buf = CArray::default();
        if !res.cq.is_null() {
            // SAFETY: the completion queue is alive, and no queue pair uses it any more.
            unsafe { ibv_destroy_cq(res.cq) };
            res.cq = ptr::null_mut();
        }
        if !res.pd.is_null() {
            // SAFETY: the protection domain is alive, and nothing uses it any more.
            unsafe { ibv_dealloc_pd(res.pd) };
            res.pd = ptr::null_mut();
        }
        if !res.ib_ctx.is_null() {
            // SAFETY: the device is open, and nothing uses it any more.
            unsafe { ibv_close_device(res.ib_ctx) };
            res.ib_ctx = ptr::null_mut();
        }
        if !dev_list.is_null() {
            // SAFETY: the list was not freed above.
            unsafe { ibv_free_device_list(dev_list) };
        }
        if let Some(sock) = res.sock.take() {
            if sync::close(sock).is_err() {
                errln!("failed to close socket");
            }
        }
    }
    rc
}

/// The name of a device from the list.
fn device_name(device: *mut ibv_device) -> String {
    // SAFETY: the device comes from a list that is not freed yet.
    let name = unsafe { ibv_get_device_name(device) };
    // SAFETY: the library's name of a device ends with a NUL and lives as long as the list.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Copies `text` and a NUL to the beginning of the buffer, as far as they fit.
fn strcpy(buf: &[Cell<u8>], text: &str) {
    for (cell, byte) in iter::zip(buf, text.bytes().chain([0])) {
        cell.set(byte);
    }
}

/// Changes the attributes of a queue pair that `flags` names.
fn modify_qp(qp: *mut ibv_qp, attr: &mut ibv_qp_attr, flags: ibv_qp_attr_mask) -> OurResult {
    // SAFETY: the queue pair is alive; the library reads the attributes during the call.
    let rc = unsafe { ibv_modify_qp(qp, attr, flags.0 as i32) };
    if rc != 0 { Err(Reported) } else { Ok(()) }
}

/// Brings the queue pair from RESET to INIT.
fn modify_qp_to_init(qp: *mut ibv_qp, config: &Config) -> OurResult {
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = ibv_qp_state::IBV_QPS_INIT;
    attr.port_num = config.ib_port;
    attr.pkey_index = 0;
    attr.qp_access_flags = MR_FLAGS.0;
    let flags = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
        | ibv_qp_attr_mask::IBV_QP_PORT
        | ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
    modify_qp(qp, &mut attr, flags).inspect_err(|_| errln!("failed to modify QP state to INIT"))
}

/// Brings the queue pair from INIT to RTR, ready to receive: from now on it knows its peer.
fn modify_qp_to_rtr(
    qp: *mut ibv_qp,
    remote_qpn: u32,
    dlid: u16,
    dgid: [u8; 16],
    config: &Config,
) -> OurResult {
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = ibv_qp_state::IBV_QPS_RTR;
    attr.path_mtu = ibv_mtu::IBV_MTU_256;
    attr.dest_qp_num = remote_qpn;
    attr.rq_psn = 0;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 0x12;
    attr.ah_attr.is_global = 0;
    attr.ah_attr.dlid = dlid;
    attr.ah_attr.sl = 0;
    attr.ah_attr.src_path_bits = 0;
    attr.ah_attr.port_num = config.ib_port;
    if let Some(gid_idx) = config.gid_idx {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = ibv_gid { raw: dgid };
        attr.ah_attr.grh.flow_label = 0;
        attr.ah_attr.grh.hop_limit = 1;
        attr.ah_attr.grh.sgid_index = gid_idx;
        attr.ah_attr.grh.traffic_class = 0;
    }
    let flags = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_AV
        | ibv_qp_attr_mask::IBV_QP_PATH_MTU
        | ibv_qp_attr_mask::IBV_QP_DEST_QPN
        | ibv_qp_attr_mask::IBV_QP_RQ_PSN
        | ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
        | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
    modify_qp(qp, &mut attr, flags).inspect_err(|_| errln!("failed to modify QP state to RTR"))
}

/// Brings the queue pair from RTR to RTS, ready to send as well.
fn modify_qp_to_rts(qp: *mut ibv_qp) -> OurResult {
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = ibv_qp_state::IBV_QPS_RTS;
    attr.timeout = 0x12;
    attr.retry_cnt = 6;
    attr.rnr_retry = 0;
    attr.sq_psn = 0;
    attr.max_rd_atomic = 1;
    let flags = ibv_qp_attr_mask::IBV_QP_STATE
        | ibv_qp_attr_mask::IBV_QP_TIMEOUT
        | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
        | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
        | ibv_qp_attr_mask::IBV_QP_SQ_PSN
        | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
    modify_qp(qp, &mut attr, flags).inspect_err(|_| errln!("failed to modify QP state to RTS"))
}

/// Exchanges with the other side what the queue pairs need, and brings ours up to RTS.
fn connect_qp(res: &mut Resources, config: &Config) -> OurResult {
    let mut my_gid = ibv_gid { raw: [0; 16] };
    if let Some(gid_idx) = config.gid_idx {
        // SAFETY: the device is open, and the library writes the GID.
        let rc = unsafe { ibv_query_gid(res.ib_ctx, config.ib_port, gid_idx.into(), &mut my_gid) };
        if rc != 0 {
            errln!("could not get gid for port {}, index {gid_idx}", config.ib_port);
            return Err(Reported);
        }
    }

    // exchange over TCP what is needed to connect the queue pairs
    let local_con_data = CmConData {
        addr: res.buf.addr() as u64,
        // SAFETY: the region is registered.
        rkey: unsafe { (*res.mr).rkey },
        // SAFETY: the queue pair is alive.
        qp_num: unsafe { (*res.qp).qp_num },
        lid: res.port_attr.lid,
        // SAFETY: every bit pattern is a GID, and all of it is initialised.
        gid: unsafe { my_gid.raw },
    };
    outln!("\nLocal LID = 0x{:x}", res.port_attr.lid);
    let Ok(tmp_con_data) = sock_sync_data(res.sock.as_ref(), &local_con_data.to_network()) else {
        errln!("failed to exchange connection data between sides");
        return Err(Reported);
    };
    let remote_con_data = CmConData::from_network(&tmp_con_data);

    // save the remote side's attributes, post_send needs them
    res.remote_props = remote_con_data;
    outln!("Remote address = 0x{:x}", remote_con_data.addr);
    outln!("Remote rkey = 0x{:x}", remote_con_data.rkey);
    outln!("Remote QP number = 0x{:x}", remote_con_data.qp_num);
    outln!("Remote LID = 0x{:x}", remote_con_data.lid);
    if config.gid_idx.is_some() {
        let p = remote_con_data.gid.map(|byte| format!("{byte:02x}")).join(":");
        write_out(&format!("Remote GID ={p}\n "));
    }

    // modify the queue pair to INIT
    modify_qp_to_init(res.qp, config).inspect_err(|_| errln!("change QP state to INIT failed"))?;

    // the client posts a receive, to be prepared for the message
    if config.server_name.is_some() {
        post_receive(res).inspect_err(|_| errln!("failed to post RR"))?;
    }

    // modify the queue pair to RTR
    modify_qp_to_rtr(
        res.qp,
        remote_con_data.qp_num,
        remote_con_data.lid,
        remote_con_data.gid,
        config,
    )
    .inspect_err(|_| errln!("failed to modify QP state to RTR"))?;

    // modify the queue pair to RTS
    modify_qp_to_rts(res.qp).inspect_err(|_| errln!("failed to modify QP state to RTS"))?;
    outln!("QP state was change to RTS");

    // sync, so that neither side sends before the other one can receive
    if sock_sync_data(res.sock.as_ref(), b"Q").is_err() {
        errln!("sync error after QPs are were moved to RTS");
        return Err(Reported);
    }
    Ok(())
}

/// Tears everything down that is there, last things first. What something still uses, because that
/// could not be destroyed, the library keeps, and says so.
fn resources_destroy(mut res: Resources) -> OurResult {
    let mut rc = Ok(());
    if !res.qp.is_null() {
        // SAFETY: the queue pair is alive, and nobody has it afterwards.
        if unsafe { ibv_destroy_qp(res.qp) } != 0 {
            errln!("failed to destroy QP");
            rc = Err(Reported);
        }
    }
    if !res.mr.is_null() {
        // SAFETY: the region is registered, and nobody has it afterwards.
        if unsafe { ibv_dereg_mr(res.mr) } != 0 {
            errln!("failed to deregister MR");
            // the adapter may go on writing there
            res.buf.leak();
            rc = Err(Reported);
        }
    }
    drop(res.buf);
    if !res.cq.is_null() {
        // SAFETY: as above; it is kept if the queue pair is still there.
        if unsafe { ibv_destroy_cq(res.cq) } != 0 {
            errln!("failed to destroy CQ");
            rc = Err(Reported);
        }
    }
    if !res.pd.is_null() {
        // SAFETY: as above; it is kept if the queue pair or the region is still there.
        if unsafe { ibv_dealloc_pd(res.pd) } != 0 {
            errln!("failed to deallocate PD");
            rc = Err(Reported);
        }
    }
    if !res.ib_ctx.is_null() {
        // SAFETY: the device is open, and nobody has it afterwards.
        if unsafe { ibv_close_device(res.ib_ctx) } != 0 {
            errln!("failed to close device context");
            rc = Err(Reported);
        }
    }
    if let Some(sock) = res.sock {
        if sync::close(sock).is_err() {
            errln!("failed to close socket");
            rc = Err(Reported);
        }
    }
    rc
}

/// Shows the parameters.
fn print_config(config: &Config) {
    outln!(" ------------------------------------------------");
    outln!(" Device name : \"{}\"", config.dev_name.as_deref().unwrap_or("(null)"));
    outln!(" IB port : {}", config.ib_port);
    if let Some(server_name) = &config.server_name {
        outln!(" IP : {server_name}");
    }
    outln!(" TCP port : {}", config.tcp_port);
    if let Some(gid_idx) = config.gid_idx {
        outln!(" GID index : {gid_idx}");
    }
    outln!(" ------------------------------------------------\n");
}

/// Says how the program is called.
fn usage(argv0: &str) {
    outln!("Usage:");
    outln!(" {argv0} start a server and wait for connection");
    outln!(" {argv0} <host> connect to server at <host>");
    outln!("");
    outln!("Options:");
    outln!(" -p, --port <port> listen on/connect to port <port> (default 19875)");
    outln!(" -d, --ib-dev <dev> use IB device <dev> (default first device found)");
    outln!(" -i, --ib-port <port> use port <port> of IB device (default 1)");
    outln!(" -g, --gid-idx <git index> gid index to be used in GRH (default not used)");
}

/// Options with a long name.
const LONG_OPTIONS: &[LongOption] = &[
    LongOption { name: "port", has_arg: true, val: 'p' },
    LongOption { name: "ib-dev", has_arg: true, val: 'd' },
    LongOption { name: "ib-port", has_arg: true, val: 'i' },
    LongOption { name: "gid-idx", has_arg: true, val: 'g' },
];

/// Refuses a number that would be cut to fewer bits or cannot be meant.
fn invalid(argv0: &str, what: &str, optarg: &str, range: &str) -> ExitCode {
    errln!("{argv0}: invalid {what} '{optarg}' (must be {range})");
    usage(argv0);
    ExitCode::FAILURE
}

/// The main program.
pub fn main() -> ExitCode {
    let argv = common::getopt::args();
    let argv0 = argv.first().map_or("", String::as_str);
    let mut config = Config::default();

    // parse the command line parameters
    let mut getopt = Getopt::long(&argv, "p:d:i:g:", LONG_OPTIONS);
    for Switch { c, optarg, .. } in getopt.by_ref() {
        let number = strtoul(&optarg, 0).value;
        match c {
            'p' => match u16::try_from(number) {
                Ok(port) if port != 0 => config.tcp_port = port,
                _ => return invalid(argv0, "port", &optarg, "1 to 65535"),
            },
            'd' => config.dev_name = Some(optarg),
            'i' | 'g' if (number as i32) < 0 => {
                usage(argv0);
                return ExitCode::FAILURE;
            }
            'i' => match u8::try_from(number) {
                Ok(port) if port != 0 => config.ib_port = port,
                _ => return invalid(argv0, "IB port", &optarg, "1 to 255"),
            },
            'g' => match u8::try_from(number) {
                Ok(index) => config.gid_idx = Some(index),
                Err(_) => return invalid(argv0, "gid index", &optarg, "0 to 255"),
            },
            _ => {
                usage(argv0);
                return ExitCode::FAILURE;
            }
        }
    }

    // the last parameter, if there is one, is the server's name
    let mut operands = getopt.operands();
    config.server_name = operands.next().map(|(_, server_name)| server_name.to_string());
    if operands.next().is_some() {
        usage(argv0);
        return ExitCode::FAILURE;
    }
    if let Some(server_name) = &config.server_name {
        outln!("servername={server_name}");
    }

    // show the parameters
    print_config(&config);

    let mut res = resources_init();
    let done = (|| -> OurResult {
        // create the resources
        resources_create(&mut res, &mut config)
            .inspect_err(|_| errln!("failed to create resources"))?;

        // connect the queue pairs
        connect_qp(&mut res, &config).inspect_err(|_| errln!("failed to connect QPs"))?;

        let client_side = config.server_name.is_some();

        // the server sends
        if !client_side {
            post_send(&res, ibv_wr_opcode::IBV_WR_SEND)
                .inspect_err(|_| errln!("failed to post sr"))?;
        }

        // both sides get a completion: of the send, or of the receive
        let wc = poll_completion(&res).inspect_err(|_| errln!("poll completion failed"))?;

        if client_side {
            // now the message is in the client's buffer, too
            outln!("Message is: '{}'", c_text(&res.buf));
            res.remote_size = wc.byte_len;
        } else {
            // set up the server's buffer for the read
            strcpy(&res.buf, RDMAMSGR);
        }

        // sync, so that the server's data are ready before the client reads them
        sock_sync_data(res.sock.as_ref(), b"R")
            .inspect_err(|_| errln!("sync error before RDMA ops"))?;

        // Now the client reads from the server's memory and writes to it; the server's program
        // does not notice.
        if client_side {
            // first read what the server's buffer holds
            post_send(&res, ibv_wr_opcode::IBV_WR_RDMA_READ)
                .inspect_err(|_| errln!("failed to post SR 2"))?;
            poll_completion(&res).inspect_err(|_| errln!("poll completion failed 2"))?;
            outln!("Contents of server's buffer: '{}'", c_text(&res.buf));

            // then replace it
            strcpy(&res.buf, RDMAMSGW);
            outln!("Now replacing it with: '{}'", c_text(&res.buf));
            post_send(&res, ibv_wr_opcode::IBV_WR_RDMA_WRITE)
                .inspect_err(|_| errln!("failed to post SR 3"))?;
            poll_completion(&res).inspect_err(|_| errln!("poll completion failed 3"))?;
        }

        // sync, so that the server knows that the client is done with its memory
        sock_sync_data(res.sock.as_ref(), b"W")
            .inspect_err(|_| errln!("sync error after RDMA ops"))?;
        if !client_side {
            outln!("Contents of server buffer: '{}'", c_text(&res.buf));
        }
        if let Some(sock) = &res.sock {
            sync::part(sock, client_side);
        }
        Ok(())
    })();
    let mut rc = if done.is_ok() { 0 } else { 1 };

    if resources_destroy(res).is_err() {
        errln!("failed to destroy resources");
        rc = 1;
    }
    outln!("\ntest result is {rc}");
    ExitCode::from(rc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_as_c_lays_it_out() {
        let con_data = CmConData {
            addr: 0x0102_0304_0506_0708,
            rkey: 0x090a_0b0c,
            qp_num: 0x0d0e_0f10,
            lid: 0x1112,
            gid: [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34],
        };
        let record = con_data.to_network();
        assert!(record.iter().copied().eq(1..=34));
        assert_eq!(CmConData::from_network(&record), con_data);
    }

    #[test]
    fn every_text_fits_in_the_buffer() {
        let buf = CArray::<u8>::calloc(MSG_SIZE).unwrap();
        for text in [MSG, RDMAMSGR, RDMAMSGW, MSG] {
            strcpy(&buf, text);
            assert_eq!(c_text(&buf), text);
        }
    }

    #[test]
    fn texts_that_do_not_fit_are_cut() {
        let buf = CArray::<u8>::calloc(4).unwrap();
        strcpy(&buf, "too long");
        assert_eq!(c_text(&buf), "too ");
    }
}
