//! What each lesson looks for: properties of the record, whatever way the program has taken to them.

pub mod post_the_receive_first;
pub mod send_from_two_pieces;
pub mod send_one_message;
