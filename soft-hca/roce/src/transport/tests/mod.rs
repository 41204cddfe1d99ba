//! Two ends, a network that does what it likes, and every byte checked.

mod details;
mod duplicates;
mod errors;
mod mix;
mod network;
mod probes;
mod reads;
mod reliable;
mod unreliable;
mod world;
