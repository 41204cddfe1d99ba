//! The common part of the lessons' programs, so that each shows its lesson and little else: the steps of
//! the examples, in their names and order, with fewer options.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`control`] | a connection with its objects, and what its queues shall be like |
//! | [`connect`] | client and server: from the address to the connection, and its end |
//! | [`cm_events`] | the connection manager's events |
//! | [`stepwise`] | connecting step by step, with an event after each |
//! | [`serve`] | a server for more than one client |
//! | [`queue_pair`] | protection domain, completion queue, queue pair |
//! | [`shared`] | several connections with one receive queue |
//! | [`datagrams`] | unreliable datagrams, without a connection |
//! | [`raw`] | a queue pair without the connection manager |
//! | [`memory`] | buffers, regions and scatter/gather elements |
//! | [`numbers`] | numbers in buffers |
//! | [`transfer`] | posting, and waiting for completions |
//! | [`immediate`] | 32 bits that a message has beside its bytes |
//! | [`events`] | sleeping until something completes |
//! | [`channels`] | both channels as descriptors, for poll(2) |
//! | [`turns`] | whether a peer is in the second run |

pub mod channels;
pub mod cm_events;
pub mod connect;
pub mod control;
pub mod datagrams;
pub mod events;
pub mod immediate;
pub mod memory;
pub mod numbers;
pub mod queue_pair;
pub mod raw;
pub mod serve;
pub mod shared;
pub mod stepwise;
pub mod transfer;
pub mod turns;

pub use channels::{
    our_cm_fd, our_cq_fd, our_event_client, our_event_server, our_poll_fds, our_set_nonblocking,
    our_try_get_cq_event,
};
pub use cm_events::{
    OurEvent, our_await_cm_event, our_await_disconnect, our_get_cm_event, our_poll_cm_event,
    our_try_get_cm_event,
};
pub use connect::{our_accept, our_client, our_connect, our_disconnect, our_server, our_unsetup};
pub use control::{OurControl, OurOptions, failed};
pub use datagrams::{
    our_ask, our_create_ah, our_datagram_client, our_datagram_server, our_destroy_ah,
};
pub use events::{our_ack_cq_events, our_get_cq_event, our_req_notify_cq};
pub use immediate::{our_imm, our_set_imm};
pub use memory::{
    our_buffer, our_dereg_mr, our_fill, our_lkey, our_reg_mr, our_remote, our_remote_data,
    our_rkey, our_setup_sge,
};
pub use numbers::{our_number, our_set_number};
pub use queue_pair::{our_setup_qp, our_unsetup_qp};
pub use raw::{
    OUR_GID_INDEX, OUR_IB_PORT, OurRaw, our_raw_client, our_raw_server, our_sync, our_unsetup_raw,
};
pub use serve::{
    our_agent, our_listener, our_listener_with_channel, our_next_client, our_next_request,
    our_reject, our_setup_shared_qp,
};
pub use shared::{
    our_accept_next, our_create_srq, our_destroy_srq, our_get_async_event, our_poll_async_event,
    our_post_srq_recv, our_qp_num, our_shared_server,
};
pub use stepwise::{our_begin_resolve_addr, our_begin_resolve_route, our_client_id};
pub use transfer::{
    our_await_completion, our_poll_cq, our_post_recv, our_post_send, our_setup_recv_wr,
    our_setup_send_wr,
};
pub use turns::our_is_again;
