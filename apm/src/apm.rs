//! The whole program, function by function as in `apm.c`.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::Duration;
use std::{mem, ptr, slice, thread};

use byteorder::{ByteOrder, NetworkEndian};
use common::getopt::{Getopt, Switch, args};
use common::memory::{CArray, zeroed};
use common::number::atoi;
use common::rdma_addrinfo::RdmaAddrInfo;
use common::verbs::{Outcome, event_str, verb_err, verb_ok, wc_status_str};
use common::{errln, outln};
use rdma_sys::{
    ___ibv_query_port, RAI_PASSIVE, ibv_ack_async_event, ibv_async_event, ibv_context,
    ibv_device_attr, ibv_device_cap_flags, ibv_event_type, ibv_get_async_event, ibv_mig_state,
    ibv_modify_qp, ibv_mr, ibv_port_attr, ibv_port_state, ibv_qp_attr, ibv_qp_attr_mask,
    ibv_qp_init_attr, ibv_query_device, ibv_query_qp, ibv_send_flags, ibv_wc, ibv_wc_status,
    rdma_accept, rdma_addrinfo, rdma_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_conn_param,
    rdma_connect, rdma_create_ep, rdma_dereg_mr, rdma_destroy_ep, rdma_disconnect,
    rdma_get_recv_comp, rdma_get_request, rdma_get_send_comp, rdma_listen, rdma_port_space,
    rdma_post_recv, rdma_post_send, rdma_reg_msgs,
};

/// Port if there is no `-p`.
const DEFAULT_PORT: &str = "51216";
/// Messages to send in each direction if there is no `-c`.
const DEFAULT_MSG_COUNT: i32 = 100;
/// Bytes in one message if there is no `-l`.
const DEFAULT_MSG_LENGTH: i32 = 1000000;
/// Milliseconds to wait before each send if there is no `-w`.
const DEFAULT_MSEC_DELAY: i32 = 500;

/// Options of the command line, and the resources of the run.
///
/// The pointers belong to the libraries. Each is null, or valid until the end of [`main`].
struct Context {
    // User parameters
    /// Wait for a client (`-s`).
    server: bool,
    /// Address of the server (`-a`).
    server_name: Option<String>,
    /// Its port (`-p`).
    server_port: String,
    /// Messages to send in each direction (`-c`), not negative.
    msg_count: i32,
    /// Bytes in one message (`-l`), not negative.
    msg_length: i32,
    /// Milliseconds to wait before each send (`-w`), not negative.
    msec_delay: i32,
    /// Local port of the alternate path (`-r`), or 0.
    alt_srcport: u8,
    /// Where the alternate path leads: a local identifier (LID) of the peer (`-d`), or 0.
    alt_dlid: u16,
    /// The LID of our alternate port, which the peer is told.
    my_alt_dlid: u16,
    /// Message after which the client moves to the alternate path (`-m`), counted from 0.
    migrate_after: i32,

    // Resources
    /// Connection manager id.
    id: *mut rdma_cm_id,
    /// The id that the server listens with.
    listen_id: *mut rdma_cm_id,
    /// Memory region of `send_buf`.
    send_mr: *mut ibv_mr,
    /// Memory region of `recv_buf`.
    recv_mr: *mut ibv_mr,
    /// The message to send.
    send_buf: CArray<u8>,
    /// Room for the message to receive.
    recv_buf: CArray<u8>,
}

/// Memory for one message.
fn malloc(length: usize) -> Outcome<CArray<u8>> {
    // no bytes need an address, too, to be registered
    CArray::calloc(length.max(1)).map_err(|_| {
        verb_err("malloc", -1);
        -1
    })
}

/// The event that was the last step of the id's connection (C: `ctx->id->event`).
fn id_event(ctx: &Context) -> &rdma_cm_event {
    // SAFETY: the id is alive.
    let event = unsafe { (*ctx.id).event };
    // SAFETY: a synchronous id has got a request or a connection by an event, and keeps it until
    // the next call that waits for one.
    unsafe { &*event }
}

/// Checks the status of a completion that `verb` has given.
fn check_completion(verb: &str, wc: &ibv_wc) -> Outcome {
    if wc.status == ibv_wc_status::IBV_WC_SUCCESS {
        return Ok(());
    }
    errln!("{verb}: work completion status {}", wc_status_str(wc.status));
    Err(-1)
}

/// A device context for another thread.
struct Verbs(*mut ibv_context);

