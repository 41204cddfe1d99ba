//! The whole program, function by function as in `mckey.c`.

use std::ffi::c_void;
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::time::Duration;
use std::{array, ptr, thread};

use common::addrinfo::AddrInfo;
use common::getopt::{Getopt, Switch, args};
use common::memory::{CArray, zeroed};
use common::number::{atoi, strtol};
use common::verbs::{Outcome, event_str, outcome, wc_status_str};
use common::{errno, outln};
use rdma_sys::{
    ___ibv_query_port, ibv_access_flags, ibv_ah, ibv_ah_attr, ibv_alloc_pd, ibv_cq, ibv_create_ah,
    ibv_create_cq, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_ah, ibv_destroy_cq, ibv_grh, ibv_mr,
    ibv_pd, ibv_poll_cq, ibv_port_attr, ibv_post_recv, ibv_post_send, ibv_qp_init_attr,
    ibv_qp_type, ibv_recv_wr, ibv_reg_mr, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_status,
    ibv_wr_opcode, rdma_ack_cm_event, rdma_bind_addr, rdma_cm_event, rdma_cm_event_type,
    rdma_cm_id, rdma_create_event_channel, rdma_create_id, rdma_create_qp,
    rdma_destroy_event_channel, rdma_destroy_id, rdma_destroy_qp, rdma_event_channel,
    rdma_get_cm_event, rdma_join_multicast, rdma_leave_multicast, rdma_port_space,
    rdma_resolve_addr, rdma_ud_param,
};

/// Bytes that precede every message a UD queue pair receives.
const GRH_SIZE: usize = size_of::<ibv_grh>();

/// One connection: a member of the multicast group.
///
/// The pointers belong to the libraries. Each is null, or valid until [`destroy_node`].
struct CmatestNode {
    /// Place among the nodes; the libraries carry it as the context of what this node owns.
    id: usize,
    /// Connection manager id.
    cma_id: *mut rdma_cm_id,
    /// Whether the group has been joined.
    connected: bool,
    /// Protection domain.
    pd: *mut ibv_pd,
    /// Completion queue, for sends and receives.
    cq: *mut ibv_cq,
    /// Memory region of `mem`.
    mr: *mut ibv_mr,
    /// Address handle of the group.
    ah: *mut ibv_ah,
    /// Queue pair number by which the group is addressed.
    remote_qpn: u32,
    /// Queue key of the group.
    remote_qkey: u32,
    /// Room for one message; every work request uses it.
    mem: CArray<u8>,
}

impl CmatestNode {
    fn new(id: usize) -> Self {
        Self {
            id,
            cma_id: ptr::null_mut(),
            connected: false,
            pd: ptr::null_mut(),
            cq: ptr::null_mut(),
            mr: ptr::null_mut(),
            ah: ptr::null_mut(),
            remote_qpn: 0,
            remote_qkey: 0,
            mem: CArray::default(),
        }
    }

    /// `id` in the form in which the libraries carry it. They never follow it.
    fn context(&self) -> *mut c_void {
        ptr::without_provenance_mut(self.id)
    }
}

/// The state of the run.
struct Cmatest {
    /// Where the events of all nodes arrive.
    channel: *mut rdma_event_channel,
    /// The connections.
    nodes: Vec<CmatestNode>,
    /// Nodes that have neither joined nor failed yet.
    connects_left: i32,

    /// Address of the group.
    dst_in: libc::sockaddr_in6,
    /// Address to bind to, if there is one.
    src_in: Option<libc::sockaddr_in6>,
}

impl Cmatest {
    /// The group's address as the libraries take it.
    fn dst_addr(&mut self) -> *mut libc::sockaddr {
        ptr::from_mut(&mut self.dst_in).cast()
    }

    /// The address to bind to as the libraries take it: null if there is none.
    fn src_addr(&mut self) -> *mut libc::sockaddr {
        self.src_in.as_mut().map_or(ptr::null_mut(), |addr| ptr::from_mut(addr).cast())
    }
}

/// Options of the command line.
struct Options {
    /// Number of connections (`-c`).
    connections: i32,
    /// Bytes in one message (`-S`).
    message_size: i32,
    /// Messages for each connection (`-C`).
    message_count: i32,
    /// Send, not receive (`-s`).
    is_sender: bool,
    /// Join without resolving the address first (`-M`).
    unmapped_addr: bool,
    /// The group (`-m`, `-M`).
    dst_addr: Option<String>,
    /// Local address (`-b`).
    src_addr: Option<String>,
    /// Port space of the connection manager (`-p`).
    port_space: rdma_port_space::Type,
}

