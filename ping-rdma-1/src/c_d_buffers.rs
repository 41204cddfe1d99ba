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

use crate::prototypes::{Label, OurBufferInfo, OurControl, OurOptions, VERBOSE_TRACING};
use crate::utilities::{
    our_calloc, our_report_error, our_report_ptr, our_report_uint64, our_report_ulong,
    our_trace_ok, our_trace_ulong,
};

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
    conn: *const OurControl,
    sg_list: &[Cell<ibv_sge>],
    opcode: ibv_wr_opcode::Type,
    send_work_request: &Cell<ibv_send_wr>,
) {
    let mut wr: ibv_send_wr = zeroed();

    // the user's identification is our conn pointer
    wr.wr_id = conn as u64;

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
    send_work_request: &Cell<ibv_send_wr>,
    options: &OurOptions,
) -> OurResult<*mut ibv_mr> {
    // set up the address for appropriate access
    let (addr, length) = (memory.as_ptr().cast_mut().cast(), size_of_val(memory) as u32);
    let mr = our_setup_mr_sge(conn, addr, length, access, sge, options)?;

    // fill in the fields of the send work request
    our_setup_send_wr(conn, slice::from_ref(sge), opcode, send_work_request);
    Ok(mr)
}

/// Fills in a receive work request for the elements of `sg_list`.
fn our_setup_recv_wr(
    conn: *const OurControl,
    sg_list: &[Cell<ibv_sge>],
    recv_work_request: &Cell<ibv_recv_wr>,
) {
    let mut wr: ibv_recv_wr = zeroed();

    // the user's identification is our conn pointer
    wr.wr_id = conn as u64;

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
    recv_work_request: &Cell<ibv_recv_wr>,
    options: &OurOptions,
) -> OurResult<*mut ibv_mr> {
    // set up the address for appropriate access
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let (addr, length) = (memory.as_ptr().cast_mut().cast(), size_of_val(memory) as u32);
    let mr = our_setup_mr_sge(conn, addr, length, access, sge, options)?;

    // fill in the fields of the recv work request
    our_setup_recv_wr(conn, slice::from_ref(sge), recv_work_request);
    Ok(mr)
}