// SAFETY: verbs may be called from any thread, and the connection manager's library keeps its
// devices open until the process ends.
unsafe impl Send for Verbs {}

/// Prints the asynchronous events that happen while messages are exchanged, those of a path
/// migration in words.
fn async_event_thread(verbs: Verbs) {
    const PATH_MIG: u32 = ibv_event_type::IBV_EVENT_PATH_MIG as u32;
    const PATH_MIG_ERR: u32 = ibv_event_type::IBV_EVENT_PATH_MIG_ERR as u32;

    loop {
        let mut event = MaybeUninit::<ibv_async_event>::uninit();
        // SAFETY: the context is open; the library writes the event if it returns 0.
        let ret = unsafe { ibv_get_async_event(verbs.0, event.as_mut_ptr()) };
        if ret != 0 {
            verb_err("ibv_get_async_event", ret);
            break;
        }
        // A newer library may report a type that the enum lacks, so it is read as a number.
        // SAFETY: the field lies within the event.
        let event_type = unsafe { &raw const (*event.as_ptr()).event_type };
        // SAFETY: the library has written the event; the enum is one of C's, of 32 bits.
        match unsafe { event_type.cast::<u32>().read() } {
            PATH_MIG => outln!("QP path migrated"),
            PATH_MIG_ERR => outln!("QP path migration error"),
            other => outln!("Async Event {other}"),
        }
        // SAFETY: the event was got above and is acknowledged once.
        unsafe { ibv_ack_async_event(event.as_mut_ptr()) };
    }
}

/// The LID that the peer has sent in its private data.
fn get_alt_dlid_from_private_data(event: &rdma_cm_event) -> Outcome<u16> {
    // SAFETY: the events of connecting have the parameters of a connected service.
    let conn = unsafe { event.param.conn };
    if conn.private_data_len < 4 {
        outln!("unexpected private data len: {}", conn.private_data_len);
        return Err(-1);
    }

    // SAFETY: the event has so many bytes of private data and lives at least as long as `event`.
    let private_data = unsafe {
        slice::from_raw_parts(conn.private_data.cast::<u8>(), conn.private_data_len.into())
    };
    Ok(NetworkEndian::read_u16(private_data))
}

/// Looks for another port of the device that is active, and takes it for the alternate path; if
/// there is none, the current one. It presumes that this port, too, has a route to the peer.
fn get_alt_port_details(ctx: &mut Context) -> Outcome {
    // SAFETY: the id is alive.
    let (verbs, qp) = unsafe { ((*ctx.id).verbs, (*ctx.id).qp) };
    let mut qp_attr: ibv_qp_attr = zeroed();
    let mut qp_init_attr: ibv_qp_init_attr = zeroed();
    let mut dev_attr: ibv_device_attr = zeroed();

    // The alternate port is one of the same device here. It could be one of another, too: see
    // ibv_get_device_list and rdma_get_devices.
    // SAFETY: an id with an address has a device.
    let ret = unsafe { ibv_query_device(verbs, &mut dev_attr) };
    verb_ok("ibv_query_device", ret)?;

    // verify that the device supports path migration
    let auto_path_mig = ibv_device_cap_flags::IBV_DEVICE_AUTO_PATH_MIG.0;
    if dev_attr.device_cap_flags & auto_path_mig == 0 {
        outln!("device does not support auto path migration!");
        return Err(-1);
    }

    // query the queue pair to find out which port we are bound to
    // SAFETY: the id has a queue pair; the library writes both structures.
    let ret = unsafe { ibv_query_qp(qp, &mut qp_attr, 0, &mut qp_init_attr) };
    verb_ok("ibv_query_qp", ret)?;

    for i in 1..=dev_attr.phys_port_cnt {
        // query all ports until we find one that is active and not the one we are connected by
        let mut port_attr: ibv_port_attr = zeroed();
        // SAFETY: the device is open; the library writes the structure.
        let ret = unsafe { ___ibv_query_port(verbs, i, &mut port_attr) };
        verb_ok("ibv_query_port", ret)?;
        if port_attr.state == ibv_port_state::IBV_PORT_ACTIVE {
            ctx.my_alt_dlid = port_attr.lid;
            ctx.alt_srcport = i;
            if qp_attr.port_num != i {
                break;
            }
        }
    }
    Ok(())
}