/// Allocates and registers the buffer for messages.
fn create_message(node: &mut CmatestNode, options: &mut Options) -> Outcome {
    if options.message_size == 0 {
        options.message_count = 0;
    }

    if options.message_count == 0 {
        return Ok(());
    }

    let length = options.message_size as usize + GRH_SIZE;
    let Ok(mem) = CArray::calloc(length) else {
        outln!("failed message allocation");
        return Err(-1);
    };
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 as i32;
    // SAFETY: the memory is `length` bytes and stays until the region is deregistered.
    node.mr = unsafe { ibv_reg_mr(node.pd, mem.addr(), length, access) };
    if node.mr.is_null() {
        outln!("failed to reg MR");
        return Err(-1);
    }
    node.mem = mem;
    Ok(())
}

/// Checks that a message fits into one packet: a UD message can't be longer.
fn verify_test_params(node: &CmatestNode, options: &Options) -> Outcome {
    let mut port_attr: ibv_port_attr = zeroed();

    // SAFETY: the id is alive.
    let cma_id = unsafe { &*node.cma_id };
    if cma_id.verbs.is_null() {
        outln!("mckey: the bind address belongs to no RDMA device");
        return Err(-libc::EINVAL);
    }

    // SAFETY: the id's device is open as long as the id is alive.
    outcome(unsafe { ___ibv_query_port(cma_id.verbs, cma_id.port_num, &mut port_attr) })?;

    let message_size = options.message_size;
    if options.message_count != 0 && message_size < 0 {
        outln!("mckey: message_size {message_size} is negative");
        return Err(-libc::EINVAL);
    }

    let active_mtu = 1 << (port_attr.active_mtu + 7);
    if options.message_count != 0 && message_size > active_mtu {
        outln!("mckey: message_size {message_size} is larger than active mtu {active_mtu}");
        return Err(-libc::EINVAL);
    }

    Ok(())
}

/// Creates everything that the node needs to send or receive.
fn init_node(node: &mut CmatestNode, options: &mut Options) -> Outcome {
    // SAFETY: the id is alive.
    let verbs = unsafe { (*node.cma_id).verbs };

    // SAFETY: `verify_test_params` has seen that the id has a device.
    node.pd = unsafe { ibv_alloc_pd(verbs) };
    if node.pd.is_null() {
        outln!("mckey: unable to allocate PD");
        return Err(-libc::ENOMEM);
    }

    let message_count = options.message_count;
    let cqe = if message_count != 0 { message_count.saturating_mul(2) } else { 2 };
    // SAFETY: as above; a null channel means that nobody wants completion events.
    node.cq = unsafe { ibv_create_cq(verbs, cqe, node.context(), ptr::null_mut(), 0) };
    if node.cq.is_null() {
        outln!("mckey: unable to create CQ");
        return Err(-libc::ENOMEM);
    }

    let max_wr = if message_count != 0 { message_count as u32 } else { 1 };
    let mut init_qp_attr: ibv_qp_init_attr = zeroed();
    init_qp_attr.cap.max_send_wr = max_wr;
    init_qp_attr.cap.max_recv_wr = max_wr;
    init_qp_attr.cap.max_send_sge = 1;
    init_qp_attr.cap.max_recv_sge = 1;
    init_qp_attr.qp_context = node.context();
    init_qp_attr.sq_sig_all = 0;
    init_qp_attr.qp_type = ibv_qp_type::IBV_QPT_UD;
    init_qp_attr.send_cq = node.cq;
    init_qp_attr.recv_cq = node.cq;
    // SAFETY: id, protection domain and completion queue are alive and of one device.
    let ret = unsafe { rdma_create_qp(node.cma_id, node.pd, &mut init_qp_attr) };
    if ret != 0 {
        outln!("mckey: unable to create QP: {ret}");
        return Err(ret);
    }

    create_message(node, options)
        .inspect_err(|ret| outln!("mckey: failed to create messages: {ret}"))
}

