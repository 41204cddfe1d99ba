//! The client as a program; all of it is in [`blast_sr_2::client`].
#![cfg_attr(not(test), no_main)]

common::program!(blast_sr_2::client::main);
