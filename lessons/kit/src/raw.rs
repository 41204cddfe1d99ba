//! A queue pair without the connection manager: the sides tell each other over TCP what they need to
//! know, and each brings its queue pair up itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ptr;

use common::utilities::{OurResult, Reported};
use common::{errln, errno, outln};
use rdma_sys::{
    ibv_close_device, ibv_context, ibv_create_qp, ibv_destroy_qp, ibv_free_device_list,
    ibv_get_device_list, ibv_gid, ibv_open_device, ibv_qp_type, ibv_query_gid,
};

use crate::control::{OUR_ADDRESS, OurControl, OurOptions, failed};
use crate::queue_pair::{our_init_attr, our_setup_cq, our_unsetup_qp};

/// The device's port.
pub const OUR_IB_PORT: u8 = 1;
/// The index of its GID with an IPv4 address.
pub const OUR_GID_INDEX: u8 = 1;

/// Attributes of one side's queue pair that the other side has to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OurPlace {
    /// Its number.
    pub qp_num: u32,
    /// The packet sequence number that it begins to send with.
    pub psn: u32,
    /// The GID of its port.
    pub gid: [u8; 16],
}

impl OurPlace {
    fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&self.qp_num.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.psn.to_be_bytes());
        bytes[8..].copy_from_slice(&self.gid);
        bytes
    }

    fn from_bytes(bytes: &[u8; 24]) -> Self {
        let number =
            |at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_be_bytes(*four));
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[8..]);
        Self { qp_num: number(0), psn: number(4), gid }
    }
}

/// A queue pair in the state RESET, and the way to the other side.
#[derive(Debug)]
pub struct OurRaw {
    /// The objects; there is no id.
    pub conn: OurControl,
    /// Attributes of this side, which the peer is told.
    pub own: OurPlace,
    /// Attributes of the peer, which it has told.
    pub peer: OurPlace,
    context: *mut ibv_context,
    stream: TcpStream,
}

/// The server's side. It says its port on standard output, for the client to be given.
pub fn our_raw_server(options: OurOptions) -> OurResult<OurRaw> {
    let said = |error| {
        errln!("{}: TCP: {error}", options.message);
        Reported
    };
    let listener = TcpListener::bind((OUR_ADDRESS, 0)).map_err(said)?;
    outln!("port {}", listener.local_addr().map_err(said)?.port());
    let (stream, _) = listener.accept().map_err(said)?;
    our_setup(options, stream, Which::Last)
}

/// The client's side; the port is the program's first argument.
pub fn our_raw_client(options: OurOptions) -> OurResult<OurRaw> {
    let port = std::env::args().next_back().and_then(|port| port.parse().ok()).unwrap_or(0);
    let stream = TcpStream::connect((OUR_ADDRESS, port)).map_err(|error| {
        errln!("{}: TCP port {port}: {error}", options.message);
        Reported
    })?;
    our_setup(options, stream, Which::First)
}

/// The device of the list to use. With two devices the sides have different GIDs, as on two hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Last,
}

/// Opens a device, creates what a queue pair needs and the queue pair, and exchanges the places.
fn our_setup(options: OurOptions, stream: TcpStream, which: Which) -> OurResult<OurRaw> {
    let mut conn = OurControl::new(options);
    let mut count = 0;
    errno::set(0);
    // SAFETY: the library returns a list that ends with null, or null, and writes the number of
    // devices.
    let list = unsafe { ibv_get_device_list(&mut count) };
    let at = if which == Which::Last { usize::try_from(count - 1).unwrap_or(0) } else { 0 };
    // SAFETY: the list has `count` devices, and a null entry after them.
    let device = if list.is_null() { ptr::null_mut() } else { unsafe { *list.add(at) } };
    if device.is_null() {
        return Err(failed("ibv_get_device_list", -1, &options));
    }
    // SAFETY: a device of the list.
    let context = unsafe { ibv_open_device(device) };
    // SAFETY: it came from ibv_get_device_list; devices that are open stay.
    unsafe { ibv_free_device_list(list) };
    if context.is_null() {
        return Err(failed("ibv_open_device", -1, &options));
    }
    let mut gid = ibv_gid { raw: [0; 16] };
    // SAFETY: the device is open, and the library writes the GID.
    let ret = unsafe { ibv_query_gid(context, OUR_IB_PORT, OUR_GID_INDEX.into(), &mut gid) };
    if ret != 0 {
        return Err(failed("ibv_query_gid", ret, &options));
    }
    our_setup_cq(&mut conn, context, 1)?;
    let mut init_attr = our_init_attr(&conn, ibv_qp_type::IBV_QPT_RC, ptr::null_mut());
    // SAFETY: protection domain and completion queue are alive and belong to one device.
    conn.queue_pair = unsafe { ibv_create_qp(conn.protection_domain, &mut init_attr) };
    if conn.queue_pair.is_null() {
        return Err(failed("ibv_create_qp", libc::ENOMEM, &options));
    }
    let own = OurPlace {
        // SAFETY: the queue pair was created above.
        qp_num: unsafe { (*conn.queue_pair).qp_num },
        // any 24 bits, so that packets of an earlier connection are not taken for those of this one
        psn: std::process::id().wrapping_mul(7919) & 0x00ff_ffff,
        // SAFETY: every bit pattern is a GID, and all of it is initialised.
        gid: unsafe { gid.raw },
    };
    let mut raw = OurRaw { conn, own, peer: OurPlace::default(), context, stream };
    let mut its = [0; 24];
    our_exchange(&mut raw, &own.to_bytes(), &mut its)?;
    raw.peer = OurPlace::from_bytes(&its);
    Ok(raw)
}

fn our_exchange(raw: &mut OurRaw, own: &[u8], its: &mut [u8]) -> OurResult {
    let done = raw.stream.write_all(own).and_then(|()| raw.stream.read_exact(its));
    done.map_err(|error| {
        errln!("{}: TCP: {error}", raw.conn.options.message);
        Reported
    })
}

/// Waits until the peer has come to the same place.
pub fn our_sync(raw: &mut OurRaw) -> OurResult {
    our_exchange(raw, b"Q", &mut [0])
}

/// Destroys all that [`our_raw_client`] or [`our_raw_server`] has created.
pub fn our_unsetup_raw(raw: &mut OurRaw) -> OurResult {
    // SAFETY: the queue pair is alive.
    let ret = unsafe { ibv_destroy_qp(raw.conn.queue_pair) };
    if ret != 0 {
        return Err(failed("ibv_destroy_qp", ret, &raw.conn.options));
    }
    raw.conn.queue_pair = ptr::null_mut();
    our_unsetup_qp(&mut raw.conn)?;
    // SAFETY: the device is open, and nothing uses it any more.
    unsafe { ibv_close_device(raw.context) };
    Ok(())
}