/// Posts a receive for every message that is to come, all into the same buffer.
fn post_recvs(node: &CmatestNode, options: &Options) -> Outcome {
    if options.message_count == 0 {
        return Ok(());
    }

    let mut sge = ibv_sge {
        addr: node.mem.addr() as u64,
        length: node.mem.len() as u32,
        // SAFETY: with messages to come there is a memory region.
        lkey: unsafe { (*node.mr).lkey },
    };

    let mut recv_wr: ibv_recv_wr = zeroed();
    recv_wr.next = ptr::null_mut();
    recv_wr.sg_list = &mut sge;
    recv_wr.num_sge = 1;
    recv_wr.wr_id = ptr::from_ref(node).addr() as u64;
    let mut recv_failure = ptr::null_mut();

    // SAFETY: the id is alive.
    let qp = unsafe { (*node.cma_id).qp };
    for _ in 0..options.message_count {
        // SAFETY: `init_node` has created the queue pair; the request points at an element and a
        // registered buffer that are alive, and the library reads it only during the call.
        let ret = unsafe { ibv_post_recv(qp, &mut recv_wr, &mut recv_failure) };
        if ret != 0 {
            outln!("failed to post receives: {ret}");
            return Err(ret);
        }
    }
    Ok(())
}

/// Posts all the messages, each a send with the queue pair number as immediate data.
fn post_sends(node: &CmatestNode, signal_flag: u32, options: &Options) -> Outcome {
    if !node.connected || options.message_count == 0 {
        return Ok(());
    }

    let mut sge = ibv_sge {
        addr: node.mem.addr() as u64,
        length: options.message_size as u32,
        // SAFETY: with messages to send there is a memory region.
        lkey: unsafe { (*node.mr).lkey },
    };
    // SAFETY: the id is alive.
    let qp = unsafe { (*node.cma_id).qp };
    // SAFETY: `init_node` has created the queue pair.
    let qp_num = unsafe { (*qp).qp_num };

    let mut send_wr: ibv_send_wr = zeroed();
    send_wr.next = ptr::null_mut();
    send_wr.sg_list = &mut sge;
    send_wr.num_sge = 1;
    send_wr.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
    send_wr.send_flags = signal_flag;
    send_wr.wr_id = ptr::from_ref(node).addr() as u64;
    send_wr.imm_data_invalidated_rkey_union.imm_data = qp_num.to_be();

    send_wr.wr.ud.ah = node.ah;
    send_wr.wr.ud.remote_qpn = node.remote_qpn;
    send_wr.wr.ud.remote_qkey = node.remote_qkey;
    let mut bad_send_wr = ptr::null_mut();

    for _ in 0..options.message_count {
        // SAFETY: as in `post_recvs`; the address handle is alive, too.
        let ret = unsafe { ibv_post_send(qp, &mut send_wr, &mut bad_send_wr) };
        if ret != 0 {
            outln!("failed to post sends: {ret}");
            return Err(ret);
        }
    }
    Ok(())
}

/// One connection less to wait for.
fn connect_error(test: &mut Cmatest) {
    test.connects_left -= 1;
}

/// The node knows its device: prepares it and asks to join the group.
fn addr_handler(test: &mut Cmatest, id: usize, options: &mut Options) -> Outcome {
    let joining = (|| {
        let node = &mut test.nodes[id];
        verify_test_params(node, options)?;

        init_node(node, options)?;

        if !options.is_sender {
            post_recvs(node, options)?;
        }

        let (cma_id, context) = (node.cma_id, node.context());
        // SAFETY: the id is alive, and so is the address; a family tells its size.
        let ret = unsafe { rdma_join_multicast(cma_id, test.dst_addr(), context) };
        outcome(ret).inspect_err(|ret| outln!("mckey: failure joining: {ret}"))
    })();
    joining.inspect_err(|_| connect_error(test))
}

/// The node is a member of the group: keeps what it takes to send to the group.
fn join_handler(test: &mut Cmatest, id: usize, mut param: rdma_ud_param) -> Outcome {
    let node = &mut test.nodes[id];

    let ah_attr: &mut ibv_ah_attr = &mut param.ah_attr;
    // SAFETY: both views of a GID are plain bytes.
    let dgid = unsafe { ah_attr.grh.dgid.raw };
    outln!("mckey: joined dgid: {}", Ipv6Addr::from(dgid));

    node.remote_qpn = param.qp_num;
    node.remote_qkey = param.qkey;
    // SAFETY: `init_node` has allocated the protection domain.
    node.ah = unsafe { ibv_create_ah(node.pd, ah_attr) };
    if node.ah.is_null() {
        outln!("mckey: failure creating address handle");
        connect_error(test);
        return Err(-1);
    }

    node.connected = true;
    test.connects_left -= 1;
    Ok(())
}

