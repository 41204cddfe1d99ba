//! The checks of each lesson: properties of the record, whatever way the program has taken to them.

pub mod a_list_by_one_call;
pub mod a_queue_pair_by_hand;
pub mod a_race_mended;
pub mod add_at_once;
pub mod agree_or_refuse;
pub mod blast_with_credits;
pub mod connect_step_by_step;
pub mod datagrams;
pub mod end_cleanly;
pub mod find_out_why_it_hangs;
pub mod notice_a_dead_peer;
pub mod one_completion_for_a_list;
pub mod one_poll_for_everything;
pub mod post_the_receive_first;
pub mod room_for_what_comes;
pub mod send_from_two_pieces;
pub mod send_one_message;
pub mod shared_receives;
pub mod sleep_without_losing;
pub mod take_into_two_pieces;
pub mod tell_with_the_write;
pub mod the_least_rights;
pub mod three_clients;
pub mod write_then_tell;
