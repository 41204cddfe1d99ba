//! Two ends, a network that does what it likes, and every byte checked.

mod details;
mod errors;
mod mix;
mod network;
mod reliable;
mod unreliable;
mod world;