/// Deals with an event, which came on the channel and is not acknowledged yet.
fn cma_handler(test: &mut Cmatest, event: *const rdma_cm_event, options: &mut Options) -> Outcome {
    // SAFETY: the library keeps an event until it is acknowledged.
    let event = unsafe { &*event };
    // SAFETY: an event is about an id of ours, and we destroy these only at the end.
    let id = unsafe { (*event.id).context }.addr();

    match event.event {
        rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED => addr_handler(test, id, options),
        rdma_cm_event_type::RDMA_CM_EVENT_MULTICAST_JOIN => {
            // SAFETY: this is the member that the library sets for such an event.
            let ud = unsafe { event.param.ud };
            join_handler(test, id, ud)
        }
        rdma_cm_event_type::RDMA_CM_EVENT_ADDR_ERROR
        | rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_ERROR
        | rdma_cm_event_type::RDMA_CM_EVENT_MULTICAST_ERROR => {
            outln!("mckey: event: {}, error: {}", event_str(event.event), event.status);
            connect_error(test);
            outcome(event.status)
        }
        // for a removed device the end of the test does what is to be done
        _ => Ok(()),
    }
}

/// Destroys what the node owns, in reverse order; its id after all that belongs to its device.
fn destroy_node(node: CmatestNode) {
    if node.cma_id.is_null() {
        return;
    }

    if !node.ah.is_null() {
        // SAFETY: created by `join_handler`; the library has read it for each send while that was posted.
        unsafe { ibv_destroy_ah(node.ah) };
    }

    // SAFETY: the id is alive.
    let qp = unsafe { (*node.cma_id).qp };
    if !qp.is_null() {
        // SAFETY: the id has a queue pair.
        unsafe { rdma_destroy_qp(node.cma_id) };
    }

    if !node.cq.is_null() {
        // SAFETY: created by `init_node`; its queue pair is gone.
        unsafe { ibv_destroy_cq(node.cq) };
    }

    if !node.mr.is_null() {
        // SAFETY: registered by `create_message`; nobody uses it without the queue pair.
        unsafe { ibv_dereg_mr(node.mr) };
    }
    drop(node.mem);

    if !node.pd.is_null() {
        // SAFETY: allocated by `init_node`; all that it held together is gone.
        unsafe { ibv_dealloc_pd(node.pd) };
    }

    // SAFETY: the id is alive, and all its events are acknowledged.
    unsafe { rdma_destroy_id(node.cma_id) };
}

/// Creates the nodes, each with an id of the connection manager.
fn alloc_nodes(test: &mut Cmatest, options: &Options) -> Outcome {
    // a negative number is an enormous one, as in C
    let connections = options.connections as usize;
    if test.nodes.try_reserve_exact(connections).is_err() {
        outln!("mckey: unable to allocate memory for test nodes");
        return Err(-libc::ENOMEM);
    }

    let port_space = options.port_space;
    for i in 0..connections {
        let mut node = CmatestNode::new(i);
        let context = node.context();
        // SAFETY: the channel is open; the library writes the id, and only carries the context.
        let ret = unsafe { rdma_create_id(test.channel, &mut node.cma_id, context, port_space) };
        if ret != 0 {
            let text = errno::strerror(errno::get());
            outln!("mckey: unable to create an ID in port space {port_space:#x}: {text}");
            for node in test.nodes.drain(..).rev() {
                // SAFETY: created above and used for nothing yet.
                unsafe { rdma_destroy_id(node.cma_id) };
            }
            return Err(ret);
        }
        test.nodes.push(node);
    }
    Ok(())
}

/// Destroys all the nodes.
fn destroy_nodes(test: &mut Cmatest) {
    test.nodes.drain(..).for_each(destroy_node);
}

/// Busy-waits until every node has got all its messages.
fn poll_cqs(test: &Cmatest, options: &Options) -> Outcome {
    let mut wc: [ibv_wc; 8] = array::from_fn(|_| zeroed());

    for node in &test.nodes {
        if !node.connected {
            continue;
        }

        let mut done = 0;
        while done < options.message_count {
            // SAFETY: the completion queue is alive, and there is room for eight completions.
            let ret = unsafe { ibv_poll_cq(node.cq, 8, wc.as_mut_ptr()) };
            if ret < 0 {
                outln!("mckey: failed polling CQ: {ret}");
                return Err(ret);
            }
            for wc in wc.iter().take(ret as usize) {
                if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
                    outln!("mckey: work completion status {}", wc_status_str(wc.status));
                    return Err(-1);
                }
            }
            done += ret;
        }
    }
    Ok(())
}

