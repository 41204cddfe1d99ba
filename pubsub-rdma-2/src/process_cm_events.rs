//! Waits for events of the connection manager: a thread gets them, the main line is told.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::process;
use std::ptr;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, PoisonError};
use std::thread;

use common::pipe::pipe;
use common::print::Pointer;
use common::utilities::{OurResult, Reported};
use common::verbs::event_str;
use common::{errln, errno};
use rdma_sys::{
    rdma_ack_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_disconnect, rdma_event_channel,
    rdma_get_cm_event,
};

use crate::prototypes::{
    CmEventShare, CmEventThread, CmId, OurConnectInfo, OurControl, OurOptions, TRACING,
    VERBOSE_TRACING,
};
use crate::utilities::{
    our_report_error, our_report_ptr, our_report_ulong, our_trace_ptr, our_trace_ulong,
};

/// Arguments of the event thread.
struct CmEventThreadParams {
    /// Tells the main line that the thread runs.
    alive: Sender<()>,

    /// Where the main line looks for events.
    cm_event_info: Arc<CmEventShare>,

    /// Event channel on which to get events.
    cm_event_channel: *mut rdma_event_channel,

    /// The connection; only its address is used, in traces and to be compared.
    conn: *const OurControl,

    /// The options we are running under.
    options: OurOptions,

    /// The writer's end is dropped to cancel the thread.
    cancel: OwnedFd,
}

// SAFETY: librdmacm does its own locking and lets any thread use a channel, which is destroyed
// only after the thread has ended; `conn` is never dereferenced.
unsafe impl Send for CmEventThreadParams {}

/// Return value of a cancelled thread (C: `PTHREAD_CANCELED`).
const CANCELED: usize = usize::MAX;

/// Waits until there is an event on the channel; false if the thread was cancelled meanwhile.
/// C cancels a thread that is blocked inside the library, for which Rust has no safe way.
fn our_wait_for_event(params: &CmEventThreadParams) -> bool {
    // SAFETY: the channel lives as long as the thread.
    let channel_fd = unsafe { (*params.cm_event_channel).fd };
    let pollfd = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [pollfd(channel_fd), pollfd(params.cancel.as_raw_fd())];
    loop {
        // SAFETY: two entries are there. An interrupted call leaves them as they are.
        let ret = unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
        if ret > 0 {
            return fds[1].revents == 0;
        }
    }
}

