//! Allocates and registers the buffers, and fills in the work requests that use them.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use common::errno;
use common::memory::{CArray, zeroed};
use common::utilities::{OurResult, Reported};
use rdma_sys::{
    ibv_access_flags, ibv_dereg_mr, ibv_mr, ibv_recv_wr, ibv_reg_mr, ibv_send_flags, ibv_send_wr,
    ibv_sge, ibv_wr_opcode,
};

use crate::prototypes::{OurControl, OurOptions};
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

/// The client's buffers: it sends from the first and receives what is played back in the second.
pub fn our_setup_client_buffers(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let access = [ibv_access_flags(0), ibv_access_flags::IBV_ACCESS_LOCAL_WRITE];

    // client needs 2 buffers, first to send(), second to recv()
    our_setup_user_data(conn, &access, options)?;

    // client needs 2 work requests, first to send(), second to recv()
    our_setup_send_wr(
        conn,
        &conn.user_data_sge[0..1],
        ibv_wr_opcode::IBV_WR_SEND,
        &conn.user_data_send_work_request[0],
    );
    our_setup_recv_wr(conn, &conn.user_data_sge[1..2], &conn.user_data_recv_work_request[0]);

    // print out our buffer allocation numbers
    our_print_buffer_numbers(conn, "our_setup_client_buffers", options);
    Ok(())
}

/// The agent's buffer: it receives the original data in it and sends them back from it.
pub fn our_setup_agent_buffers(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let access = [ibv_access_flags::IBV_ACCESS_LOCAL_WRITE];

    // agent needs 1 buffer for both recv() and send()
    our_setup_user_data(conn, &access, options)?;

    // fill in fields of user_data's work requests for agent's data buffer:
    // one to recv() into it from the client, one to send() out of it back to the client
    our_setup_recv_wr(conn, &conn.user_data_sge[0..1], &conn.user_data_recv_work_request[0]);
    our_setup_send_wr(
        conn,
        &conn.user_data_sge[0..1],
        ibv_wr_opcode::IBV_WR_SEND,
        &conn.user_data_send_work_request[0],
    );

    // print out our buffer allocation numbers
    our_print_buffer_numbers(conn, "our_setup_agent_buffers", options);
    Ok(())
}

/// Deregisters and frees all buffers.
pub fn our_unsetup_buffers(conn: &mut OurControl, options: &OurOptions) {
    for i in 0..conn.n_user_data_bufs {
        our_unsetup_mr(&mut conn.user_data_mr[i..=i], &mut conn.user_data[i], options);
    }

    for user_data in &mut conn.user_data {
        *user_data = CArray::default();
    }
}