/// Deals with events until every node has joined, or something fails.
fn connect_events(test: &mut Cmatest, options: &mut Options) -> Outcome {
    while test.connects_left != 0 {
        let mut event = ptr::null_mut();
        // SAFETY: the channel is open; the library writes the event's address.
        outcome(unsafe { rdma_get_cm_event(test.channel, &mut event) })?;
        let ret = cma_handler(test, event, options);
        // SAFETY: the event was got above, and nothing uses it any more.
        unsafe { rdma_ack_cm_event(event) };
        ret?;
    }
    Ok(())
}

/// The first address of a host name or numeric address.
fn get_addr(dst: Option<&str>) -> Outcome<libc::sockaddr_in6> {
    // the hints that getaddrinfo goes by if it gets none
    let mut hints: libc::addrinfo = zeroed();
    hints.ai_flags = libc::AI_V4MAPPED | libc::AI_ADDRCONFIG;

    let res = AddrInfo::get(dst, None, &hints).map_err(|error| {
        outln!("getaddrinfo failed - invalid hostname or IP address");
        error.0
    })?;

    let mut addr: libc::sockaddr_in6 = zeroed();
    let first = res.iter().next().expect("a successful getaddrinfo gives an address");
    let length = size_of_val(&addr).min(first.ai_addrlen as usize);
    let bytes = ptr::from_mut(&mut addr).cast::<u8>();
    // SAFETY: `length` bytes are there on both sides; an IPv4 address is shorter than this.
    unsafe { bytes.copy_from_nonoverlapping(first.ai_addr.cast(), length) };
    Ok(addr)
}

/// Joins the group, sends or receives, and leaves.
fn run(test: &mut Cmatest, options: &mut Options) -> Outcome {
    outln!("mckey: starting {}", if options.is_sender { "client" } else { "server" });
    if let Some(src_addr) = &options.src_addr {
        test.src_in = Some(get_addr(Some(src_addr))?);
    }

    test.dst_in = get_addr(options.dst_addr.as_deref())?;

    outln!("mckey: joining");
    for i in 0..test.nodes.len() {
        let cma_id = test.nodes[i].cma_id;
        if options.src_addr.is_some() {
            // SAFETY: id and address are alive.
            let ret = unsafe { rdma_bind_addr(cma_id, test.src_addr()) };
            if ret != 0 {
                outln!("mckey: addr bind failure: {ret}");
                connect_error(test);
                return Err(ret);
            }
        }

        let ret = if options.unmapped_addr {
            addr_handler(test, i, options)
        } else {
            let (src_addr, dst_addr) = (test.src_addr(), test.dst_addr());
            // SAFETY: id and addresses are alive; a null source means any.
            outcome(unsafe { rdma_resolve_addr(cma_id, src_addr, dst_addr, 2000) })
        };
        if let Err(ret) = ret {
            outln!("mckey: resolve addr failure: {ret}");
            connect_error(test);
            return Err(ret);
        }
    }

    let mut ret = (|| {
        connect_events(test, options)?;

        // The subnet manager may need some time to configure the switches, and nothing here
        // repeats a message that gets lost.
        thread::sleep(Duration::from_secs(3));

        if options.message_count != 0 {
            if options.is_sender {
                outln!("initiating data transfers");
                for node in &test.nodes {
                    post_sends(node, 0, options)?;
                }
            } else {
                outln!("receiving data transfers");
                poll_cqs(test, options)?;
            }
            outln!("data transfers complete");
        }
        Ok(())
    })();

    let dst_addr = test.dst_addr();
    for node in &test.nodes {
        // SAFETY: id and address are alive.
        let left = unsafe { rdma_leave_multicast(node.cma_id, dst_addr) };
        if left != 0 {
            outln!("mckey: failure leaving: {left}");
            ret = Err(left);
        }
    }
    ret
}