/// Loads the alternate path into the queue pair and arms the migration.
fn load_alt_path(ctx: &Context) -> Outcome {
    // SAFETY: the id is alive.
    let qp = unsafe { (*ctx.id).qp };
    let mut qp_attr: ibv_qp_attr = zeroed();
    let mut qp_init_attr: ibv_qp_init_attr = zeroed();

    // query to get the current attributes of the queue pair
    // SAFETY: the id has a queue pair; the library writes both structures.
    let ret = unsafe { ibv_query_qp(qp, &mut qp_attr, 0, &mut qp_init_attr) };
    verb_ok("ibv_query_qp", ret)?;

    // begin with the attributes of the current path
    qp_attr.alt_ah_attr = qp_attr.ah_attr;

    // set some basic values of the alternate path
    qp_attr.alt_pkey_index = qp_attr.pkey_index;
    qp_attr.alt_timeout = qp_attr.timeout;
    qp_attr.path_mig_state = ibv_mig_state::IBV_MIG_REARM;

    // if an alternate path was supplied, set its source port and LID
    qp_attr.alt_port_num = if ctx.alt_srcport != 0 { ctx.alt_srcport } else { qp_attr.port_num };
    if ctx.alt_dlid != 0 {
        qp_attr.alt_ah_attr.dlid = ctx.alt_dlid;
    }

    outln!(
        "loading alt path - local port: {}, dlid: {}",
        qp_attr.alt_port_num,
        qp_attr.alt_ah_attr.dlid
    );
    let mask = ibv_qp_attr_mask::IBV_QP_ALT_PATH | ibv_qp_attr_mask::IBV_QP_PATH_MIG_STATE;
    // SAFETY: the queue pair is alive; the library reads the attributes that the mask names.
    let ret = unsafe { ibv_modify_qp(qp, &mut qp_attr, mask.0 as c_int) };
    verb_ok("ibv_modify_qp", ret)
}

/// Allocates and registers the memory for the messages.
fn reg_mem(ctx: &mut Context) -> Outcome {
    let length = ctx.msg_length as usize;
    ctx.send_buf = malloc(length)?;
    ctx.send_buf.iter().for_each(|byte| byte.set(0x12));
    ctx.recv_buf = malloc(length)?;

    // SAFETY: the id has a protection domain; the buffer stays until the region is deregistered.
    ctx.send_mr = unsafe { rdma_reg_msgs(ctx.id, ctx.send_buf.addr(), length) };
    if ctx.send_mr.is_null() {
        verb_err("rdma_reg_msgs", -1);
        return Err(-1);
    }

    // SAFETY: as above.
    ctx.recv_mr = unsafe { rdma_reg_msgs(ctx.id, ctx.recv_buf.addr(), length) };
    if ctx.recv_mr.is_null() {
        verb_err("rdma_reg_msgs", -1);
        return Err(-1);
    }
    Ok(())
}

/// Finds the address and creates our endpoint.
fn getaddrinfo_and_create_ep(ctx: &mut Context) -> Outcome {
    let mut hints: rdma_addrinfo = zeroed();
    hints.ai_port_space = rdma_port_space::RDMA_PS_TCP as c_int;
    if ctx.server {
        hints.ai_flags = RAI_PASSIVE as c_int; // this makes it a server
    }

    outln!("rdma_getaddrinfo");
    let rai = RdmaAddrInfo::get(ctx.server_name.as_deref(), Some(&ctx.server_port), &hints)
        .inspect_err(|&ret| verb_err("rdma_getaddrinfo", ret))?;

    let mut qp_init_attr: ibv_qp_init_attr = zeroed();
    qp_init_attr.cap.max_send_wr = 1;
    qp_init_attr.cap.max_recv_wr = 1;
    qp_init_attr.cap.max_send_sge = 1;
    qp_init_attr.cap.max_recv_sge = 1;

    outln!("rdma_create_ep");
    // SAFETY: the list is alive; the library writes the new id and copies the attributes.
    let ret =
        unsafe { rdma_create_ep(&mut ctx.id, rai.as_ptr(), ptr::null_mut(), &mut qp_init_attr) };
    verb_ok("rdma_create_ep", ret)
}