/// Allocates and registers one buffer of user data for each entry of `access`, at most
/// `OUR_MAX_USER_DATA_BUFFERS`.
fn our_setup_user_data(
    conn: &mut OurControl,
    access: &[ibv_access_flags],
    options: &OurOptions,
) -> OurResult {
    conn.n_user_data_bufs = 0;
    let done = (|| {
        for (i, &access) in access.iter().enumerate() {
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

/// Buffers of both sides besides user data: an ack to receive and one to send, and the messages
/// that tell where our buffers are, and where the other side's are.
fn our_setup_common_buffers(
    conn: &mut OurControl,
    n_local_sges: usize,
    n_remote_sges: usize,
    options: &OurOptions,
) -> OurResult {
    // what has to be undone, by C's labels
    let mut out = Label::Out0;
    let done = (|| {
        // set up the recv_ack structures
        conn.recv_ack_mr[0] = our_setup_recv(
            conn,
            &conn.recv_ack,
            &conn.recv_ack_sge[0],
            &conn.recv_ack_work_request,
            options,
        )?;
        out = Label::Out1;

        // set up the send_ack structures
        conn.send_ack_mr[0] = our_setup_send(
            conn,
            &conn.send_ack,
            ibv_access_flags(0),
            &conn.send_ack_sge[0],
            ibv_wr_opcode::IBV_WR_SEND,
            &conn.send_ack_work_request,
            options,
        )?;
        out = Label::Out2;

        our_trace_ok("setup_common_buffers acks", options);

        // now deal with new local buffer info that we send to remote side

        // fill in the fields with info about our local rdma buffer
        for i in 0..n_local_sges {
            let addr = conn.user_data[i].addr();
            // SAFETY: the region of this buffer is registered.
            let rkey = unsafe { (*conn.user_data_mr[i]).rkey };
            let info = OurBufferInfo::new(addr as u64, options.data_size as u32, rkey);
            conn.local_buffer_info[i].set(info);
            if options.flags & VERBOSE_TRACING != 0 {
                our_report_ptr("local_buffer_info", "addr", addr, options);
                our_report_ulong("local_buffer_info", "rkey", rkey.into(), options);
            }
        }

        // set up the local buffer info for sending
        conn.local_buffer_info_mr[0] = our_setup_send(
            conn,
            &conn.local_buffer_info[..n_local_sges],
            ibv_access_flags(0),
            &conn.local_buffer_info_sge[0],
            ibv_wr_opcode::IBV_WR_SEND,
            &conn.local_buffer_info_work_request,
            options,
        )?;
        out = Label::Out3;

        our_trace_ok("setup_common_buffers local_info", options);

        // now deal with new remote buffer info that we recv from remote side
        // fields about remote's rdma buffer are filled by recv from remote

        // set up the remote buffer info for receiving
        conn.remote_buffer_info_mr[0] = our_setup_recv(
            conn,
            &conn.remote_buffer_info[..n_remote_sges],
            &conn.remote_buffer_info_sge[0],
            &conn.remote_buffer_info_work_request,
            options,
        )?;

        our_trace_ok("setup_common_buffers remote_info", options);
        Ok(())
    })();
    if done.is_ok() {
        // all common buffers set up ok
        return done;
    }
    if out >= Label::Out3 {
        our_unsetup_mr(&mut conn.local_buffer_info_mr, &mut conn.local_buffer_info, options);
    }
    if out >= Label::Out2 {
        our_unsetup_mr(&mut conn.send_ack_mr, &mut conn.send_ack, options);
    }
    if out >= Label::Out1 {
        our_unsetup_mr(&mut conn.recv_ack_mr, &mut conn.recv_ack, options);
    }
    done
}

/// The client's buffers: it writes from the first to the agent's buffer, and reads what is there
/// back into the second.
pub fn our_setup_client_buffers(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let access = [
        ibv_access_flags::IBV_ACCESS_REMOTE_READ,
        ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE,
    ];

    // client needs 2 buffers,
    // user_data[0] for local client to RDMA_WRITE ping data out of
    // user_data[1] for local client to RDMA_READ pong data into
    our_setup_user_data(conn, &access, options)?;
    our_trace_ok("client's setup_user_data", options);

    // client needs 2 work requests,
    // one to RDMA_WRITE ping data out of user_data[0]
    // one to RDMA_READ pong data into user_data[1]
    our_setup_send_wr(
        conn,
        &conn.user_data_sge[0..1],
        ibv_wr_opcode::IBV_WR_RDMA_WRITE,
        &conn.user_data_send_work_request[0],
    );
    our_setup_send_wr(
        conn,
        &conn.user_data_sge[1..2],
        ibv_wr_opcode::IBV_WR_RDMA_READ,
        &conn.user_data_send_work_request[1],
    );

    // the remote info fields of the RDMA_WRITE and RDMA_READ work requests have to be filled in
    // dynamically

    // print out our buffer allocation numbers
    our_print_buffer_numbers(conn, "our_setup_client_buffers", options);

    let done = our_setup_common_buffers(conn, 1, 1, options);
    if done.is_err() {
        our_unsetup_buffers(conn, options);
        return done;
    }

    // all client buffers set up ok
    our_trace_ok("client's setup_common_buffers", options);
    done
}

/// The agent's buffer: the client writes to it and reads from it.
pub fn our_setup_agent_buffers(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let access = [ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
        | ibv_access_flags::IBV_ACCESS_REMOTE_READ
        | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE];

    // agent needs 1 buffer
    // user_data[0] for remote client to RDMA_WRITE ping data into
    // user_data[0] for remote client to RDMA_READ pong data out of
    our_setup_user_data(conn, &access, options)?;
    our_trace_ok("agent's setup_user_data", options);

    // agent needs no work requests, because client does all the work

    // print out our buffer allocation numbers
    our_print_buffer_numbers(conn, "our_setup_agent_buffers", options);

    let done = our_setup_common_buffers(conn, 1, 1, options);
    if done.is_err() {
        our_unsetup_buffers(conn, options);
        return done;
    }

    // all agent buffers set up ok
    our_trace_ok("agent's setup_common_buffers", options);
    done
}

/// Deregisters and frees all buffers.
pub fn our_unsetup_buffers(conn: &mut OurControl, options: &OurOptions) {
    // tear down memory registrations of common buffers
    our_unsetup_mr(&mut conn.remote_buffer_info_mr, &mut conn.remote_buffer_info, options);
    our_unsetup_mr(&mut conn.local_buffer_info_mr, &mut conn.local_buffer_info, options);
    our_unsetup_mr(&mut conn.send_ack_mr, &mut conn.send_ack, options);
    our_unsetup_mr(&mut conn.recv_ack_mr, &mut conn.recv_ack, options);

    // tear down memory registration and free memory for user_data buffers
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