/// The program: reads the command line, runs the test and cleans up.
pub fn main() -> ExitCode {
    let mut options = Options {
        connections: 1,
        message_size: 100,
        message_count: 10,
        is_sender: false,
        unmapped_addr: false,
        dst_addr: None,
        src_addr: None,
        port_space: rdma_port_space::RDMA_PS_UDP,
    };

    let argv = args();
    for Switch { c: op, optarg, .. } in Getopt::new(&argv, "m:M:sb:c:C:S:p:") {
        match op {
            'm' => options.dst_addr = Some(optarg),
            'M' => {
                options.unmapped_addr = true;
                options.dst_addr = Some(optarg);
            }
            's' => options.is_sender = true,
            'b' => options.src_addr = Some(optarg),
            'c' => options.connections = atoi(&optarg),
            'C' => options.message_count = atoi(&optarg),
            'S' => options.message_size = atoi(&optarg),
            'p' => options.port_space = strtol(&optarg, 0).value as rdma_port_space::Type,
            _ => {
                outln!("usage: {}", argv[0]);
                outln!("\t-m multicast_address");
                outln!("\t[-M unmapped_multicast_address]\n\t replaces -m and requires -b");
                outln!("\t[-s(ender)]");
                outln!("\t[-b bind_address]");
                outln!("\t[-c connections]");
                outln!("\t[-C message_count]");
                outln!("\t[-S message_size]");
                outln!(
                    "\t[-p port_space - {:#x} for UDP (default), {:#x} for IPOIB]",
                    rdma_port_space::RDMA_PS_UDP,
                    rdma_port_space::RDMA_PS_IPOIB
                );
                return ExitCode::FAILURE;
            }
        }
    }

    if options.unmapped_addr && options.src_addr.is_none() {
        outln!("unmapped multicast address requires binding to source address");
        return ExitCode::FAILURE;
    }

    let mut test = Cmatest {
        // SAFETY: may be called at any time.
        channel: unsafe { rdma_create_event_channel() },
        nodes: Vec::new(),
        connects_left: options.connections,
        dst_in: zeroed(),
        src_in: None,
    };
    if test.channel.is_null() {
        outln!("failed to create event channel");
        return ExitCode::FAILURE;
    }

    if alloc_nodes(&mut test, &options).is_err() {
        return ExitCode::FAILURE;
    }

    let ret = run(&mut test, &mut options);

    outln!("test complete");
    destroy_nodes(&mut test);
    // SAFETY: the channel is open, and the ids that used it are gone.
    unsafe { rdma_destroy_event_channel(test.channel) };

    let ret = ret.err().unwrap_or(0);
    outln!("return status {ret}");
    // the shell sees the lowest byte only
    ExitCode::from(ret as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(connections: i32) -> Options {
        Options {
            connections,
            message_size: 100,
            message_count: 10,
            is_sender: false,
            unmapped_addr: false,
            dst_addr: None,
            src_addr: None,
            port_space: rdma_port_space::RDMA_PS_UDP,
        }
    }

    #[test]
    fn addresses_of_both_families() {
        let mut addr = get_addr(Some("239.1.2.3")).unwrap();
        assert_eq!(addr.sin6_family, libc::AF_INET as libc::sa_family_t);
        let addr: *const libc::sockaddr_in = ptr::from_mut(&mut addr).cast();
        // SAFETY: the family says that this is an IPv4 address, and it fits.
        let s_addr = unsafe { (*addr).sin_addr.s_addr };
        assert_eq!(s_addr.to_ne_bytes(), [239, 1, 2, 3]);

        let addr = get_addr(Some("ff02::1:3")).unwrap();
        assert_eq!(addr.sin6_family, libc::AF_INET6 as libc::sa_family_t);
        assert_eq!(Ipv6Addr::from(addr.sin6_addr.s6_addr).to_string(), "ff02::1:3");
    }

    #[test]
    fn an_address_is_needed() {
        assert_eq!(get_addr(None).err(), Some(libc::EAI_NONAME));
        assert_eq!(get_addr(Some("239.1.2.3\0")).err(), Some(libc::EAI_NONAME));
    }

    #[test]
    fn negative_numbers_of_connections() {
        for connections in [-1, i32::MIN] {
            let mut test = Cmatest {
                channel: ptr::null_mut(),
                nodes: Vec::new(),
                connects_left: connections,
                dst_in: zeroed(),
                src_in: None,
            };
            assert_eq!(alloc_nodes(&mut test, &options(connections)), Err(-libc::ENOMEM));
            assert!(test.nodes.is_empty());
        }
    }
}