/// Waits for a client's request to connect.
fn get_connect_request(ctx: &mut Context) -> Outcome {
    outln!("rdma_listen");
    // SAFETY: the id is alive and bound.
    let ret = unsafe { rdma_listen(ctx.id, 4) };
    verb_ok("rdma_listen", ret)?;

    // There is no other id until there is a request: each is destroyed once.
    ctx.listen_id = mem::replace(&mut ctx.id, ptr::null_mut());
    outln!("rdma_get_request");
    // SAFETY: the id is alive and listens; the library writes the new id.
    let ret = unsafe { rdma_get_request(ctx.listen_id, &mut ctx.id) };
    verb_ok("rdma_get_request", ret)?;

    let event = id_event(ctx);
    if event.event != rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
        outln!("unexpected event: {}", event_str(event.event));
        return Err(-1);
    }

    // if the alternate path was not set on the command line, get it from the private data
    if ctx.alt_dlid == 0 && ctx.alt_srcport == 0 {
        ctx.alt_dlid = get_alt_dlid_from_private_data(event)?;
    }
    Ok(())
}

/// Connects. The server has got the client's request, so all it has to do is to accept it.
fn establish_connection(ctx: &mut Context) -> Outcome {
    let length = ctx.msg_length as usize;

    // post a receive to catch the first send
    // SAFETY: the id has a queue pair, and the region covers the buffer.
    let ret = unsafe {
        rdma_post_recv(ctx.id, ptr::null_mut(), ctx.recv_buf.addr(), length, ctx.recv_mr)
    };
    verb_ok("rdma_post_recv", ret)?;

    // send the LID of our alternate port in the private data; two of its four bytes are unused
    let mut private_data = [0; 4];
    NetworkEndian::write_u16(&mut private_data, ctx.my_alt_dlid);
    let mut conn_param: rdma_conn_param = zeroed();
    conn_param.private_data_len = private_data.len() as u8;
    conn_param.private_data = private_data.as_ptr().cast();
    conn_param.responder_resources = 2;
    conn_param.initiator_depth = 2;
    conn_param.retry_count = 5;
    conn_param.rnr_retry_count = 5;

    if ctx.server {
        outln!("rdma_accept");
        // SAFETY: the id came with the request and has a queue pair; the private data is alive.
        let ret = unsafe { rdma_accept(ctx.id, &mut conn_param) };
        verb_ok("rdma_accept", ret)?;
    } else {
        outln!("rdma_connect");
        // SAFETY: the id has a route and a queue pair; the private data is alive.
        let ret = unsafe { rdma_connect(ctx.id, &mut conn_param) };
        verb_ok("rdma_connect", ret)?;

        let event = id_event(ctx);
        if event.event != rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED {
            outln!("unexpected event: {}", event_str(event.event));
            return Err(-1);
        }

        // if the alternate path was not set on the command line, get it from the private data
        if ctx.alt_dlid == 0 && ctx.alt_srcport == 0 {
            ctx.alt_dlid = get_alt_dlid_from_private_data(event)?;
        }
    }
    Ok(())
}

/// Sends a message and waits until it has been sent.
fn send_msg(ctx: &Context) -> Outcome {
    let length = ctx.msg_length as usize;
    let flags = ibv_send_flags::IBV_SEND_SIGNALED.0 as c_int;
    // SAFETY: the id has a queue pair, and the region covers the buffer.
    let ret = unsafe {
        rdma_post_send(ctx.id, ptr::null_mut(), ctx.send_buf.addr(), length, ctx.send_mr, flags)
    };
    verb_ok("rdma_post_send", ret)?;

    let mut wc: ibv_wc = zeroed();
    // SAFETY: the id has a completion queue for sends, with a channel.
    let ret = unsafe { rdma_get_send_comp(ctx.id, &mut wc) };
    if ret < 0 {
        verb_err("rdma_get_send_comp", ret);
        return Err(ret);
    }
    check_completion("rdma_get_send_comp", &wc)
}

/// Waits for a message and posts the receive for the next one.
fn recv_msg(ctx: &Context) -> Outcome {
    let mut wc: ibv_wc = zeroed();
    // SAFETY: the id has a completion queue for receives, with a channel.
    let ret = unsafe { rdma_get_recv_comp(ctx.id, &mut wc) };
    if ret < 0 {
        verb_err("rdma_get_recv_comp", ret);
        return Err(ret);
    }
    check_completion("rdma_get_recv_comp", &wc)?;

    let length = ctx.msg_length as usize;
    // SAFETY: the id has a queue pair, and the region covers the buffer.
    let ret = unsafe {
        rdma_post_recv(ctx.id, ptr::null_mut(), ctx.recv_buf.addr(), length, ctx.recv_mr)
    };
    verb_ok("rdma_post_recv", ret)
}

