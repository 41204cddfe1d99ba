//! Allocates and registers the buffers, and fills in the work requests that use them.

use std::cell::Cell;
use std::ffi::c_void;
use std::{ptr, slice};

use common::errno;
use common::memory::{CArray, zeroed};
use common::utilities::{OurResult, Reported};
use rdma_sys::{
    ibv_access_flags, ibv_dereg_mr, ibv_mr, ibv_recv_wr, ibv_reg_mr, ibv_send_flags, ibv_send_wr,
    ibv_sge, ibv_wr_opcode,
};

use crate::prototypes::{OUR_MAX_ACK_MESSAGES, OUR_MAX_USER_DATA_BUFFERS, OurControl, OurOptions};
use crate::utilities::{our_calloc, our_report_error, our_report_uint64, our_trace_ulong};

fn our_print_buffer_numbers(conn: &OurControl, name: &str, options: &OurOptions) {
    // print out our buffer allocation numbers
    our_trace_ulong(name, "n_user_data_bufs", conn.n_user_data_bufs as u64, options);
}

/// Registers `length` bytes at `addr`, which is alive until the region is deregistered.
fn our_setup_mr(
    conn: &OurControl,
    addr: *mut c_void,
    length: u32,
    access: ibv_access_flags,
    options: &OurOptions,
) -> OurResult<*mut ibv_mr> {
    errno::set(0);
    // SAFETY: the caller owns the memory and deregisters it before it frees it.
    let mr = unsafe { ibv_reg_mr(conn.protection_domain, addr, length as usize, access.0 as i32) };
    if mr.is_null() {
        our_report_error(libc::ENOMEM, "ibv_reg_mr", options);
        return Err(Reported);
    }
    Ok(mr)
}

/// Deregisters regions of `memory` that are registered. If one cannot be, the adapter may go on writing there: the
/// memory is then never freed.
fn our_unsetup_mr<T>(mr: &mut [*mut ibv_mr], memory: &mut CArray<T>, options: &OurOptions) {
    for ptr in mr {
        if !ptr.is_null() {
            errno::set(0);
            // SAFETY: a region that `our_setup_mr` has registered; it is cleared below.
            let ret = unsafe { ibv_dereg_mr(*ptr) };
            if ret != 0 {
                our_report_error(ret, "ibv_dereg_mr", options);
                memory.leak();
            }
            *ptr = ptr::null_mut();
        }
    }
}

/// Fills in a scatter-gather element for `length` bytes at registered `addr`.
fn our_setup_sge(addr: *mut c_void, length: u32, lkey: u32, sge: &Cell<ibv_sge>) {
    sge.set(ibv_sge {
        // point at the memory area
        addr: addr as u64,

        // the number of bytes in that memory area
        length,

        // the registration key for that memory area
        lkey,
    });
}

/// Registers `length` bytes at `addr` and fills in a scatter-gather element for them.
fn our_setup_mr_sge(
    conn: &OurControl,
    addr: *mut c_void,
    length: u32,
    access: ibv_access_flags,
    sge: &Cell<ibv_sge>,
    options: &OurOptions,
) -> OurResult<*mut ibv_mr> {
    // register the address for appropriate access
    let mr = our_setup_mr(conn, addr, length, access, options)?;

    // fill in the fields of a single scatter-gather element
    // SAFETY: the region was registered above.
    let lkey = unsafe { (*mr).lkey };
    our_setup_sge(addr, length, lkey, sge);
    Ok(mr)
}

/// Fills in a send work request for operation `opcode` on the elements of `sg_list`.
fn our_setup_send_wr(
    sg_list: &[Cell<ibv_sge>],
    opcode: ibv_wr_opcode::Type,
    id: u64,
    send_work_request: &Cell<ibv_send_wr>,
) {
    let mut wr: ibv_send_wr = zeroed();

    // the user's identification
    wr.wr_id = id;

    // not chaining this work request to other work requests
    wr.next = ptr::null_mut();

    // point at array of scatter-gather elements for this send
    wr.sg_list = sg_list.as_ptr().cast_mut().cast();

    // number of scatter-gather elements in array actually being used
    wr.num_sge = sg_list.len() as i32;

    // the type of send
    wr.opcode = opcode;

    // set SIGNALED flag so every send generates a completion
    // (if we don't do this, then the send queue fills up!)
    wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;

    // not sending any immediate data
    wr.imm_data_invalidated_rkey_union.imm_data = 0;

    send_work_request.set(wr);
}