/// The thread: gets events from the connection manager and passes them on to the main line.
fn our_cm_event_thread(params: CmEventThreadParams) -> usize {
    let CmEventThreadParams { cm_event_info, conn, options, .. } = &params;
    // SAFETY: a thread may always ask for its own number.
    let cm_event_thread_id = unsafe { libc::pthread_self() };

    // signal main-line that we are alive and kicking
    let _ = params.alive.send(());

    loop {
        // wait for the next event from cm on this cm_event_channel
        if !our_wait_for_event(&params) {
            return CANCELED;
        }
        let mut cm_event = ptr::null_mut();
        errno::set(0);
        // SAFETY: the channel lives as long as the thread; the library writes the address.
        let ret = unsafe { rdma_get_cm_event(params.cm_event_channel, &mut cm_event) };
        if ret != 0 {
            // this is really fatal
            our_report_error(ret, "rdma_get_cm_event", options);
            process::exit(1);
        }
        // SAFETY: the event was got above and is acknowledged only below.
        let event = unsafe { &*cm_event };

        // synch with main-line thread on who calls rdma_disconnect()
        let mut info = cm_event_info.lock();

        // extract the cm_id for which this event is being reported
        let cm_id = event.id;
        // SAFETY: an id lives until its events are acknowledged, and its context is not changed
        // while there is one.
        let context = unsafe { (*cm_id).context };

        // extract the type of event this was
        let this_event_type = event.event;

        let disconnected = info.disconnected;
        if this_event_type == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED && disconnected == 0 {
            // main-line did not make call, we must do it
            info.disconnected = 1;
        }

        // extract the status of this event
        let this_event_status = event.status;

        // put this event where main thread for this conn can find it
        info.latest_cm_event_type = this_event_type;
        info.latest_status = this_event_status;
        info.latest_cm_id = CmId(cm_id);
        // SAFETY: in this port space each event has connection parameters, zero if it brings none.
        let conn_param = unsafe { event.param.conn };
        info.latest_private_data_len = conn_param.private_data_len;
        if info.latest_private_data_len > 0 {
            // event has private data, save it in conn
            if usize::from(info.latest_private_data_len) >= OurConnectInfo::LEN {
                // SAFETY: the event has private data of at least this length.
                let private_data = unsafe { &*conn_param.private_data.cast() };
                info.latest_private_data = OurConnectInfo::from_private_data(private_data);
            } else {
                our_report_ulong(
                    "private_data_len",
                    "too small",
                    info.latest_private_data_len.into(),
                    options,
                );
                our_report_error(libc::EPROTO, "rdma_get_cm_event", options); // Protocol error
            }
        }

        let give_signal = info.waiting_on_info_notify != 0;

        // all cm_events returned by rdma_get_cm_event() MUST be acked
        // SAFETY: the event was got above, and nothing uses it any more. The main line cannot
        // destroy its id before this, since we still hold the lock.
        unsafe { rdma_ack_cm_event(cm_event) };

        // unlock; but if it is up to us to disconnect, we keep the lock until we have, because
        // the main line must not destroy the queue pair before
        let locked = if this_event_type == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED
            && disconnected == 0
        {
            Some(info)
        } else {
            drop(info);
            None
        };

        // tell anyone waiting that conditions have changed
        if give_signal {
            cm_event_info.cm_event_info_notify.notify_one();
        }

        if options.flags & TRACING != 0 {
            errln!(
                "{}: cm_event_thread got cm event {this_event_type} ({}) cm_id {} \
                 our_control {} status {this_event_status} disconnected {disconnected}",
                options.message,
                event_str(this_event_type),
                Pointer(cm_id),
                Pointer(*conn)
            );
        }

        // check the conn to which this cm_id belongs
        if *conn != context.cast_const().cast() {
            our_report_ptr("cm_event_thread", "WARNING: conn", *conn, options);
            our_report_ptr("cm_event_thread", "WARNING: cm_id->context", context, options);
        }

        if this_event_type == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED {
            if let Some(info) = locked {
                // remote side disconnected before local side, we need to do it here to force
                // "flushed" error on our local postings
                our_trace_ptr("cm_event_thread", "disconnecting cm_id", cm_id, options);
                errno::set(0);
                // SAFETY: the main line destroys the id only after this thread has ended, and the
                // queue pair of what was connected only after it has had the lock.
                let ret = unsafe { rdma_disconnect(cm_id) };
                if ret == 0 {
                    our_report_ptr("cm_event_thread", "disconnected cm_id", cm_id, options);
                } else if errno::get() != libc::EINVAL {
                    our_report_error(ret, "rdma_disconnect", options);
                }
                drop(info);
            } // else already flushed by remote
            break;
        }
    }
    our_trace_ulong("cm_event_thread", "exited cm_event_thread_id", cm_event_thread_id, options);
    0
}

/// Starts the event thread and waits until it runs.
pub fn our_create_cm_event_thread(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    // the parameters, with which the thread also gets its end of two lines to us
    let (alive, is_alive) = mpsc::channel();
    let (canceled, cancel) = pipe().map_err(|error| {
        our_report_error(error.raw_os_error().unwrap_or(libc::EMFILE), "pipe", options);
        Reported
    })?;
    let params = CmEventThreadParams {
        alive,
        cm_event_info: Arc::clone(&conn.cm_event_info),
        // SAFETY: the id is alive.
        cm_event_channel: unsafe { (*conn.cm_id).channel },
        conn,
        options: options.clone(),
        cancel: canceled,
    };

    // create the new thread to handle cm_events on this cm_event_channel
    errno::set(0);
    let spawned = thread::Builder::new().spawn(move || our_cm_event_thread(params));
    let handle = spawned.map_err(|error| {
        our_report_error(error.raw_os_error().unwrap_or(libc::EAGAIN), "pthread_create", options);
        Reported
    })?;

    let cm_event_thread_id = handle.as_pthread_t();
    our_trace_ulong("pthread_create", "created cm_event_thread_id", cm_event_thread_id, options);

    conn.cm_event_thread = Some(CmEventThread { cm_event_thread_id, handle, cancel: Some(cancel) });

    // wait for thread to get going
    let _ = is_alive.recv();
    Ok(())
}

