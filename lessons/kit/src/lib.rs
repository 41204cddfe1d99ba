//! What the programs of the lessons share, so that each shows its lesson and little else: the steps of
//! the examples, in their names and order, with fewer options.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`control`] | a connection with its objects, and what its queues shall be like |
//! | [`connect`] | client and server: from the address to the connection, and its end |
//! | [`stepwise`] | connecting step by step, with an event after each |
//! | [`queue_pair`] | protection domain, completion queue, queue pair |
//! | [`raw`] | the same without the connection manager |
//! | [`memory`] | buffers, regions and scatter/gather elements |
//! | [`events`] | sleeping until something completes |
//! | [`channels`] | both channels as descriptors, for poll(2) |
//! | [`transfer`] | posting, and waiting for completions |

pub mod channels;
pub mod connect;
pub mod control;
pub mod events;
pub mod memory;
pub mod queue_pair;
pub mod raw;
pub mod stepwise;
pub mod transfer;

pub use channels::{
    our_cm_fd, our_cq_fd, our_event_client, our_event_server, our_poll_fds, our_set_nonblocking,
    our_try_get_cm_event, our_try_get_cq_event,
};
pub use connect::{
    our_accept, our_await_disconnect, our_client, our_connect, our_disconnect, our_server,
    our_unsetup,
};
pub use control::{OurControl, OurOptions, failed};
pub use events::{our_ack_cq_events, our_get_cq_event, our_req_notify_cq};
pub use memory::{
    our_buffer, our_dereg_mr, our_fill, our_lkey, our_reg_mr, our_remote, our_remote_data,
    our_rkey, our_setup_sge,
};
pub use queue_pair::{our_setup_qp, our_unsetup_qp};
pub use raw::{
    OUR_GID_INDEX, OUR_IB_PORT, OurRaw, our_raw_client, our_raw_server, our_sync, our_unsetup_raw,
};
pub use stepwise::{
    our_await_cm_event, our_begin_resolve_addr, our_begin_resolve_route, our_client_id,
};
pub use transfer::{
    our_await_completion, our_poll_cq, our_post_recv, our_post_send, our_setup_recv_wr,
    our_setup_send_wr,
};