/// Registers `memory` for appropriate access, fills in a scatter-gather element for it, and a send
/// work request for operation `opcode` on that element.
fn our_setup_send<T>(
    conn: &OurControl,
    memory: &[Cell<T>],
    access: ibv_access_flags,
    sge: &Cell<ibv_sge>,
    opcode: ibv_wr_opcode::Type,
    id: u64,
    send_work_request: &Cell<ibv_send_wr>,
    options: &OurOptions,
) -> OurResult<*mut ibv_mr> {
    // set up the address for appropriate access
    let (addr, length) = (memory.as_ptr().cast_mut().cast(), size_of_val(memory) as u32);
    let mr = our_setup_mr_sge(conn, addr, length, access, sge, options)?;

    // fill in the fields of the send work request
    our_setup_send_wr(slice::from_ref(sge), opcode, id, send_work_request);
    Ok(mr)
}

/// Fills in a receive work request for the elements of `sg_list`.
fn our_setup_recv_wr(sg_list: &[Cell<ibv_sge>], id: u64, recv_work_request: &Cell<ibv_recv_wr>) {
    let mut wr: ibv_recv_wr = zeroed();

    // the user's identification
    wr.wr_id = id;

    // not chaining this work request to other work requests
    wr.next = ptr::null_mut();

    // point at array of scatter-gather elements for this recv
    wr.sg_list = sg_list.as_ptr().cast_mut().cast();

    // number of scatter-gather elements in array actually being used
    wr.num_sge = sg_list.len() as i32;

    recv_work_request.set(wr);
}

/// Registers `memory` to be written by the adapter, fills in a scatter-gather element for it, and a
/// receive work request for that element.
fn our_setup_recv<T>(
    conn: &OurControl,
    memory: &[Cell<T>],
    sge: &Cell<ibv_sge>,
    id: u64,
    recv_work_request: &Cell<ibv_recv_wr>,
    options: &OurOptions,
) -> OurResult<*mut ibv_mr> {
    // set up the address for appropriate access
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let (addr, length) = (memory.as_ptr().cast_mut().cast(), size_of_val(memory) as u32);
    let mr = our_setup_mr_sge(conn, addr, length, access, sge, options)?;

    // fill in the fields of the recv work request
    our_setup_recv_wr(slice::from_ref(sge), id, recv_work_request);
    Ok(mr)
}

/// Allocates and registers `n_user_bufs` buffers of user data, at most
/// `OUR_MAX_USER_DATA_BUFFERS`.
fn our_setup_user_data(
    conn: &mut OurControl,
    n_user_bufs: u64,
    access: ibv_access_flags,
    options: &OurOptions,
) -> OurResult {
    conn.n_user_data_bufs = 0;

    // an agent's number comes from its client, which may be anyone
    if n_user_bufs == 0 || n_user_bufs > OUR_MAX_USER_DATA_BUFFERS as u64 {
        our_report_uint64("our_setup_user_data", "bad n_data_buffers", n_user_bufs, options);
        return Err(Reported);
    }

    let done = (|| {
        for i in 0..n_user_bufs as usize {
            // allocate space to hold user data, plus 1 for '\0'
            let size = options.data_size as usize;
            conn.user_data[i] = our_calloc(size.saturating_add(1), &options.message)?;

            // a scatter-gather element counts its bytes in 32 bits
            let length = u32::try_from(options.data_size).map_err(|_| {
                our_report_uint64(
                    "our_setup_user_data",
                    "data_size too big",
                    options.data_size,
                    options,
                );
                Reported
            })?;

            // register each user_data buffer for appropriate access
            let addr = conn.user_data[i].addr();
            let sge = &conn.user_data_sge[i];
            conn.user_data_mr[i] = our_setup_mr_sge(conn, addr, length, access, sge, options)?;

            // keep count of number of buffers allocated and registered
            conn.n_user_data_bufs += 1;
        }
        Ok(())
    })();
    if done.is_err() {
        our_unsetup_buffers(conn, options);
    }
    done
}