/// Waits for the event thread's end, and cancels it unless it has seen a disconnect.
pub fn our_destroy_cm_event_thread(conn: &mut OurControl, options: &OurOptions) -> OurResult {
    let Some(mut thread) = conn.cm_event_thread.take() else { return Ok(()) };

    // see if the cm_event_thread already disconnected
    let mut info = conn.cm_event_info.lock();
    if info.disconnected == 0 {
        // we got here before the cm_event_thread, cancel the thread
        thread.cancel = None;
        // no need to call rdma_disconnect()
        info.disconnected = 4;
        our_trace_ulong(
            "pthread_cancel",
            "canceled cm_event_thread_id",
            thread.cm_event_thread_id,
            options,
        );
    }
    drop(info);

    errno::set(0);
    match thread.handle.join() {
        Ok(status) => {
            our_trace_ptr("pthread_join", "returned status", status as *const (), options);
            Ok(())
        }
        Err(_panic) => {
            our_report_error(libc::ESRCH, "pthread_join", options);
            Err(Reported)
        }
    }
}

/// Waits until the event thread passes on the next event, which has to be `this_event_type`.
/// Gives the id that the event is about, for a connection request a new one, and the private
/// data that came with the request.
pub fn our_await_cm_event(
    conn: &mut OurControl,
    this_event_type: rdma_cm_event_type::Type,
    name: &str,
    options: &OurOptions,
) -> OurResult<(*mut rdma_cm_id, OurConnectInfo)> {
    let message = &options.message;

    if options.flags & TRACING != 0 {
        errln!(
            "{message}: {name} awaiting next cm event {this_event_type} ({}) our_control {}",
            event_str(this_event_type),
            Pointer(conn)
        );
    }
    if options.flags & VERBOSE_TRACING != 0 {
        // SAFETY: the id is alive.
        let channel = unsafe { (*conn.cm_id).channel };
        our_report_ptr("our_await_cm_event", "current cm_id -> channel", channel, options);
    }

    // wait for our asynchronous thread to detect a new event type
    let mut info = conn.cm_event_info.lock();
    let new_event_type = loop {
        let new_event_type = info.latest_cm_event_type;
        if new_event_type == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED
            || new_event_type != info.current_cm_event_type
        {
            break new_event_type;
        }
        info.waiting_on_info_notify += 1;
        let notify = &conn.cm_event_info.cm_event_info_notify;
        info = notify.wait(info).unwrap_or_else(PoisonError::into_inner);
        info.waiting_on_info_notify -= 1;
    };

    if options.flags & TRACING != 0 {
        errln!(
            "{message}: {name} got cm event {new_event_type} ({}) cm_id {} our_control {} \
             status {}",
            event_str(new_event_type),
            Pointer(info.latest_cm_id.0),
            Pointer(conn),
            info.latest_status
        );
    }

    if info.latest_status > 0 {
        // the connection manager's reason of a rejection, which is no errno
        errln!(
            "{message}: {name} unexpected cm event {new_event_type} ({}) status {}",
            event_str(new_event_type),
            info.latest_status
        );
        return Err(Reported);
    }
    if info.latest_status != 0 {
        errno::set(0);
        our_report_error(info.latest_status, &event_str(this_event_type), options);
        return Err(Reported);
    }
    if new_event_type != this_event_type {
        errln!(
            "{message}: {name} expected cm event {this_event_type} ({})",
            event_str(this_event_type)
        );
        return Err(Reported);
    }
    if options.flags & VERBOSE_TRACING != 0 {
        our_report_ulong(
            "rdma_get_cm_event",
            "private_data_len",
            info.latest_private_data_len.into(),
            options,
        );
    }
    info.current_cm_event_type = new_event_type;
    if new_event_type == rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST
        && usize::from(info.latest_private_data_len) < OurConnectInfo::LEN
    {
        // called by listener, which needs the client's private data
        our_report_ulong(
            "our_await_cm_event",
            "latest_private_data_len too small",
            info.latest_private_data_len.into(),
            options,
        );
        our_report_error(libc::EPROTO, "our_await_cm_event", options); // Protocol error
        return Err(Reported);
    }
    Ok((info.latest_cm_id.0, info.latest_private_data))
}
