//! Tests of the harness, and of the whole repository: its pages, layers, scripts and recordings.
//!
//! All of them are one program, since most of the time to build several would go into linking.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

mod command;
mod command_lines;
mod compare;
mod counts;
mod demo;
mod errors;
mod exercises;
mod faults;
mod get_c;
mod golden_data;
mod install;
mod layers;
mod limited;
mod manifests;
mod map;
mod marks;
mod mutants;
mod oldest_rust;
mod on_soft_hca;
mod own_network;
mod packets;
mod pages;
mod pairs;
mod records;
mod scripts;
mod siblings;
mod ssh;
mod suspend;
mod translations;
mod tree;
mod two_hosts;