/// Deregisters and frees the buffers of user data.
fn our_unsetup_user_data(conn: &mut OurControl, options: &OurOptions) {
    for i in 0..conn.n_user_data_bufs {
        errno::set(0);
        // SAFETY: `our_setup_user_data` has registered so many regions; it is cleared below.
        let ret = unsafe { ibv_dereg_mr(conn.user_data_mr[i]) };
        if ret != 0 {
            our_report_error(ret, "ibv_dereg_mr user_data_mr", options);
            // the adapter may go on writing there
            conn.user_data[i].leak();
        }
        conn.user_data_mr[i] = ptr::null_mut();
        conn.user_data[i] = CArray::default();
    }
}

/// The client's buffers: it sends from those of user data, and receives acks in the others.
pub fn our_setup_client_buffers(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let access = ibv_access_flags(0);

    // client needs multiple data buffers to send() blast data out of
    our_setup_user_data(conn, options.n_data_buffers, access, options)?;

    // client needs a send work request for each, because each send() blasts data out of its own
    // user_data[i]
    for i in 0..conn.n_user_data_bufs {
        let sg_list = &conn.user_data_sge[i..i + 1];
        let work_request = &conn.user_data_send_work_request[i];
        our_setup_send_wr(sg_list, ibv_wr_opcode::IBV_WR_SEND, i as u64, work_request);
    }

    // client needs OUR_MAX_ACK_MESSAGES recv work requests, because that many acks can come from
    // the agent at the same time
    for i in 0..OUR_MAX_ACK_MESSAGES {
        let (memory, sge) = (&conn.recv_ack[i..i + 1], &conn.recv_ack_sge[i]);
        let work_request = &conn.recv_ack_work_request[i];
        match our_setup_recv(conn, memory, sge, i as u64, work_request, options) {
            Ok(mr) => conn.recv_ack_mr[i] = mr,
            Err(error) => {
                our_unsetup_mr(&mut conn.recv_ack_mr[..i], &mut conn.recv_ack, options);
                our_unsetup_user_data(conn, options);
                return Err(error);
            }
        }
    }

    // print out our buffer allocation numbers
    our_print_buffer_numbers(conn, "our_setup_client_buffers", options);
    Ok(())
}

/// The agent's buffers: it receives the client's data in those of user data, and sends acks from
/// the others.
pub fn our_setup_agent_buffers(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;

    // agent needs multiple data buffers to recv() blast data in to
    our_setup_user_data(conn, options.n_data_buffers, access, options)?;

    // agent needs a recv work request for each, because each recv() reads blast data into its own
    // user_data[i]
    for i in 0..conn.n_user_data_bufs {
        let sg_list = &conn.user_data_sge[i..i + 1];
        our_setup_recv_wr(sg_list, i as u64, &conn.user_data_recv_work_request[i]);
    }

    // agent needs OUR_MAX_ACK_MESSAGES send work requests, because that many acks can go to the
    // client at the same time
    for i in 0..OUR_MAX_ACK_MESSAGES {
        let (memory, sge) = (&conn.send_ack[i..i + 1], &conn.send_ack_sge[i]);
        let (none, send) = (ibv_access_flags(0), ibv_wr_opcode::IBV_WR_SEND);
        let work_request = &conn.send_ack_work_request[i];
        match our_setup_send(conn, memory, none, sge, send, i as u64, work_request, options) {
            Ok(mr) => conn.send_ack_mr[i] = mr,
            Err(error) => {
                our_unsetup_mr(&mut conn.send_ack_mr[..i], &mut conn.send_ack, options);
                our_unsetup_user_data(conn, options);
                return Err(error);
            }
        }
    }

    // print out our buffer allocation numbers
    our_print_buffer_numbers(conn, "our_setup_agent_buffers", options);
    Ok(())
}

/// Deregisters and frees all buffers.
pub fn our_unsetup_buffers(conn: &mut OurControl, options: &OurOptions) {
    our_unsetup_mr(&mut conn.recv_ack_mr, &mut conn.recv_ack, options);
    our_unsetup_mr(&mut conn.send_ack_mr, &mut conn.send_ack, options);
    for i in 0..conn.n_user_data_bufs {
        our_unsetup_mr(&mut conn.user_data_mr[i..=i], &mut conn.user_data[i], options);
    }

    for user_data in &mut conn.user_data {
        *user_data = CArray::default();
    }
}
