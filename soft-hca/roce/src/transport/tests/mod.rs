//! Two ends, a network that does what it likes, and every byte checked.

mod network;
mod reliable;
mod world;