/// Connects, loads the alternate path and sends messages to and fro, the path being migrated in
/// between.
pub fn main() -> ExitCode {
    let mut ctx = Context {
        server: false,
        server_name: None,
        server_port: DEFAULT_PORT.to_string(),
        msg_count: DEFAULT_MSG_COUNT,
        msg_length: DEFAULT_MSG_LENGTH,
        msec_delay: DEFAULT_MSEC_DELAY,
        alt_srcport: 0,
        alt_dlid: 0,
        my_alt_dlid: 0,
        migrate_after: -1,
        id: ptr::null_mut(),
        listen_id: ptr::null_mut(),
        send_mr: ptr::null_mut(),
        recv_mr: ptr::null_mut(),
        send_buf: CArray::default(),
        recv_buf: CArray::default(),
    };
    // as given, to be checked before they become a LID and a port
    let (mut alt_dlid, mut alt_srcport) = (0, 0);

    let argv = args();
    for Switch { c, optarg, .. } in Getopt::new(&argv, "sa:p:c:l:d:r:m:w:") {
        match c {
            's' => ctx.server = true,
            'a' => ctx.server_name = Some(optarg),
            'p' => ctx.server_port = optarg,
            'c' => ctx.msg_count = atoi(&optarg),
            'l' => ctx.msg_length = atoi(&optarg),
            'd' => alt_dlid = atoi(&optarg),
            'r' => alt_srcport = atoi(&optarg),
            'm' => ctx.migrate_after = atoi(&optarg),
            'w' => ctx.msec_delay = atoi(&optarg),
            _ => {
                let program = argv.first().map_or("", String::as_str);
                outln!("usage: {program} [-s or -a required]");
                outln!("\t[-s[erver mode]");
                outln!("\t[-a ip_address]");
                outln!("\t[-p port_number]");
                outln!("\t[-c msg_count]");
                outln!("\t[-l msg_length]");
                outln!("\t[-d alt_dlid] (requires -r)");
                outln!("\t[-r alt_srcport] (requires -d)");
                outln!("\t[-m num_iterations_then_migrate] (client only)");
                outln!("\t[-w msec_wait_between_sends]");
                return ExitCode::from(1);
            }
        }
    }

    outln!("mode: {}", if ctx.server { "server" } else { "client" });
    outln!("address: {}", ctx.server_name.as_deref().unwrap_or("NULL"));
    outln!("port: {}", ctx.server_port);
    outln!("count: {}", ctx.msg_count);
    outln!("length: {}", ctx.msg_length);
    outln!("alt_dlid: {alt_dlid}");
    outln!("alt_port: {alt_srcport}");
    outln!("mig_after: {}", ctx.migrate_after);
    outln!("msec_wait: {}", ctx.msec_delay);
    outln!("");

    if !ctx.server && ctx.server_name.is_none() {
        outln!("server address must be specified for client mode");
        return ExitCode::from(1);
    }
    let numbers = [
        ("msg_count", ctx.msg_count),
        ("msg_length", ctx.msg_length),
        ("msec_wait_between_sends", ctx.msec_delay),
    ];
    for (name, number) in numbers {
        if number < 0 {
            outln!("{name} must not be negative");
            return ExitCode::from(1);
        }
    }
    let Ok(lid) = u16::try_from(alt_dlid) else {
        outln!("alt_dlid must be between 0 and {}", u16::MAX);
        return ExitCode::from(1);
    };
    let Ok(port) = u8::try_from(alt_srcport) else {
        outln!("alt_srcport must be between 0 and {}", u8::MAX);
        return ExitCode::from(1);
    };
    (ctx.alt_dlid, ctx.alt_srcport) = (lid, port);

    // both of these must be set or neither should be set
    if (ctx.alt_dlid > 0) != (ctx.alt_srcport > 0) {
        outln!("-d and -r must be used together");
        return ExitCode::from(1);
    }

    // counted from 0, the last message is msg_count - 1
    if ctx.migrate_after >= 0 && ctx.migrate_after >= ctx.msg_count {
        outln!("num_iterations_then_migrate must be less than msg_count");
        return ExitCode::from(1);
    }

    let result = (|| -> Outcome {
        getaddrinfo_and_create_ep(&mut ctx)?;

        if ctx.server {
            get_connect_request(&mut ctx)?;
        }

        // only query for an alternate port if none was given on the command line
        if ctx.alt_dlid == 0 && ctx.alt_srcport == 0 {
            get_alt_port_details(&mut ctx)?;
        }

        // Create a thread to handle async events. Without it they would only go unread. It ends
        // with the process.
        // SAFETY: the id is alive.
        let verbs = Verbs(unsafe { (*ctx.id).verbs });
        let _ = thread::Builder::new().spawn(move || async_event_thread(verbs));

        reg_mem(&mut ctx)?;

        establish_connection(&mut ctx)?;

        // Load the alternate path now that there is a connection. It could be loaded while
        // connecting, but only by a program that does all of that with verbs.
        load_alt_path(&ctx)?;

        let (mut send_cnt, mut recv_cnt) = (0, 0);
        let mut result = Ok(());
        for i in 0..ctx.msg_count {
            if ctx.server {
                result = recv_msg(&ctx);
                if result.is_err() {
                    break;
                }
                recv_cnt += 1;
                outln!("recv: {recv_cnt}");
            }

            if ctx.msec_delay > 0 {
                thread::sleep(Duration::from_millis(ctx.msec_delay as u64));
            }
            result = send_msg(&ctx);
            if result.is_err() {
                break;
            }
            send_cnt += 1;
            outln!("send: {send_cnt}");

            if !ctx.server {
                result = recv_msg(&ctx);
                if result.is_err() {
                    break;
                }
                recv_cnt += 1;
                outln!("recv: {recv_cnt}");
            }

            // migrate the path by hand after the message that was asked for
            if !ctx.server && i == ctx.migrate_after {
                let mut qp_attr: ibv_qp_attr = zeroed();
                qp_attr.path_mig_state = ibv_mig_state::IBV_MIG_MIGRATED;
                let mask = ibv_qp_attr_mask::IBV_QP_PATH_MIG_STATE.0 as c_int;
                // SAFETY: the id is alive.
                let qp = unsafe { (*ctx.id).qp };
                // SAFETY: the id has a queue pair.
                let ret = unsafe { ibv_modify_qp(qp, &mut qp_attr, mask) };
                verb_ok("ibv_modify_qp", ret)?;
            }
        }

        // SAFETY: the id is alive.
        unsafe { rdma_disconnect(ctx.id) };
        result
    })();

    if !ctx.send_mr.is_null() {
        // SAFETY: the region is registered; a send that is still going on finds it no more.
        unsafe { rdma_dereg_mr(ctx.send_mr) };
    }
    if !ctx.recv_mr.is_null() {
        // SAFETY: the receive that may still be posted finds no region any more, so nobody writes.
        unsafe { rdma_dereg_mr(ctx.recv_mr) };
    }
    if !ctx.id.is_null() {
        // SAFETY: the id is alive, and not used below.
        unsafe { rdma_destroy_ep(ctx.id) };
    }
    if !ctx.listen_id.is_null() {
        // SAFETY: as above.
        unsafe { rdma_destroy_ep(ctx.listen_id) };
    }
    ctx.send_buf = CArray::default();
    ctx.recv_buf = CArray::default();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // the system keeps 8 bits of what main returns
        Err(ret) => ExitCode::from(ret as u8),
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use rdma_sys::param_t;

    use super::*;

    /// A request that brings this private data.
    fn event(private_data: &[u8]) -> rdma_cm_event {
        let mut conn: rdma_conn_param = zeroed();
        conn.private_data = private_data.as_ptr().cast();
        conn.private_data_len = private_data.len() as u8;
        rdma_cm_event {
            id: ptr::null_mut(),
            listen_id: ptr::null_mut(),
            event: rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST,
            status: 0,
            param: param_t { conn },
        }
    }

    #[test]
    fn the_lid_comes_in_network_byte_order() {
        assert_eq!(get_alt_dlid_from_private_data(&event(&[1, 2, 0, 0])), Ok(0x102));
        assert_eq!(get_alt_dlid_from_private_data(&event(&[1, 2, 0])), Err(-1));
    }

    #[test]
    fn a_failed_completion_is_a_failure() {
        let mut wc: ibv_wc = zeroed();
        assert_eq!(check_completion("test", &wc), Ok(()));
        wc.status = ibv_wc_status::IBV_WC_WR_FLUSH_ERR;
        assert_eq!(check_completion("test", &wc), Err(-1));
    }

    #[test]
    fn memory_beyond_any_is_refused() {
        assert_eq!(malloc(0).map(|buf| buf.len()), Ok(1));
        // memory that nobody looks at need not be asked for
        assert_eq!(black_box(malloc(usize::MAX)).map(|buf| buf.len()), Err(-1));
    }
}
