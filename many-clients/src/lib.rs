#![doc = include_str!("../README.md")]

pub mod client;
pub mod server;

mod utilities;

mod process_options;

mod c_d_control_struct;

mod c_d_id;

mod bind_client;

mod bind_listener;

mod c_d_queue_pair;

mod c_d_connect;

mod c_d_buffers;

mod send_recv;

mod agent;

mod one_poll;

mod process_cm_events;

mod process_completions;

mod prototypes;
